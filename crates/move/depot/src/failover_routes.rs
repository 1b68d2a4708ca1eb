// SPDX-License-Identifier: GPL-2.0-or-later
//! Other routes: around a depot that fails, through others or straight on to what is behind it.
//!
//! A depot that has failed is asked last for a while, so that not every request has to find that
//! out by itself; and so is one that is down, as [`crate::detour_checks`] has found, until it is up again.
//! A detour whose `order` is `forecast` learns from transfers how long each route takes. Forecasts are by detour, whatever is behind it.

use crate::config::{Config, Detour, DetourOrder};
use protocol::{
    Authority, DepotAddress, Fetch,
    http::load::Load,
    session::{Hop, Open, Target},
};
use route::{AsWritten, Attempt, AttemptEnd, Auto, AutoSettings, Chooser, Destination, Standings};
use std::{
    collections::HashMap,
    iter, slice,
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};
use units::Bytes;

/// The state of the depots that detours avoid or use. It is bounded by the configuration.
#[derive(Debug)]
pub(crate) struct FailoverRoutes {
    standings: Arc<Standings>,
    /// For detours whose order is by forecast.
    auto: Auto,
}

impl Default for FailoverRoutes {
    fn default() -> Self {
        let standings = Arc::<Standings>::default();
        let auto = Auto::alone(AutoSettings::default(), Arc::clone(&standings));
        Self { standings, auto }
    }
}

/// What is forecast for a route of a detour.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RouteForecast {
    /// The depot that the detour is around.
    pub around: String,
    /// The depot that the route goes through; empty for the one without.
    pub through: String,
    /// Transfers that were seen.
    pub transfers: usize,
    /// Seconds for [`FORECAST_BYTES`].
    pub seconds: f64,
}

/// The size of transfer for which forecasts are shown.
pub(crate) const FORECAST_BYTES: u64 = 64 << 20;

/// An attempt by a next hop, under way.
pub(crate) struct Trying {
    begun: Instant,
    before: u64,
}

impl Trying {
    /// The transfer has moved so many bytes before.
    pub(crate) fn begin(moved: u64) -> Self {
        Self { begun: Instant::now(), before: moved }
    }

    /// It has ended, when the transfer has moved so many.
    pub(crate) fn end(&self, end: AttemptEnd, moved: u64) -> Attempt {
        let bytes = Bytes::new(moved.saturating_sub(self.before));
        Attempt::new(end, self.begun.elapsed(), bytes)
    }
}

impl FailoverRoutes {
    /// An attempt by a next hop has ended, of a request that asked for another one or the same. One that no detour names is not
    /// remembered: clients choose those, and could fill the memory with them.
    pub(crate) fn ended(
        &self,
        asked: &Authority,
        next: &Authority,
        config: &Config,
        attempt: &Attempt,
    ) {
        for detour in &config.detours {
            let to = Destination::Named(detour.around.authority.clone());
            let is_asked = detour.around.authority == *asked;
            for depot in detour.depots().filter(|depot| depot.authority == *next) {
                let chain = slice::from_ref(depot);
                if is_asked && detour.order == DetourOrder::Forecast {
                    self.auto.ended(&to, chain, attempt);
                }
                self.as_written(detour).ended(&to, chain, attempt);
            }
            let is_straight = is_asked && !detour.depots().any(|depot| depot.authority == *next);
            if is_straight && detour.order == DetourOrder::Forecast {
                self.auto.ended(&to, &[], attempt);
            }
        }
    }

    fn as_written(&self, detour: &Detour) -> AsWritten {
        AsWritten::new(Arc::clone(&self.standings), detour.avoid.into())
    }

    /// Keeps the checks of these depots only.
    pub(crate) fn watch_only<T>(&self, depots: &HashMap<DepotAddress, T>) {
        self.standings.watch_only(depots.keys());
    }

    /// A depot was asked. One that is up again is used again at once, however lately it has failed.
    pub(crate) fn checked(&self, depot: &DepotAddress, is_up: bool) {
        self.standings.checked(depot, is_up);
    }

    /// Records a health check: the round trip in seconds, and the load.
    pub(crate) fn record_probe(
        &self,
        depot: &DepotAddress,
        rtt_s: Option<f64>,
        load: Option<&Load>,
    ) {
        self.auto.record_probe(depot, rtt_s, load);
    }

    /// What is forecast for the routes that were used.
    pub(crate) fn forecasts(&self) -> Vec<RouteForecast> {
        let memory = self.auto.memory();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let of = |around: &str| {
            let known = memory.paths(around).filter_map(|(through, path)| {
                let forecast = path.known(FORECAST_BYTES, now.as_secs_f64())?;
                let (around, through) = (around.to_owned(), through.to_owned());
                let (transfers, seconds) = (path.transfers(), forecast.seconds);
                Some(RouteForecast { around, through, transfers, seconds })
            });
            known.collect::<Vec<_>>()
        };
        memory.destinations().flat_map(of).collect()
    }

    /// The depots that are asked, by name, and whether they are up.
    pub(crate) fn checks(&self) -> Vec<(String, bool)> {
        self.standings.checks()
    }

