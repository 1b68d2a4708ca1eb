// SPDX-License-Identifier: GPL-2.0-or-later
//! Looks after the buffers of all transfers for as long as the depot runs.

use crate::state::Shared;
use relay::buffers::{BufferTuner, PERIOD};
use std::sync::Arc;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Raises buffers where the path needs it, and keeps them small where memory is short, forever.
pub(crate) async fn govern(shared: Arc<Shared>) {
    let (mut tuner, begun) = (BufferTuner::default(), Instant::now());
    let mut looks = interval(PERIOD);
    // A late look is not followed by several at once.
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let (live, config) = (shared.observer.holdings(), shared.config());
        let unsent = config.limits.pipe;
        let memory = (&shared.transfers.kernel_memory, config.limits.memory_of_client());
        tuner.look(&live, begun.elapsed(), |peer| config.hop_options(peer), unsent, memory);
    }
}
