// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections to next depots that are open before they are needed.
//!
//! A connection that is opened for a request costs it a round trip and begins with a small window. So a depot
//! keeps `hop.warm` idle connections to each depot that it has used recently, and agrees with that depot on
//! how long they may be idle ([`protocol::http::hold`]). A new one first carries `hop.prime` bytes in each direction, to grow
//! both windows. Connections beyond `hop.warm` that a burst of requests has opened are held, too. They are
//! closed after `hop.idle` without use, as are all connections to a depot that is no longer used. Connections
//! to the next depots of sites are opened at the start.
//!
//! Which depots there are follows from use, so what clients can ask for is bounded: a depot counts if its address
//! is in a hop with `warm`, which the configuration allows for depots of `trust.depots` alone, and if it was asked
//! for by an address or name that rules or a ticket name, of which there are a few ([`crate::next_depots`]).

use crate::{
    admission::verdict::Grant,
    config::Config,
    http::question,
    idle_pool,
    next_depots::NextDepot,
    state::Shared,
    upstream::{self, UpstreamConnection},
};
use health::BodyLimit;
use protocol::http::hold::{self, HOLD, Hold, MAX_HOLD_BODY, own_prime};
use relay::dial::pool::Key;
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

/// The most connections to one depot that are opened, or agreed upon, at the same time.
const AT_ONCE: usize = 8;
/// How often connections are counted if none is taken.
const LOOK: Duration = Duration::from_secs(1);

/// Keeps connections open, for as long as the depot runs.
pub(crate) async fn keep(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = shared.next_hops.warm.taken() => {}
            () = sleep(LOOK) => {}
            () = shared.lifecycle.leaving() => return,
        }
        for (key, depot) in shared.next_hops.warm.due(&shared.config()) {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                let result = tend(&key, &depot, &shared).await;
                shared.next_hops.warm.tended(&key, result);
            });
        }
    }
}

/// Opens connections to a depot until there are as many as configured, and has it hold those that are open.
async fn tend(key: &Key<Grant>, depot: &NextDepot, shared: &Arc<Shared>) -> Result<(), String> {
    let config = shared.config();
    let Some(address) = depot.address else {
        return meet(key, depot, (&config, shared)).await;
    };
    let (warm, limits) = (config.warm(address), idle_pool::limits_of(&config.idle_connections));
    let mut tasks = JoinSet::new();
    let mut missing = warm.saturating_sub(shared.next_hops.pool.standing(key, limits));
    // A connection that is agreed upon again serves no request for a round trip: half of them always wait for one.
    let (mut renewed, most_renewed) = (0, (warm / 2).max(1));
    let mut result = Ok(());
    loop {
        while tasks.len() < AT_ONCE && result.is_ok() {
            let may_renew = renewed < most_renewed;
            let waiting =
                may_renew.then(|| upstream::due(key, warm, &shared.next_hops.pool)).flatten();
            if waiting.is_none() && missing == 0 {
                break;
            }
            let is_renewed = waiting.is_some();
            renewed += usize::from(is_renewed);
            missing -= usize::from(!is_renewed);
            let held = hold_one(waiting, depot.clone(), Arc::clone(shared));
            tasks.spawn(async move { (is_renewed, held.await) });
        }
        match tasks.join_next().await {
            None => return result,
            Some(Ok((is_renewed, held))) => {
                renewed -= usize::from(is_renewed);
                result = result.and(held);
            }
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
    let depot = depot.clone().at(address);
    let agreed = match config.warm(address) {
        0 => Ok(()),
        _ => agree(hop, &depot, config.prime(address).get(), (config, shared)).await,
    };
    shared.next_hops.warm.met(key, address);
    agreed
}

/// Has a depot hold a connection: one that waited, or a new one. One that waited may have been closed meanwhile.
async fn hold_one(
    waiting: Option<UpstreamConnection>,
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

/// Asks a depot to hold a connection and to send `prime` bytes on it first, then sends it as many if it takes them. Keeps the
/// connection if the depot agrees.
async fn agree(
    mut hop: UpstreamConnection,
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
    let own = granted.takes.min(prime);
    let fit = if fit && own > 0 { grow(&mut hop, depot, (idle, own), config).await? } else { fit };
    upstream::Used { hop, fit }.settle().keep_unused(held, &shared.next_hops.pool, config);
    Ok(())
}

/// Sends a depot what grows the window of this direction; whether the connection is fit for another exchange.
async fn grow(
    hop: &mut UpstreamConnection,
    depot: &NextDepot,
    (idle, length): (Hold, u64),
    config: &Config,
) -> Result<bool, String> {
    let head = own_prime(idle, &depot.fetch.host, length);
    let limit = BodyLimit { document: MAX_HOLD_BODY, padding: 0 };
    let asked = question::ask_with_padding::<Hold>(hop, (&head, length), limit);
    let asked = timeout(config.timeouts.response_head.into(), asked).await;
    let answer = asked.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    let (_, fit) = answer.map_err(|error| format!("it did not take {length} bytes: {error}"))?;
    Ok(fit)
}
