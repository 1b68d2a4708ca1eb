// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot has in common with the ones before it that still drain: limits, and statistics.
//!
//! ```text
//! depot that serves                              each depot that drains
//!   Share { what all others have } ────────────▶  counts it in its own limits
//!   counts it in its own limits   ◀───────────── what it has, and what it has counted
//! ```
//! So connections and rates of all processes together stay within the limits, and no counter falls. The depot that
//! serves asks at [`PERIOD`]; one that drains says so when it is over, and its counters are added for good. Those of
//! one that was killed are added as they were last told.
//! Limits: between two exchanges a client's new transfer has its share of a rate already, while those elsewhere
//! have not given theirs up yet.

use super::{Answer, Command, ControlError, Elsewhere, Limited, OpenConnections, Share, draining};
use crate::{
    observe::Counters,
    state::{Phase, Shared},
    status::Draining,
};
use relay::{client_key::host_key, rates::Sharer};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::IpAddr,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Notify, time::timeout};

/// How often depots that drain are asked.
const PERIOD: Duration = Duration::from_millis(50);
/// How often the depot looks whether there are any.
const LOOK: Duration = Duration::from_secs(1);
/// How often they are asked for their statistics too.
const IN_FULL: Duration = Duration::from_secs(1);
/// For how long the numbers of a depot apply that does not ask any more.
const FORGOTTEN: Duration = Duration::from_secs(5);
/// How long a depot that is over waits to be asked for the last time.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Maximum number of connections, or transfers, that one client of another process has.
const MOST_EACH: usize = 1_000_000;
/// Room for transfers that begin while depots exchange their numbers.
const NUMBERS_BETWEEN: u64 = 1000;

/// What is shared, and with which processes.
#[derive(Debug)]
pub(crate) struct Sharing {
    /// Names this process among others.
    instance: u64,
    known: Mutex<Known>,
    /// When a successor has asked last.
    asked: Mutex<Option<Instant>>,
    /// Whether a successor has inherited the operator's decisions.
    inherited: Mutex<bool>,
    /// Whether there are depots that drain, as of the last look.
    has_others: AtomicBool,
    is_over: AtomicBool,
    /// A successor has been told that this depot is over.
    has_said_so: Notify,
}

/// What is known of the processes before this one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Known {
    /// The counters of those that have ended.
    ended: Counters,
    /// Those that drain.
    draining: BTreeMap<u64, Peer>,
    /// Those that have said that they are over, and have not ended yet.
    over: BTreeSet<u64>,
}

/// A process that drains, as it was last heard.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Peer {
    share: Share,
    draining: Option<Draining>,
    counters: Counters,
}

/// What other processes do and did.
#[derive(Debug, Default)]
pub(crate) struct OfOthers {
    /// Those that drain.
    pub draining: Vec<Draining>,
    /// The statistics of all of them, and of those that have ended.
    pub counters: Counters,
}

impl Sharing {
    /// With no other process so far.
    pub(crate) fn new() -> Self {
        Self {
            instance: chance(),
            known: Mutex::default(),
            asked: Mutex::default(),
            inherited: Mutex::default(),
            has_others: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            has_said_so: Notify::new(),
        }
    }

    /// The number of this process.
    pub(crate) fn instance(&self) -> u64 {
        self.instance
    }

    /// What a successor has to know of earlier processes and of this one.
    pub(crate) fn to_inherit(&self, shared: &Shared) -> Known {
        let mut known = self.known().clone();
        known.draining.insert(self.instance, Peer::of(own(true, shared)));
        known
    }

    /// Takes over what a predecessor knows.
    pub(crate) fn inherit(&self, from: Known) {
        *self.known() = from;
    }

    /// Whether a successor has inherited the operator's decisions: then they are made there.
    pub(crate) fn inherited(&self) -> MutexGuard<'_, bool> {
        self.inherited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What other processes do and did, asked now.
    pub(crate) fn elsewhere(&self, shared: &Shared) -> OfOthers {
        exchange(true, shared);
        let known = self.known();
        let mut all = OfOthers { counters: known.ended.clone(), draining: Vec::new() };
        for peer in known.draining.values() {
            all.counters.add(&peer.counters);
            all.draining.extend(peer.draining.clone());
        }
        all
    }

    /// A depot that drains has finished: waits until its successor knows, if there is one that asks.
    pub(crate) async fn say_over(&self) {
        self.is_over.store(true, Relaxed);
        let asked = *self.asked();
        if asked.is_some_and(|asked| asked.elapsed() < LAST_WORDS) {
            let _ = timeout(LAST_WORDS, self.has_said_so.notified()).await;
        }
    }

    /// The answer that this depot is over has been sent.
    pub(super) fn has_said_so(&self) {
        self.has_said_so.notify_one();
    }

    /// Forgets what a successor has said that does not ask any more.
    pub(crate) fn tidy(&self, shared: &Shared) {
        let mut asked = self.asked();
        if asked.is_some_and(|asked| asked.elapsed() >= FORGOTTEN) {
            *asked = None;
            count(&[], shared);
        }
    }

