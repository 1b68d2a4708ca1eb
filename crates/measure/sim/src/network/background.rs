// SPDX-License-Identifier: GPL-2.0-or-later
//! How much of what link directions carried was background: traffic and reverse flows, which have paths of
//! their own. It follows from what was sent on a path and where its packets ended, so that a packet is counted
//! when it is sent and when it is dropped, not at each link.

use super::{Network, link_direction::Arriving};
use netmodel::LinkConfig;
use units::{Bytes, Timestamp};

impl Network {
    /// Bytes of background that have gone onto each link direction, with its overhead.
    pub(crate) fn background_bytes(&self, now: Timestamp) -> Vec<u64> {
        let mut gone_before = self.gone_before.clone();
        for direction in &self.directions {
            let config = direction.link.config();
            // Where it is late, its arrival does not tell whether it has begun.
            let tells = config.impairments.is_none();
            for arriving in &direction.arriving {
                // Its path goes on from the next link direction already.
                let waits = tells && waits(arriving, config, now);
                gone_before[arriving.packet.path as usize - usize::from(waits)]
                    .add(&arriving.packet);
            }
            for packet in direction.begins.after(now).filter(|_| !tells) {
                gone_before[packet.path as usize].add(packet);
                gone_before[packet.path as usize + 1].take(packet);
            }
            for packet in direction.queued.iter().flatten() {
                gone_before[packet.path as usize].add(packet);
            }
        }
        let mut bytes = vec![0; self.directions.len()];
        for &path in &self.background_paths {
            let mut left = self.sent_on[path as usize];
            for (at, &number) in (path as usize..).zip(self.directions_of(path)) {
                left = left.plus(self.copied_before[at]).less(gone_before[at]);
                let overhead = self.directions[number as usize].link.config().overhead.get();
                bytes[number as usize] += left.bytes + left.packets * overhead;
            }
        }
        bytes
    }
}

/// Whether a packet that a link has accepted has not begun to go onto it.
fn waits(arriving: &Arriving, config: &LinkConfig, now: Timestamp) -> bool {
    let length = Bytes::new(arriving.packet.length.into()) + config.overhead;
    let takes = config.nominal_rate().and_then(|rate| rate.time_for(length));
    takes.is_some_and(|takes| arriving.at > now + config.delay + takes)
}
