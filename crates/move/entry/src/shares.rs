// SPDX-License-Identifier: GPL-2.0-or-later
//! Shares: how many of something each client, or each server, may have at a time.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Counts by key. Keys without any are forgotten.
#[derive(Debug)]
pub(crate) struct Shares<K> {
    most: usize,
    counts: Mutex<HashMap<K, usize>>,
}

/// One of a key's, until this is dropped.
#[derive(Debug)]
pub(crate) struct Share<K: Eq + Hash> {
    all: Arc<Shares<K>>,
    key: K,
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// With this many for each key.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, counts: Mutex::default() })
    }

    /// One more for a key. `None`: it has all of its own.
    pub(crate) fn take(self: &Arc<Self>, key: K) -> Option<Share<K>> {
        let mut counts = self.counts();
        let count = counts.get(&key).copied().unwrap_or(0);
        if count >= self.most {
            return None;
        }
        counts.insert(key.clone(), count + 1);
        drop(counts);
        Some(Share { all: Arc::clone(self), key })
    }
}

impl<K> Shares<K> {
    fn counts(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of how many keys there are any.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.counts().len()
    }
}

impl<K: Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_share() {
        let shares = Shares::new(2);
        let mut taken = vec![shares.take("a").unwrap(), shares.take("a").unwrap()];
        assert!(shares.take("a").is_none());
        taken.push(shares.take("b").unwrap());
        taken.remove(0);
        taken.push(shares.take("a").unwrap());
        assert!(shares.take("a").is_none());
        drop(taken);
        assert_eq!(shares.keys(), 0);
    }
}
