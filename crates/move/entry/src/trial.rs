// SPDX-License-Identifier: GPL-2.0-or-later
//! Routes to a destination, tried in their order, and depots that are left alone since they are down.
//!
//! Only what holds for every destination counts against a depot: a fresh connection of this process to it fails, or it does
//! not answer a question of its own. A session that does not open may be its destination's fault, or its client's. So a
//! depot that took the connection and was late, or broke it off, is asked that question, in the background. The same
//! goes for what a program's own socket did not reach: its options, source address or device may be the cause.
//! Limits: one question to a depot at a time, and one every [`ASK_AGAIN`]. A depot that is down is left alone for
//! [`DOWN_TIME`].

use crate::{
    chain::{ChainError, EntryDialer},
    connections,
    short::Choice,
};
use protocol::DepotAddress;
use relay::tcp::Stream;
use route::{
    AsWritten, Attempt, AttemptEnd, Auto, AutoSettings, Chooser, Destination, Route, RouteTable,
    Standings,
};
use std::{
    collections::{HashMap, hash_map::Entry},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use units::Bytes;

/// How long a depot that is down is left alone.
const DOWN_TIME: Duration = Duration::from_secs(10);
/// How long a depot may take to answer a question of its own.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// The least time between two questions to a depot.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// Whose connection to a depot has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    /// This process's: a fresh one, like all others to that depot.
    Own,
    /// A program's, on a socket that is as the program has made it.
    Program,
}

/// Depots that are down.
#[derive(Debug)]
pub(crate) struct DownDepots {
    caller: Arc<EntryDialer>,
    standings: Arc<Standings>,
    questions: Arc<Mutex<HashMap<DepotAddress, Question>>>,
    /// Where routes are tried by their forecasts.
    auto: Option<Auto>,
}

/// A question to a depot whether it is there.
#[derive(Debug, Clone, Copy)]
enum Question {
    UnderWay,
    Answered(Instant),
}

impl DownDepots {
    /// None so far; `caller` asks.
    pub(crate) fn new(caller: Arc<EntryDialer>) -> Self {
        Self { caller, standings: Arc::default(), questions: Arc::default(), auto: None }
    }

    /// For a table whose routes may be chosen by forecast. `ca` are further authorities, `timeout` is the cost of a failed attempt, and
    /// `mark` the `SO_MARK` of probes.
    pub(crate) fn of(
        caller: Arc<EntryDialer>,
        table: &RouteTable,
        ca: Option<&PathBuf>,
        timeout: Duration,
        mark: Option<u32>,
    ) -> Self {
        let by = |announcements: &[_]| {
            let announcements = announcements.to_vec();
            let ca = ca.cloned();
            Auto::new(AutoSettings { ca, timeout, announcements, mark, ..AutoSettings::default() })
        };
        let auto = table.forecast_by().map(by);
        Self { auto, ..Self::new(caller) }
    }

