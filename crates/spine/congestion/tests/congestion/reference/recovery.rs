// SPDX-License-Identifier: GPL-2.0-or-later
//! Fast recovery of the rate algorithms that answer to loss, after RFC 6937: the window falls in
//! proportion to what is delivered, with packet conservation as its bound, and slow start's once less
//! than ssthresh is in flight.

use super::model::Window;
use longhaul_congestion::{Ack, Event};

/// The window before the loss and the count of deliveries then, while recovery is on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recovery(Option<(f64, u32)>);

impl Recovery {
    pub fn begin(&mut self, ack: &Ack, window: &Window) {
        self.0 = Some((window.cwnd, ack.delivered));
    }

    /// After a timeout, or where the loss was none, the window is the caller's.
    pub fn event(&mut self, event: Event) {
        if matches!(event, Event::Timeout | Event::Undo) {
            self.0 = None;
        }
    }

    /// Sets the window, if recovery is on.
    pub fn ack(&mut self, ack: &Ack, window: &mut Window) -> bool {
        let Some((prior, mark)) = self.0 else { return false };
        if ack.flags & Ack::RECOVERY == 0 {
            self.0 = None;
            window.cwnd = window.ssthresh;
            return false;
        }
        let arrived = f64::from(ack.acked.max(1));
        let in_flight = f64::from(ack.in_flight);
        window.cwnd = if in_flight > window.ssthresh {
            let delivered = f64::from(ack.delivered.wrapping_sub(mark)).min(prior);
            // In whole segments, as both windows are.
            let fallen = (delivered * (prior - window.ssthresh.min(prior)) / prior).floor();
            (prior - fallen).min(in_flight + arrived)
        } else {
            window.ssthresh.min(in_flight + 2.0 * arrived)
        };
        true
    }
}
