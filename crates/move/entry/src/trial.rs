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
    chain::{ChainError, FirstHopDialer},
    connections,
    routes::ServerRoute,
    short::Choice,
};
use protocol::DepotAddress;
use relay::tcp::Stream;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
    vec,
};
use tokio::time::Instant;

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
    caller: Arc<FirstHopDialer>,
    depots: Arc<Mutex<HashMap<DepotAddress, State>>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    until: Option<Instant>,
    asked: Option<Instant>,
    is_being_asked: bool,
}

impl DownDepots {
    /// None so far; `caller` asks.
    pub(crate) fn new(caller: Arc<FirstHopDialer>) -> Self {
        Self { caller, depots: Arc::default() }
    }

    /// Whether this depot is to be left alone.
    fn contains(&self, depot: &DepotAddress) -> bool {
        let until = lock(&self.depots).get(depot).and_then(|state| state.until);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// A session could not be opened by this depot.
    fn note(&self, depot: &DepotAddress, error: &ChainError, maker: Maker) {
        match error {
            ChainError::Refused { .. } | ChainError::NotAsked { .. } => {}
            ChainError::Unreached { .. } if maker == Maker::Own => {
                let until = Some(Instant::now() + DOWN_TIME);
                lock(&self.depots).entry(depot.clone()).or_default().until = until;
            }
            ChainError::Unreached { .. } | ChainError::Late { .. } | ChainError::Broken { .. } => {
                self.ask(depot);
            }
        }
    }

    /// Asks a depot whether it is there, in the background.
    fn ask(&self, depot: &DepotAddress) {
        let now = Instant::now();
        {
            let mut depots = lock(&self.depots);
            let state = depots.entry(depot.clone()).or_default();
            let was_asked = state.asked.is_some_and(|asked| now < asked + ASK_AGAIN);
            if state.is_being_asked || was_asked {
                return;
            }
            (state.is_being_asked, state.asked) = (true, Some(now));
        }
        let (caller, depots, depot) =
            (Arc::clone(&self.caller), Arc::clone(&self.depots), depot.clone());
        tokio::spawn(async move {
            let answered = caller.ask_depot(&depot, ANSWER_TIME).await;
            let now = Instant::now();
            let mut depots = lock(&depots);
            let state = depots.entry(depot.clone()).or_default();
            (state.is_being_asked, state.asked) = (false, Some(now));
            match answered {
                Ok(()) | Err(ChainError::NotAsked { .. }) => {}
                Err(error) => {
                    tracing::warn!("{error}: it is left alone for {} s", DOWN_TIME.as_secs());
                    state.until = Some(now + DOWN_TIME);
                }
            }
        });
    }

    /// Begins to try routes, in their order.
    pub(crate) fn trial<'d, 'r>(&'d self, choice: Choice<'r>, maker: Maker) -> Trial<'d, 'r> {
        let Choice { routes, is_short } = choice;
        let otherwise = match (routes.is_empty(), is_short) {
            (false, _) => Unconnected::AllFailed(None),
            (true, true) => Unconnected::Short,
            (true, false) => Unconnected::NoRoute,
        };
        Trial { down: self, maker, routes: routes.into_iter(), otherwise }
    }

    /// A connection of this process by the first of these routes that works.
    pub(crate) async fn open_first(
        &self,
        choice: Choice<'_>,
        time: Duration,
    ) -> Result<(Stream, connections::Route), OpenError> {
        let mut trial = self.trial(choice, Maker::Own);
        while let Some(route) = trial.next() {
            match self.caller.open(&route, time).await {
                Ok((stream, hops)) => {
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

fn lock(
    depots: &Mutex<HashMap<DepotAddress, State>>,
) -> MutexGuard<'_, HashMap<DepotAddress, State>> {
    depots.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Routes to a destination, being tried.
pub(crate) struct Trial<'d, 'r> {
    down: &'d DownDepots,
    maker: Maker,
    routes: vec::IntoIter<ServerRoute<'r>>,
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
    /// The next route whose first depot is not down.
    pub(crate) fn next(&mut self) -> Option<ServerRoute<'r>> {
        self.routes.find(|route| !self.down.contains(&route.depots[0]))
    }

    /// A route does not work.
    ///
    /// # Errors
    /// The depots have done their part, and the server cannot be reached. No other route is to be tried.
    pub(crate) fn failed(
        &mut self,
        route: &ServerRoute<'_>,
        error: ChainError,
    ) -> Result<(), ChainError> {
        if error.is_of_server() {
            return Err(error);
        }
        self.down.note(&route.depots[0], &error, self.maker);
        self.otherwise = Unconnected::AllFailed(Some(error));
        Ok(())
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
    async fn is_down_after(depot: &DepotAddress, error: &ChainError, maker: Maker) -> bool {
        let down = DownDepots::new(Arc::default());
        down.note(depot, error, maker);
        while lock(&down.depots).get(depot).is_some_and(|state| state.is_being_asked) {
            sleep(Duration::from_millis(5)).await;
        }
        down.contains(depot)
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
        for error in &errors(&depot) {
            let is_unreached = matches!(error, ChainError::Unreached { .. });
            assert_eq!(is_down_after(&depot, error, Maker::Own).await, is_unreached, "{error}");
            assert!(!is_down_after(&depot, error, Maker::Program).await, "{error}");
        }
    }

    #[tokio::test]
    async fn depot_that_is_not_there_is_down_after_a_doubt() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let depot: DepotAddress = listener.local_addr().unwrap().to_string().parse().unwrap();
        drop(listener);
        for error in &errors(&depot) {
            let says_nothing =
                matches!(error, ChainError::NotAsked { .. } | ChainError::Refused { .. });
            for maker in [Maker::Own, Maker::Program] {
                let is_down = is_down_after(&depot, error, maker).await;
                assert_eq!(is_down, !says_nothing, "{error}");
            }
        }
    }
}
