// SPDX-License-Identifier: GPL-2.0-or-later
//! How many connections are open, in all and from each client.
//!
//! A client is an IPv4 address, or the /64 of an IPv6 one: every host has that many addresses of
//! its own, so that a limit on each of them would be none. Many have more: a provider gives its customers a
//! /56 or a /48, which is a site. One site has as much as a few clients.

use crate::config::Limits;
use relay::{
    client_key::{host_key, site_key},
    shrink,
};
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

/// A site has as much as so many clients.
const CLIENTS_OF_SITE: usize = 4;

/// Counts connections and refuses those over a limit.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    /// The most since it was last asked for.
    most: usize,
    by_client: HashMap<IpAddr, usize>,
    by_site: HashMap<IpAddr, usize>,
    /// Those that depots hold, which are in none of the others.
    held: usize,
}

/// One connection's place; given back when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    gate: Arc<Gate>,
    client: IpAddr,
    site: IpAddr,
    is_held: bool,
}

impl ConnectionSlot {
    /// From now on, and to its end, the connection is one that a depot holds; or the limit of those that
    /// it would break.
    pub(crate) fn hold(&mut self, limits: &Limits) -> Result<(), String> {
        if self.is_held {
            return Ok(());
        }
        let mut open = self.gate.open();
        if open.held >= limits.held {
            return Err(format!("depots hold {} connections, the most allowed", open.held));
        }
        open.held += 1;
        open.leave(self.client, self.site);
        self.is_held = true;
        Ok(())
    }
}

impl Open {
    /// One of those that no depot holds is gone.
    fn leave(&mut self, client: IpAddr, site: IpAddr) {
        self.total -= 1;
        for (counts, who) in [(&mut self.by_client, client), (&mut self.by_site, site)] {
            if let Some(own) = counts.get_mut(&who) {
                *own -= 1;
                if *own == 0 {
                    counts.remove(&who);
                    shrink(counts);
                }
            }
        }
    }
}

impl Gate {
    /// A place for a connection from `client`, or which limit it would break.
    pub(crate) fn enter(
        self: &Arc<Self>,
        client: IpAddr,
        limits: &Limits,
    ) -> Result<ConnectionSlot, String> {
        let (client, site) = (host_key(client), site_key(client));
        let mut open = self.open();
        if open.total >= limits.connections {
            return Err(format!("{} connections are open, the most allowed", open.total));
        }
        let of_site = limits.per_client.saturating_mul(CLIENTS_OF_SITE);
        for (counts, who, most) in
            [(&open.by_client, client, limits.per_client), (&open.by_site, site, of_site)]
        {
            let own = counts.get(&who).copied().unwrap_or(0);
            if own >= most {
                return Err(format!("{own} connections from {who} are open, the most allowed"));
            }
        }
        *open.by_client.entry(client).or_default() += 1;
        *open.by_site.entry(site).or_default() += 1;
        open.total += 1;
        open.most = open.most.max(open.total);
        Ok(ConnectionSlot { gate: Arc::clone(self), client, site, is_held: false })
    }

    /// How many connections are open, without those that depots hold.
    pub(crate) fn len(&self) -> usize {
        self.open().total
    }

    /// How many connections depots hold.
    pub(crate) fn held(&self) -> usize {
        self.open().held
    }

    /// The most that were open at a time since this was last asked, and how many are now.
    pub(crate) fn crest(&self) -> (usize, usize) {
        let mut open = self.open();
        let now = open.total;
        (std::mem::replace(&mut open.most, now), now)
    }

    /// Counting cannot leave the numbers half-changed, so a panic elsewhere does not spoil them.
    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.gate.open();
        if self.is_held {
            open.held -= 1;
        } else {
            open.leave(self.client, self.site);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_given_back() {
        let limits = Limits { connections: 3, per_client: 2, ..Limits::default() };
        let gate = Arc::new(Gate::default());
        let enter = |ip: IpAddr| gate.enter(ip, &limits);
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let first = enter(a).unwrap();
        let _second = enter("::ffff:10.0.0.1".parse().unwrap()).unwrap();
        assert!(enter(a).unwrap_err().contains("from 10.0.0.1"));
        let _third = enter(b).unwrap();
        assert!(enter(b).unwrap_err().starts_with("3 connections are open"));
        drop(first);
        let _again = enter(b).unwrap();
        assert_eq!(gate.open().by_client.len(), 2);
    }

    #[test]
    fn what_depots_hold_has_a_limit_of_its_own() {
        let limits = Limits { connections: 2, per_client: 1, held: 2, ..Limits::default() };
        let gate = Arc::new(Gate::default());
        let enter = || gate.enter("10.0.0.1".parse().unwrap(), &limits);
        let mut first = enter().unwrap();
        assert!(enter().is_err());
        first.hold(&limits).unwrap();
        first.hold(&limits).unwrap();
        assert_eq!((gate.len(), gate.held()), (0, 1), "it is in one of them, and once");
        let mut second = enter().unwrap();
        second.hold(&limits).unwrap();
        let mut third = enter().unwrap();
        assert!(third.hold(&limits).unwrap_err().starts_with("depots hold 2 connections"));
        assert_eq!((gate.len(), gate.held()), (1, 2), "it stays what it was");
        drop(first);
        third.hold(&limits).unwrap();
        drop((second, third));
        assert_eq!((gate.len(), gate.held()), (0, 0));
        let open = gate.open();
        assert!(open.by_client.is_empty() && open.by_site.is_empty());
    }

    #[test]
    fn the_addresses_of_one_ipv6_host_are_one_client() {
        let limits = Limits { per_client: 1, ..Limits::default() };
        let gate = Arc::new(Gate::default());
        let enter = |ip: &str| gate.enter(ip.parse().unwrap(), &limits);
        let _held = enter("2001:db8:0:1::1").unwrap();
        assert!(enter("2001:db8:0:1:ffff::2").is_err());
        assert!(enter("2001:db8:0:2::1").is_ok());
    }
    #[test]
    fn a_site_with_many_networks_has_as_much_as_a_few_clients() {
        let limits = Limits { per_client: 2, ..Limits::default() };
        let gate = Arc::new(Gate::default());
        let enter = |n: usize| {
            let ip = format!("2001:db8:7:{n:x}::1");
            gate.enter(ip.parse().unwrap(), &limits)
        };
        let held: Vec<_> = (0..1000).map_while(|n| enter(n).ok()).collect();
        assert_eq!(held.len(), 2 * CLIENTS_OF_SITE);
        assert!(enter(0).unwrap_err().contains("from 2001:db8:7::"));
        assert!(gate.enter("2001:db8:8::1".parse().unwrap(), &limits).is_ok(), "another site");
        drop(held);
        assert!(enter(0).is_ok() && gate.open().by_site.is_empty());
    }
}
