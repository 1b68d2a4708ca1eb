// SPDX-License-Identifier: GPL-2.0-or-later
//! The time of a transfer over a chain of connections that nobody has measured, by closed forms.
//!
//! Set-up, then the chain's slowest connection: slow start (Cardwell et al. 2000, departures by whole windows) to the rate that
//! losses and the link leave (the larger of Padhye et al. 2000 and RFC 9438). Augusto et al. 2008, equations 1 and 3: a chain
//! carries what its worst hop carries.
//!
//! Several connections of a hop divide the bytes: each loses as one does, and they start with as many windows. A congestion control that
//! bears loss (BBR) has the link's rate until losses are frequent.
//!
//! Domain: buffers that hold the path's product. A forecast learns the rest.

use formulas::{cardwell::SlowStart, cubic, padhye::Reno};
use serde::{Deserialize, Serialize};

/// Payload of a segment, in bytes.
const SEGMENT: f64 = 1448.0;
/// The first window, in segments (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;
/// The least time of a retransmission timeout in seconds, as Linux has it.
const LEAST_TIMEOUT_S: f64 = 0.2;
/// A round trip is at least this, in seconds.
const LEAST_RTT_S: f64 = 20e-6;
/// BBR leaves the link's rate when more than this share is lost.
const BORNE_LOSS: f64 = 0.02;
/// Where nothing is known of a link, in bit/s.
pub const ASSUMED_RATE_BPS: f64 = 1e9;
/// Where nothing is known of losses.
pub const ASSUMED_LOSS: f64 = 1e-5;

/// One connection of a chain, in the order from the client.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    /// The round trip, in seconds.
    pub rtt_s: f64,
    /// The share of packets that is lost, below 1.
    pub loss: f64,
    /// What the link carries, in bit/s.
    pub rate_bps: f64,
    /// Whether it is open, and its window has grown.
    pub is_warm: bool,
    /// Parallel connections, at least 1.
    #[serde(default = "one")]
    pub connections: u8,
    /// Whether its congestion control keeps its rate when few packets are lost, as BBR does.
    #[serde(default)]
    pub bears_loss: bool,
}

fn one() -> u8 {
    1
}

impl Hop {
    /// One of which the round trip is known.
    pub fn of_round_trip(rtt_s: f64) -> Self {
        let (loss, rate_bps) = (ASSUMED_LOSS, ASSUMED_RATE_BPS);
        Self { rtt_s, loss, rate_bps, is_warm: false, connections: 1, bears_loss: false }
    }

    fn round_trip(&self) -> f64 {
        if self.rtt_s.is_finite() { self.rtt_s.clamp(LEAST_RTT_S, 60.0) } else { LEAST_RTT_S }
    }

    fn connections(&self) -> f64 {
        f64::from(self.connections.max(1))
    }

    /// Segments a second once it has grown.
    fn segments_per_s(&self) -> f64 {
        let rate_bps = if self.rate_bps.is_nan() { ASSUMED_RATE_BPS } else { self.rate_bps };
        let link = rate_bps.clamp(1e3, 1e13) / 8.0 / SEGMENT;
        let (rtt_s, p) = (self.round_trip(), self.loss);
        let is_borne = self.bears_loss && p <= BORNE_LOSS;
        if is_borne || !(p > 1e-12 && p < 1.0) {
            return link;
        }
        let timeout_s = LEAST_TIMEOUT_S.max(2.0 * rtt_s);
        let reno = Reno { most_window: f64::INFINITY, rtt_s, timeout_s, per_ack: 1.0 };
        let window = cubic::average_window(p, rtt_s);
        // Where losses are frequent, RFC 9438 leaves the window to Reno.
        let by_cubic = if p < 0.01 { window / rtt_s } else { 0.0 };
        (reno.throughput(p).max(by_cubic) * self.connections()).min(link)
    }

    /// From the first byte's departure to that of the last of `bytes`, in seconds.
    fn sending_s(&self, bytes: f64) -> f64 {
        let (segments, rate) = ((bytes / SEGMENT).max(1.0), self.segments_per_s());
        if self.is_warm {
            return segments / rate;
        }
        let rtt_s = self.round_trip();
        let first_window = FIRST_WINDOW * self.connections();
        let most_window = (rate * rtt_s).max(first_window);
        let start = SlowStart { first_window, most_window, rtt_s, growth: 2.0 };
        start.departure_s(segments, rate)
    }
}

