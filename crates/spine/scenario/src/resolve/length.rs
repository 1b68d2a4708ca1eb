// SPDX-License-Identifier: GPL-2.0-or-later
//! Lengths of queues.

use crate::{
    network::{DirectionSpec, QueueSize},
    run::Queue,
};
use units::{Bytes, Duration};

/// A queue sized from rate and delay holds at least this many full packets: a short path's BDP
/// is less than one burst of a sender.
pub(super) const LEAST_PACKETS: u64 = 100;

/// A queue's limit or mark. A multiple of the bandwidth-delay product is at least [`LEAST_PACKETS`] full
/// packets.
pub(super) fn length(
    size: QueueSize,
    least_packets: u64,
    spec: &DirectionSpec,
    longest: Duration,
) -> Option<Queue> {
    match size {
        QueueSize::Given(queue) => Some(queue),
        QueueSize::Bdp(factor) => {
            // Without a rate nothing ever waits.
            let bdp = spec.rate?.times(longest).scale(factor);
            let packet = u64::from(spec.mtu.value) + u64::from(spec.overhead);
            Some(Queue::Bytes(bdp.max(Bytes::new(least_packets * packet))))
        }
    }
}
