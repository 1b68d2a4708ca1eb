// SPDX-License-Identifier: GPL-2.0-or-later
//! The shared state of all connections of a depot, and the depot's phase.

use crate::{
    admission::{
        denied::Denied, identity::Identity, limit_reached::LimitReached, limits::Gate, trust::Uses,
    },
    config::Config,
    control::{Sharing, kept::Kept},
    failover_routes::FailoverRoutes,
    idle_pool::{self, Pool},
    next_depots::NextDepots,
    observe::Observer,
    packet_pacing::Paced,
    session::Meetings,
    settings::Settings,
    sibling_loads::SiblingLoads,
    spare_descriptors::Spare,
    trace::Requests,
};
use protocol::{DepotId, http::Fault};
use relay::{
    buffers::{KernelMemory, Transfer},
    copy::RelayResources,
    dial::{Names, Resolver},
    guesses::Guesses,
    rates::Rates,
    stripes::Offers,
    tcp::Stream,
};
use std::{
    net::IpAddr,
    ops::Deref,
    sync::{Arc, OnceLock, PoisonError, RwLock},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// How long accepted clients may take for their first request once the depot stops, if systemd keeps the listeners.
const LAST_REQUEST: Duration = Duration::from_secs(5);

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: RwLock<Arc<Settings>>,
    /// The configuration that it was started with: some of it counts until it ends.
    pub(crate) started: Arc<Config>,
    pub id: DepotId,
    /// The names of the depot.
    pub identity: Identity,
    /// Generates ids of requests.
    pub requests: Requests,
    /// Resolves names.
    pub names: Names,
    /// Resources for copying bodies.
    pub resources: RelayResources,
    /// Kernel memory of transfers.
    pub kernel_memory: KernelMemory,
    /// Idle connections to next hops.
    pub pool: Pool,
    /// Next depots with connections opened ahead of need.
    pub warm: NextDepots,
    /// Counts of open connections.
    pub gate: Arc<Gate>,
    /// Rate limits of clients.
    pub rates: Rates,
    /// Peers whose packets are spaced below TCP.
    pub paced: Arc<Paced>,
    /// Load of sibling depots.
    pub peer_loads: SiblingLoads,
    /// Depots of detours that are down, or have failed recently.
    pub failover_routes: FailoverRoutes,
    /// The operator's deny list.
    pub denied: Denied,
    /// Clients with failed password attempts.
    pub guesses: Guesses,
    /// Use counts of tickets.
    pub uses: Uses,
    /// Transfers that further connections may join.
    pub stripes: Arc<Offers>,
    /// Sessions with one end that waits for the other.
    pub meetings: Meetings,
    /// Counters and log of all requests.
    pub observer: Arc<Observer>,
    /// Reserved descriptors, to refuse clients with a response and to answer operators.
    pub spare: Spare,
    pub(crate) phase: watch::Receiver<Phase>,
    /// Held for reading while a connection is awaited and admitted, and for writing while none may be.
    pub doors: tokio::sync::RwLock<()>,
    /// Limits and statistics in common with depots before this one.
    pub sharing: Sharing,
    /// The file of denials and rate limits.
    pub kept: Kept,
    /// Whether systemd holds listeners of clients too, so that others can connect while the depot stops.
    pub listeners_stay: bool,
    /// The end of the drain time, once it drains.
    pub drains_until: OnceLock<Instant>,
}

/// A depot as one request sees it, from its first byte to its last: the settings are those that were in
/// force when the request came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    shared: &'a Shared,
    /// The settings of this request.
    pub settings: &'a Arc<Settings>,
}

impl<'a> RequestContext<'a> {
    /// What a request sees that comes now, with `settings` as [`Shared::settings`] gave them.
    pub(crate) fn new(shared: &'a Shared, settings: &'a Arc<Settings>) -> Self {
        Self { shared, settings }
    }

    /// What all requests share.
    pub(crate) fn shared(self) -> &'a Shared {
        self.shared
    }

    /// Counts a client's transfer among those that share `limits.memory`, or refuses it (503).
    pub(crate) fn begin_transfer(self, asker: IpAddr) -> Result<Transfer<'a>, Fault> {
        let limits = &self.config().limits;
        let begun = self.shared.kernel_memory.begin(asker, limits.memory_of_client());
        begun.map_err(|why| {
            self.observer.counts.memory_refused(&why);
            LimitReached::Memory { why, limit: limits.memory }.fault(&self.shared.id)
        })
    }

    /// Gives the sockets of a client's transfer the memory that one gets which begins now.
    pub(crate) fn share_memory(self, asker: IpAddr, sockets: [&Stream; 2]) {
        let share = self.config().limits.memory_of_client();
        let level = self.kernel_memory.level_at_start(asker, share);
        for stream in sockets {
            // A socket that cannot be restricted goes on without.
            let _ = stream.wire().set_memory_level(level);
        }
    }

    /// The configuration of this request.
    pub(crate) fn config(self) -> &'a Config {
        &self.settings.config
    }
}

