// SPDX-License-Identifier: GPL-2.0-or-later
//! A receipt: for each second of a transfer, how long each cause has held it back, on the client's and on the next hop's side
//! of one machine.
//!
//! It is bounded: with more than [`MOST_ROWS`] rows, two become one of twice the length, again and again.

use crate::{Cause, CauseTimes, Flow};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum number of rows of a receipt.
pub const MOST_ROWS: usize = 240;
/// The longest name of a depot that is believed.
const MOST_NAME: usize = 256;
/// The longest row that is believed, in seconds: 2^16 of the shortest.
const LONGEST_ROW: f64 = 65_536.0;

/// One row: where its time went. What is missing is time in which nothing was known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Bytes moved.
    pub bytes: u64,
    /// Causes on the side of the client; at the client itself: of its program and disk.
    pub client: CauseTimes,
    /// Causes on the side of the next hop.
    pub upstream: CauseTimes,
}

impl Row {
    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.client.add_all(&other.client);
        self.upstream.add_all(&other.upstream);
    }

    /// A part of it, from 0 to 1.
    #[must_use]
    pub fn part(&self, part: f64) -> Self {
        Self {
            bytes: (self.bytes as f64 * part).round() as u64,
            client: self.client.part(part),
            upstream: self.upstream.part(part),
        }
    }

    /// All of its time, in seconds.
    pub fn total_s(&self) -> f64 {
        self.client.total_s() + self.upstream.total_s()
    }
}

/// What limited a transfer most, as one machine sees it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limited {
    /// Whether it is on the side of the next hop, and not of the client.
    pub is_upstream: bool,
    /// The cause.
    pub cause: Cause,
    /// Its part of the time, 0 to 1.
    pub share: f64,
}

/// The rows of a transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The length of a row in seconds.
    row_s: f64,
    rows: Vec<Row>,
}

impl Default for Receipt {
    fn default() -> Self {
        Self { row_s: 1.0, rows: Vec::new() }
    }
}

impl Receipt {
    /// The length of a row in seconds.
    pub fn row_s(&self) -> f64 {
        self.row_s
    }

    /// The rows, the first one first.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Adds the time between two moments, counted from the start of the transfer.
    pub fn add(&mut self, from: Duration, to: Duration, times: &Row) {
        let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
        if to <= from {
            return;
        }
        while to > self.row_s * MOST_ROWS as f64 {
            self.halve();
        }
        let (first, last) = ((from / self.row_s) as usize, (to / self.row_s) as usize);
        for at in first..=last.min(MOST_ROWS - 1) {
            let begin = at as f64 * self.row_s;
            let part = (to.min(begin + self.row_s) - from.max(begin)) / (to - from);
            if part <= 0.0 {
                continue;
            }
            if self.rows.len() <= at {
                self.rows.resize(at + 1, Row::default());
            }
            self.rows[at].add(&if part >= 1.0 { *times } else { times.part(part) });
        }
    }

    /// Makes one row of two.
    fn halve(&mut self) {
        self.rows = self
            .rows
            .chunks(2)
            .map(|pair| {
                let mut row = pair[0];
                pair[1..].iter().for_each(|other| row.add(other));
                row
            })
            .collect();
        self.row_s *= 2.0;
    }

    /// All rows together.
    pub fn total(&self) -> Row {
        let mut all = Row::default();
        self.rows.iter().for_each(|row| all.add(row));
        all
    }

    /// What it has between two moments, in seconds from the start of the transfer; parts of rows in proportion.
    pub fn between(&self, from: f64, to: f64) -> Row {
        let mut all = Row::default();
        let first = (from.max(0.0) / self.row_s) as usize;
        for (at, row) in self.rows.iter().enumerate().skip(first) {
            let begin = at as f64 * self.row_s;
            if begin >= to {
                break;
            }
            let part = (to.min(begin + self.row_s) - from.max(begin)) / self.row_s;
            all.add(&if part >= 1.0 { *row } else { row.part(part.max(0.0)) });
        }
        all
    }

    /// The strongest cause. `None` while no time has passed.
    pub fn limited_by(&self) -> Option<Limited> {
        let total = self.total();
        let all = total.total_s();
        let of = |is_upstream: bool| {
            let times = if is_upstream { total.upstream } else { total.client };
            Cause::ALL.map(|cause| Limited {
                is_upstream,
                cause,
                share: times.seconds(cause) / all,
            })
        };
        let both = [of(false), of(true)].into_iter().flatten();
        both.filter(|_| all > 0.0).max_by(|one, other| one.share.total_cmp(&other.share))
    }

    /// Whether another machine's receipt keeps the bounds of its own.
    fn is_sound(&self) -> bool {
        self.rows.len() <= MOST_ROWS && (1.0..=LONGEST_ROW).contains(&self.row_s)
    }
}

