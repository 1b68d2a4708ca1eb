// SPDX-License-Identifier: GPL-2.0-or-later
//! The depots to choose from.

use crate::{
    ask::ask,
    file::{Listed, MOST, RegisterFile},
    known::{Known, Told},
    last::Last,
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

/// How long the depots that are asked may take.
const ASK_TIME: Duration = Duration::from_secs(1);
/// For how long what they have told counts, in seconds: then they are asked again.
const FRESH_S: u32 = 60;
/// Of so many depots, chains of two are made.
const PAIRED: usize = 3;
/// Of the depots to choose from, at least so many whose round trip is not known, if there are more than fit.
const UNKNOWN: usize = 4;

/// The depots to choose from.
#[derive(Debug, Clone)]
pub struct Register {
    depots: Vec<Listed>,
    /// How many of them its file lists: they come first.
    written: usize,
    announcements: Vec<Announcement>,
    as_of: AsOf,
}

/// What a register rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AsOf {
    /// On its file alone.
    File,
    /// On what depots have told.
    Told {
        /// When.
        at: UnixTime,
    },
    /// None of the depots that were asked has answered.
    Old {
        /// Of when the last known state is, if there is one.
        at: Option<UnixTime>,
        /// What went wrong.
        why: String,
    },
}

impl RegisterFile {
    /// The register: the depots of the file, and those of which the depots that it asks tell within a second. If none of these answers,
    /// the last known state counts. For a program that is not asynchronous. `ca` are certificates (PEM) of further authorities.
    ///
    /// # Errors
    /// No runtime can be set up.
    pub fn look_up(&self, ca: Option<&Path>) -> io::Result<Register> {
        if self.ask.is_empty() && self.etcd.is_none() {
            return Ok(self.register(&Known::default(), AsOf::File, now()));
        }
        self.look_up_after(Last::of(&self.path), ca)
    }

    fn look_up_after(&self, last: Option<Last>, ca: Option<&Path>) -> io::Result<Register> {
        let state = last.as_ref().and_then(Last::read);
        let mut known = Known::default();
        for token in state.iter().flat_map(|state| &state.told.depots) {
            known.remember(token, &self.keys);
        }
        let at = state.map(|state| state.at);
        if let Some(at) = at.filter(|at| *at <= now() && now() < at.plus(FRESH_S)) {
            return Ok(self.register(&known, AsOf::Told { at }, now()));
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (told, why) = runtime.block_on(self.ask_all(ca));
        let now = now();
        let answered = told.len();
        for told in told {
            known.hear_all(&told, &self.keys, now);
        }
        if answered == 0 {
            return Ok(self.register(&known, AsOf::Old { at, why }, now));
        }
        known.tidy(&self.keys, now);
        if let Some(last) = last {
            // Without it the next process asks again.
            let _ = last.write(now, known.told());
        }
        Ok(self.register(&known, AsOf::Told { at: now }, now))
    }

    /// What etcd and the depots tell that are asked, and why others tell nothing.
    async fn ask_all(&self, ca: Option<&Path>) -> (Vec<Told>, String) {
        let dialer = Arc::new(FirstHopDialer::new(ca.map(Path::to_owned)));
        let mut asked = JoinSet::new();
        for depot in &self.ask {
            let (dialer, depot) = (Arc::clone(&dialer), depot.clone());
            asked.spawn(async move {
                let told = ask(&dialer, &depot, ASK_TIME).await;
                told.map_err(|why| format!("{depot}: {why}"))
            });
        }
        if let Some(etcd) = self.etcd.clone() {
            asked.spawn(async move {
                let listed = etcd::list(&etcd, ASK_TIME).await;
                listed.map(|depots| Told { depots }).map_err(|why| why.to_string())
            });
        }
        let (mut told, mut why) = (Vec::new(), Vec::new());
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(heard)) => told.push(heard),
                Ok(Err(reason)) => why.push(reason),
                Err(error) => why.push(error.to_string()),
            }
        }
        (told, why.join("; "))
    }

    fn register(&self, known: &Known, as_of: AsOf, now: UnixTime) -> Register {
        let mut depots = self.depots.clone();
        let written: HashSet<DepotAddress> =
            depots.iter().map(|listed| listed.address.clone()).collect();
        let is_new = |it: &&Announcement| !written.contains(&it.address) && !it.load.leaving;
        let told = known.announcements().filter(is_new);
        depots.extend(told.map(|it| Listed { address: it.address.clone(), place: it.place }));
        let of_now = known.announcements().filter(|it| it.counts(now));
        let announcements = of_now.cloned().collect();
        Register { depots, written: self.depots.len(), announcements, as_of }
    }
}

fn now() -> UnixTime {
    SystemTime::now().into()
}