    /// A successor has failed: what it has said does not apply. Waits for depots that drain.
    pub(crate) fn is_alone_again(&self, shared: &Shared) {
        *self.inherited() = false;
        *self.asked() = None;
        count(&[], shared);
        exchange(false, shared);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self) -> MutexGuard<'_, Option<Instant>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number that no other process has.
fn chance() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        // The kernel has always some.
        _ => u64::from(std::process::id()),
    }
}

/// Asks the depots that drain, before this one accepts any connection.
pub(crate) fn begin(shared: &Shared) {
    exchange(true, shared);
    // Each is told of the clients that it has said it has.
    exchange(false, shared);
    let last = shared.sharing.known().draining.values().map(|peer| peer.share.last_number).max();
    if let Some(last) = last {
        number_after(last, 0, shared);
    }
}

/// Gives transfers numbers that those of a depot which drains do not have: it may begin one more for each connection.
pub(crate) fn number_after(last: u64, connections: usize, shared: &Shared) {
    let next = last.saturating_add(connections as u64).saturating_add(NUMBERS_BETWEEN);
    shared.observer.number_from(next.max(shared.observer.last_number()));
}

/// Asks them for as long as this depot serves.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let mut in_full: Option<Instant> = None;
    loop {
        let pause = if shared.sharing.has_others.load(Relaxed) { PERIOD } else { LOOK };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.leaving() => return,
        }
        let is_due = in_full.is_none_or(|last| last.elapsed() >= IN_FULL);
        if is_due {
            in_full = Some(Instant::now());
        }
        let begun = Instant::now();
        let asking = Arc::clone(&shared);
        let _ = tokio::task::spawn_blocking(move || exchange(is_due, &asking)).await;
        // Large exchanges are rarer, so that they cost a tenth of a processor at most.
        tokio::time::sleep(9 * begun.elapsed()).await;
    }
}

/// Tells all depots that drain what the others have, and hears what they have. Waits for them.
fn exchange(in_full: bool, shared: &Shared) {
    let Some(place) = draining::place(&shared.started) else { return };
    let mut known = shared.sharing.known();
    // While a successor asks, this depot does not.
    if shared.phase() != Phase::Serving {
        return;
    }
    let mut sockets = draining::sockets(place);
    known.over.retain(|instance| sockets.iter().any(|(other, _)| other == instance));
    sockets.retain(|(instance, _)| !known.over.contains(instance));
    if sockets.is_empty() && known.draining.is_empty() {
        return;
    }
    let own = own(false, shared);
    for (instance, path) in &sockets {
        let elsewhere = known.elsewhere_of(*instance, &own, in_full);
        match ask(path, elsewhere) {
            Some(share) => known.heard(*instance, share),
            None => drop(known.draining.entry(*instance).or_default()),
        }
    }
    let there: HashSet<_> = draining::sockets(place).into_iter().map(|(it, _)| it).collect();
    let gone: Vec<_> = known.draining.keys().filter(|it| !there.contains(it)).copied().collect();
    for instance in gone {
        known.end(instance);
    }
    let shares: Vec<_> = known.draining.values().map(|peer| peer.share.clone()).collect();
    shared.sharing.has_others.store(!shares.is_empty(), Relaxed);
    count(&shares, shared);
}

/// What one of them has; nothing if it does not answer now.
fn ask(path: &Path, elsewhere: Elsewhere) -> Option<Share> {
    match draining::ask(path, &Command::Share(Box::new(elsewhere))) {
        Ok(Answer::Share(share)) => Some(*share),
        // One of an earlier version.
        Err(ControlError::Refused(_)) => match draining::ask(path, &Command::Draining) {
            Ok(Answer::Draining(draining)) => Some(Share::of_earlier_version(draining)),
            _ => None,
        },
        _ => None,
    }
}

impl Known {
    /// What all other processes have that matters to one of those that drain: as far as it has the same clients.
    fn elsewhere_of(&self, instance: u64, own: &Share, in_full: bool) -> Elsewhere {
        let others = self.draining.iter().filter(|(other, _)| **other != instance);
        let others = others.map(|(_, peer)| &peer.share).chain([own]);
        let none = Share::default();
        let its = self.draining.get(&instance).map_or(&none, |peer| &peer.share);
        let (mut all, mut transfers) = (OpenConnections::default(), HashMap::new());
        for share in others {
            all.add(&share.connections, &its.connections);
            for (whose, n) in &share.transfers {
                let sum: &mut usize = transfers.entry(whose.clone()).or_default();
                *sum = sum.saturating_add(*n);
            }
        }
        let shared_by =
            |(whose, _): &(Limited, usize)| its.transfers.iter().any(|(its, _)| its == whose);
        let transfers = transfers.into_iter().filter(shared_by).collect();
        Elsewhere { connections: all, transfers, in_full }
    }

