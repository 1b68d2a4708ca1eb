// SPDX-License-Identifier: GPL-2.0-or-later
//! The receipts of a client and of the depots of its chain as one table, with the hop to blame.
//!
//! Every machine knows for which of its sides it waits. So the search begins where the data ends: a machine that takes no more
//! is to blame; one that waits leads to the sender of its hop, which either has data, and then knows what holds it back, or
//! waits itself. A share of the time that leads on is divided further there. A receiver that the sender finds full, while that
//! receiver waits for data, has a small buffer.
//!
//! ```text
//! client ◀─1─ d1 ◀─2─ d2 ◀─3─ origin        hop 0 is the client's own program and disk
//! ```
//! Seconds are those of the client. A depot's are moved by how long ago each says that the transfer began; answers take half
//! a round trip, which is not corrected.

use crate::{Cause, CauseTimes, DepotReceipt, Receipt, Row};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where the data of a transfer goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flow {
    /// To the client.
    #[default]
    Down,
    /// From the client.
    Up,
}

/// A hop, a cause, and the part of the time for which they are to blame.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Blame {
    /// The hop: 0 is the client itself, 1 its connection to the first depot, and so on.
    pub hop: usize,
    /// The cause.
    pub cause: Cause,
    /// The part of the time, 0 to 1.
    pub share: f64,
}

/// What can be done, as far as it can be told from what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Remedy {
    /// What helps.
    pub text: &'static str,
    /// How much faster the transfer is at most without this cause: the others remain.
    pub speedup_at_most: f64,
}

/// The table of a chain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chain {
    /// The length of a row in seconds.
    pub row_s: f64,
    /// Of each row, the parts of its time, the largest first.
    pub rows: Vec<Vec<Blame>>,
    /// Of the whole transfer, the largest first.
    pub total: Vec<Blame>,
    /// The part of the rows' time in which the hop of `total[0]` was the one to blame.
    pub confidence: f64,
}

/// Parts of a time by hop and cause.
type Shares = BTreeMap<(usize, Cause), f64>;

impl Chain {
    /// Of a client's own receipt, for a transfer that began so many seconds ago, and of its depots' ones, nearest first.
    pub fn new(own: &Receipt, began_s_ago: f64, depots: &[DepotReceipt], flow: Flow) -> Self {
        let (mut total, mut rows) = (Shares::new(), Vec::new());
        for (at, row) in own.rows().iter().enumerate() {
            let (from, to) = (at as f64 * own.row_s(), (at + 1) as f64 * own.row_s());
            let of_depots: Vec<(Row, bool)> = depots
                .iter()
                .map(|depot| {
                    let late = began_s_ago - depot.began_s_ago;
                    (depot.receipt.between(from - late, to - late), depot.next_is_depot)
                })
                .collect();
            let shares = match flow {
                Flow::Down => of_download(row, &of_depots),
                Flow::Up => of_upload(row, &of_depots),
            };
            let time = row.total_s();
            for (key, share) in &shares {
                *total.entry(*key).or_default() += share * time;
            }
            rows.push((time, sorted(&shares)));
        }
        let time: f64 = total.values().sum();
        for part in total.values_mut() {
            *part /= time;
        }
        let total = sorted(&total);
        let confidence = total.first().map_or(0.0, |first| {
            let blamed = rows.iter().filter(|(_, row)| blamed_hop(row) == Some(first.hop));
            blamed.map(|(time, _)| time).sum::<f64>()
                / rows.iter().map(|(time, _)| time).sum::<f64>()
        });
        Self {
            row_s: own.row_s(),
            rows: rows.into_iter().map(|(_, row)| row).collect(),
            total,
            confidence,
        }
    }

    /// What to do about the largest part. `None` where nothing can be told.
    pub fn remedy(&self) -> Option<Remedy> {
        let Blame { hop, cause, share } = *self.total.first()?;
        let text = match (cause, hop) {
            (Cause::StartUp, _) => {
                "keep this hop's connections warm (hop.warm), or move more at a time"
            }
            (Cause::Congestion, _) => {
                "another congestion control on this hop (hop.congestion), or a depot on the way that splits it"
            }
            (Cause::Receiver, 0) => "a faster reader of the output",
            (Cause::Receiver, _) => {
                "a larger receive buffer at this hop's receiver (tcp_rmem, hop.buffers)"
            }
            (Cause::SendBuffer, _) => {
                "a larger send buffer at this hop's sender (tcp_wmem, hop.buffers)"
            }
            (Cause::RateLimit, _) => "a higher rate limit, if this one is not intended",
            (Cause::Disk, _) => "a faster disk",
            (Cause::Connecting | Cause::SendingProgram | Cause::OtherHop, _) => return None,
        };
        // Without it the rest of the time remains; and what it has hidden then shows.
        (share < 1.0).then(|| Remedy { text, speedup_at_most: 1.0 / (1.0 - share) })
    }
}