impl Register {
    /// All depots: those that are written in their order, then those of which others tell.
    pub fn depots(&self) -> &[Listed] {
        &self.depots
    }

    /// What depots tell of themselves, as far as it counts now.
    pub fn announcements(&self) -> &[Announcement] {
        &self.announcements
    }

    /// What it rests on.
    pub fn as_of(&self) -> &AsOf {
        &self.as_of
    }

    /// At most 12 depots to choose from. Of more than that: those that are written, the nearest by the round trips that are known, and
    /// some of the others by chance, so that all are probed in the course of time.
    pub fn nearest(&self, rtt_s: impl Fn(&DepotAddress) -> Option<f64>) -> Vec<DepotAddress> {
        let all = self.depots.iter().map(|listed| listed.address.clone());
        if self.depots.len() <= MOST {
            return all.collect();
        }
        let written = self.written;
        let (mut near, mut others) = (Vec::new(), Vec::new());
        for (at, depot) in all.enumerate() {
            match rtt_s(&depot) {
                // Those that are written come in their order.
                _ if at < written => near.push((at as f64 - written as f64, depot)),
                Some(rtt_s) => near.push((rtt_s, depot)),
                None => others.push(depot),
            }
        }
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Without random bits the same ones each time.
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

/// The chains that depots make: each one, and two of the first three after each other.
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
    use crate::known::tests::{announced, depots, time, token};
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

    /// A depot that tells these, and how often it was asked.
    fn telling(tokens: Vec<String>) -> (Server, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let server = Server::start(move |_, request, conn| {
            assert_eq!(request.target, "/lh1/depots");
            count.fetch_add(1, Ordering::Relaxed);
            let text = serde_json::to_vec(&Told { depots: tokens.clone() }).unwrap();
            conn.answer("200 OK", &[], &text);
        });
        (server, asked)
    }

    fn seconds_now() -> u64 {
        now().seconds()
    }

    #[test]
    fn depots_are_those_of_the_file_and_those_of_which_others_tell() {
        let (signers, keys) = depots(3);
        let leaving = |n: u8| {
            let mut of = announced(n, seconds_now());
            of.load.leaving = true;
            of.sign(&signers[usize::from(n)]).unwrap()
        };
        let of_stranger = announced(7, seconds_now());
        let stranger = Signer::from_seed([7; 32]).unwrap().named("d7:3880");
        let told = vec![
            token(&signers, 0, seconds_now()),
            leaving(1),
            token(&signers, 2, seconds_now()),
            of_stranger.sign(&stranger).unwrap(),
        ];
        let (server, asked) = telling(told);
        let directory = tempfile::tempdir().unwrap();
        let last = || Some(Last::at(directory.path().to_owned(), Path::new("/x/depots.toml")));
        let file = file(&[server.address.to_string()], keys);
        let register = file.look_up_after(last(), None).unwrap();
        assert_eq!(names(&register), ["written", "d0", "d2"]);
        assert!(matches!(register.as_of(), AsOf::Told { .. }));
        assert_eq!(register.announcements().len(), 3);
        // What was heard lately is not asked for again.
        let again = file.look_up_after(last(), None).unwrap();
        assert_eq!((names(&again), asked.load(Ordering::Relaxed)), (names(&register), 1));
    }

    #[test]
    fn last_known_state_serves_where_nothing_answers() {
        let (signers, keys) = depots(2);
        let refusing = testkit::refusing_address();
        let file = file(&[refusing.to_string()], keys.clone());
        let directory = tempfile::tempdir().unwrap();
        let last = || Some(Last::at(directory.path().to_owned(), Path::new("/x/depots.toml")));
        let nothing = file.look_up_after(last(), None).unwrap();
        assert_eq!(names(&nothing), ["written"]);
        assert!(matches!(nothing.as_of(), AsOf::Old { at: None, .. }), "{:?}", nothing.as_of());
        let an_hour_ago = seconds_now() - 3600;
        let forged = announced(1, an_hour_ago).sign(&signers[0]).unwrap();
        let told = Told { depots: vec![token(&signers, 0, an_hour_ago), forged] };
        last().unwrap().write(time(an_hour_ago), told).unwrap();
        let old = file.look_up_after(last(), None).unwrap();
        assert_eq!(names(&old), ["written", "d0"], "a poisoned file adds none");
        let AsOf::Old { at, why } = old.as_of() else { panic!("{:?}", old.as_of()) };
        assert_eq!(*at, Some(time(an_hour_ago)));
        assert!(why.contains(&refusing.to_string()), "{why}");
        assert!(old.announcements().is_empty(), "loads of an hour ago say nothing");
    }

    #[test]
    fn of_many_the_nearest_and_some_by_chance() {
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
