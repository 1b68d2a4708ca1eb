// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether depots on the way help: how long a file takes directly, and how long through them.
//!
//! 1. The round trips are measured: to the first depot by this host, from each depot onward by that depot. Where a depot does
//!    not tell, it is the rest of the direct round trip.
//! 2. The path's loss is spread over the hops by their round trips, so that together they lose as much (equation 4).
//! 3. A chain carries what its worst hop carries (equations 1 and 3). Server and depots send by CUBIC unless a depot reports
//!    another congestion control. This host's receive window is the last hop's limit, the server's the first one's.
//!
//! Source: paper 000 (Augusto et al. 2008); `docs/model.md`.
//! Limits: cold hops, and depots without other load. A loss that is all on one hop is worse or better than predicted.

use crate::{Target, facts::Facts, finding::Direction, limits};
use model::transfer::{Transfer, time};
use serde::Serialize;
use units::{Bytes, Duration, Probability};

/// A connection of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// The depot at its end that is nearer to this host; `this host` for the first one.
    pub from: String,
    /// The round trip.
    pub rtt_us: u32,
    /// Whether it was measured; otherwise it is what others leave of the direct one.
    pub is_measured: bool,
    /// The congestion control of the depot that sends over it, where it is known.
    pub congestion: Option<String>,
}

/// A file's time directly and through depots.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The connections, from this host to the server.
    pub hops: Vec<Hop>,
    /// The file.
    pub size_bytes: u64,
    /// Its time directly.
    pub direct_s: f64,
    /// Its time through the depots.
    pub through_s: f64,
    /// Whether the depots save a tenth of the time or more.
    pub helps: bool,
}

/// Depots help from this share of the direct time on: less is within the model's error.
const HELPS: f64 = 0.9;
/// Where a depot's round trip is not known and others leave nothing, it is the least that counts.
const LEAST_RTT_US: u32 = 100;

/// The hops of a chain: `to_first_us` is the round trip to the first depot, `reports` are those of the depots in their order,
/// as far as they tell; `direct_us` is the round trip without them.
pub fn hops(
    depots: &[String],
    to_first_us: u32,
    reports: &[(u32, Option<String>)],
    direct_us: u32,
) -> Vec<Hop> {
    let own = Hop {
        from: "this host".to_owned(),
        rtt_us: to_first_us,
        is_measured: true,
        // Its data are sent by the first depot, which has one for all its hops unless told otherwise.
        congestion: reports.first().and_then(|(_, congestion)| congestion.clone()),
    };
    // A depot may tell anything.
    let known = reports.iter().fold(to_first_us, |sum, (rtt_us, _)| sum.saturating_add(*rtt_us));
    let silent = depots.len().saturating_sub(reports.len()).max(1) as u32;
    let rest = (direct_us.saturating_sub(known) / silent).max(LEAST_RTT_US);
    let mut hops = vec![own];
    for (n, depot) in depots.iter().enumerate() {
        let report = reports.get(n);
        hops.push(Hop {
            from: depot.clone(),
            rtt_us: report.map_or(rest, |(rtt_us, _)| *rtt_us),
            is_measured: report.is_some(),
            // Its data are sent by the next depot, or the server.
            congestion: reports.get(n + 1).and_then(|(_, congestion)| congestion.clone()),
        });
    }
    hops
}

/// Predicts both times.
///
/// # Errors
/// No closed form is for one of the connections; the text says why.
pub fn compare(
    facts: &Facts,
    target: &Target,
    hops: Vec<Hop>,
    size: Bytes,
) -> Result<Comparison, String> {
    let mut direct = limits::transfer(facts, target, Direction::Receive);
    // Hops are measured, so the direct path has to be, too: a target may name another one.
    if let Some(path) = &facts.path {
        direct.round_trip = Duration::from_micros(path.handshake_rtt_us.max(1).into());
    }
    let all_us = hops.iter().map(|hop| u64::from(hop.rtt_us)).sum::<u64>().max(1) as f64;
    let payload = direct.payload;
    let without_path = Facts { path: None, ..facts.clone() };
    let own = limits::window(&without_path, payload, Direction::Receive);
    let server = facts.path.as_ref().and_then(|path| path.peer_window_bytes).map(Bytes::new);
    let last = hops.len().saturating_sub(1);
    // The hop to the server is the first of the data.
    let chain: Vec<Transfer<'_>> = hops
        .iter()
        .enumerate()
        .rev()
        .map(|(n, hop)| {
            let share = f64::from(hop.rtt_us) / all_us;
            let loss = 1.0 - (1.0 - direct.loss.get()).powf(share);
            let at_ends = [own.filter(|_| n == 0), server.filter(|_| n == last)];
            Transfer {
                round_trip: Duration::from_micros(hop.rtt_us.max(1).into()),
                loss: Probability::new(loss).unwrap_or(direct.loss),
                congestion: hop.congestion.as_deref().unwrap_or(direct.congestion),
                window: at_ends.into_iter().flatten().min(),
                ..direct.clone()
            }
        })
        .collect();
    let direct_s = time(&[direct], size)?.as_secs_f64();
    let through_s = time(&chain, size)?.as_secs_f64();
    Ok(Comparison {
        size_bytes: size.get(),
        direct_s,
        through_s,
        helps: through_s < HELPS * direct_s,
        hops,
    })
}