/// The hop with the largest part, over all causes.
fn blamed_hop(row: &[Blame]) -> Option<usize> {
    let mut by_hop: BTreeMap<usize, f64> = BTreeMap::new();
    for blame in row {
        *by_hop.entry(blame.hop).or_default() += blame.share;
    }
    by_hop.into_iter().max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(hop, _)| hop)
}

fn sorted(shares: &Shares) -> Vec<Blame> {
    let blame = |(&(hop, cause), &share): (&(usize, Cause), &f64)| Blame { hop, cause, share };
    let mut all: Vec<Blame> = shares.iter().map(blame).filter(|blame| blame.share > 0.0).collect();
    all.sort_by(|one, other| other.share.total_cmp(&one.share));
    all
}

/// Divides a part of the time by the causes of one side.
fn divide(
    into: &mut Shares,
    hop: usize,
    part: f64,
    times: &CauseTimes,
    name: impl Fn(Cause) -> Cause,
) {
    let all = times.total_s();
    if all <= 0.0 {
        return;
    }
    for cause in Cause::ALL {
        let share = times.seconds(cause) / all;
        if share > 0.0 {
            *into.entry((hop, name(cause))).or_default() += part * share;
        }
    }
}

/// The causes of a sender for the time in which its receiver waits for it, which is all but `busy`; and how much of that the
/// sender waits itself.
fn step(
    into: &mut Shares,
    hop: usize,
    (part, busy): (f64, f64),
    sink: &CauseTimes,
    source: &CauseTimes,
) -> f64 {
    let all = sink.total_s() + source.total_s();
    let of = |cause| sink.seconds(cause) / all;
    // While its receiver was busy with others, the sender found it full.
    let full = (of(Cause::Receiver) - busy).max(0.0);
    let others: f64 =
        Cause::ALL.into_iter().filter(|cause| *cause != Cause::Receiver).map(of).sum();
    let waits = source.total_s() / all;
    let rest = others + full + waits;
    if rest <= 0.0 {
        *into.entry((hop, Cause::Receiver)).or_default() += part;
        return 0.0;
    }
    for cause in Cause::ALL {
        let share = if cause == Cause::Receiver { full } else { of(cause) };
        if share > 0.0 {
            *into.entry((hop, cause)).or_default() += part * share / rest;
        }
    }
    part * waits / rest
}

fn of_download(own: &Row, depots: &[(Row, bool)]) -> Shares {
    let mut shares = Shares::new();
    let all = own.total_s();
    if all <= 0.0 {
        return shares;
    }
    let mut busy = own.client.total_s() / all;
    divide(&mut shares, 0, busy, &own.client, |cause| cause);
    let mut part = own.upstream.total_s() / all;
    let Some((last, _)) = depots.split_last() else {
        // Of a sender that does not tell, only what the receiver sees.
        let name = |cause| if cause == Cause::OtherHop { Cause::SendingProgram } else { cause };
        divide(&mut shares, 1, part, &own.upstream, name);
        return shares;
    };
    for (at, (row, _)) in depots.iter().enumerate() {
        let hop = at + 1;
        let all = row.total_s();
        if all <= 0.0 {
            // The request is still on its way there.
            *shares.entry((hop, Cause::Connecting)).or_default() += part;
            return shares;
        }
        part = step(&mut shares, hop, (part, busy), &row.client, &row.upstream);
        busy = row.client.total_s() / all;
    }
    let (row, next_is_depot) = last;
    let name = |cause| {
        if cause == Cause::OtherHop && !next_is_depot { Cause::SendingProgram } else { cause }
    };
    divide(&mut shares, depots.len() + 1, part, &row.upstream, name);
    shares
}

