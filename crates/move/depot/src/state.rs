// SPDX-License-Identifier: GPL-2.0-or-later
//! The shared state of all connections of a depot, by concern.

use crate::{
    admission::{Admission, limit_reached::LimitReached},
    config::Config,
    idle_pool,
    lifecycle::Lifecycle,
    next_hops::NextHops,
    observe::Observer,
    settings::Settings,
    stored::Stored,
    transfers::Transfers,
};
use protocol::{DepotId, http::Fault};
use relay::{buffers::Transfer, tcp::Stream};
use std::{
    net::IpAddr,
    ops::Deref,
    sync::{Arc, PoisonError, RwLock},
};

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: RwLock<Arc<Settings>>,
    /// The configuration that it was started with: some of it counts until it ends.
    pub(crate) started: Arc<Config>,
    pub id: DepotId,
    /// Who is served, and how much.
    pub admission: Admission,
    /// Where requests go.
    pub next_hops: NextHops,
    /// What transfers move through, and who may join them.
    pub transfers: Transfers,
    /// Sessions that it keeps.
    pub stored: Arc<Stored>,
    /// Counters and log of all requests.
    pub observer: Arc<Observer>,
    /// Serving, handing over and stopping.
    pub lifecycle: Lifecycle,
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
        let begun = self.shared.transfers.kernel_memory.begin(asker, limits.memory_of_client());
        begun.map_err(|why| {
            self.observer.counts.memory_refused(&why);
            LimitReached::Memory { why, limit: limits.memory }.fault(&self.shared.id)
        })
    }

    /// Gives the sockets of a client's transfer the memory that one gets which begins now.
    pub(crate) fn share_memory(self, asker: IpAddr, sockets: [&Stream; 2]) {
        let share = self.config().limits.memory_of_client();
        let level = self.transfers.kernel_memory.level_at_start(asker, share);
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

impl Shared {
    /// The settings as they are now; they change when they are read again.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those of the configuration.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner).config)
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
        self.next_hops.paced.replace(&settings.config);
        // Idle connections were admitted, and set up, by the old ones. Before others can ask for
        // any by the new ones, those that these would not open are closed.
        current.supersede();
        self.next_hops.pool.readmit(settings.generation, |key, stream| {
            idle_pool::is_still_allowed(key, stream, &current.config, &settings.config)
        });
        *current = settings;
        drop(current);
        self.admission.rates.replace(client_rate);
        self.stored.set_limits(self.config().store.as_ref());
        waiting
    }
}
