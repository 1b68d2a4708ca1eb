// SPDX-License-Identifier: GPL-2.0-or-later
//! Addresses of the names in `allow.servers`, for clients that ask for a server by its address: programs look names up
//! themselves. The depot compares the address with its own look-up of the names, and never with what a client says.
//!
//! An address is its name's for [`KEPT`] after it was seen last, since some names have others at each look-up. Names
//! are looked up again after [`FRESH`], or after [`AGAIN`] if a client asks for an address that none of them has.
//! Whoever owns a listed name decides which servers it means, but addresses of private networks and of this host are
//! refused as before (`rules.rs`).
//! Limits: one round of look-ups at a time, [`AT_A_TIME`] names at once, [`MOST`] addresses for each name.

use relay::dial::{Names, PeerAddr, PeerHost, Resolver, resolver::OWN};
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

const KEPT: Duration = Duration::from_secs(600);
const FRESH: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_secs(5);
const AT_A_TIME: usize = 8;
const MOST: usize = 64;

/// What is known of the names.
#[derive(Debug, Default)]
pub(crate) struct ListedNames {
    by_name: Mutex<HashMap<String, Known>>,
    round: tokio::sync::Mutex<()>,
}

/// A name's addresses.
#[derive(Debug, Default)]
struct Known {
    /// With when each was seen last.
    addresses: HashMap<IpAddr, Instant>,
    looked_up: Option<Instant>,
}

impl Known {
    fn has(&self, ip: IpAddr, now: Instant) -> bool {
        self.addresses.get(&ip).is_some_and(|seen| now - *seen < KEPT)
    }

    fn is_older(&self, age: Duration, now: Instant) -> bool {
        self.looked_up.is_none_or(|looked_up| now - looked_up >= age)
    }

    fn saw(&mut self, found: impl Iterator<Item = IpAddr>, now: Instant) {
        self.addresses.retain(|_, seen| now - *seen < KEPT);
        self.addresses.extend(found.take(MOST).map(|ip| (ip.to_canonical(), now)));
        while self.addresses.len() > MOST {
            let oldest = self.addresses.iter().min_by_key(|(_, seen)| **seen);
            let Some(oldest) = oldest.map(|(ip, _)| *ip) else { break };
            self.addresses.remove(&oldest);
        }
    }
}

impl ListedNames {
    /// Whether one of these names has this address.
    pub(crate) async fn have(
        &self,
        names: &[&str],
        ip: IpAddr,
        resolver: Resolver<'_>,
        deadline: Instant,
    ) -> bool {
        let ip = ip.to_canonical();
        if self.have_recently(names, ip, FRESH) {
            return true;
        }
        let Ok(_round) = timeout_at(deadline, self.round.lock()).await else { return false };
        // Another client may have had them looked up meanwhile.
        if self.have_recently(names, ip, FRESH) {
            return true;
        }
        let due = {
            let (known, now) = (self.known(), Instant::now());
            let is_due = |name: &&&str| {
                known.get(**name).is_none_or(|known| {
                    known.is_older(if known.has(ip, now) { FRESH } else { AGAIN }, now)
                })
            };
            names.iter().filter(is_due).map(|name| (*name).to_owned()).collect::<Vec<_>>()
        };
        for some in due.chunks(AT_A_TIME) {
            self.look_up(some, resolver.names, deadline).await;
        }
        self.have_recently(names, ip, KEPT)
    }

    async fn look_up(&self, some: &[String], names: &Names, deadline: Instant) {
        let mut look_ups = JoinSet::new();
        for name in some {
            let (names, name) = (names.clone(), name.clone());
            look_ups.spawn(async move {
                let host = PeerHost::Name(name.clone());
                let peer = PeerAddr { host, port: 0, tls: false };
                let resolver = Resolver { names: &names, client: OWN };
                (name, resolver.addresses(&peer, deadline).await)
            });
        }
        while let Some(found) = look_ups.join_next().await {
            let Ok((name, found)) = found else { continue };
            let (mut known, now) = (self.known(), Instant::now());
            let known = known.entry(name).or_default();
            known.looked_up = Some(now);
            // If it cannot be looked up, what was known counts on for its time.
            if let Ok(found) = found {
                known.saw(found.iter().map(SocketAddr::ip), now);
            }
        }
    }

    /// Whether one of the names has this address, and was looked up in this time.
    fn have_recently(&self, names: &[&str], ip: IpAddr, age: Duration) -> bool {
        let (known, now) = (self.known(), Instant::now());
        names
            .iter()
            .filter_map(|name| known.get(*name))
            .any(|known| known.has(ip, now) && (age >= KEPT || !known.is_older(age, now)))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_addresses_of_the_names_are_theirs() {
        let (listed, names) = (ListedNames::default(), Names::default());
        let resolver = Resolver { names: &names, client: "192.0.2.9".parse().unwrap() };
        let has = async |names: &[&str], ip: &str| {
            let soon = Instant::now() + Duration::from_secs(10);
            listed.have(names, ip.parse().unwrap(), resolver, soon).await
        };
        let names = ["no-such-name.invalid", "localhost"];
        assert!(has(&names, "127.0.0.1").await);
        assert!(has(&names, "::ffff:127.0.0.1").await, "the same address");
        assert!(!has(&names, "192.0.2.1").await);
        assert!(!has(&names[..1], "127.0.0.1").await, "of the other name alone");
        assert!(!has(&[], "127.0.0.1").await);
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_are_bounded_and_forgotten() {
        let (mut known, now) = (Known::default(), Instant::now());
        let ip = |n: u32| IpAddr::from(std::net::Ipv4Addr::from(n));
        known.saw((0..1000).map(ip), now);
        assert_eq!(known.addresses.len(), MOST);
        let later = now + KEPT / 2;
        known.saw((1000..1010).map(ip), later);
        assert_eq!(known.addresses.len(), MOST);
        assert!((1000..1010).all(|n| known.has(ip(n), later)));
        let late = now + KEPT;
        known.saw(std::iter::empty(), late);
        assert_eq!(known.addresses.len(), 10, "the others have not been seen for as long");
        assert!(!known.has(ip(1000), later + KEPT));
    }
}
