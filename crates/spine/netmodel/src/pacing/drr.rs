// SPDX-License-Identifier: GPL-2.0-or-later
//! The waiting packets of one class: a queue for each flow, served by deficit round robin (Shreedhar and
//! Varghese, 1995), so that flows have equal shares in bytes whatever they put in. Several packets
//! of one flow keep their order.
//!
//! A class that is full gives up the newest packet of the flow that has most waiting: a flow that
//! fills the queue then takes no room from the others, whose turns would be of no use to them.

use std::collections::{BTreeMap, VecDeque};
use units::Bytes;

/// A packet that waits: its bytes on the link, and what the caller knows it by.
type Waiting<T> = (u64, T);

#[derive(Debug, Clone)]
struct Flow<T> {
    packets: VecDeque<Waiting<T>>,
    bytes: u64,
    /// How many bytes it may still send in this turn.
    deficit: u64,
}

/// Queues of the flows that have something waiting.
#[derive(Debug, Clone)]
pub struct DrrQueue<T> {
    queues: BTreeMap<u64, Flow<T>>,
    /// The flows in the order of their turns.
    turns: VecDeque<u64>,
    /// Bytes that wait, and how many may.
    bytes: u64,
    limit: u64,
    /// The largest packet so far: what a flow may send in one turn.
    largest: u64,
}

impl<T> DrrQueue<T> {
    pub fn new(limit: Bytes) -> Self {
        let (queues, turns) = (BTreeMap::new(), VecDeque::new());
        Self { queues, turns, bytes: 0, limit: limit.get(), largest: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The largest packet that has ever waited.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// Takes a packet in behind those of its flow.
    pub fn push(&mut self, key: u64, bytes: u64, item: T) {
        self.largest = self.largest.max(bytes);
        let quantum = self.largest;
        let flow = self.queues.entry(key).or_insert_with(|| {
            self.turns.push_back(key);
            Flow { packets: VecDeque::new(), bytes: 0, deficit: quantum }
        });
        flow.packets.push_back((bytes, item));
        flow.bytes += bytes;
        self.bytes += bytes;
    }

    /// Gives up a packet if more wait than may. Of flows that have equally much waiting, `last` is
    /// the one that gives way: it came last.
    pub fn drop_excess(&mut self, last: u64) -> Option<Waiting<T>> {
        if self.bytes <= self.limit {
            return None;
        }
        let longest = |(key, flow): &(&u64, &Flow<T>)| (flow.bytes, **key == last);
        let key = *self.queues.iter().max_by_key(longest)?.0;
        let flow = self.queues.get_mut(&key)?;
        let packet = flow.packets.pop_back()?;
        flow.bytes -= packet.0;
        self.bytes -= packet.0;
        if flow.packets.is_empty() {
            self.queues.remove(&key);
            self.turns.retain(|turn| *turn != key);
        }
        Some(packet)
    }

    /// Takes out the packet whose turn it is.
    pub fn pop(&mut self) -> Option<Waiting<T>> {
        loop {
            let key = *self.turns.front()?;
            let flow = self.queues.get_mut(&key)?;
            if flow.deficit < flow.packets.front()?.0 {
                // Its turn is over, and it has as much more in its next one.
                flow.deficit += self.largest;
                self.turns.rotate_left(1);
                continue;
            }
            let packet = flow.packets.pop_front()?;
            flow.deficit -= packet.0;
            flow.bytes -= packet.0;
            self.bytes -= packet.0;
            if flow.packets.is_empty() {
                self.queues.remove(&key);
                self.turns.pop_front();
            }
            return Some(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(limit: u64) -> DrrQueue<(u64, u32)> {
        DrrQueue::new(Bytes::new(limit))
    }

    #[test]
    fn turns_are_equal_in_bytes() {
        let mut flows = flows(u64::MAX);
        for n in 0..400 {
            flows.push(1, 1500, (1, n));
            flows.push(2, 500, (2, n));
        }
        let mut sent = [0u64; 3];
        let mut next = [0; 3];
        while sent[2] < 150_000 {
            let (bytes, (flow, number)) = flows.pop().unwrap();
            assert_eq!(number, next[flow as usize], "flow {flow} keeps its order");
            next[flow as usize] += 1;
            sent[flow as usize] += bytes;
            assert!(sent[1].abs_diff(sent[2]) <= 2 * 1500, "{sent:?}");
        }
    }

    #[test]
    fn the_longest_queue_gives_way() {
        let mut flows = flows(5000);
        for n in 0..4 {
            flows.push(1, 1000, (1, n));
        }
        flows.push(2, 1500, (2, 0));
        assert_eq!(flows.drop_excess(2), Some((1000, (1, 3))), "the newest of the longest");
        assert_eq!((flows.drop_excess(2), flows.bytes()), (None, 4500));
        flows.push(3, 3000, (3, 0));
        assert_eq!(flows.drop_excess(3), Some((3000, (3, 0))), "as long as another, and came last");
        flows.push(4, 6000, (4, 0));
        assert_eq!(flows.drop_excess(4), Some((6000, (4, 0))), "never has room");
        let order: Vec<_> = std::iter::from_fn(|| flows.pop()).map(|(_, item)| item).collect();
        assert_eq!(order, [(1, 0), (2, 0), (1, 1), (1, 2)]);
        assert!(flows.is_empty() && flows.queues.is_empty() && flows.bytes() == 0);
    }
}