/// A depot's receipt, as it tells it to the client that asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DepotReceipt {
    /// The depot's name in `Via`.
    pub depot: String,
    /// Where most of the bytes went.
    pub flow: Flow,
    /// How many seconds ago the transfer has begun there.
    pub began_s_ago: f64,
    /// Whether the next hop is a depot, too.
    pub next_is_depot: bool,
    /// The round trip to the client, or to the depot before, in microseconds.
    pub client_rtt_us: Option<u32>,
    /// The round trip to the next hop in microseconds.
    pub upstream_rtt_us: Option<u32>,
    /// The rows.
    pub receipt: Receipt,
}

impl DepotReceipt {
    /// Whether it can be believed, as far as bounds go.
    pub fn is_sound(&self) -> bool {
        let is_name = |text: &str| !text.is_empty() && text.len() <= MOST_NAME;
        is_name(&self.depot)
            && self.depot.bytes().all(|byte| byte.is_ascii_graphic())
            && self.began_s_ago.is_finite()
            && self.began_s_ago >= 0.0
            && self.receipt.is_sound()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cause: Cause, ms: u64) -> Row {
        let mut row = Row { bytes: 100, ..Row::default() };
        row.client.add(cause, Duration::from_millis(ms));
        row
    }

    const fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn time_goes_to_the_second_in_which_it_passed() {
        let mut receipt = Receipt::default();
        receipt.add(ms(100), ms(300), &row(Cause::StartUp, 200));
        receipt.add(ms(300), ms(2300), &row(Cause::Congestion, 2000));
        let of = |at: usize, cause| (receipt.rows()[at].client.seconds(cause) * 1e3).round() as u64;
        assert_eq!(receipt.rows().len(), 3);
        assert_eq!([0, 1, 2].map(|at| of(at, Cause::Congestion)), [700, 1000, 300]);
        assert_eq!(of(0, Cause::StartUp), 200);
        let limited = receipt.limited_by().unwrap();
        assert_eq!((limited.is_upstream, limited.cause), (false, Cause::Congestion));
        assert!((limited.share - 2.0 / 2.2).abs() < 1e-6);
        assert_eq!(Receipt::default().limited_by(), None);
    }

    #[test]
    fn long_transfer_has_longer_rows_and_no_more_of_them() {
        let mut receipt = Receipt::default();
        for second in 0..1000_u64 {
            receipt.add(ms(second * 1000), ms(second * 1000 + 1000), &row(Cause::Disk, 900));
        }
        assert!((receipt.row_s() - 8.0).abs() < 1e-9);
        assert_eq!(receipt.rows().len(), 125);
        let total = receipt.total();
        assert!((total.client.seconds(Cause::Disk) - 900.0).abs() < 0.01, "{total:?}");
        assert_eq!(total.bytes, 100_000);
        receipt.add(ms(0), Duration::from_secs(1 << 30), &row(Cause::Disk, 1));
        assert!(receipt.rows().len() <= MOST_ROWS);
    }

    #[test]
    fn part_of_a_receipt_is_in_proportion() {
        let mut receipt = Receipt::default();
        receipt.add(ms(0), ms(2000), &row(Cause::Receiver, 2000));
        let half = receipt.between(0.5, 1.5);
        assert!((half.client.seconds(Cause::Receiver) - 1.0).abs() < 1e-6);
        assert_eq!(receipt.between(5.0, 6.0), Row::default());
        assert!(receipt.between(-3.0, 0.0).total_s() <= 0.0);
        assert!((receipt.between(-3.0, 99.0).total_s() - 2.0).abs() < 1e-6);
    }

    #[test]
    fn receipts_of_others_are_bounded() {
        let sound = DepotReceipt {
            depot: "d1".to_owned(),
            flow: Flow::Down,
            began_s_ago: 3.0,
            next_is_depot: false,
            client_rtt_us: Some(7),
            upstream_rtt_us: None,
            receipt: Receipt { row_s: 1.0, rows: vec![row(Cause::Disk, 1); MOST_ROWS] },
        };
        assert!(sound.is_sound());
        let text = serde_json::to_string(&sound).unwrap();
        assert_eq!(serde_json::from_str::<DepotReceipt>(&text).unwrap(), sound);
        let receipts = [
            Receipt { row_s: 1.0, rows: vec![Row::default(); MOST_ROWS + 1] },
            Receipt { row_s: 0.0, rows: Vec::new() },
            Receipt { row_s: f64::NAN, rows: Vec::new() },
        ];
        for receipt in receipts {
            assert!(!DepotReceipt { receipt, ..sound.clone() }.is_sound());
        }
        for depot in ["", "d\u{1b}[2J", "d 1"] {
            assert!(!DepotReceipt { depot: depot.to_owned(), ..sound.clone() }.is_sound());
        }
        assert!(!DepotReceipt { began_s_ago: -1.0, ..sound.clone() }.is_sound());
        assert!(!DepotReceipt { began_s_ago: f64::INFINITY, ..sound }.is_sound());
    }
}
