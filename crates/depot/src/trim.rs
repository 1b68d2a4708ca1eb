// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory that a crowd has left behind, given back to the system.
//!
//! The C library keeps what is freed for its next use, and cannot give back by itself what lies
//! below something that is still in use: after very many connections a depot of few would stay as
//! large as it was. So it is told to once there is clearly less to do.

use std::{collections::HashMap, hash::Hash};

/// A fall of less than this is not worth the search for memory, which takes milliseconds.
const LEAST: usize = 256;

/// How much there was to do lately.
#[derive(Debug, Default)]
pub(crate) struct Tide {
    most: usize,
}

impl Tide {
    /// Whether there is clearly less to do now than there was at the most. To be asked from time to
    /// time, with the most since it was asked before.
    pub(crate) fn has_fallen(&mut self, (most, now): (usize, usize)) -> bool {
        self.most = self.most.max(most);
        let fallen = self.most - now >= LEAST.max(self.most / 4);
        if fallen {
            self.most = now;
        }
        fallen
    }
}

/// Gives back most of the room of a table that has become much too large for what it holds.
pub(crate) fn fit<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if table.len() < table.capacity() / 4 {
        table.shrink_to(2 * table.len());
    }
}

/// Gives back what can be. Takes milliseconds, during which others may wait for memory.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: touches only what nobody has allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_room_for_twice_what_it_holds() {
        let mut table: HashMap<_, _> = (0..10_000).map(|n| (n, n)).collect();
        for left in [9_000, 3_000, 10, 0] {
            table.retain(|n, _| *n < left);
            fit(&mut table);
            assert_eq!(table.len(), left);
            assert!(table.capacity() <= 4 * left, "{left}: {}", table.capacity());
        }
        assert_eq!(table.capacity(), 0);
    }

    #[test]
    fn only_a_clear_fall_counts_and_only_once() {
        let mut tide = Tide::default();
        let mut asked = |most, now| tide.has_fallen((most, now));
        assert!(!asked(255, 0));
        assert!(!asked(2000, 2000) && !asked(2000, 1501), "by less than a quarter");
        assert!(asked(1501, 1500) && !asked(1500, 1500));
        // Up and down between two questions.
        assert!(asked(5000, 10) && !asked(10, 0));
    }
}
