// SPDX-License-Identifier: GPL-2.0-or-later
//! How many connections and sessions with the store there may be at a time, in all and of one client.

use relay::client_key::host_key;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// In all. Each may hold up to 32 MB of bytes on their way to or from the disk.
pub(super) const MOST: usize = 256;
/// Of one client.
const MOST_OF_CLIENT: usize = 96;

/// The places that are taken.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<HashMap<IpAddr, usize>>);

/// A place; it is given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    client: IpAddr,
}

impl Places {
    /// A place for a client; `None` if there is none.
    pub(super) fn take(self: &Arc<Self>, client: IpAddr) -> Option<Place> {
        let client = host_key(client);
        let mut taken = self.taken();
        let own = taken.get(&client).copied().unwrap_or(0);
        if own >= MOST_OF_CLIENT || taken.values().sum::<usize>() >= MOST {
            return None;
        }
        taken.insert(client, own + 1);
        Some(Place { places: Arc::clone(self), client })
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn taken(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        match taken.get_mut(&self.client) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(taken.remove(&self.client)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_does_not_take_all_places() {
        let places = Arc::new(Places::default());
        let of = |n: u8| IpAddr::from([192, 0, 2, n]);
        let own: Vec<_> = (0..300).filter_map(|_| places.take(of(1))).collect();
        assert_eq!(own.len(), MOST_OF_CLIENT);
        let others: Vec<_> = (2..250).filter_map(|n| places.take(of(n))).collect();
        assert_eq!(own.len() + others.len(), MOST);
        drop((own, others));
        assert!(places.taken().is_empty());
    }
}
