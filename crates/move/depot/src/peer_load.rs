// SPDX-License-Identifier: GPL-2.0-or-later
//! Load balancing among sibling depots: a full depot redirects clients to one that is less full.
//!
//! Each depot asks its siblings every few seconds how full they are (`GET /lh1/load`). A depot fuller than
//! `siblings.above` redirects clients to the least full sibling, if the difference is clear. Otherwise two depots
//! would redirect clients back and forth. Other depots are not redirected: the route names the depot that they
//! use.

use crate::{admission::verdict::Grant, config::Config, http::question, state::Shared, upstream};
use health::BodyLimit;
use protocol::{
    DepotAddress, Fetch,
    http::load::{LOAD, Load, MAX_LOAD_BODY},
};
use std::{sync::Arc, time::Duration};

/// How full this depot is.
pub(crate) fn own_load(shared: &Shared, config: &Config) -> Load {
    let (throughput, transfers) = shared.observer.throughput();
    Load {
        connections: shared.admission.gate.len(),
        connections_limit: config.limits.connections,
        leaving: shared.lifecycle.is_leaving(),
        transfers,
        rate_bps: throughput.now_bps,
        highest_rate_bps: throughput.highest_bps(),
    }
}

/// Asks them, for as long as the depot runs.
pub(crate) async fn watch(shared: Arc<Shared>) {
    loop {
        let siblings = shared.config().siblings.clone();
        for depot in &siblings.members {
            let (shared, depot) = (Arc::clone(&shared), depot.clone());
            let every = Duration::from(siblings.every);
            tokio::spawn(async move {
                let asked = tokio::time::timeout(every, ask(&depot, &shared)).await;
                match asked.unwrap_or_else(|_| Err("it does not answer in time".to_owned())) {
                    Ok(load) => {
                        shared.next_hops.siblings.heard(depot, load);
                    }
                    Err(reason) => {
                        shared.next_hops.siblings.forget(&depot);
                        tracing::debug!(%depot, reason, "a sibling does not say how full it is");
                    }
                }
            });
        }
        tokio::time::sleep(siblings.every.into()).await;
    }
}

/// Asks a sibling how full it is.
async fn ask(depot: &DepotAddress, shared: &Shared) -> Result<Load, String> {
    let fetch = Fetch::from_depot(depot.clone(), LOAD.to_owned(), 1);
    let settings = shared.settings();
    let mut hop = match upstream::waiting(
        (&fetch).into(),
        Grant::Rules,
        &shared.next_hops.pool,
        &settings.config,
    ) {
        Some(hop) => hop,
        None => question::connected(&fetch, Grant::Rules, &settings, shared).await?,
    };
    let text = format!("GET {LOAD} HTTP/1.1\r\nHost: {}\r\n\r\n", fetch.host);
    let limit = BodyLimit { document: MAX_LOAD_BODY, padding: 0 };
    let asked = question::ask(&mut hop, &text, limit).await;
    let (load, fit) = asked.map_err(|error| error.to_string())?;
    let used = upstream::Used { hop, fit };
    used.settle().keep(&shared.next_hops.pool, &settings.config);
    Ok(load)
}
