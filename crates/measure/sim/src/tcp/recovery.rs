// SPDX-License-Identifier: GPL-2.0-or-later
//! Bringing the window down after a loss, where the congestion control leaves that to the sender.

use congestion::{Ack, Decision};
use scenario::Recovery;

/// Algorithms with which rate halving goes on down to ssthresh / 2 where recovery lasts that long: they
/// have Reno's `min_cwnd` in Linux 2.6. After one round trip half of the window is in flight. Where
/// ssthresh is more, as with Scalable, slow start then leads back to it: such a flow dips at each loss.
const BELOW_SSTHRESH: [&str; 3] = ["reno", "highspeed", "scalable"];
/// Segments that may go out at once when such a recovery ends: Linux's and ns-2's `max_burst`.
const MAX_BURST: u32 = 3;

/// A reduction under way.
#[derive(Debug)]
pub(super) enum WindowReduction {
    /// Proportional rate reduction: RFC 6937 with its slow-start reduction bound. Between the loss and
    /// the end of recovery, ssthresh / window segments go out for each that is delivered; once less than
    /// ssthresh is in flight, the flight grows back to it.
    Proportional {
        /// When it began. The RFC has what was in flight then, Linux the window.
        window: u32,
        delivered: u32,
        sent: u32,
    },
    /// The window is ssthresh at once, and what is in flight drains down to it (RFC 6675).
    AtOnce,
    /// Rate halving, as Linux 2.6 and ns-2's `TCP/Linux` have it: one segment goes out for two that
    /// are delivered, until what is in flight has come down to `least`; then one for one.
    Halving {
        least: u32,
        /// What may be in flight now: with each acknowledgement it falls to what is, and one; with each
        /// segment sent, to what was before.
        most: u32,
    },
}

impl WindowReduction {
    /// `algorithm`: its name in `cc/`.
    pub(super) fn begin(kind: Recovery, algorithm: &str, decision: &mut Decision) -> Self {
        match kind {
            Recovery::Prr => {
                Self::Proportional { window: decision.cwnd.max(1), delivered: 0, sent: 0 }
            }
            Recovery::Pipe => {
                decision.cwnd = decision.ssthresh;
                Self::AtOnce
            }
            Recovery::Halving => Self::Halving {
                least: if BELOW_SSTHRESH.contains(&algorithm) {
                    decision.ssthresh / 2
                } else {
                    decision.ssthresh
                },
                most: decision.cwnd,
            },
        }
    }

    /// Records a transmission or retransmission, after which `in_flight` segments are in flight.
    pub(super) fn sent(&mut self, in_flight: u32) {
        match self {
            Self::Proportional { sent, .. } => *sent += 1,
            Self::AtOnce => {}
            Self::Halving { most, .. } => *most = (*most).min(in_flight.saturating_sub(1).max(1)),
        }
    }

    /// The window when it is over.
    pub(super) fn end(&self, in_flight: u32, ssthresh: u32) -> u32 {
        match self {
            Self::Halving { least, .. } if *least < ssthresh => ssthresh.min(in_flight + MAX_BURST),
            _ => ssthresh,
        }
    }

    /// The window after an acknowledgement. `progress`: the first unacknowledged segment moved and
    /// nothing new was lost.
    pub(super) fn acknowledged(&mut self, ack: &Ack, progress: bool, decision: &mut Decision) {
        let ssthresh = decision.ssthresh;
        let (due, sent) = match self {
            Self::AtOnce => return,
            Self::Proportional { window, delivered, sent } => {
                *delivered += ack.acked;
                let due = if ack.in_flight > ssthresh {
                    let share = u64::from(*delivered) * u64::from(ssthresh);
                    (share.div_ceil(u64::from(*window)) as u32).saturating_sub(*sent)
                } else {
                    let bound =
                        delivered.saturating_sub(*sent).max(ack.acked) + u32::from(progress);
                    bound.min(ssthresh - ack.in_flight)
                };
                (due, *sent)
            }
            Self::Halving { least, most } => {
                *most = (*most).min(ack.in_flight + 1);
                decision.cwnd = (*least).max(*most);
                return;
            }
        };
        // The first retransmission goes out at once.
        decision.cwnd = ack.in_flight + due.max(u32::from(sent == 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rate halving over `acknowledgements` acknowledgements of a segment each, from a window of 100: what is
    /// in flight then, and the window when recovery ends there.
    fn halve(algorithm: &str, ssthresh: u32, acknowledgements: u32) -> (u32, u32) {
        let mut decision = Decision { cwnd: 100, ssthresh, ..Decision::default() };
        let mut in_flight = 100;
        let mut halving = WindowReduction::begin(Recovery::Halving, algorithm, &mut decision);
        for _ in 0..acknowledgements {
            in_flight -= 1;
            let ack = Ack { in_flight, acked: 1, ..Ack::default() };
            halving.acknowledged(&ack, false, &mut decision);
            while in_flight < decision.cwnd {
                in_flight += 1;
                halving.sent(in_flight);
            }
        }
        (in_flight, halving.end(in_flight, ssthresh))
    }

    #[test]
    fn halving_sends_one_segment_for_two() {
        assert_eq!(halve("cubic", 80, 20).0, 90);
        assert_eq!(halve("scalable", 88, 20).0, 90);
    }

    #[test]
    fn halving_stops_at_ssthresh() {
        assert_eq!(halve("cubic", 80, 100), (80, 80));
        assert_eq!(halve("htcp", 50, 300), (50, 50));
    }

    #[test]
    fn rate_halving_below_ssthresh_depends_on_algorithm() {
        assert_eq!(halve("scalable", 88, 100), (50, 53));
        assert_eq!(halve("scalable", 88, 300), (44, 47));
        assert_eq!(halve("reno", 50, 100), (50, 50));
        assert_eq!(halve("reno", 50, 300), (25, 28));
    }
}