/// Seconds that a transfer of so many bytes takes over a chain, from the first packet of the client. At least one hop.
pub fn completion_s(hops: &[Hop], bytes: u64) -> f64 {
    let all_s: f64 = hops.iter().map(Hop::round_trip).sum();
    // Cold connections are opened one after the other.
    let opening_s: f64 = hops.iter().filter(|hop| !hop.is_warm).map(Hop::round_trip).sum();
    let sending_s = hops.iter().map(|hop| hop.sending_s(bytes as f64)).fold(0.0, f64::max);
    // The request goes there, and the last byte comes back.
    opening_s + all_s + sending_s
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(rtt_ms: f64, loss: f64) -> Hop {
        Hop { loss, ..Hop::of_round_trip(rtt_ms / 1e3) }
    }

    /// 15 segments are one window and half another: connect, ask, one round trip more, and their time on the link.
    #[test]
    fn short_transfer_by_hand() {
        let seconds = completion_s(&[hop(100.0, 0.0)], 15 * 1448);
        let on_link = 5.0 * 1448.0 * 8.0 / 1e9;
        assert!((seconds - (0.3 + on_link)).abs() < 0.001, "{seconds}");
        let warm = Hop { is_warm: true, ..hop(100.0, 0.0) };
        let seconds = completion_s(&[warm], 15 * 1448);
        assert!((seconds - (0.1 + 3.0 * on_link)).abs() < 1e-6, "{seconds}");
    }

    /// Equation 3 of Augusto et al.: Reno's rate is in inverse proportion to the round trip, and losses are by hop.
    #[test]
    fn halves_of_a_lossy_path_are_faster() {
        let whole = completion_s(&[hop(90.0, 0.02)], 1 << 30);
        let halves = completion_s(&[hop(45.0, 0.01), hop(45.0, 0.01)], 1 << 30);
        let ratio = whole / halves;
        assert!(
            (2.7..3.3).contains(&ratio),
            "2 by the round trip, and the square root of 2 by losses, and timeouts: {ratio}"
        );
        assert!(
            completion_s(&[hop(30.0, 0.0); 3], 10_000)
                > completion_s(&[hop(90.0, 0.0)], 10_000) * 0.99
        );
    }

    /// By equation 1 of Mathis et al. four connections have four times the rate of one.
    #[test]
    fn connections_and_bbr_leave_losses_behind() {
        let one = hop(100.0, 1e-3);
        let four = Hop { connections: 4, ..one };
        let ratio = completion_s(&[one], 1 << 33) / completion_s(&[four], 1 << 33);
        assert!((3.9..4.1).contains(&ratio), "{ratio}");
        let bbr = Hop { bears_loss: true, ..one };
        let rate = (1_u64 << 33) as f64 * 8.0 / completion_s(&[bbr], 1 << 33);
        assert!((0.98..1.0).contains(&(rate / ASSUMED_RATE_BPS)), "{rate}");
        let often = |bears_loss| completion_s(&[Hop { bears_loss, ..hop(100.0, 0.05) }], 1 << 20);
        assert!((often(true) - often(false)).abs() < 1e-9);
        // 40 segments are one window of four connections.
        let seconds = completion_s(&[Hop { connections: 4, ..hop(100.0, 0.0) }], 40 * 1448);
        assert!((seconds - 0.2).abs() < 0.001, "{seconds}");
    }

    #[test]
    fn nonsense_gives_a_time() {
        let all = [0.0, -1.0, 1.0, 1e-300, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        for rtt_s in all {
            for loss in all {
                for rate_bps in all {
                    for is_warm in [false, true] {
                        for connections in [0, 1, u8::MAX] {
                            let bears_loss = !is_warm;
                            let hop =
                                Hop { rtt_s, loss, rate_bps, is_warm, connections, bears_loss };
                            for bytes in [0, 1, u64::MAX] {
                                let seconds = completion_s(&[hop, hop], bytes);
                                assert!(seconds > 0.0 && seconds.is_finite(), "{hop:?}: {seconds}");
                            }
                        }
                    }
                }
            }
        }
    }
}