    /// Those of these routes that are to be tried before the direct way, in their order.
    fn promising<'r>(&self, to: &Destination, routes: Vec<Route<'r>>) -> Vec<Route<'r>> {
        let Some(auto) = &self.auto else { return routes };
        let chains: Vec<_> = routes.iter().map(|route| route.depots).collect();
        let order = auto.faster_than_direct(to, &chains);
        order.into_iter().map(|at| routes[at].clone()).collect()
    }

    fn chooser(&self) -> AsWritten {
        AsWritten::new(Arc::clone(&self.standings), DOWN_TIME)
    }

    /// Asks a depot whether it is there, in the background.
    fn ask(&self, depot: &DepotAddress) {
        match lock(&self.questions).entry(depot.clone()) {
            Entry::Occupied(known) if known.get().is_recent() => return,
            Entry::Occupied(mut known) => {
                known.insert(Question::UnderWay);
            }
            Entry::Vacant(place) => {
                place.insert(Question::UnderWay);
            }
        }
        let (caller, standings) = (Arc::clone(&self.caller), Arc::clone(&self.standings));
        let (questions, depot) = (Arc::clone(&self.questions), depot.clone());
        tokio::spawn(async move {
            let answered = caller.ask_depot(&depot, ANSWER_TIME).await;
            let now = Instant::now();
            match answered {
                Ok(()) | Err(ChainError::NotAsked { .. }) => {}
                Err(error) => {
                    tracing::warn!("{error}: it is left alone for {} s", DOWN_TIME.as_secs());
                    standings.failed(&depot, now);
                }
            }
            lock(&questions).insert(depot, Question::Answered(now));
        });
    }

    /// Begins to try routes to a destination.
    pub(crate) fn trial<'d, 'r>(
        &'d self,
        to: &'d Destination,
        choice: Choice<'r>,
        maker: Maker,
    ) -> Trial<'d, 'r> {
        let Choice { routes, is_short } = choice;
        let routes = self.promising(to, routes);
        let otherwise = match (routes.is_empty(), is_short) {
            (false, _) => Unconnected::AllFailed(None),
            (true, true) => Unconnected::Short,
            (true, false) => Unconnected::NoRoute,
        };
        Trial { down: self, to, maker, left: routes, begun: Instant::now(), otherwise }
    }

    /// A connection of this process by the first of these routes that works.
    pub(crate) async fn open_first(
        &self,
        to: &Destination,
        choice: Choice<'_>,
        time: Duration,
    ) -> Result<(Stream, connections::Route), OpenError> {
        let mut trial = self.trial(to, choice, Maker::Own);
        while let Some(route) = trial.next() {
            match self.caller.open(&route, time).await {
                Ok((stream, hops)) => {
                    trial.worked(&route);
                    return Ok((stream, connections::Route::through(route.depots, &hops)));
                }
                Err(error) => {
                    let text = error.to_string();
                    trial.failed(&route, error).map_err(OpenError::OfServer)?;
                    tracing::warn!("{}: {text}", route.server);
                }
            }
        }
        Err(OpenError::Unconnected(trial.end()))
    }
}

impl Question {
    /// Whether it is too early for another one.
    fn is_recent(self) -> bool {
        match self {
            Self::UnderWay => true,
            Self::Answered(at) => at.elapsed() < ASK_AGAIN,
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Routes to a destination, being tried.
pub(crate) struct Trial<'d, 'r> {
    down: &'d DownDepots,
    to: &'d Destination,
    maker: Maker,
    left: Vec<Route<'r>>,
    /// When the last one was begun with.
    begun: Instant,
    otherwise: Unconnected,
}

/// What is left to do if no route was connected by.
pub(crate) enum Unconnected {
    /// No route leads there.
    NoRoute,
    /// Its connections are short.
    Short,
    /// No route works. With the last failure, unless no depot was asked this time.
    AllFailed(Option<ChainError>),
}

impl<'r> Trial<'_, 'r> {
    /// The next promising route. What an earlier one has shown of its depots counts.
    pub(crate) fn next(&mut self) -> Option<Route<'r>> {
        let chains: Vec<_> = self.left.iter().map(|route| route.depots).collect();
        let next = *self.down.chooser().plan(self.to, None, &chains).promising().first()?;
        self.begun = Instant::now();
        Some(self.left.remove(next))
    }

    /// A connection was made by this route.
    pub(crate) fn worked(&self, route: &Route<'_>) {
        self.ended(route, AttemptEnd::Done);
    }

    /// A route does not work.
    ///
    /// # Errors
    /// The depots have done their part, and the server cannot be reached. No other route is to be tried.
    pub(crate) fn failed(
        &mut self,
        route: &Route<'_>,
        error: ChainError,
    ) -> Result<(), ChainError> {
        let is_own = self.maker == Maker::Own;
        let end = match &error {
            ChainError::Refused { .. } if error.is_of_server() => AttemptEnd::OfDestination,
            ChainError::Refused { .. } => AttemptEnd::Refused,
            ChainError::NotAsked { .. } => AttemptEnd::OfHost,
            ChainError::Unreached { .. } if is_own => AttemptEnd::Unreached,
            ChainError::Unreached { .. } | ChainError::Late { .. } | ChainError::Broken { .. } => {
                AttemptEnd::Doubtful
            }
        };
        self.ended(route, end);
        if end == AttemptEnd::OfDestination {
            return Err(error);
        }
        if end == AttemptEnd::Doubtful {
            self.down.ask(&route.depots[0]);
        }
        self.otherwise = Unconnected::AllFailed(Some(error));
        Ok(())
    }

    fn ended(&self, route: &Route<'_>, end: AttemptEnd) {
        let attempt = Attempt::new(end, self.begun.elapsed(), Bytes::new(0));
        self.down.chooser().ended(self.to, route.depots, &attempt);
    }

    /// After the last route.
    pub(crate) fn end(self) -> Unconnected {
        self.otherwise
    }
}

/// Why no route of several connects.
pub(crate) enum OpenError {
    /// The depots have done their part, and the server cannot be reached.
    OfServer(ChainError),
    /// Without the server's doing.
    Unconnected(Unconnected),
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::http::{Fault, ProxyError};
    use std::io;
    use tokio::{io::AsyncWriteExt, net::TcpListener, time::sleep};

