// SPDX-License-Identifier: GPL-2.0-or-later
//! Hash tables that give memory back after a crowd has left.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash},
};

/// Gives back most of the room of a table that has become much too large for what it holds.
pub fn shrink<K: Eq + Hash, V, S: BuildHasher>(table: &mut HashMap<K, V, S>) {
    if table.len() < table.capacity() / 4 {
        table.shrink_to(2 * table.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrunk_table_capacity_is_bounded() {
        let mut table: HashMap<_, _> = (0..10_000).map(|n| (n, n)).collect();
        for left in [9_000, 3_000, 10, 0] {
            table.retain(|n, _| *n < left);
            shrink(&mut table);
            assert_eq!(table.len(), left);
            assert!(table.capacity() <= 4 * left, "{left}: {}", table.capacity());
        }
        assert_eq!(table.capacity(), 0);
    }
}
