// SPDX-License-Identifier: GPL-2.0-or-later
//! Other routes: around a depot that fails, through others or straight on to what is behind it.
//!
//! A depot that has failed is asked last for a while, so that not every request has to find that
//! out by itself; and so is one that is down, as [`crate::detour_checks`] has found, until it is up again.

use crate::config::{Config, Detour};
use protocol::{
    Authority, DepotAddress, Fetch,
    session::{Hop, Open, Target},
};
use std::{
    collections::HashMap,
    iter,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The state of the depots that detours avoid or use. It is bounded by the configuration.
#[derive(Debug, Default)]
pub(crate) struct FailoverRoutes {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// When requests found them failing.
    failed: HashMap<Authority, Instant>,
    /// Those that are asked whether they are up, and what that has shown. One that was not asked yet is up.
    is_up: HashMap<DepotAddress, bool>,
}

impl Known {
    /// The rank of a next hop among the routes, lowest first: a hop that is down sorts after one that has
    /// failed within `avoid`.
    fn rank(&self, next: &DepotAddress, avoid: Duration) -> (bool, bool) {
        let is_down = self.is_up.get(next) == Some(&false);
        let failed = self.failed.get(&next.authority);
        (is_down, failed.is_some_and(|then| then.elapsed() < avoid))
    }
}

impl FailoverRoutes {
    /// A next hop has failed, or is of little use. One that no detour names is not remembered: clients choose
    /// those, and could fill the memory with them.
    pub(crate) fn failed(&self, next: &Authority, config: &Config) {
        let names = |detour: &Detour| detour.depots().any(|depot| depot.authority == *next);
        if config.detours.iter().any(names) {
            self.known().failed.insert(next.clone(), Instant::now());
        }
    }

    /// Keeps the state of these depots only.
    pub(crate) fn watch_only<T>(&self, depots: &HashMap<DepotAddress, T>) {
        let mut known = self.known();
        known.is_up.retain(|depot, _| depots.contains_key(depot));
        for depot in depots.keys() {
            known.is_up.entry(depot.clone()).or_insert(true);
        }
    }

    /// A depot was asked. One that is up again is used again at once, however lately it has failed.
    pub(crate) fn checked(&self, depot: &DepotAddress, is_up: bool) {
        let mut known = self.known();
        let before = known.is_up.insert(depot.clone(), is_up);
        if before == Some(false) && is_up {
            known.failed.remove(&depot.authority);
        }
    }

    /// The depots that are asked, by name, and whether they are up.
    pub(crate) fn checks(&self) -> Vec<(String, bool)> {
        let known = self.known();
        let mut checks: Vec<_> =
            known.is_up.iter().map(|(depot, is_up)| (depot.to_string(), *is_up)).collect();
        checks.sort();
        checks
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
        let is_at =
            |depot: &DepotAddress| fetch.next == depot.authority && fetch.scheme == depot.scheme;
        let detours = config.detours.iter().filter(|_| fetch.origin.is_none());
        let detour = detours.into_iter().find(|detour| is_at(&detour.around))?;
        let mut routes = vec![fetch.clone()];
        if through {
            routes.extend(detour.through.iter().map(|depot| fetch.at(depot.clone())));
        }
        if detour.straight {
            routes.extend(straight());
        }
        let (avoid, known) = (detour.avoid.into(), self.known());
        routes.sort_by_cached_key(|route| {
            let next = DepotAddress { scheme: route.scheme, authority: route.next.clone() };
            known.rank(&next, avoid)
        });
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
        let (avoid, known) = (detour.avoid.into(), self.known());
        routes.sort_by_key(|(hop, _)| known.rank(&hop.address, avoid));
        routes
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Route, Step};

    fn config(detour: &str) -> Config {
        let text = format!(
            "[allow]\nupstreams = [\"b.example:3880\", \"c.example:3880\"]\n\
             [[detour]]\naround = \"a.example\"\nthrough = [\"b.example\", \"c.example\"]\n{detour}"
        );
        Config::from_toml(&text, "depot.toml").unwrap()
    }

    fn depot(name: &str) -> DepotAddress {
        name.parse().unwrap()
    }

    #[test]
    fn only_depots_of_detours_are_remembered() {
        let (config, routes) = (config("straight = true"), FailoverRoutes::default());
        for name in ["a.example:3880", "b.example:3880", "a.example:1", "chosen.example:3880"] {
            routes.failed(&name.parse().unwrap(), &config);
        }
        let mut remembered: Vec<_> =
            routes.known().failed.keys().map(ToString::to_string).collect();
        remembered.sort();
        assert_eq!(remembered, ["a.example:3880", "b.example:3880"]);
        // A reload that names others has these forgotten.
        routes.checked(&depot("old.example"), false);
        routes.watch_only(&config.detour_checks());
        assert_eq!(
            routes.checks(),
            ["a.example:3880", "b.example:3880", "c.example:3880"]
                .map(|name| (name.to_owned(), true))
        );
    }

    /// The next hops of a request in their order, by the first letters of their names.
    fn order(routes: &FailoverRoutes, config: &Config, chain: &str) -> String {
        let route: Route = format!("/lh1/fetch/{chain}/http:o.example/").parse().unwrap();
        let Step::Fetch(fetch) = route.step() else { panic!("a fetch is not a redirect") };
        let straight: Route = "/lh1/fetch/-/http:o.example/".parse().unwrap();
        let Step::Fetch(straight) = straight.step() else { panic!("a fetch is not a redirect") };
        let routes = routes.routes(&fetch, config, true, || Some(straight));
        let names = routes.iter().flatten().map(|route| route.next.host.to_string());
        names.map(|name| name[..1].to_owned()).collect()
    }

    #[test]
    fn down_depot_is_tried_last_until_it_is_up() {
        let (config, routes) = (config("straight = true"), FailoverRoutes::default());
        let order = |chain: &str| order(&routes, &config, chain);
        assert_eq!(order("a.example"), "abco");
        routes.checked(&depot("a.example"), false);
        assert_eq!(order("a.example"), "bcoa");
        // What was never asked may do better than what has failed, and that better than what is down.
        routes.failed(&"b.example:3880".parse().unwrap(), &config);
        assert_eq!(order("a.example"), "coba");
        routes.checked(&depot("a.example"), true);
        assert_eq!(order("a.example"), "acob");
        // A request has found that it fails, and later checks that it is up: but not that it was down.
        routes.failed(&"a.example:3880".parse().unwrap(), &config);
        routes.checked(&depot("a.example"), true);
        assert_eq!(order("a.example"), "coab");
        routes.checked(&depot("a.example"), false);
        routes.checked(&depot("a.example"), true);
        assert_eq!(order("a.example"), "acob");
        // Over TLS it is another depot.
        assert_eq!(order("https:a.example:3880"), "");
    }
}