    fn errors(depot: &DepotAddress) -> [ChainError; 5] {
        let (name, failed) = (depot.to_string(), || io::Error::from(io::ErrorKind::TimedOut));
        let fault = Fault::new(
            http::StatusCode::BAD_GATEWAY,
            ProxyError::ConnectionTimeout,
            "d1 says: it is silent",
        );
        [
            ChainError::Late { depot: name.clone() },
            ChainError::Broken { depot: name.clone(), error: failed() },
            ChainError::Unreached { depot: name.clone(), error: failed() },
            ChainError::NotAsked { depot: name, error: failed() },
            ChainError::Refused { fault, is_last: false },
        ]
    }

    /// Whether a depot is left alone, once it has been asked if it was.
    async fn is_down_after(depot: &DepotAddress, error: ChainError, maker: Maker) -> bool {
        let down = DownDepots::new(Arc::new(EntryDialer::new(None)));
        let to = Destination::Named("server:80".parse().unwrap());
        let depots = [depot.clone()];
        let route = Route { depots: &depots, server: to.server(), short: None };
        let choice = || Choice { routes: vec![route.clone()], is_short: false };
        let mut trial = down.trial(&to, choice(), maker);
        let tried = trial.next().expect("nothing is known against it");
        trial.failed(&tried, error).unwrap();
        while matches!(lock(&down.questions).get(depot), Some(Question::UnderWay)) {
            sleep(Duration::from_millis(5)).await;
        }
        down.trial(&to, choice(), maker).next().is_none()
    }

    /// Whatever it answers: the question is whether it is there.
    #[tokio::test]
    async fn depot_that_answers_is_down_only_if_unreached() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let depot: DepotAddress = listener.local_addr().unwrap().to_string().parse().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").await;
            }
        });
        for error in errors(&depot) {
            let (is_unreached, text) =
                (matches!(error, ChainError::Unreached { .. }), error.to_string());
            assert_eq!(is_down_after(&depot, error, Maker::Own).await, is_unreached, "{text}");
        }
        for error in errors(&depot) {
            let text = error.to_string();
            assert!(!is_down_after(&depot, error, Maker::Program).await, "{text}");
        }
    }

    #[tokio::test]
    async fn depot_that_is_not_there_is_down_after_a_doubt() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let depot: DepotAddress = listener.local_addr().unwrap().to_string().parse().unwrap();
        drop(listener);
        for maker in [Maker::Own, Maker::Program] {
            for error in errors(&depot) {
                let text = error.to_string();
                let says_nothing =
                    matches!(error, ChainError::NotAsked { .. } | ChainError::Refused { .. });
                assert_eq!(is_down_after(&depot, error, maker).await, !says_nothing, "{text}");
            }
        }
    }
}
