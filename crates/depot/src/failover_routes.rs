// SPDX-License-Identifier: GPL-2.0-or-later
//! Other routes: around a depot that fails, through others or straight on to what is behind it.
//!
//! A depot that has failed is asked last for a while, so that not every request has to find that
//! out by itself.

use crate::config::Config;
use session::{Authority, Fetch};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Which depots have failed lately. Only depots that can be gone around are remembered, so it holds no
/// more than the configuration names.
#[derive(Debug, Default)]
pub(crate) struct FailoverRoutes {
    failed: Mutex<HashMap<Authority, Instant>>,
}

impl FailoverRoutes {
    /// A depot has failed, or is of little use.
    pub(crate) fn failed(&self, next: &Authority) {
        self.state().insert(next.clone(), Instant::now());
    }

    /// All routes for a request, the most promising first: the one that it asks for, and those
    /// that the configuration has in its place; nothing where there are none of those. `through` says whether
    /// other depots may be in its place, `straight` is the one without the next depot.
    pub(crate) fn routes(
        &self,
        fetch: &Fetch,
        config: &Config,
        through: bool,
        straight: impl FnOnce() -> Option<Fetch>,
    ) -> Option<Vec<Fetch>> {
        let asked = |around: &Authority| fetch.origin.is_none() && *around == fetch.next;
        let detour = config.detours.iter().find(|d| asked(&d.around.authority))?;
        let mut routes = vec![fetch.clone()];
        if through {
            routes.extend(detour.through.iter().map(|depot| fetch.at(depot.clone())));
        }
        if detour.straight {
            routes.extend(straight());
        }
        let memory = Duration::from(detour.avoid);
        let failed = self.state();
        let lately =
            |next: &Authority| failed.get(next).is_some_and(|then| then.elapsed() < memory);
        routes.sort_by_key(|route| lately(&route.next));
        Some(routes)
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, HashMap<Authority, Instant>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
