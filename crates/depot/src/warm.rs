// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections to next depots that are open before they are needed.
//!
//! A connection that is opened for a request costs it a round trip and begins with a small window. So a depot
//! keeps `hop.warm` idle connections to each depot that it has used recently, and agrees with that depot on
//! how long they may be idle ([`session::message::hold`]). A new one first carries `hop.prime` bytes, to grow
//! its window. Connections beyond `hop.warm` that a burst of requests has opened are held, too. They are
//! closed after `hop.idle` without use, as are all connections to a depot that is no longer used. Connections
//! to the next depots of sites are opened at the start.
//!
//! Which depots there are follows from use, so what clients can ask for is bounded: a depot counts if its address
//! is in a hop with `warm`, which the configuration allows for depots of `trust.depots` alone, and if it was asked
//! for by an address or name that rules or a ticket name, of which there are [`MOST`].

use crate::{
    admission::verdict::{Grant, Verdict},
    config::Config,
    http::question,
    state::Shared,
    upstream::{self, Hop},
};
use health::BodyLimit;
use relay::dial::pool::Key;
use session::{
    DepotAddress, Fetch,
    message::hold::{self, HOLD, Hold, MAX_HOLD_BODY},
};
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

/// The most next depots that are kept ready at a time.
const MOST: usize = 64;
/// The most connections to one depot that are opened, or agreed upon, at the same time.
const AT_ONCE: usize = 8;
/// How often connections are counted if none is taken.
const LOOK: Duration = Duration::from_secs(1);
/// How long a depot that has refused, or cannot be reached, is left alone: at first, and at last.
const PAUSE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(60)];

/// The next depots that were asked lately.
#[derive(Debug, Default)]
pub(crate) struct Warm {
    depots: Mutex<HashMap<Key<Grant>, NextDepot>>,
    /// Told when a connection to one of them was taken.
    taken: Notify,
}

/// One of them.
#[derive(Debug, Clone)]
struct NextDepot {
    /// How it is asked.
    fetch: Fetch,
    grant: Grant,
    /// Once it has been connected to.
    address: Option<IpAddr>,
    used: Instant,
    /// For how long it is left alone, and since when.
    pause: Option<(Duration, Instant)>,
    /// Whether connections are being opened to it, or agreed upon.
    is_busy: bool,
}

impl NextDepot {
    /// One that has not been connected to.
    fn new(fetch: Fetch, grant: Grant) -> Self {
        Self { fetch, grant, address: None, used: Instant::now(), pause: None, is_busy: false }
    }
}

impl Warm {
    /// A request goes to a next depot on this connection, which may be one that waited.
    pub(crate) fn used(&self, fetch: &Fetch, grant: Grant, hop: &Hop, config: &Config) {
        let address = hop.stream.peer().ip();
        if fetch.origin.is_some() || config.warm(address) == 0 {
            return;
        }
        // Names that a network of the rules admits by their addresses are anybody's to invent.
        if config.upstream(&fetch.next, grant) == Verdict::ByAddress {
            return;
        }
        let mut depots = self.depots();
        let key = upstream::key_of(fetch.into(), grant);
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

    /// Keeps connections open, for as long as the depot runs.
    pub(crate) async fn keep(shared: Arc<Shared>) {
        loop {
            tokio::select! {
                () = shared.warm.taken.notified() => {}
                () = sleep(LOOK) => {}
                () = shared.leaving() => return,
            }
            for (key, depot) in shared.warm.due(&shared) {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let result = tend(&key, &depot, &shared).await;
                    shared.warm.tended(&key, result);
                });
            }
        }
    }

    /// The depots to look at now. Each is returned once until [`tended`](Self::tended).
    fn due(&self, shared: &Shared) -> Vec<(Key<Grant>, NextDepot)> {
        let config = shared.config();
        let mut depots = self.depots();
        depots.retain(|key, depot| {
            let is_of_site = || key.leave == Grant::Site && config.is_fixed(&depot.fetch.next);
            let was_used = |address| {
                let idle = Duration::from(config.held_idle(address));
                config.warm(address) > 0 && depot.used.elapsed() < idle
            };
            depot.address.is_some_and(was_used) || is_of_site()
        });
        add_sites(&mut depots, &config);
        let mut due = Vec::new();
        for (key, depot) in depots.iter_mut() {
            let rests = depot.pause.is_some_and(|(time, since)| since.elapsed() < time);
            if !depot.is_busy && !rests {
                depot.is_busy = true;
                due.push((key.clone(), depot.clone()));
            }
        }
        due
    }

    /// Records the result of looking at a depot.
    fn tended(&self, key: &Key<Grant>, result: Result<(), String>) {
        let mut depots = self.depots();
        let Some(depot) = depots.get_mut(key) else { return };
        depot.is_busy = false;
        match result {
            Ok(()) => depot.pause = None,
            Err(reason) => {
                let longer = depot.pause.map_or(PAUSE[0], |(time, _)| (time * 2).min(PAUSE[1]));
                let seconds = longer.as_secs();
                let depot_name = depot.fetch.next.to_string();
                tracing::warn!(
                    upstream = depot_name,
                    reason,
                    seconds,
                    "no warm connections to this depot for some seconds"
                );
                depot.pause = Some((longer, Instant::now()));
            }
        }
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
        let key = upstream::key_of((&fetch).into(), Grant::Site);
        if depots.len() < MOST && !depots.contains_key(&key) {
            depots.insert(key, NextDepot::new(fetch, Grant::Site));
        }
    }
}

