// SPDX-License-Identifier: GPL-2.0-or-later
//! The next depots that connections are to be kept ready to, and when each is to be looked at.

use crate::{
    admission::verdict::{Grant, Verdict},
    config::Config,
    idle_pool,
};
use protocol::{DepotAddress, Fetch, http::hold::HOLD};
use relay::dial::pool::Key;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};
use units::BackOff;

/// The most next depots that are kept ready at a time.
const MOST: usize = 64;
/// How long a depot that has refused, or cannot be reached, is left alone: at first, and at last.
const PAUSE: BackOff = BackOff::new(Duration::from_secs(2), Duration::from_secs(60));

/// The next depots that were asked lately.
#[derive(Debug, Default)]
pub(crate) struct NextDepots {
    depots: Mutex<HashMap<Key<Grant>, NextDepot>>,
    /// Told when a connection to one of them was taken.
    taken: Notify,
}

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct NextDepot {
    /// How it is asked.
    pub fetch: Fetch,
    pub grant: Grant,
    /// Once it has been connected to.
    pub address: Option<IpAddr>,
    used: Instant,
    /// For how long it is left alone, and since when.
    pause: Option<(u32, Instant)>,
    /// Whether connections are being opened to it, or agreed upon.
    is_busy: bool,
}

impl NextDepot {
    /// One that has not been connected to.
    fn new(fetch: Fetch, grant: Grant) -> Self {
        Self { fetch, grant, address: None, used: Instant::now(), pause: None, is_busy: false }
    }

    /// The same, once it has been connected to.
    pub(crate) fn at(self, address: IpAddr) -> Self {
        Self { address: Some(address), ..self }
    }
}

impl NextDepots {
    /// A request goes to a next depot at this address, over a connection that may have waited.
    pub(crate) fn used(&self, fetch: &Fetch, grant: Grant, address: IpAddr, config: &Config) {
        if fetch.origin.is_some() || config.warm(address) == 0 {
            return;
        }
        // Names that a network of the rules admits by their addresses are anybody's to invent.
        if config.upstream(&fetch.next, grant) == Verdict::ByAddress {
            return;
        }
        let mut depots = self.depots();
        let key = idle_pool::key_of(fetch.into(), grant);
        if depots.len() >= MOST && !depots.contains_key(&key) {
            let longest_ago = depots.iter().min_by_key(|(_, depot)| depot.used);
            let Some(key) = longest_ago.map(|(key, _)| key.clone()) else { return };
            depots.remove(&key);
        }
        let depot = depots.entry(key).or_insert_with(|| NextDepot::new(fetch.clone(), grant));
        (depot.used, depot.address) = (Instant::now(), Some(address));
        drop(depots);
        self.taken.notify_one();
    }

    /// The depots to look at now. Each is returned once until [`tended`](Self::tended).
    pub(crate) fn due(&self, config: &Config) -> Vec<(Key<Grant>, NextDepot)> {
        let mut depots = self.depots();
        depots.retain(|key, depot| {
            let is_of_site = || key.leave == Grant::Site && config.is_fixed(&depot.fetch.next);
            let was_used = |address| {
                let idle = Duration::from(config.held_idle(address));
                config.warm(address) > 0 && depot.used.elapsed() < idle
            };
            depot.address.is_some_and(was_used) || is_of_site()
        });
        add_sites(&mut depots, config);
        let mut due = Vec::new();
        for (key, depot) in depots.iter_mut() {
            let rests = depot
                .pause
                .is_some_and(|(failures, since)| since.elapsed() < PAUSE.after(failures));
            if !depot.is_busy && !rests {
                depot.is_busy = true;
                due.push((key.clone(), depot.clone()));
            }
        }
        due
    }

    /// Records the result of looking at a depot.
    pub(crate) fn tended(&self, key: &Key<Grant>, result: Result<(), String>) {
        let mut depots = self.depots();
        let Some(depot) = depots.get_mut(key) else { return };
        depot.is_busy = false;
        match result {
            Ok(()) => depot.pause = None,
            Err(reason) => {
                let failures = depot.pause.map_or(1, |(failures, _)| failures.saturating_add(1));
                let seconds = PAUSE.after(failures).as_secs();
                let depot_name = depot.fetch.next.to_string();
                tracing::warn!(
                    upstream = depot_name,
                    reason,
                    seconds,
                    "no warm connections to this depot for some seconds"
                );
                depot.pause = Some((failures, Instant::now()));
            }
        }
    }

    /// A depot was connected to for the first time.
    pub(crate) fn met(&self, key: &Key<Grant>, address: IpAddr) {
        if let Some(known) = self.depots().get_mut(key) {
            known.address = Some(address);
        }
    }

    /// Resolves once a connection to one of them was taken.
    pub(crate) async fn taken(&self) {
        self.taken.notified().await;
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn depots(&self) -> MutexGuard<'_, HashMap<Key<Grant>, NextDepot>> {
        self.depots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Next depots of sites and ports are known before anybody asks.
fn add_sites(depots: &mut HashMap<Key<Grant>, NextDepot>, config: &Config) {
    if config.hops.iter().all(|hop| hop.warm == 0) {
        return;
    }
    let of_sites = config.sites.iter().map(|site| &site.via);
    for via in of_sites.chain(config.tcp.iter().map(|table| &table.via)) {
        let Some(next) = via.first() else { continue };
        let fetch = to_hold(next.clone(), via.len());
        let key = idle_pool::key_of((&fetch).into(), Grant::Site);
        if depots.len() < MOST && !depots.contains_key(&key) {
            depots.insert(key, NextDepot::new(fetch, Grant::Site));
        }
    }
}

/// The request to hold connections, for the next depot of `depots` on the way.
pub(crate) fn to_hold(next: DepotAddress, depots: usize) -> Fetch {
    Fetch::from_depot(next, HOLD.to_owned(), depots)
}
