// SPDX-License-Identifier: GPL-2.0-or-later
//! Whose time comes first, of a fixed number of contestants.
//!
//! A node of the tree is the earlier of its two children, the contestants are its leaves. A change plays
//! the matches from its leaf to the root, which take no branch that could be mispredicted.

use units::Timestamp;

/// Later than anything, and less than the largest number: a nanosecond more can be told from it.
pub(crate) const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX - 1);

/// A contestant with its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contestant {
    pub(crate) at: Timestamp,
    pub(crate) number: u32,
}

#[derive(Debug)]
pub(crate) struct WinnerTree {
    /// The root at 1, the children of n at 2n and 2n + 1.
    nodes: Vec<Contestant>,
}

impl WinnerTree {
    /// A tree of `contestants` timers, none of which is set.
    pub(crate) fn new(contestants: usize) -> Self {
        let leaves = contestants.next_power_of_two();
        let leaf = |n: usize| Contestant { at: NEVER, number: n.wrapping_sub(leaves) as u32 };
        let mut nodes: Vec<Contestant> = (0..2 * leaves).map(leaf).collect();
        for n in (1..leaves).rev() {
            nodes[n] = nodes[2 * n];
        }
        Self { nodes }
    }

    /// The one whose time comes first; at one time, the one with the lowest number.
    pub(crate) fn first(&self) -> Contestant {
        self.nodes[1]
    }

    /// Gives a contestant a time.
    pub(crate) fn set(&mut self, number: u32, at: Timestamp) {
        let mut n = self.nodes.len() / 2 + number as usize;
        let mut winner = Contestant { at, number };
        self.nodes[n] = winner;
        while n > 1 {
            let rival = self.nodes[n ^ 1];
            // At one time the left one wins, which has the lower number: the rival of a node on the
            // right, so of an odd one.
            let head_start = (n & 1) as u64;
            let rival_wins = rival.at.as_nanos() < winner.at.as_nanos() + head_start;
            winner = if rival_wins { rival } else { winner };
            n /= 2;
            self.nodes[n] = winner;
        }
    }
}
