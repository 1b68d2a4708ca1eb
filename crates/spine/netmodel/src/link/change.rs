// SPDX-License-Identifier: GPL-2.0-or-later
//! Changes of a link while it is at work.

use super::Link;
use crate::{Loss, LossModel, impairment::Impairing};
use units::{Duration, Rate, Timestamp};

/// What changes of a link; all else stays.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LinkChange {
    /// The rate.
    pub rate: Option<Rate>,
    /// Propagation, one way.
    pub delay: Option<Duration>,
    /// Loss on the wire.
    pub loss: Option<LossModel>,
    /// Whether the wire loses everything.
    pub cut: Option<bool>,
}

impl Link {
    /// Changes the link at `now`. Packets of which it has been decided when they leave keep to that: the one on the wire, and
    /// those in a queue whose discipline decides when they come. Under a shorter delay, later packets may overtake those on
    /// their way.
    pub fn change(&mut self, now: Timestamp, change: LinkChange) {
        self.advance(now);
        self.serve();
        if let Some(rate) = change.rate {
            self.change_rate(rate);
        }
        if let Some(delay) = change.delay {
            self.config.delay = delay;
        }
        if let Some(loss) = change.loss {
            self.config.loss = loss;
            self.loss = Loss::new(loss, self.config.seed);
        }
        if let Some(cut) = change.cut {
            let (impairments, seed) = (&self.config.impairments, self.config.seed);
            let impairing = self.impairing.get_or_insert_with(|| Impairing::of(impairments, seed));
            impairing.set_cut(cut);
        }
    }

    fn change_rate(&mut self, rate: Rate) {
        self.config.rate = Some(rate.into());
        self.rate = Some(rate);
        // Both are of the rate before.
        (self.last, self.free_rest) = (Default::default(), 0);
        if let Some(service) = &mut self.service {
            service.change_rate(rate);
        }
    }
}
