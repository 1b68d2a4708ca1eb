// SPDX-License-Identifier: GPL-2.0-or-later
//! Asks the depots of `[[detour]]` whether they are up, so that one that is dead is known before a request meets it,
//! and one that is back is used at once.
//!
//! Each depot has its own task, which probes it every `detour.check` on a new connection, with the same
//! timeout, so a slow depot delays no other. Only depots that the configuration names are probed. `health`
//! implements the probe and the rules; [`FailoverRoutes`](crate::failover_routes::FailoverRoutes) receives the
//! results.

use crate::{admission::verdict::Grant, idle_pool::Peer, state::Shared, tls::Protocol, upstream};
use health::{Finding, Health, Rules};
use protocol::DepotAddress;
use relay::{dial::resolver::OWN, tcp::info::tcp_info};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval, sleep},
};

/// How often the configuration is looked at for changes.
const LOOK: Duration = Duration::from_secs(1);

/// A task that ends when this is dropped.
struct Check(JoinHandle<()>);

impl Drop for Check {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs a check for each of them, as the configuration names them, for as long as the depot runs.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut checks: HashMap<(DepotAddress, units::Duration), Check> = HashMap::new();
    loop {
        let wanted = shared.config().detour_checks();
        checks.retain(|(depot, every), _| wanted.get(depot) == Some(every));
        // Repeated each time, because a check may report once more while it is being aborted.
        shared.next_hops.detours.watch_only(&wanted);
        for (depot, every) in wanted {
            checks.entry((depot.clone(), every)).or_insert_with(|| {
                Check(tokio::spawn(check(depot, every.into(), Arc::clone(&shared))))
            });
        }
        sleep(LOOK).await;
    }
}

/// Asks one depot after each `every`, and reports whether it is up.
async fn check(depot: DepotAddress, every: Duration, shared: Arc<Shared>) {
    let mut health = Health::new(Rules::default());
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let finding = health::within(every, ask(&depot, &shared)).await;
        health.record(&depot, &finding);
        if let Some(is_up) = health.is_up() {
            shared.next_hops.detours.checked(&depot, is_up);
        }
    }
}

/// Asks a depot once.
async fn ask(depot: &DepotAddress, shared: &Shared) -> Finding {
    let settings = shared.settings();
    let peer = Peer { next: &depot.authority, scheme: depot.scheme, protocol: Protocol::Http };
    // Requests come to it by rules, tickets or sites. Rules for addresses are the same for all but sites.
    let by_site = settings.config.is_fixed(peer.next);
    let grant = if by_site { Grant::Site } else { Grant::Ticket };
    match upstream::connected(peer, grant, &settings, shared.next_hops.resolver(OWN)).await {
        Ok(mut hop) => {
            let (finding, load) = health::probe(&mut hop.stream, depot).await;
            let rtt_us = tcp_info(hop.stream.tcp()).ok().and_then(|info| info.min_rtt_us);
            let rtt_s = rtt_us.map(|rtt_us| f64::from(rtt_us) / 1e6);
            shared.next_hops.detours.record_probe(depot, rtt_s, load.as_ref());
            finding
        }
        Err(refusal) => refusal.into(),
    }
}
