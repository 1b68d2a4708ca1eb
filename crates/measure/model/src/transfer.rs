// SPDX-License-Identifier: GPL-2.0-or-later
//! One transfer between two hosts, without a scenario: what it carries in a time, by the same forms as a scenario's flow.
//!
//! The path has one slow link with a queue of one bandwidth-delay product, and loses segments independently. Both buffers
//! count by the window that they allow ([`crate::buffers`]). Domain: as of [`crate::predicted`]. Where
//! its congestion control has no form, the error says so.

use crate::{
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
    let connection = Connection {
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
    };
    let seconds = transfer.lasts.as_secs_f64();
    let runs = forms::deliver(&connection, Until::Seconds(seconds), 0).runs;
    let segments = runs.iter().map(|run| run.segments).sum::<f64>() / runs.len() as f64;
    let bps = segments * payload_bits / seconds;
    Ok(Rate::bits_per_second(bps.round() as u64))
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

    #[test]
    fn control_without_a_form_is_named() {
        let error = mean_rate(&Transfer { congestion: "vegas", ..transfer() }).unwrap_err();
        assert!(error.contains("vegas"), "{error}");
    }
}