/// The text for people.
pub fn text(compared: &Comparison) -> String {
    let Comparison { hops, size_bytes, direct_s, through_s, helps } = compared;
    let mut text = String::from("\nthrough depots, predicted:\n");
    for (n, hop) in hops.iter().enumerate() {
        let to = hops.get(n + 1).map_or("the server", |next| &next.from);
        let assumed = if hop.is_measured { "" } else { ", assumed: the rest of the direct one" };
        let rtt_ms = f64::from(hop.rtt_us) / 1e3;
        text += &format!("   {} to {to}: {rtt_ms:.1} ms{assumed}\n", hop.from);
    }
    let verdict = if *helps {
        format!("they help: {:.1} times as fast", direct_s / through_s)
    } else {
        "they do not help".to_owned()
    };
    let size = Bytes::new(*size_bytes).rounded();
    text + &format!(
        "   {size}: {direct_s:.2} s directly, {through_s:.2} s through them; {verdict}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::tests::tuned;

    fn target(loss: &str) -> Target {
        Target {
            loss: loss.parse().unwrap(),
            ..Target::of("1gbit".parse().unwrap(), Duration::from_millis(90))
        }
    }

    fn compared(loss: &str, to_first_us: u32, onward_us: u32, size: &str) -> Comparison {
        let depots = ["d1".to_owned()];
        let hops = hops(&depots, to_first_us, &[(onward_us, None)], 90_000);
        compare(&tuned(), &target(loss), hops, size.parse().unwrap()).unwrap()
    }

    /// Paper 000: from 70 ms on, one depot in the middle of a lossy path is about twice as fast.
    #[test]
    fn depot_in_the_middle_of_a_lossy_path_helps() {
        let middle = compared("0.01%", 45_000, 45_000, "1GB");
        assert!(middle.helps && middle.direct_s / middle.through_s > 1.7, "{middle:?}");
    }

    #[test]
    fn depot_does_not_help_small_files_and_detours() {
        assert!(!compared("0.01%", 45_000, 45_000, "10KB").helps, "its set-up costs more");
        assert!(!compared("0%", 80_000, 90_000, "1GB").helps, "nothing holds the direct path");
        let detour = compared("0.01%", 45_000, 300_000, "1GB");
        assert!(!detour.helps, "{detour:?}");
    }

    #[test]
    fn bbr_of_a_depot_is_taken_for_what_it_sends() {
        let depots = ["d1".to_owned()];
        let reports = [(2_000, Some("bbr".to_owned()))];
        let hops = hops(&depots, 88_000, &reports, 90_000);
        assert_eq!(hops[0].congestion.as_deref(), Some("bbr"));
        assert_eq!(hops[1].congestion, None, "the server sends over it");
        let with = compare(&tuned(), &target("0.02%"), hops, Bytes::new(1 << 30)).unwrap();
        assert!(with.helps && with.through_s < 20.0, "{with:?}");
    }

    #[test]
    fn silent_depot_gets_the_rest_of_the_round_trip() {
        let depots = ["d1".to_owned(), "d2".to_owned()];
        let hops = hops(&depots, 5_000, &[(25_000, None)], 90_000);
        let seen: Vec<_> = hops.iter().map(|hop| (hop.rtt_us, hop.is_measured)).collect();
        assert_eq!(seen, [(5_000, true), (25_000, true), (60_000, false)]);
        let near = super::hops(&depots[..1], 95_000, &[], 90_000);
        assert_eq!(near[1].rtt_us, LEAST_RTT_US);
    }

    /// The largest round trip that fits into a report.
    #[test]
    fn nonsense_of_a_depot_is_taken_for_what_it_says() {
        let depots = ["d1".to_owned(), "d2".to_owned()];
        let reports = vec![(u32::MAX, Some("no-such-control".to_owned())); 3];
        let hops = hops(&depots, 5_000, &reports, 90_000);
        assert_eq!(hops.len(), 3);
        assert!(compare(&tuned(), &target("0%"), hops, Bytes::new(1 << 20)).is_err());
        let hops = super::hops(&depots, 5_000, &vec![(u32::MAX, None); 2], 90_000);
        assert!(!compare(&tuned(), &target("0%"), hops, Bytes::new(1 << 20)).unwrap().helps);
    }

    #[test]
    fn text_says_whether_it_helps() {
        let text = text(&compared("0.01%", 45_000, 45_000, "1GB"));
        assert!(
            text.contains("this host to d1: 45.0 ms") && text.contains("d1 to the server: 45.0 ms")
        );
        assert!(text.contains("1 GB: ") && text.contains("they help: "), "{text}");
    }
}
