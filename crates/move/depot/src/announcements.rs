// SPDX-License-Identifier: GPL-2.0-or-later
//! Announcements that this depot has: its own, and those of other depots.

use protocol::{
    DepotAddress,
    announcement::Announcement,
    ticket::{KeySet, UnixTime},
};
use register::{AnnouncementList, AnnouncementSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The latest announcement of each depot.
#[derive(Debug, Default)]
pub(crate) struct Announcements(Mutex<AnnouncementSet>);

impl Announcements {
    /// Stores this depot's own announcement.
    pub(crate) fn insert_own(&self, token: String, own: Announcement) {
        self.set().insert(token, own);
    }

    /// Stores a list of another depot. Returns how many announcements were not accepted.
    pub(crate) fn accept_list(
        &self,
        list: &AnnouncementList,
        keys: &KeySet,
        now: UnixTime,
    ) -> usize {
        self.set().accept_list(list, keys, now)
    }

    /// Stores one announcement, if it is accepted.
    pub(crate) fn accept(&self, token: &str, keys: &KeySet, now: UnixTime) {
        if let Err(error) = self.set().accept(token, keys, now) {
            tracing::debug!(%error, "announcement not accepted");
        }
    }

    /// Removes the announcement of a depot.
    pub(crate) fn remove(&self, depot: &DepotAddress) {
        self.set().remove(depot);
    }

    /// Removes expired announcements, and those whose key is no longer trusted.
    pub(crate) fn expire(&self, keys: &KeySet, now: UnixTime) {
        self.set().expire(keys, now);
    }

    /// Removes all announcements.
    pub(crate) fn clear(&self) {
        *self.set() = AnnouncementSet::default();
    }

    /// All announcements, by address.
    pub(crate) fn all(&self) -> Vec<Announcement> {
        self.set().announcements().cloned().collect()
    }

    /// All announcements as tokens, for other depots and clients.
    pub(crate) fn list(&self) -> AnnouncementList {
        self.set().list()
    }

    /// No change is left half made, so a panic elsewhere does not spoil it.
    fn set(&self) -> MutexGuard<'_, AnnouncementSet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
