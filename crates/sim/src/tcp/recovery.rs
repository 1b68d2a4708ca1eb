// SPDX-License-Identifier: GPL-2.0-or-later
//! Bringing the window down after a loss, where the congestion control leaves that to the sender.

use congestion::{Ack, Decision};
use scenario::Recovery;

/// A reduction under way.
#[derive(Debug)]
pub(super) enum Reduction {
    /// Proportional rate reduction: RFC 6937 with its slow-start reduction bound. Between the loss and
    /// the end of recovery, ssthresh / flight segments go out for each that is delivered; once less than
    /// ssthresh is in flight, the flight grows back to it.
    Proportional {
        /// In flight when it began.
        flight: u32,
        delivered: u32,
        sent: u32,
    },
    /// The window is ssthresh at once, and what is in flight drains down to it (RFC 6675).
    AtOnce,
    /// One segment goes out for two that are delivered, until what is in flight is ssthresh; then one
    /// for one (rate halving).
    Halving {
        delivered: u32,
        sent: u32,
    },
}

impl Reduction {
    pub(super) fn begin(kind: Recovery, flight: u32, decision: &mut Decision) -> Self {
        match kind {
            Recovery::Prr => Self::Proportional { flight: flight.max(1), delivered: 0, sent: 0 },
            Recovery::Pipe => {
                decision.cwnd = decision.ssthresh;
                Self::AtOnce
            }
            Recovery::Halving => Self::Halving { delivered: 0, sent: 0 },
        }
    }

    /// A segment was sent, new or again.
    pub(super) fn sent(&mut self) {
        if let Self::Proportional { sent, .. } | Self::Halving { sent, .. } = self {
            *sent += 1;
        }
    }

    /// The window after an acknowledgement. `progress`: the first unacknowledged segment moved and
    /// nothing new was lost.
    pub(super) fn acknowledged(&mut self, ack: &Ack, progress: bool, decision: &mut Decision) {
        let ssthresh = decision.ssthresh;
        let (due, sent) = match self {
            Self::AtOnce => return,
            Self::Proportional { flight, delivered, sent } => {
                *delivered += ack.acked;
                let due = if ack.in_flight > ssthresh {
                    let share = u64::from(*delivered) * u64::from(ssthresh);
                    (share.div_ceil(u64::from(*flight)) as u32).saturating_sub(*sent)
                } else {
                    let bound =
                        delivered.saturating_sub(*sent).max(ack.acked) + u32::from(progress);
                    bound.min(ssthresh - ack.in_flight)
                };
                (due, *sent)
            }
            Self::Halving { delivered, sent } => {
                *delivered += ack.acked;
                let due = if ack.in_flight > ssthresh {
                    (*delivered / 2).saturating_sub(*sent)
                } else {
                    ssthresh - ack.in_flight
                };
                (due, *sent)
            }
        };
        // The first retransmission goes out at once.
        decision.cwnd = ack.in_flight + due.max(u32::from(sent == 0));
    }
}