impl Deref for RequestContext<'_> {
    type Target = Shared;

    /// What all requests share, except for the settings: [`config`](Self::config) and
    /// [`settings`](Self::settings) come before those of [`Shared`], which may be newer.
    fn deref(&self) -> &Shared {
        self.shared
    }
}

/// The phase of a depot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It accepts all connections.
    Serving,
    /// It accepts none until a successor serves, or has failed.
    HandingOver,
    /// Told to stop: clients without a complete request should use another depot.
    Stopping,
    /// A successor has its listeners. It still serves the connections that it has accepted.
    Succeeded,
}

impl Phase {
    /// Whether the depot accepts no more connections, and keeps none for another request.
    fn is_leaving(self) -> bool {
        matches!(self, Self::Stopping | Self::Succeeded)
    }
}

impl Shared {
    /// The settings as they are now; they change when they are read again.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those of the configuration.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner).config)
    }

    /// A resolver for this client.
    pub(crate) fn resolver(&self, client: IpAddr) -> Resolver<'_> {
        Resolver { names: &self.names, client }
    }

    /// The phase of the depot.
    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Whether it accepts no more connections, and keeps none for another request.
    pub(crate) fn is_leaving(&self) -> bool {
        self.phase().is_leaving()
    }

    /// Resolves once the depot takes no more connections.
    pub(crate) async fn leaving(&self) {
        self.phase_is(Phase::is_leaving).await;
    }

    /// Resolves once the depot accepts no connections for now, or any more.
    pub(crate) async fn pausing(&self) {
        self.phase_is(|phase| phase != Phase::Serving).await;
    }

    /// Resolves once a takeover has succeeded or failed, if there is one.
    pub(crate) async fn decided(&self) {
        self.phase_is(|phase| phase != Phase::HandingOver).await;
    }

    /// Resolves once the depot stops.
    pub(crate) async fn stopping(&self) {
        self.phase_is(|phase| phase == Phase::Stopping).await;
    }

    /// Resolves once the depot has been stopping for this long.
    pub(crate) async fn stopping_since(&self, time: Duration) {
        self.stopping().await;
        tokio::time::sleep(time).await;
    }

    /// Resolves once clients without a complete request are refused, because the depot stops. If systemd keeps the
    /// listeners for the next depot, clients that this one has accepted can finish their first request.
    pub(crate) async fn refusing(&self) {
        let time = if self.listeners_stay { LAST_REQUEST } else { Duration::ZERO };
        self.stopping_since(time).await;
    }

    /// Resolves once a successor has the listeners. Never, if the depot stops without one.
    pub(crate) async fn succeeded(&self) {
        self.leaving().await;
        if self.phase() != Phase::Succeeded {
            std::future::pending::<()>().await;
        }
    }

    async fn phase_is(&self, wanted: impl Fn(Phase) -> bool) {
        // An error means that the sender is gone: then the depot certainly stops.
        let _ = self.phase.clone().wait_for(|phase| wanted(*phase)).await;
    }

    /// Replaces the settings, and says which of them wait for the next start.
    pub(crate) fn replace(&self, mut settings: Settings) -> Vec<&'static str> {
        let mut current = self.settings.write().unwrap_or_else(PoisonError::into_inner);
        if !self.started.tls.listen.is_empty() && settings.tls.keep_certificate(&current.tls) {
            tracing::warn!(
                "the configuration has no certificate any more: TLS listeners keep the one that was \
                 read last until the next start"
            );
        }
        settings.tls.keep_better_certificates(&current.tls);
        settings.generation = current.generation.next();
        let waiting = self.started.fixed_differences(&settings.config);
        if settings.config.tcp != self.started.tcp {
            // Ports stay open until the end, and what they lead to stays allowed as long.
            Arc::make_mut(&mut settings.config).tcp.clone_from(&self.started.tcp);
        }
        let settings = Arc::new(settings);
        let client_rate = settings.config.limits.client_rate;
        self.paced.replace(&settings.config);
        // Idle connections were admitted, and set up, by the old ones. Before others can ask for
        // any by the new ones, those that these would not open are closed.
        current.supersede();
        self.pool.readmit(settings.generation, |key, stream| {
            idle_pool::is_still_allowed(key, stream, &current.config, &settings.config)
        });
        *current = settings;
        drop(current);
        self.rates.replace(client_rate);
        waiting
    }
}
