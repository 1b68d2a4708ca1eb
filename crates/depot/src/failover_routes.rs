// SPDX-License-Identifier: GPL-2.0-or-later
//! Other routes: around a depot that fails, through others or straight on to what is behind it.
//!
//! A depot that has failed is asked last for a while, so that not every request has to find that
//! out by itself.

use crate::config::{Config, Detour};
use session::{
    Authority, Fetch,
    lsl::{Hop, Open, Target},
};
use std::{
    collections::HashMap,
    iter,
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
    /// A next hop has failed, or is of little use. One that no detour names is not remembered: clients choose
    /// those, and could fill the memory with them.
    pub(crate) fn failed(&self, next: &Authority, config: &Config) {
        let names = |detour: &Detour| {
            let mut depots = iter::once(&detour.around).chain(&detour.through);
            depots.any(|depot| depot.authority == *next)
        };
        if config.detours.iter().any(names) {
            self.state().insert(next.clone(), Instant::now());
        }
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

    /// The same for a session that is to go on to `hop` with `open`. The acceptor, and the depot at which two ends
    /// meet, have no others in their place.
    pub(crate) fn session_routes(&self, hop: Hop, open: Open, config: &Config) -> Vec<(Hop, Open)> {
        let is_last = open.hops.is_empty();
        let is_end = is_last && !matches!(open.target, Target::Tcp { .. });
        let around = |detour: &&Detour| detour.around == hop.address && !is_end;
        let Some(detour) = config.detours.iter().find(around) else { return vec![(hop, open)] };
        let through =
            detour.through.iter().map(|depot| Hop { address: depot.clone(), ..hop.clone() });
        let mut routes: Vec<_> =
            iter::once(hop.clone()).chain(through).map(|hop| (hop, open.clone())).collect();
        if detour.straight && !is_last {
            let mut open = open;
            routes.push((open.hops.remove(0), open));
        }
        let (memory, failed) = (Duration::from(detour.avoid), self.state());
        routes.sort_by_key(|(hop, _)| {
            failed.get(&hop.address.authority).is_some_and(|then| then.elapsed() < memory)
        });
        routes
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, HashMap<Authority, Instant>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_depots_that_detours_name_are_remembered() {
        let text = "[allow]\nupstreams = [\"b.example:3880\"]\n\
                    [[detour]]\naround = \"a.example:3880\"\nthrough = [\"b.example:3880\"]\n\
                    straight = true";
        let config = Config::from_toml(text, "depot.toml").unwrap();
        let routes = FailoverRoutes::default();
        for name in ["a.example:3880", "b.example:3880", "a.example:1", "chosen.example:3880"] {
            routes.failed(&name.parse().unwrap(), &config);
        }
        let mut remembered: Vec<_> = routes.state().keys().map(ToString::to_string).collect();
        remembered.sort();
        assert_eq!(remembered, ["a.example:3880", "b.example:3880"]);
    }
}
