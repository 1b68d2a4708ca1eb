// SPDX-License-Identifier: GPL-2.0-or-later
//! One transfer between two hosts, without a scenario: what it carries in a time, by the same forms as a scenario's flow. And
//! how long a chain of them takes for a file.
//!
//! The path has one slow link with a queue of one bandwidth-delay product, and loses segments independently. Both buffers
//! count by the window that they allow ([`crate::buffers`]). Domain: as of [`crate::predicted`]. Where
//! its congestion control has no form, the error says so.

use crate::{
    flow::Chain,
    forms,
    hop::{self, Connection},
    rounds::{Losses, Path, Start, Until},
    window::Rule,
};
use units::{Bytes, Duration, Probability, Rate};

/// A transfer over a path that it has for itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer<'a> {
    /// The slowest link.
    pub link: Rate,
    /// Round trip over empty queues.
    pub round_trip: Duration,
    /// The share of segments that is lost.
    pub loss: Probability,
    /// The sender's congestion control, as the kernel names it.
    pub congestion: &'a str,
    /// Payload of a segment.
    pub payload: Bytes,
    /// What a segment takes on the slowest link, headers included; more than the payload.
    pub on_link: Bytes,
    /// What may be under way at once, by the buffers of both ends; none without a limit.
    pub window: Option<Bytes>,
    /// The first window in segments.
    pub initial_window: u32,
    /// Where slow start ends at the latest, in segments; none without such a limit.
    pub ssthresh: Option<u32>,
    /// For how long it sends.
    pub lasts: Duration,
}

/// Payload that it delivers, as a mean rate over all its time: the mean over many sequences of losses.
///
/// # Errors
/// No form is for it; the text says what of it.
pub fn mean_rate(transfer: &Transfer<'_>) -> Result<Rate, String> {
    let connection = connection(transfer)?;
    let seconds = transfer.lasts.as_secs_f64();
    let runs = forms::deliver(&connection, Until::Seconds(seconds), 0).runs;
    let segments = runs.iter().map(|run| run.segments).sum::<f64>() / runs.len() as f64;
    let bps = segments * connection.payload_bits / seconds;
    Ok(Rate::bits_per_second(bps.round() as u64))
}

