// SPDX-License-Identifier: GPL-2.0-or-later
//! The depots to choose from.

use crate::{
    announcement_set::{AnnouncementList, AnnouncementSet},
    cache::Cache,
    file::{Listed, MOST, RegisterFile},
    query::query,
};
use protocol::{DepotAddress, announcement::Announcement, ticket::UnixTime};
use route::FirstHopDialer;
use std::{
    collections::HashSet,
    io,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{runtime::Builder, task::JoinSet};

/// Time limit for all queries together.
const QUERY_TIME: Duration = Duration::from_secs(1);
/// Age in seconds after which announcements are queried again.
const FRESH_S: u32 = 60;
/// Number of depots that form chains of two.
const PAIRED: usize = 3;
/// Minimum number of candidates with unknown round trip, if there are more depots than candidates.
const UNKNOWN: usize = 4;

/// The depots to choose from.
#[derive(Debug, Clone)]
pub struct Register {
    depots: Vec<Listed>,
    /// Number of depots from the file, which come first.
    written: usize,
    announcements: Vec<Announcement>,
    as_of: AsOf,
}

/// Source and age of a register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AsOf {
    /// Only the file.
    File,
    /// The file, and announcements received at this time.
    Announced {
        /// When they were received.
        at: UnixTime,
    },
    /// No source responded. Cached announcements are used.
    Stale {
        /// When these were received; `None` if there are none.
        at: Option<UnixTime>,
        /// Why each source failed.
        why: String,
    },
}

impl RegisterFile {
    /// The register: the depots of the file, and those announced by its sources within a second. If no source responds, the cached
    /// announcements are used. Blocks. `ca` are certificates (PEM) of further authorities.
    ///
    /// # Errors
    /// The runtime cannot be created.
    pub fn look_up(&self, ca: Option<&Path>) -> io::Result<Register> {
        if self.ask.is_empty() && self.etcd.is_none() {
            return Ok(self.register(&AnnouncementSet::default(), AsOf::File, now()));
        }
        self.look_up_with(Cache::of(&self.path), ca)
    }

    fn look_up_with(&self, cache: Option<Cache>, ca: Option<&Path>) -> io::Result<Register> {
        let cached = cache.as_ref().and_then(Cache::read);
        let mut known = AnnouncementSet::default();
        for token in cached.iter().flat_map(|cached| &cached.list.depots) {
            known.restore(token, &self.keys);
        }
        let at = cached.map(|cached| cached.at);
        if let Some(at) = at.filter(|at| *at <= now() && now() < at.plus(FRESH_S)) {
            return Ok(self.register(&known, AsOf::Announced { at }, now()));
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (lists, why) = runtime.block_on(self.query_all(ca));
        let now = now();
        if lists.is_empty() {
            return Ok(self.register(&known, AsOf::Stale { at, why }, now));
        }
        for list in lists {
            known.accept_list(&list, &self.keys, now);
        }
        known.expire(&self.keys, now);
        if let Some(cache) = cache {
            // On failure the next process queries again.
            let _ = cache.write(now, known.list());
        }
        Ok(self.register(&known, AsOf::Announced { at: now }, now))
    }

    /// The lists of all sources that responded, and the failures of the others.
    async fn query_all(&self, ca: Option<&Path>) -> (Vec<AnnouncementList>, String) {
        let dialer = Arc::new(FirstHopDialer::new(ca.map(Path::to_owned)));
        let mut queries = JoinSet::new();
        for depot in &self.ask {
            let (dialer, depot) = (Arc::clone(&dialer), depot.clone());
            queries.spawn(async move {
                let list = query(&dialer, &depot, QUERY_TIME).await;
                list.map_err(|why| format!("{depot}: {why}"))
            });
        }
        if let Some(etcd) = self.etcd.clone() {
            queries.spawn(async move {
                let listed = etcd::list(&etcd, QUERY_TIME).await;
                listed.map(|depots| AnnouncementList { depots }).map_err(|why| why.to_string())
            });
        }
        let (mut lists, mut why) = (Vec::new(), Vec::new());
        while let Some(response) = queries.join_next().await {
            match response {
                Ok(Ok(list)) => lists.push(list),
                Ok(Err(reason)) => why.push(reason),
                Err(error) => why.push(error.to_string()),
            }
        }
        (lists, why.join("; "))
    }

    fn register(&self, known: &AnnouncementSet, as_of: AsOf, now: UnixTime) -> Register {
        let mut depots = self.depots.clone();
        let written: HashSet<DepotAddress> =
            depots.iter().map(|listed| listed.address.clone()).collect();
        let is_new = |it: &&Announcement| !written.contains(&it.address) && !it.load.leaving;
        let announced = known.announcements().filter(is_new);
        depots.extend(announced.map(|it| Listed { address: it.address.clone(), place: it.place }));
        let valid = known.announcements().filter(|it| it.is_valid_at(now));
        let announcements = valid.cloned().collect();
        Register { depots, written: self.depots.len(), announcements, as_of }
    }
}

fn now() -> UnixTime {
    SystemTime::now().into()
}

impl Register {
    /// All depots: those of the file in their order, then announced ones.
    pub fn depots(&self) -> &[Listed] {
        &self.depots
    }