/// The request to hold connections, for the next depot of `depots` on the way.
pub(crate) fn to_hold(next: DepotAddress, depots: usize) -> Fetch {
    Fetch::from_depot(next, HOLD.to_owned(), depots)
}

/// Opens connections to a depot until there are as many as configured, and has it hold those that are open.
async fn tend(key: &Key<Grant>, depot: &NextDepot, shared: &Arc<Shared>) -> Result<(), String> {
    let config = shared.config();
    let Some(address) = depot.address else {
        return meet(key, depot, (&config, shared)).await;
    };
    let (warm, limits) = (config.warm(address), upstream::limits_of(&config.reuse));
    let mut tasks = JoinSet::new();
    let mut missing = warm.saturating_sub(shared.pool.standing(key, limits));
    let mut result = Ok(());
    loop {
        while tasks.len() < AT_ONCE && result.is_ok() {
            let waiting = upstream::due(key, warm, &shared.pool);
            if waiting.is_none() && missing == 0 {
                break;
            }
            missing -= usize::from(waiting.is_none());
            tasks.spawn(hold_one(waiting, depot.clone(), Arc::clone(shared)));
        }
        match tasks.join_next().await {
            None => return result,
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(reason))) => result = Err(reason),
            Some(Err(error)) => result = Err(error.to_string()),
        }
    }
}

/// Connects to a depot for the first time, which tells whether connections to it are to be kept.
async fn meet(
    key: &Key<Grant>,
    depot: &NextDepot,
    (config, shared): (&Config, &Shared),
) -> Result<(), String> {
    let hop = question::connected(&depot.fetch, depot.grant, &shared.settings(), shared).await?;
    let address = hop.stream.peer().ip();
    let depot = NextDepot { address: Some(address), ..depot.clone() };
    let agreed = match config.warm(address) {
        0 => Ok(()),
        _ => agree(hop, &depot, config.prime(address).get(), (config, shared)).await,
    };
    if let Some(known) = shared.warm.depots().get_mut(key) {
        known.address = depot.address;
    }
    agreed
}

/// Has a depot hold a connection: one that waited, or a new one. One that waited may have been closed meanwhile.
async fn hold_one(
    waiting: Option<Hop>,
    depot: NextDepot,
    shared: Arc<Shared>,
) -> Result<(), String> {
    let settings = shared.settings();
    if let Some(hop) = waiting
        && agree(hop, &depot, 0, (&settings.config, &shared)).await.is_ok()
    {
        return Ok(());
    }
    let hop = question::connected(&depot.fetch, depot.grant, &settings, &shared).await?;
    let prime = settings.config.prime(hop.stream.peer().ip()).get();
    agree(hop, &depot, prime, (&settings.config, &shared)).await
}

/// Asks a depot to hold a connection and to send `prime` bytes on it first. Keeps it if the depot agrees.
async fn agree(
    mut hop: Hop,
    depot: &NextDepot,
    prime: u64,
    (config, shared): (&Config, &Shared),
) -> Result<(), String> {
    let idle = Hold::of(config.held_idle(hop.stream.peer().ip()).into());
    let mut text = format!("GET {HOLD} HTTP/1.1\r\nHost: {}\r\n", depot.fetch.host);
    for (name, value) in [idle.field(), hold::prime(prime)] {
        text.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap_or_default()));
    }
    text.push_str("\r\n");
    let limit = BodyLimit { document: MAX_HOLD_BODY, padding: prime };
    let asked = question::ask::<Hold>(&mut hop, &text, limit);
    let asked = timeout(config.timeouts.response_head.into(), asked).await;
    let answer = asked.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    let (granted, fit) =
        answer.map_err(|error| format!("asked to hold a connection, it did not: {error}"))?;
    let held = granted.idle().min(idle.idle());
    // It would be closed and reopened over and over.
    if held < LOOK {
        return Err("asked to hold a connection, it grants no time".to_owned());
    }
    upstream::Used { hop, fit }.settle().keep_unused(held, &shared.pool, config);
    Ok(())
}
