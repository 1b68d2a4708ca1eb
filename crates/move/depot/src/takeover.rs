// SPDX-License-Identifier: GPL-2.0-or-later
//! A successor takes over from this depot.
//!
//! ```text
//! Serving ── a successor asks ──▶ HandingOver ── it serves ──▶ Succeeded
//!    ▲                                 │
//!    └────────── it has failed ────────┘
//! ```

use crate::{
    control::{self, Origin, draining, sharing},
    handover::{self, Offer, Successor},
    inheritance::Inheritance,
    lifecycle::Phase,
    state::Shared,
};
use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::Arc,
};
use tokio::{
    sync::{mpsc::WeakSender, watch},
    task::JoinHandle,
};

/// The socket at which the successor asks this depot while it drains. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Asked(JoinHandle<()>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Resolves once a successor has the listeners and serves.
pub(crate) async fn succeeded(
    offer: &Offer,
    listeners: &[OwnedFd],
    (shared, phase): (&Arc<Shared>, &watch::Sender<Phase>),
    alive: &WeakSender<()>,
) -> Option<Asked> {
    loop {
        match offer.successor(listeners).await {
            Successor::Serves => return asked(shared, alive),
            Successor::Asks(stream) => {
                // No connection is admitted from here on, and none that was is not counted.
                phase.send_replace(Phase::HandingOver);
                let _shut = shared.lifecycle.doors.write().await;
                let asked = asked(shared, alive);
                match hand_over(stream, shared).await {
                    Ok(true) => {
                        phase.send_replace(Phase::Succeeded);
                        return asked;
                    }
                    Ok(false) => handover::warn_of_failed_successor(),
                    Err(error) => tracing::warn!(%error, "cannot hand over"),
                }
                drop(asked);
                phase.send_replace(Phase::Serving);
                let shared = Arc::clone(shared);
                drop(tokio::task::spawn_blocking(move || sharing::is_alone_again(&shared)));
            }
        }
    }
}

/// Tells a successor what this depot knows. Returns whether the successor serves.
async fn hand_over(stream: UnixStream, shared: &Arc<Shared>) -> io::Result<bool> {
    let known = Arc::clone(shared);
    let text = tokio::task::spawn_blocking(move || serde_json::to_vec(&Inheritance::of(&known)));
    handover::tell(stream, text.await??).await
}

/// Answers the successor from now on.
fn asked(shared: &Arc<Shared>, alive: &WeakSender<()>) -> Option<Asked> {
    match draining::socket(shared)? {
        Ok(socket) => {
            let serving =
                control::serve(socket, Origin::Successor, Arc::clone(shared), alive.clone());
            Some(Asked(tokio::spawn(serving)))
        }
        Err(error) => {
            tracing::warn!(%error, "the depot that takes over cannot see this one");
            None
        }
    }
}