fn of_upload(own: &Row, depots: &[(Row, bool)]) -> Shares {
    let mut shares = Shares::new();
    let all = own.total_s();
    if all <= 0.0 {
        return shares;
    }
    let (mut part, mut busy) = (1.0, 0.0);
    for (at, (row, _)) in depots.iter().enumerate().rev() {
        let all = row.total_s();
        if all <= 0.0 {
            // Nothing has come there yet.
            busy = 0.0;
            continue;
        }
        part = step(&mut shares, at + 2, (part, busy), &row.upstream, &row.client);
        busy = row.upstream.total_s() / all;
    }
    let of_source = own.client.total_s() / all;
    let of_network = (own.upstream.total_s() / all - busy).max(0.0);
    let rest = of_source + of_network;
    if rest <= 0.0 {
        *shares.entry((1, Cause::Congestion)).or_default() += part;
        return shares;
    }
    divide(&mut shares, 0, part * of_source / rest, &own.client, |cause| cause);
    // This end has data, and the first depot none: what holds them back is between them.
    let name = |cause| if cause == Cause::OtherHop { Cause::Congestion } else { cause };
    let seen = depots.first().map(|(row, _)| &row.client).filter(|times| times.total_s() > 0.0);
    match seen {
        Some(times) => divide(&mut shares, 1, part * of_network / rest, times, name),
        None => divide(&mut shares, 1, part * of_network / rest, &own.upstream, |cause| cause),
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use std::time::Duration;

    const SECONDS: u64 = 10;

    /// A receipt of ten seconds: milliseconds of each second by side and cause.
    fn receipt(client: &[(Cause, u64)], upstream: &[(Cause, u64)]) -> Receipt {
        let mut receipt = Receipt::default();
        for second in 0..SECONDS {
            let mut row = Row { bytes: 1, ..Row::default() };
            for (to, times) in [(&mut row.client, client), (&mut row.upstream, upstream)] {
                for (cause, ms) in times {
                    to.add(*cause, Duration::from_millis(*ms));
                }
            }
            receipt.add(Duration::from_secs(second), Duration::from_secs(second + 1), &row);
        }
        receipt
    }

    fn depot(
        name: &str,
        next_is_depot: bool,
        client: &[(Cause, u64)],
        upstream: &[(Cause, u64)],
    ) -> DepotReceipt {
        DepotReceipt {
            depot: name.to_owned(),
            flow: Flow::Down,
            began_s_ago: 10.0,
            next_is_depot,
            client_rtt_us: None,
            upstream_rtt_us: None,
            receipt: receipt(client, upstream),
        }
    }

    #[track_caller]
    fn assert_blamed(chain: &Chain, hop: usize, cause: Cause) {
        let first = chain.total.first().expect("time has passed");
        assert_eq!((first.hop, first.cause), (hop, cause), "{:?}", chain.total);
        let all: f64 = chain.total.iter().map(|blame| blame.share).sum();
        assert!((all - 1.0).abs() < 1e-6, "{all}");
        assert!(chain.confidence > 0.9, "{}", chain.confidence);
    }

    use Cause::{Congestion, Disk, OtherHop, Receiver, SendingProgram, StartUp};

    #[test]
    fn slow_disk_of_the_client_is_its_own() {
        let own = receipt(&[(Disk, 800)], &[(OtherHop, 200)]);
        let depots = [
            depot("d1", true, &[(Receiver, 800), (Congestion, 150)], &[(OtherHop, 50)]),
            depot("d2", false, &[(Receiver, 950)], &[(OtherHop, 50)]),
        ];
        let chain = Chain::new(&own, 10.0, &depots, Flow::Down);
        assert_blamed(&chain, 0, Disk);
        assert!((chain.remedy().unwrap().speedup_at_most - 5.0).abs() < 1e-6);
        assert!(!chain.total.iter().any(|blame| blame.cause == Receiver), "{:?}", chain.total);
    }

    #[test]
    fn congestion_on_the_second_hop_is_found_behind_two_that_wait() {
        let own = receipt(&[(Disk, 20)], &[(OtherHop, 980)]);
        let depots = [
            depot("d1", true, &[(StartUp, 30)], &[(OtherHop, 970)]),
            depot("d2", true, &[(Congestion, 900)], &[(OtherHop, 100)]),
            depot("d3", false, &[(Receiver, 990)], &[(OtherHop, 10)]),
        ];
        assert_blamed(&Chain::new(&own, 10.0, &depots, Flow::Down), 2, Congestion);
    }

    #[test]
    fn slow_origin_is_behind_all_depots() {
        let own = receipt(&[], &[(OtherHop, 1000)]);
        let depots = [
            depot("d1", true, &[], &[(OtherHop, 1000)]),
            depot("d2", false, &[(Congestion, 50)], &[(OtherHop, 900), (StartUp, 50)]),
        ];
        let chain = Chain::new(&own, 10.0, &depots, Flow::Down);
        assert_blamed(&chain, 3, SendingProgram);
        assert_eq!(chain.remedy(), None, "nothing here helps");
    }

    #[test]
    fn full_receiver_that_waits_has_a_small_buffer() {
        let own = receipt(&[(Disk, 10)], &[(OtherHop, 990)]);
        let depots = [
            depot("d1", true, &[(Congestion, 20)], &[(OtherHop, 980)]),
            depot("d2", false, &[(Receiver, 900), (Congestion, 50)], &[(OtherHop, 50)]),
        ];
        assert_blamed(&Chain::new(&own, 10.0, &depots, Flow::Down), 2, Receiver);
    }

    #[test]
    fn depots_seconds_are_moved_to_the_clients() {
        let own = receipt(&[], &[(OtherHop, 1000)]);
        let mut late = depot("d1", false, &[(Congestion, 1000)], &[]);
        late.began_s_ago = 8.0;
        let chain = Chain::new(&own, 10.0, &[late], Flow::Down);
        assert_eq!(
            (chain.rows[0][0].cause, chain.rows[2][0].cause),
            (Cause::Connecting, Congestion)
        );
    }

    #[test]
    fn upload_is_searched_from_its_far_end() {
        let up = |client: &[(Cause, u64)], upstream: &[(Cause, u64)]| {
            let mut depot = depot("d", true, client, upstream);
            depot.flow = Flow::Up;
            depot
        };
        let waits = receipt(&[(Disk, 50)], &[(OtherHop, 950)]);
        let depots = [
            up(&[(OtherHop, 50)], &[(Receiver, 950)]),
            up(&[(OtherHop, 50)], &[(Congestion, 950)]),
        ];
        assert_blamed(&Chain::new(&waits, 10.0, &depots, Flow::Up), 3, Congestion);
        let reads = receipt(&[(Disk, 900)], &[(OtherHop, 100)]);
        let depots = [up(&[(OtherHop, 1000)], &[]), up(&[(OtherHop, 950)], &[(StartUp, 50)])];
        assert_blamed(&Chain::new(&reads, 10.0, &depots, Flow::Up), 0, Disk);
        assert_blamed(&Chain::new(&waits, 10.0, &depots, Flow::Up), 1, Congestion);
    }

    /// Whatever depots say within their bounds: shares are parts of one whole.
    #[test]
    fn hostile_receipts_make_no_share_above_one() {
        let seed =
            std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_127);
        println!("SEED={seed}");
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
        let mut number = move || match random.next_u64() {
            n if n % 4 == 0 => 0,
            n if n % 4 == 1 => u64::MAX - n % 3,
            n => n >> (n % 60),
        };
        let mut receipt = || {
            let mut receipt = Receipt::default();
            for second in 0..number() % 5 {
                let mut row = Row { bytes: number(), ..Row::default() };
                for times in [&mut row.client, &mut row.upstream] {
                    for cause in Cause::ALL {
                        times.add(cause, Duration::from_micros(number()));
                    }
                }
                receipt.add(Duration::from_secs(second), Duration::from_secs(second + 1), &row);
            }
            (receipt, number() as f64 / 1e6, number() % 2 == 0)
        };
        for _ in 0..2000 {
            let (own, began_s_ago, is_upload) = receipt();
            let depots: Vec<DepotReceipt> = (0..3)
                .map(|_| {
                    let (rows, began_s_ago, next_is_depot) = receipt();
                    DepotReceipt {
                        receipt: rows,
                        began_s_ago,
                        ..depot("d", next_is_depot, &[], &[])
                    }
                })
                .collect();
            let text = serde_json::to_string(&depots).unwrap();
            let depots: Vec<DepotReceipt> = serde_json::from_str(&text).unwrap();
            assert!(depots.iter().all(DepotReceipt::is_sound));
            let flow = if is_upload { Flow::Up } else { Flow::Down };
            let chain = Chain::new(&own, began_s_ago, &depots, flow);
            for row in chain.rows.iter().chain([&chain.total]) {
                let all: f64 = row.iter().map(|blame| blame.share).sum();
                assert!(all <= 1.0 + 1e-6 && row.iter().all(|blame| blame.share > 0.0), "{row:?}");
            }
            assert!((0.0..=1.0 + 1e-9).contains(&chain.confidence), "{}", chain.confidence);
        }
    }

    #[test]
    fn without_depots_the_clients_own_view_remains() {
        let own = receipt(&[(Cause::RateLimit, 700)], &[(OtherHop, 300)]);
        assert_blamed(&Chain::new(&own, 10.0, &[], Flow::Down), 0, Cause::RateLimit);
        assert_blamed(
            &Chain::new(&receipt(&[], &[(OtherHop, 1)]), 1.0, &[], Flow::Up),
            1,
            OtherHop,
        );
        let nothing = Chain::new(&Receipt::default(), 0.0, &[], Flow::Down);
        assert!(
            nothing.total.is_empty() && nothing.confidence == 0.0 && nothing.remedy().is_none()
        );
    }
}
