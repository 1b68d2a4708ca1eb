// SPDX-License-Identifier: GPL-2.0-or-later
//! What this depot has heard of others, and told of itself.

use protocol::{
    DepotAddress,
    announcement::Announcement,
    ticket::{KeySet, UnixTime},
};
use register::{Known, Told};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The newest announcement of each depot.
#[derive(Debug, Default)]
pub(crate) struct Registered(Mutex<Known>);

impl Registered {
    /// This depot tells of itself.
    pub(crate) fn tell(&self, token: String, own: Announcement) {
        self.known().keep(token, own);
    }

    /// Others tell this. Says how many of it do not count.
    pub(crate) fn hear(&self, told: &Told, keys: &KeySet, now: UnixTime) -> usize {
        self.known().hear_all(told, keys, now)
    }

    /// One of them tells this, or somebody for it.
    pub(crate) fn hear_one(&self, token: &str, keys: &KeySet, now: UnixTime) {
        if let Err(error) = self.known().hear(token, keys, now) {
            tracing::debug!(%error, "an announcement does not count");
        }
    }

    /// A depot is there no more.
    pub(crate) fn forget(&self, depot: &DepotAddress) {
        self.known().forget(depot);
    }

    /// Forgets what counts no more.
    pub(crate) fn tidy(&self, keys: &KeySet, now: UnixTime) {
        self.known().tidy(keys, now);
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        *self.known() = Known::default();
    }

    /// All announcements, by address.
    pub(crate) fn announcements(&self) -> Vec<Announcement> {
        self.known().announcements().cloned().collect()
    }

    /// All announcements, for others.
    pub(crate) fn told(&self) -> Told {
        self.known().told()
    }

    /// No change is left half made, so a panic elsewhere does not spoil it.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
