// SPDX-License-Identifier: GPL-2.0-or-later
//! A depot's phase: it serves, hands over or stops; and what it shares with those before and after it.

use crate::{
    control::{Sharing, kept::Kept},
    spare_descriptors::Spare,
};
use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// How long accepted clients may take for their first request once the depot stops, if systemd keeps the listeners.
const LAST_REQUEST: Duration = Duration::from_secs(5);

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

/// Where a depot is between its start and its end.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    phase: watch::Receiver<Phase>,
    /// Held for reading while a connection is awaited and admitted, and for writing while none may be.
    pub doors: tokio::sync::RwLock<()>,
    /// Limits and statistics in common with depots before this one.
    pub sharing: Sharing,
    /// The file of denials and rate limits.
    pub kept: Kept,
    /// Reserved descriptors, to refuse clients with a response and to answer operators.
    pub spare: Spare,
    /// Whether systemd holds listeners of clients too, so that others can connect while the depot stops.
    listeners_stay: bool,
    /// The end of the drain time, once it drains.
    pub drains_until: OnceLock<Instant>,
}

impl Lifecycle {
    /// At the start.
    pub(crate) fn new(phase: watch::Receiver<Phase>, kept: Kept, listeners_stay: bool) -> Self {
        let (doors, sharing) = (tokio::sync::RwLock::new(()), Sharing::new());
        let (spare, drains_until) = (Spare::new(), OnceLock::new());
        Self { phase, doors, sharing, kept, spare, listeners_stay, drains_until }
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
}