    /// Routes around a depot in the order in which to try them; `next` is the hop that one begins with.
    fn in_order<R>(
        &self,
        detour: &Detour,
        routes: Vec<R>,
        next: impl Fn(&R) -> DepotAddress,
    ) -> Vec<R> {
        let chains: Vec<[DepotAddress; 1]> = routes.iter().map(|route| [next(route)]).collect();
        let is_named = |depot: &DepotAddress| detour.depots().any(|named| named == depot);
        // The way without a depot of the detour is the direct one.
        let chain = |chain: &&[DepotAddress; 1]| usize::from(is_named(&chain[0]));
        let chains: Vec<&[DepotAddress]> = chains.iter().map(|of| &of[..chain(&of)]).collect();
        let to = Destination::Named(detour.around.authority.clone());
        let plan = match detour.order {
            DetourOrder::Written => self.as_written(detour).plan(&to, None, &chains),
            DetourOrder::Forecast => self.auto.plan(&to, None, &chains),
        };
        let mut routes: Vec<_> = routes.into_iter().map(Some).collect();
        plan.all().iter().filter_map(|at| routes[*at].take()).collect()
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
        let next =
            |route: &Fetch| DepotAddress { scheme: route.scheme, authority: route.next.clone() };
        Some(self.in_order(detour, routes, next))
    }

    /// The same for a session that is to go on to `hop` with `open`. The acceptor, and the depot at which two ends
    /// meet or that keeps sessions, have no others in their place.
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
        self.in_order(detour, routes, |(hop, _)| hop.address.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Route, Step};
    use route::Standing;
    use std::time::Duration;

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
            fail(&routes, name, &config);
        }
        let standing = |name: &str| routes.standings.of(&depot(name), Duration::from_secs(60));
        let names = ["a.example:3880", "b.example:3880", "a.example:1", "chosen.example:3880"];
        let expected = [Standing::Failed, Standing::Failed, Standing::Good, Standing::Good];
        assert_eq!(names.map(standing), expected);
        // A reload that names others has these forgotten.
        routes.checked(&depot("old.example"), false);
        routes.watch_only(&config.detour_checks());
        assert_eq!(
            routes.checks(),
            ["a.example:3880", "b.example:3880", "c.example:3880"]
                .map(|name| (name.to_owned(), true))
        );
    }

    fn end(routes: &FailoverRoutes, next: &str, config: &Config, end: AttemptEnd) {
        let next = next.parse().unwrap();
        routes.ended(&next, &next, config, &Trying::begin(0).end(end, 0));
    }

    fn fail(routes: &FailoverRoutes, next: &str, config: &Config) {
        end(routes, next, config, AttemptEnd::Unreached);
    }

    #[test]
    fn only_what_speaks_against_a_next_hop_is_remembered() {
        let (config, routes) = (config("straight = true"), FailoverRoutes::default());
        for harmless in [AttemptEnd::Done, AttemptEnd::Refused, AttemptEnd::OfHost] {
            end(&routes, "a.example:3880", &config, harmless);
        }
        assert_eq!(order(&routes, &config, "a.example"), "abco");
        end(&routes, "a.example:3880", &config, AttemptEnd::Stalled);
        assert_eq!(order(&routes, &config, "a.example"), "bcoa");
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
        fail(&routes, "b.example:3880", &config);
        assert_eq!(order("a.example"), "coba");
        routes.checked(&depot("a.example"), true);
        assert_eq!(order("a.example"), "acob");
        // A request has found that it fails, and later checks that it is up: but not that it was down.
        fail(&routes, "a.example:3880", &config);
        routes.checked(&depot("a.example"), true);
        assert_eq!(order("a.example"), "coab");
        routes.checked(&depot("a.example"), false);
        routes.checked(&depot("a.example"), true);
        assert_eq!(order("a.example"), "acob");
        // Over TLS it is another depot.
        assert_eq!(order("https:a.example:3880"), "");
    }

    /// Of three routes the one that was seen to be fastest is taken, whatever the order in which they are written; one whose client was
    /// slow does not count against it.
    #[test]
    fn fastest_is_taken_where_forecasts_decide() {
        let config = config("straight = true\norder = \"forecast\"");
        let routes = FailoverRoutes::default();
        let first = || order(&routes, &config, "a.example").chars().next().unwrap();
        let seconds = |next: char| match next {
            'a' => 20,
            'b' => 2,
            _ => 30,
        };
        let asked: Authority = "a.example:3880".parse().unwrap();
        let end = |next: char, end: AttemptEnd, seconds: u64| {
            let name = match next {
                'o' => "o.example:80".to_owned(),
                depot => format!("{depot}.example:3880"),
            };
            let (time, bytes) = (Duration::from_secs(seconds), Bytes::new(FORECAST_BYTES));
            let attempt = Attempt::new(end, time, bytes);
            routes.ended(&asked, &name.parse().unwrap(), &config, &attempt);
        };
        let mut taken = String::new();
        for _ in 0..100 {
            let next = first();
            end(next, AttemptEnd::Done, seconds(next));
            taken.push(next);
        }
        assert!(taken.ends_with(&"b".repeat(20)), "{taken}");
        // Whether another route is tried again is chance.
        end('o', AttemptEnd::Done, seconds('o'));
        let shown = |through: &str| {
            let all = routes.forecasts();
            let of = |it: &&RouteForecast| it.around == "a.example" && it.through == through;
            all.iter().find(of).map(|it| it.seconds)
        };
        assert!((1.5..2.5).contains(&shown("b.example:3880").unwrap()));
        assert!((10.0..60.0).contains(&shown("").unwrap()));
        for _ in 0..10 {
            end('b', AttemptEnd::LimitedByEnds, 200);
        }
        assert_eq!(first(), 'b', "its clients were slow");
        routes.checked(&depot("b.example"), false);
        assert_ne!(first(), 'b', "it is down");
        // A request for another depot teaches nothing of this detour.
        let before = routes.forecasts();
        let other = "x.example:3880".parse().unwrap();
        let (end, time) = (AttemptEnd::Done, Duration::from_secs(99));
        let attempt = Attempt::new(end, time, Bytes::new(FORECAST_BYTES));
        routes.ended(&other, &"b.example:3880".parse().unwrap(), &config, &attempt);
        assert_eq!(routes.forecasts().len(), before.len());
    }
}
