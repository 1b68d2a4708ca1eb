// SPDX-License-Identifier: GPL-2.0-or-later
//! Look-ups of names, with addresses that did not answer last.
//!
//! A connection is made to the first address that accepts one. If nothing answers there, the address that was named
//! first is blamed, and comes after the others in later look-ups. Of an address that refuses connections nothing has to
//! be remembered: the next one is tried at once.
//! Limits: the blamed one may be the wrong one, if the first refuses connections; then it takes another failure.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard},
};

/// How many names with several addresses are remembered.
const MAX_NAMES: usize = 256;

/// Addresses by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Addresses(Arc<Mutex<HashMap<String, Known>>>);

#[derive(Debug, Default)]
struct Known {
    /// As they were given last.
    given: Vec<IpAddr>,
    /// The one that was blamed last is the last.
    blamed: Vec<IpAddr>,
}

impl Addresses {
    /// Puts the first address of a name behind the others. Whether there are others.
    pub(crate) fn blame(&self, name: &str) -> bool {
        let mut names = self.names();
        let Some(known) = names.get_mut(&name.to_ascii_lowercase()) else { return false };
        let Some(first) = known.given.first().copied() else { return false };
        known.blamed.retain(|address| *address != first);
        known.blamed.push(first);
        known.given.rotate_left(1);
        true
    }

    fn names(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().expect("no panic while it is held")
    }

    /// The addresses in the order in which they are to be tried.
    fn order(&self, name: &str, mut found: Vec<SocketAddr>) -> Vec<SocketAddr> {
        found.dedup();
        let (mut names, name) = (self.names(), name.to_ascii_lowercase());
        if found.len() < 2 {
            names.remove(&name);
            return found;
        }
        if names.len() >= MAX_NAMES && !names.contains_key(&name) {
            names.clear();
        }
        let known = names.entry(name).or_default();
        known.blamed.retain(|address| found.iter().any(|found| found.ip() == *address));
        // None comes before the first: who was never blamed is first.
        found.sort_by_key(|found| known.blamed.iter().position(|blamed| *blamed == found.ip()));
        known.given = found.iter().map(SocketAddr::ip).collect();
        found
    }
}

impl Resolve for Addresses {
    fn resolve(&self, name: Name) -> Resolving {
        let addresses = self.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let ordered = addresses.order(name.as_str(), found.collect());
            Ok(Box::new(ordered.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blamed_addresses_are_tried_last() {
        let addresses = Addresses::default();
        let all = || ["[::1]:0", "127.0.0.1:0", "127.0.0.2:0"].map(|a| a.parse().unwrap()).to_vec();
        let order = |addresses: &Addresses| -> Vec<String> {
            let ordered = addresses.order("H", all());
            ordered.iter().map(|address| address.ip().to_string()).collect()
        };
        assert!(!addresses.blame("h"), "it was never looked up");
        assert_eq!(order(&addresses), ["::1", "127.0.0.1", "127.0.0.2"]);
        assert!(addresses.blame("h"));
        assert_eq!(order(&addresses), ["127.0.0.1", "127.0.0.2", "::1"]);
        assert!(addresses.blame("H"));
        assert_eq!(order(&addresses), ["127.0.0.2", "::1", "127.0.0.1"]);
        // A name that has one address left has no others.
        assert_eq!(addresses.order("h", all()[..1].to_vec()).len(), 1);
        assert!(!addresses.blame("h"));
    }

    #[test]
    fn remembered_names_are_bounded() {
        let addresses = Addresses::default();
        for at in 0..1000 {
            let all = vec!["127.0.0.1:0".parse().unwrap(), "127.0.0.2:0".parse().unwrap()];
            addresses.order(&format!("h{at}"), all);
        }
        assert!(addresses.names().len() <= MAX_NAMES);
    }
}