    /// Announcements that are valid now.
    pub fn announcements(&self) -> &[Announcement] {
        &self.announcements
    }

    /// Source and age.
    pub fn as_of(&self) -> &AsOf {
        &self.as_of
    }

    /// At most 12 candidates. If there are more depots: those of the file, the nearest by known round trips, and random others, so that
    /// all depots are probed eventually.
    pub fn nearest(&self, rtt_s: impl Fn(&DepotAddress) -> Option<f64>) -> Vec<DepotAddress> {
        let all = self.depots.iter().map(|listed| listed.address.clone());
        if self.depots.len() <= MOST {
            return all.collect();
        }
        let written = self.written;
        let (mut near, mut others) = (Vec::new(), Vec::new());
        for (at, depot) in all.enumerate() {
            match rtt_s(&depot) {
                // Depots of the file keep their order.
                _ if at < written => near.push((at as f64 - written as f64, depot)),
                Some(rtt_s) => near.push((rtt_s, depot)),
                None => others.push(depot),
            }
        }
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Without random bits the choice is the same each time.
        let mut random = host::random().map_or(1, u64::from_ne_bytes);
        let places = MOST - near.len().min(MOST - UNKNOWN.min(others.len()));
        let by_chance = (0..places.min(others.len())).map(|_| {
            let at = (random % others.len() as u64) as usize;
            random = random.rotate_right(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            others.swap_remove(at)
        });
        let by_chance: Vec<DepotAddress> = by_chance.collect();
        near.truncate(MOST - by_chance.len());
        near.into_iter().map(|(_, depot)| depot).chain(by_chance).collect()
    }
}

/// The chains of these depots: each depot alone, and each pair of the first three.
pub fn chains(depots: &[DepotAddress]) -> Vec<Vec<DepotAddress>> {
    let mut chains: Vec<Vec<_>> = depots.iter().map(|depot| vec![depot.clone()]).collect();
    for first in depots.iter().take(PAIRED) {
        let others = depots.iter().take(PAIRED).filter(|other| *other != first);
        chains.extend(others.map(|other| vec![first.clone(), other.clone()]));
    }
    chains
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::announcement_set::tests::{announced, depots, time, token};
    use protocol::ticket::{KeySet, Signer};
    use std::{
        path::PathBuf,
        sync::atomic::{AtomicUsize, Ordering},
    };
    use testkit::http_server::Server;

    fn file(ask: &[String], keys: KeySet) -> RegisterFile {
        let ask = ask.iter().map(|depot| depot.parse().unwrap()).collect();
        let written = Listed { address: "written".parse().unwrap(), place: None };
        let (path, etcd) = (PathBuf::from("/x/depots.toml"), None);
        RegisterFile { path, ask, etcd, keys, depots: vec![written] }
    }

    fn names(register: &Register) -> Vec<String> {
        register.depots().iter().map(|it| it.address.authority.host.to_string()).collect()
    }

    /// A depot with these announcements, and the number of queries so far.
    fn announcing(tokens: Vec<String>) -> (Server, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let server = Server::start(move |_, request, conn| {
            assert_eq!(request.target, "/lh1/depots");
            count.fetch_add(1, Ordering::Relaxed);
            let text = serde_json::to_vec(&AnnouncementList { depots: tokens.clone() }).unwrap();
            conn.answer("200 OK", &[], &text);
        });
        (server, asked)
    }

    fn seconds_now() -> u64 {
        now().seconds()
    }

    #[test]
    fn register_has_listed_and_announced_depots() {
        let (signers, keys) = depots(3);
        let leaving = |n: u8| {
            let mut of = announced(n, seconds_now());
            of.load.leaving = true;
            of.sign(&signers[usize::from(n)]).unwrap()
        };
        let of_stranger = announced(7, seconds_now());
        let stranger = Signer::from_seed([7; 32]).unwrap().named("d7:3880");
        let tokens = vec![
            token(&signers, 0, seconds_now()),
            leaving(1),
            token(&signers, 2, seconds_now()),
            of_stranger.sign(&stranger).unwrap(),
        ];
        let (server, asked) = announcing(tokens);
        let directory = tempfile::tempdir().unwrap();
        let cache = || Some(Cache::at(directory.path().to_owned(), Path::new("/x/depots.toml")));
        let file = file(&[server.address.to_string()], keys);
        let register = file.look_up_with(cache(), None).unwrap();
        assert_eq!(names(&register), ["written", "d0", "d2"]);
        assert!(matches!(register.as_of(), AsOf::Announced { .. }));
        assert_eq!(register.announcements().len(), 3);
        // A fresh cache is used without a query.
        let again = file.look_up_with(cache(), None).unwrap();
        assert_eq!((names(&again), asked.load(Ordering::Relaxed)), (names(&register), 1));
    }

    #[test]
    fn cache_is_used_if_no_source_responds() {
        let (signers, keys) = depots(2);
        let refusing = testkit::refusing_address();
        let file = file(&[refusing.to_string()], keys.clone());
        let directory = tempfile::tempdir().unwrap();
        let cache = || Some(Cache::at(directory.path().to_owned(), Path::new("/x/depots.toml")));
        let nothing = file.look_up_with(cache(), None).unwrap();
        assert_eq!(names(&nothing), ["written"]);
        assert!(matches!(nothing.as_of(), AsOf::Stale { at: None, .. }), "{:?}", nothing.as_of());
        let an_hour_ago = seconds_now() - 3600;
        let forged = announced(1, an_hour_ago).sign(&signers[0]).unwrap();
        let list = AnnouncementList { depots: vec![token(&signers, 0, an_hour_ago), forged] };
        cache().unwrap().write(time(an_hour_ago), list).unwrap();
        let old = file.look_up_with(cache(), None).unwrap();
        assert_eq!(names(&old), ["written", "d0"], "a forged entry of the cache is ignored");
        let AsOf::Stale { at, why } = old.as_of() else { panic!("{:?}", old.as_of()) };
        assert_eq!(*at, Some(time(an_hour_ago)));
        assert!(why.contains(&refusing.to_string()), "{why}");
        assert!(old.announcements().is_empty(), "expired loads are not used");
    }

    #[test]
    fn candidates_are_nearest_and_random_depots() {
        let depots: Vec<Listed> = (0..1000)
            .map(|n| Listed { address: format!("d{n}").parse().unwrap(), place: None })
            .collect();
        let (announcements, as_of) = (Vec::new(), AsOf::File);
        let register = Register { depots, written: 2, announcements, as_of };
        let host = |depot: &DepotAddress| depot.authority.host.to_string();
        // Of d100 to d199 the round trip is known.
        let rtt_s = |depot: &DepotAddress| {
            let n: u32 = host(depot)[1..].parse().unwrap();
            (100..200).contains(&n).then(|| f64::from(200 - n))
        };
        let chosen = |_| register.nearest(rtt_s).iter().map(host).collect::<Vec<_>>();
        let all: Vec<Vec<String>> = (0..10).map(chosen).collect();
        for chosen in &all {
            let near = ["d0", "d1", "d199", "d198", "d197", "d196", "d195", "d194"];
            assert_eq!((&chosen[..8], chosen.len()), (&near.map(str::to_owned)[..], 12));
            let different: HashSet<&String> = chosen.iter().collect();
            assert_eq!(different.len(), 12);
        }
        let by_chance: HashSet<&String> = all.iter().flat_map(|chosen| &chosen[8..]).collect();
        assert!(by_chance.len() > 20, "{by_chance:?}");
        let nothing_known = register.nearest(|_| None);
        assert_eq!(nothing_known.len(), 12);
    }

    #[test]
    fn chains_are_singles_and_pairs_of_the_first() {
        let depots = ["a", "b", "https:c:1", "d"].map(|name| name.parse().unwrap());
        let text = |chain: &Vec<DepotAddress>| {
            chain.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        assert_eq!(
            chains(&depots).iter().map(text).collect::<Vec<_>>(),
            [
                "a:3880",
                "b:3880",
                "https:c:1",
                "d:3880",
                "a:3880,b:3880",
                "a:3880,https:c:1",
                "b:3880,a:3880",
                "b:3880,https:c:1",
                "https:c:1,a:3880",
                "https:c:1,b:3880",
            ]
        );
    }
}
