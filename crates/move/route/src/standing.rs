// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of depots: which have failed lately, and which are down.

use protocol::DepotAddress;
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// What is known of depots. Whoever notes something bounds it: only depots of a configuration, and none that a client
/// chooses, or clients could fill the memory.
#[derive(Debug, Default)]
pub struct Standings(Mutex<HashMap<DepotAddress, Known>>);

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// When it was found failing.
    failed: Option<Instant>,
    /// Of those that are asked whether they are up, what that has shown.
    is_up: Option<bool>,
}

/// How promising a depot is, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Nothing is known against it.
    Good,
    /// It has failed lately.
    Failed,
    /// It was asked, and is down.
    Down,
}

impl Standings {
    /// A depot has failed at this time, or is of little use.
    pub fn failed(&self, depot: &DepotAddress, at: Instant) {
        self.known().entry(depot.clone()).or_default().failed = Some(at);
    }

    /// A depot was asked whether it is up. One that is up again is good at once, however lately it has failed.
    pub fn checked(&self, depot: &DepotAddress, is_up: bool) {
        let mut all = self.known();
        let known = all.entry(depot.clone()).or_default();
        if known.is_up.replace(is_up) == Some(false) && is_up {
            known.failed = None;
        }
    }

    /// Forgets what checks of other depots than these have shown. One that was not asked yet is up.
    pub fn watch_only<'d>(&self, depots: impl IntoIterator<Item = &'d DepotAddress>) {
        let watched: HashSet<&DepotAddress> = depots.into_iter().collect();
        let mut all = self.known();
        let others = all.iter_mut().filter(|(depot, _)| !watched.contains(depot));
        others.for_each(|(_, known)| known.is_up = None);
        for depot in watched {
            all.entry(depot.clone()).or_default().is_up.get_or_insert(true);
        }
        all.retain(|_, known| known.is_up.is_some() || known.failed.is_some());
    }

    /// The depots that are asked, by name, and whether they are up.
    pub fn checks(&self) -> Vec<(String, bool)> {
        let known = self.known();
        let asked =
            known.iter().filter_map(|(depot, known)| Some((depot.to_string(), known.is_up?)));
        let mut checks: Vec<_> = asked.collect();
        checks.sort();
        checks
    }

    /// How promising a depot is where one that has failed within `avoid` is not.
    pub fn of(&self, depot: &DepotAddress, avoid: Duration) -> Standing {
        match self.known().get(depot) {
            Some(Known { is_up: Some(false), .. }) => Standing::Down,
            Some(Known { failed: Some(at), .. }) if at.elapsed() < avoid => Standing::Failed,
            _ => Standing::Good,
        }
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn known(&self) -> MutexGuard<'_, HashMap<DepotAddress, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AVOID: Duration = Duration::from_secs(10);

    #[test]
    fn depot_that_is_up_again_is_good_at_once() {
        let (standings, depot) = (Standings::default(), "d".parse().unwrap());
        let standing = || standings.of(&depot, AVOID);
        assert_eq!(standing(), Standing::Good);
        standings.failed(&depot, Instant::now());
        assert_eq!(
            (standing(), standings.of(&depot, Duration::ZERO)),
            (Standing::Failed, Standing::Good)
        );
        // That it is up was no news.
        standings.checked(&depot, true);
        assert_eq!(standing(), Standing::Failed);
        standings.checked(&depot, false);
        assert_eq!(standing(), Standing::Down);
        standings.checked(&depot, true);
        assert_eq!(standing(), Standing::Good);
    }

    #[test]
    fn only_watched_depots_have_checks() {
        let standings = Standings::default();
        let [old, kept, new] = ["old", "kept", "new"].map(|name| name.parse().unwrap());
        standings.checked(&old, false);
        standings.checked(&kept, false);
        standings.watch_only([&kept, &new]);
        let checks = [("kept:3880".to_owned(), false), ("new:3880".to_owned(), true)];
        assert_eq!(standings.checks(), checks);
        assert_eq!(standings.of(&old, AVOID), Standing::Good);
    }
}
