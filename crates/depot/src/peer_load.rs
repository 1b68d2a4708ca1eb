// SPDX-License-Identifier: GPL-2.0-or-later
//! Load balancing among sibling depots: a full depot redirects clients to one that is less full.
//!
//! Each depot asks its siblings every few seconds how full they are (`GET /lh1/load`). A depot fuller than
//! `pool.above` redirects clients to the least full sibling, if the difference is clear. Otherwise two depots
//! would redirect clients back and forth. Other depots are not redirected: the route names the depot that they
//! use.

use crate::{
    admission::verdict::Grant,
    config::{Config, PeerGroup},
    http::question,
    state::{RequestContext, Shared},
    upstream,
};
use health::BodyLimit;
use session::{
    DepotAddress, Fetch,
    message::{
        Framing, RequestHead,
        load::{LOAD, Load, MAX_LOAD_BODY},
    },
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How much less full a sibling must be to get another's clients.
const CLEARLY: f64 = 0.1;
/// After this many rounds without a response, the load of a sibling is unknown.
const FORGOTTEN: u32 = 3;

/// How full this depot is.
pub(crate) fn own_load(shared: &Shared, config: &Config) -> Load {
    Load {
        connections: shared.gate.len(),
        connections_limit: config.limits.connections,
        leaving: shared.is_leaving(),
    }
}

/// How full the siblings were when they last said so.
#[derive(Debug, Default)]
pub(crate) struct PeerLoads {
    loads: Mutex<HashMap<DepotAddress, (Load, Instant)>>,
}

impl PeerLoads {
    /// Asks them, for as long as the depot runs.
    pub(crate) async fn watch(shared: Arc<Shared>) {
        loop {
            let pool = shared.config().pool.clone();
            for depot in &pool.members {
                let (shared, depot) = (Arc::clone(&shared), depot.clone());
                let every = Duration::from(pool.every);
                tokio::spawn(async move {
                    let asked = tokio::time::timeout(every, ask(&depot, &shared)).await;
                    match asked.unwrap_or_else(|_| Err("it does not answer in time".to_owned())) {
                        Ok(load) => {
                            shared.peer_loads.state().insert(depot, (load, Instant::now()));
                        }
                        Err(reason) => {
                            shared.peer_loads.state().remove(&depot);
                            tracing::debug!(%depot, reason, "a sibling does not say how full it is");
                        }
                    }
                });
            }
            tokio::time::sleep(pool.every.into()).await;
        }
    }

    /// Where a client is to ask instead, if this depot is too full for its request. Another depot has none of this
    /// one's sites.
    pub(crate) fn instead(
        &self,
        request: &RequestHead,
        context: RequestContext<'_>,
    ) -> Option<DepotAddress> {
        let config = context.config();
        let share = own_load(&context, config).share();
        let may = !request.came_through_depot()
            && request.method.is_idempotent()
            && request.framing() == Framing::Empty
            && request.target.starts_with('/');
        if !may || share < config.pool.above || config.site_of(request).is_some() {
            return None;
        }
        self.least(config, share - CLEARLY)
    }

    /// The sibling that is least full, if it is less so than `share`.
    fn least(&self, config: &Config, share: f64) -> Option<DepotAddress> {
        let PeerGroup { members, every, .. } = &config.pool;
        let fresh = Duration::from(*every) * FORGOTTEN;
        let loads = self.state();
        let known = members.iter().filter_map(|depot| {
            let (load, when) = loads.get(depot)?;
            (!load.leaving && when.elapsed() < fresh).then(|| (load.share(), depot))
        });
        let least = known.min_by(|(one, _), (other, _)| one.total_cmp(other));
        least.filter(|(least, _)| *least < share).map(|(_, depot)| depot.clone())
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, HashMap<DepotAddress, (Load, Instant)>> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks a sibling how full it is.
async fn ask(depot: &DepotAddress, shared: &Shared) -> Result<Load, String> {
    let fetch = Fetch::from_depot(depot.clone(), LOAD.to_owned(), 1);
    let settings = shared.settings();
    let mut hop =
        match upstream::waiting((&fetch).into(), Grant::Rules, &shared.pool, &settings.config) {
            Some(hop) => hop,
            None => question::connected(&fetch, Grant::Rules, &settings, shared).await?,
        };
    let text = format!("GET {LOAD} HTTP/1.1\r\nHost: {}\r\n\r\n", fetch.host);
    let limit = BodyLimit { document: MAX_LOAD_BODY, padding: 0 };
    let asked = question::ask(&mut hop, &text, limit).await;
    let (load, fit) = asked.map_err(|error| error.to_string())?;
    let used = upstream::Used { hop, fit };
    used.settle().keep(&shared.pool, &settings.config);
    Ok(load)
}
