// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of the processes before this one, which drain or have ended, and of the one after it.

use super::{Elsewhere, Limited, OpenConnections, Share};
use crate::{observe::Counters, status::Draining};
use relay::client_key::host_key;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::IpAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Notify, time::timeout};

/// How long a depot that is over waits to be asked for the last time.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Maximum number of connections, or transfers, that one client of another process has.
const MOST_EACH: usize = 1_000_000;

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
    pub(super) ended: Counters,
    /// Those that drain.
    pub(super) draining: BTreeMap<u64, Peer>,
    /// Those that have said that they are over, and have not ended yet.
    pub(super) over: BTreeSet<u64>,
}

/// A process that drains, as it was last heard.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Peer {
    pub(super) share: Share,
    pub(super) draining: Option<Draining>,
    pub(super) counters: Counters,
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

    /// Takes over what a predecessor knows.
    pub(crate) fn inherit(&self, from: Known) {
        *self.known() = from;
    }

    /// Whether a successor has inherited the operator's decisions: then they are made there.
    pub(crate) fn inherited(&self) -> MutexGuard<'_, bool> {
        self.inherited.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether there were depots that drain, at the last look.
    pub(super) fn has_others(&self) -> bool {
        self.has_others.load(Relaxed)
    }

    pub(super) fn set_others(&self, are_there: bool) {
        self.has_others.store(are_there, Relaxed);
    }

    /// Whether this depot has finished.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When a successor has asked last.
    pub(super) fn asked(&self) -> MutexGuard<'_, Option<Instant>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number that no other process has.
fn chance() -> u64 {
    // The kernel has always random bytes.
    host::random().map_or_else(|_| u64::from(std::process::id()), u64::from_ne_bytes)
}

impl Known {
    /// The statistics of all of them.
    pub(super) fn told(&self) -> OfOthers {
        let mut all = OfOthers { counters: self.ended.clone(), draining: Vec::new() };
        for peer in self.draining.values() {
            all.counters.add(&peer.counters);
            all.draining.extend(peer.draining.clone());
        }
        all
    }

    /// The last number of a transfer of those that drain.
    pub(super) fn last_number(&self) -> Option<u64> {
        self.draining.values().map(|peer| peer.share.last_number).max()
    }

    /// A successor is to know of this process as one that drains.
    pub(super) fn hear_of(&mut self, instance: u64, share: Share) {
        self.draining.insert(instance, Peer::default().hears(share));
    }

    /// What all other processes have that matters to one of those that drain: as far as it has the same clients.
    pub(super) fn elsewhere_of(&self, instance: u64, own: &Share, in_full: bool) -> Elsewhere {
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

    pub(super) fn heard(&mut self, instance: u64, share: Share) {
        let is_over = share.is_over;
        let before = self.draining.remove(&instance).unwrap_or_default();
        self.draining.insert(instance, before.hears(share));
        if is_over {
            self.over.insert(instance);
            self.end(instance);
        }
    }

    /// One of them has ended.
    pub(super) fn end(&mut self, instance: u64) {
        if let Some(peer) = self.draining.remove(&instance) {
            self.ended.add(&peer.counters.ended());
        }
    }
}

impl Peer {
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
    pub(super) fn of_earlier_version(draining: Draining) -> Self {
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
    pub(super) fn bound(&mut self) {
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
