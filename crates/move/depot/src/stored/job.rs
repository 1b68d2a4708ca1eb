// SPDX-License-Identifier: GPL-2.0-or-later
//! A session with a client of the store: whose it is, and what it may.

use super::{
    outcome::{Fate, Refused, Served},
    places::Place,
    shared::Stored,
};
use relay::copy::MinimumRate;
use std::sync::Arc;
use store::{AccessKey, Store, StoreError};
use tokio::task::spawn_blocking;

/// A session with a client.
#[derive(Debug)]
pub(super) struct Job {
    pub stored: Arc<Stored>,
    pub store: Arc<Store>,
    pub served: Arc<Served>,
    /// The key that has signed the request.
    pub signer: AccessKey,
    pub grants: Grants,
    /// Held until the session is over, also while it has no connection.
    pub _place: Arc<Place>,
}

/// What is granted to a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grants {
    /// To which its space is charged.
    pub account: AccessKey,
    /// The most bytes in one direction, by its ticket.
    pub most: Option<u64>,
    /// How fast it has to send and to read.
    pub minimum: Option<MinimumRate>,
}

impl Job {
    /// The request is refused: counts it, and remembers it for the log.
    pub(super) fn refuse(&self, refused: &Refused) {
        self.stored.count_refused();
        self.served.ended(Fate::Refused(refused.fault()));
    }

    /// What was asked is done.
    pub(super) fn done(&self) {
        self.served.ended(Fate::Done);
    }
}

/// Does what may wait for a disk on a thread for that. If the depot stops meanwhile, that is as if the store were closed.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    spawn_blocking(work).await.unwrap_or(Err(StoreError::Closed))
}
