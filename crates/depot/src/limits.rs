// SPDX-License-Identifier: GPL-2.0-or-later
//! How many connections are open, in all and from each client address.

use crate::config::Limits;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

/// Counts connections and refuses those over a limit.
#[derive(Debug)]
pub(crate) struct Gate {
    connections: usize,
    per_client: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// One connection's place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    gate: Arc<Gate>,
    client: IpAddr,
}

impl Gate {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let (connections, per_client) = (limits.connections, limits.per_client);
        Arc::new(Self { connections, per_client, open: Mutex::default() })
    }

    /// A place for a connection from `client`, or which limit it would break.
    pub(crate) fn enter(self: &Arc<Self>, client: IpAddr) -> Result<Place, String> {
        let client = client.to_canonical();
        let mut open = self.open();
        if open.total >= self.connections {
            return Err(format!("{} connections are open, the most allowed", open.total));
        }
        let own = open.by_client.entry(client).or_default();
        if *own >= self.per_client {
            return Err(format!("{own} connections from {client} are open, the most allowed"));
        }
        *own += 1;
        open.total += 1;
        Ok(Place { gate: Arc::clone(self), client })
    }

    /// Counting cannot leave the numbers half-changed, so a panic elsewhere does not spoil them.
    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.gate.open();
        open.total -= 1;
        if let Some(own) = open.by_client.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                open.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_given_back() {
        let gate = Gate::new(&Limits { connections: 3, per_client: 2, ..Limits::default() });
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let first = gate.enter(a).unwrap();
        let _second = gate.enter("::ffff:10.0.0.1".parse().unwrap()).unwrap();
        assert!(gate.enter(a).unwrap_err().contains("from 10.0.0.1"));
        let _third = gate.enter(b).unwrap();
        assert!(gate.enter(b).unwrap_err().starts_with("3 connections are open"));
        drop(first);
        let _again = gate.enter(b).unwrap();
        assert_eq!(gate.open().by_client.len(), 2);
    }
}