    fn heard(&mut self, instance: u64, share: Share) {
        let is_over = share.is_over;
        let before = self.draining.remove(&instance).unwrap_or_default();
        self.draining.insert(instance, before.hears(share));
        if is_over {
            self.over.insert(instance);
            self.end(instance);
        }
    }

    /// One of them has ended.
    fn end(&mut self, instance: u64) {
        if let Some(peer) = self.draining.remove(&instance) {
            self.ended.add(&peer.counters.ended());
        }
    }
}

impl Peer {
    fn of(share: Share) -> Self {
        Self::default().hears(share)
    }

    fn hears(mut self, mut share: Share) -> Self {
        if let Some((draining, counters)) = share.told.take() {
            (self.draining, self.counters) = (Some(draining), counters);
        }
        share.bound();
        Self { share, ..self }
    }
}

impl Share {
    /// What is known of a process that only lists its transfers.
    fn of_earlier_version(draining: Draining) -> Self {
        let mut by_client = HashMap::<IpAddr, usize>::new();
        for transfer in &draining.transfers {
            let peer = transfer.client.parse::<std::net::SocketAddr>().map(|peer| peer.ip());
            let asked_for = transfer.asked_for.as_ref().and_then(|client| client.parse().ok());
            if let Some(client) = asked_for.or(peer.ok()) {
                *by_client.entry(host_key(client)).or_default() += 1;
            }
        }
        let of_clients = by_client.iter().map(|(client, n)| (Limited::Client(*client), *n));
        let last_number = draining.transfers.iter().map(|transfer| transfer.number).max();
        Self {
            transfers: of_clients.collect(),
            connections: OpenConnections {
                total: draining.live_transfers,
                by_client: by_client.into_iter().collect(),
                ..OpenConnections::default()
            },
            last_number: last_number.unwrap_or(0),
            is_over: false,
            told: Some((draining, Counters::default())),
        }
    }

    /// Bounds the numbers, which come from another process.
    fn bound(&mut self) {
        let OpenConnections { total, held, by_client, by_depot } = &mut self.connections;
        let each = by_client.iter_mut().chain(by_depot).map(|(_, n)| n);
        let transfers = self.transfers.iter_mut().map(|(_, n)| n);
        each.chain(transfers).chain([total, held]).for_each(|n| *n = (*n).min(MOST_EACH));
    }
}

impl OpenConnections {
    /// Adds those of another process, of clients and depots that a third one has too.
    fn add(&mut self, other: &Self, third: &Self) {
        self.total = self.total.saturating_add(other.total);
        self.held = self.held.saturating_add(other.held);
        for (to, from, third) in [
            (&mut self.by_client, &other.by_client, &third.by_client),
            (&mut self.by_depot, &other.by_depot, &third.by_depot),
        ] {
            let third: HashSet<_> = third.iter().map(|(address, _)| address).collect();
            to.extend(from.iter().filter(|(address, _)| third.contains(address)));
        }
    }
}

/// Counts what other processes have.
fn count(shares: &[Share], shared: &Shared) {
    shared.gate.set_elsewhere(shares.iter().map(|share| &share.connections));
    let mut numbers = HashMap::new();
    for (whose, n) in shares.iter().flat_map(|share| &share.transfers) {
        let Some(sharer) = sharer(whose) else { continue };
        let sum: &mut usize = numbers.entry(sharer).or_default();
        *sum = sum.saturating_add(*n);
    }
    shared.rates.set_elsewhere(numbers);
}

/// What this process has.
fn own(in_full: bool, shared: &Shared) -> Share {
    let transfers = shared.rates.numbers().into_iter().map(|(of, n)| (limited(of), n));
    Share {
        connections: shared.gate.own(),
        transfers: transfers.collect(),
        last_number: shared.observer.last_number(),
        is_over: shared.sharing.is_over.load(Relaxed),
        told: in_full.then(|| (draining::own(shared), shared.observer.read().counters)),
    }
}

/// The answer of a depot that drains.
pub(super) fn share(elsewhere: &Elsewhere, shared: &Shared) -> Share {
    *shared.sharing.asked() = Some(Instant::now());
    let mut others = Share {
        connections: elsewhere.connections.clone(),
        transfers: elsewhere.transfers.clone(),
        ..Share::default()
    };
    others.bound();
    count(&[others], shared);
    let is_over = shared.sharing.is_over.load(Relaxed);
    own(elsewhere.in_full || is_over, shared)
}

/// The client or ticket, as rates name it.
pub(super) fn sharer(whose: &Limited) -> Option<Sharer> {
    match whose {
        Limited::Client(address) => Some(Sharer::client(*address)),
        Limited::Ticket(id) => Some(Sharer::Ticket(id.as_str().into())),
        Limited::Transfer(_) => None,
    }
}

/// The same, as commands name it.
pub(super) fn limited(of: Sharer) -> Limited {
    match of {
        Sharer::Client(address) => Limited::Client(address),
        Sharer::Ticket(id) => Limited::Ticket(id.to_string()),
    }
}