/// How long a file takes over a chain of transfers, in the direction of the data: the first sends the file, the last brings
/// it. Each is a connection that is opened for it; `lasts` does not count. The mean over sequences of losses.
///
/// Source: Augusto et al. 2008, equations 1, 3 and 4, and the set-up of `docs/model.md`.
///
/// # Errors
/// No form is for one of them; the text says what of it.
pub fn time(chain: &[Transfer<'_>], size: Bytes) -> Result<Duration, String> {
    let connections = chain.iter().map(connection).collect::<Result<Vec<_>, _>>()?;
    let sum = |of: f64| connections.iter().map(|it| of * it.path.rtt_s).sum::<f64>();
    let (setup_s, way_s) = (sum(1.5), sum(0.5));
    let whole = |connections: Vec<Connection>, bytes: f64| {
        let chain = Chain { connections, streams: 1, setup_s, way_s, program_bps: f64::INFINITY };
        chain.alone(Some(bytes), f64::INFINITY, 0).mean().1
    };
    let size = size.get() as f64;
    let seconds = if connections.iter().all(|hop| size <= followed_bytes(hop)) {
        whole(connections, size)
    } else {
        // The chain takes as long as its slowest hop, and each hop for each further byte as long as before.
        let of_hop = |hop: Connection| {
            let followed = followed_bytes(&hop);
            let part = |share: f64| whole(vec![hop.clone()], (followed * share).min(size));
            let further = (size - followed).max(0.0) / (followed / 2.0);
            part(1.0) + further * (part(1.0) - part(0.5))
        };
        connections.into_iter().map(of_hop).fold(0.0, f64::max)
    };
    Ok(Duration::from_nanos((seconds * 1e9).min(1e18) as u64))
}

/// Bytes of a file up to which a connection is followed round by round.
fn followed_bytes(connection: &Connection) -> f64 {
    const ROUND_TRIPS: f64 = 1000.0;
    let window = connection.path.product().min(connection.path.limit);
    ROUND_TRIPS * window * connection.payload_bits / 8.0
}

/// The connection as forms take it.
fn connection(transfer: &Transfer<'_>) -> Result<Connection, String> {
    let &Transfer { link, round_trip, loss, congestion, payload, on_link, .. } = transfer;
    let losses = match loss.get() {
        p if p > 0.0 => Losses::Random(p),
        _ => Losses::None,
    };
    let law = hop::law_of(congestion, losses)?;
    let (payload_bits, link_bits) = (payload.get() as f64 * 8.0, on_link.get() as f64 * 8.0);
    let (rtt_s, segments_per_s) = (round_trip.as_secs_f64(), link.bps() as f64 / link_bits);
    let in_segments =
        |window: Bytes| (window.get() / payload.get().max(1)).max(hop::LEAST_WINDOW) as f64;
    let path = Path {
        rtt_s,
        segments_per_s,
        queue: segments_per_s * rtt_s,
        limit: transfer.window.map_or(f64::INFINITY, in_segments),
    };
    let start = Start {
        window: f64::from(transfer.initial_window),
        ssthresh: transfer.ssthresh.map_or(f64::INFINITY, f64::from),
        hystart: law == hop::Law::Window(Rule::Cubic),
    };
    Ok(Connection {
        path,
        losses,
        law,
        algorithm: congestion.to_owned(),
        start,
        is_warm: false,
        payload_bits,
        link_bits,
        least_timeout_s: LEAST_TIMEOUT_S,
        rates: Vec::new(),
    })
}

/// Linux's `TCP_RTO_MIN`.
const LEAST_TIMEOUT_S: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 Gb/s, 100 ms, segments of 1448 bytes in packets of 1500.
    fn transfer<'a>() -> Transfer<'a> {
        Transfer {
            link: Rate::bits_per_second(1_000_000_000),
            round_trip: Duration::from_millis(100),
            loss: Probability::ZERO,
            congestion: "cubic",
            payload: Bytes::new(1448),
            on_link: Bytes::new(1500),
            window: None,
            initial_window: 10,
            ssthresh: None,
            lasts: Duration::from_secs(1000),
        }
    }

    fn close(transfer: &Transfer<'_>, expected: f64, tolerance: f64) {
        let found = mean_rate(transfer).unwrap().bps() as f64;
        assert!((found / expected - 1.0).abs() < tolerance, "{found}, not {expected}");
    }

    /// A window is sent once a round trip, whatever the congestion control.
    #[test]
    fn small_window_is_sent_once_a_round_trip() {
        for congestion in ["reno", "cubic", "bbr"] {
            let window = Some(Bytes::new(1448 * 100));
            close(&Transfer { congestion, window, ..transfer() }, 1448e2 * 8.0 / 0.1, 0.03);
        }
    }

    #[test]
    fn link_is_the_limit_of_large_windows() {
        for congestion in ["cubic", "bbr"] {
            close(&Transfer { congestion, ..transfer() }, 1e9 * 1448.0 / 1500.0, 0.03);
        }
    }

    /// Ott, Kemperman, Mathis 1996: `1.3098 MSS / (RTT sqrt(p))`.
    #[test]
    fn losses_hold_reno_to_the_square_root() {
        let loss = Probability::new(1e-4).unwrap();
        let lossy = Transfer { loss, congestion: "reno", ..transfer() };
        close(&lossy, 1.3098 * 1448.0 * 8.0 / (0.1 * 1e-2), 0.05);
    }

    /// Ten round trips of slow start carry 10 (2^10 - 1) segments.
    #[test]
    fn short_transfer_is_slow_start() {
        let short = Transfer { lasts: Duration::from_secs(1), congestion: "bbr", ..transfer() };
        close(&short, 10.0 * 1023.0 * 1448.0 * 8.0, 0.03);
    }

    /// Equation 1: a chain carries what its slowest connection carries. Reno's rate goes by the inverse of the round trip and
    /// the root of the loss, so three hops of a third each carry `3 sqrt 3` times as much.
    #[test]
    fn chain_carries_what_its_slowest_hop_carries() {
        let loss = Probability::new(3e-4).unwrap();
        let direct = Transfer { loss, congestion: "reno", ..transfer() };
        let third = Transfer {
            loss: Probability::new(1e-4).unwrap(),
            round_trip: Duration::from_micros(33_333),
            ..direct.clone()
        };
        let size = Bytes::new(2_000_000_000);
        let seconds = |chain: &[Transfer<'_>]| time(chain, size).unwrap().as_secs_f64();
        let gain = seconds(std::slice::from_ref(&direct))
            / seconds(&[third.clone(), third.clone(), third.clone()]);
        assert!((gain / (3.0 * 3_f64.sqrt()) - 1.0).abs() < 0.15, "{gain}");
        let slow =
            seconds(&[third.clone(), direct.clone()]) / seconds(std::slice::from_ref(&direct));
        assert!((slow - 1.0).abs() < 0.02, "{slow}");
        // A short hop next to a long one takes no time to follow, and changes nothing but the set-up.
        let short = Transfer { round_trip: Duration::from_micros(100), ..third };
        let slow = seconds(&[direct.clone(), short]) / seconds(&[direct]);
        assert!((slow - 1.0).abs() < 0.02, "{slow}");
    }

    /// Without losses, a file takes its set-up, slow start, and its bits over the link; BBR almost pauses for 0.2 s and a
    /// round trip in each 10 s, to measure the shortest one.
    #[test]
    fn time_of_a_large_file_is_its_bits_over_the_link() {
        for gigabytes in [1, 100, 10_000] {
            let size = Bytes::new(gigabytes * 1_000_000_000);
            let seconds = time(&[Transfer { congestion: "bbr", ..transfer() }], size).unwrap();
            let least = size.get() as f64 * 8.0 * 1500.0 / 1448.0 / 1e9;
            let over = seconds.as_secs_f64() - least;
            assert!(over > 0.2 && over < 2.0 + 0.03 * least, "{gigabytes} GB: {over} s");
        }
    }

    #[test]
    fn control_without_a_form_is_named() {
        let error = mean_rate(&Transfer { congestion: "vegas", ..transfer() }).unwrap_err();
        assert!(error.contains("vegas"), "{error}");
    }
}
