// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections that this process passes on, and totals of those that have ended.

use crate::{
    short::{Choice, History},
    tunnel::Passed,
};
use protocol::{Authority, DepotAddress, session::HopReport};
use route::Destination;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Why a connection is direct whose destination's connections are short.
const SHORT: &str = "short connections";

/// How a client is connected to its server.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    /// Through these depots; each with its connection to the next one.
    Through(Vec<String>),
    /// Without depots, since no route leads there.
    Direct,
    /// Without depots, since its destination's connections are short.
    Short,
    /// Without depots, since they failed.
    FellBack(String),
}

impl Route {
    pub(crate) fn through(depots: &[DepotAddress], hops: &[HopReport]) -> Self {
        let hop = |(at, depot): (usize, &DepotAddress)| match hops.get(at) {
            Some(HopReport { congestion, rtt_us, .. }) => {
                let congestion = congestion.as_ref().map_or("?", |name| name.as_str());
                format!("{depot} ({congestion}, {:.1} ms)", f64::from(*rtt_us) / 1e3)
            }
            None => depot.to_string(),
        };
        Self::Through(depots.iter().enumerate().map(hop).collect())
    }
}

/// A connection that is under route.
#[derive(Debug)]
pub(crate) struct Connection {
    number: u64,
    client: SocketAddr,
    protocol: &'static str,
    destination: Authority,
    route: Route,
    begun: Instant,
    pub passed: Passed,
}

impl Connection {
    fn key(&self) -> String {
        Destination::Named(self.destination.clone()).key()
    }

    /// Bytes from the client, and to it.
    fn moved(&self) -> [u64; 2] {
        [self.passed.up.moved(), self.passed.down.moved()]
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Live(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    number: u64,
    through: u64,
    direct: u64,
    fell_back: u64,
    failed: u64,
    up_bytes: u64,
    down_bytes: u64,
    connections: BTreeMap<u64, Arc<Connection>>,
    history: History,
}

/// A connection, listed for as long as this is there.
pub(crate) struct Listed<'l> {
    live: &'l Live,
    pub connection: Arc<Connection>,
}

impl Live {
    pub(crate) fn list(
        &self,
        client: SocketAddr,
        protocol: &'static str,
        destination: &Authority,
        route: Route,
    ) -> Listed<'_> {
        let mut state = self.state();
        state.number += 1;
        match route {
            Route::Through(_) => state.through += 1,
            Route::Direct | Route::Short => state.direct += 1,
            Route::FellBack(_) => state.fell_back += 1,
        }
        let connection = Arc::new(Connection {
            number: state.number,
            client,
            protocol,
            destination: destination.clone(),
            route,
            begun: Instant::now(),
            passed: Passed::default(),
        });
        state.connections.insert(connection.number, Arc::clone(&connection));
        Listed { live: self, connection }
    }

    /// The routes to try, without those that are for longer connections.
    pub(crate) fn choose<'r>(&self, to: &Destination, routes: Vec<route::Route<'r>>) -> Choice<'r> {
        let (to, state) = (to.key(), self.state());
        let most_moved = || {
            let there = state.connections.values().filter(|connection| connection.key() == to);
            there.map(|connection| connection.moved().iter().sum()).max().unwrap_or(0)
        };
        state.history.choose(&to, routes, most_moved, Instant::now())
    }

    pub(crate) fn failed(&self) {
        self.state().failed += 1;
    }

    /// A connection goes directly, and not through this process.
    pub(crate) fn fell_back(&self) {
        self.state().fell_back += 1;
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.state().connections.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What they are at the moment.
    pub(crate) fn status(&self) -> Status {
        let state = self.state();
        let (mut up_bytes, mut down_bytes) = (state.up_bytes, state.down_bytes);
        let entries = state.connections.values().map(|connection| {
            let [up, down] = connection.moved();
            (up_bytes, down_bytes) = (up_bytes + up, down_bytes + down);
            let (through, direct_because) = match &connection.route {
                Route::Through(depots) => (depots.clone(), None),
                Route::Direct => (Vec::new(), None),
                Route::Short => (Vec::new(), Some(SHORT.to_owned())),
                Route::FellBack(why) => (Vec::new(), Some(why.clone())),
            };
            Entry {
                number: connection.number,
                client: connection.client,
                protocol: connection.protocol.to_owned(),
                destination: connection.destination.to_string(),
                through,
                direct_because,
                up_bytes: up,
                down_bytes: down,
                seconds: connection.begun.elapsed().as_secs_f64(),
            }
        });
        let connections = entries.collect();
        Status {
            connections,
            through: state.through,
            direct: state.direct,
            fell_back: state.fell_back,
            failed: state.failed,
            up_bytes,
            down_bytes,
        }
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let mut state = self.live.state();
        let [up, down] = self.connection.moved();
        state.up_bytes += up;
        state.down_bytes += down;
        state.history.note(&self.connection.key(), up + down, Instant::now());
        state.connections.remove(&self.connection.number);
    }
}

/// What an agent does: `/status.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// Those under way, the oldest first.
    pub connections: Vec<Entry>,
    /// Connections so far that went through depots.
    pub through: u64,
    /// That went directly, since no route leads there.
    pub direct: u64,
    /// That went directly, since all their routes failed.
    pub fell_back: u64,
    /// That were not made.
    pub failed: u64,
    /// Bytes from clients so far.
    pub up_bytes: u64,
    /// Bytes to clients so far.
    pub down_bytes: u64,
}

/// A connection under route.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// Since the start.
    pub number: u64,
    /// Who asks.
    pub client: SocketAddr,
    /// `socks5`, `connect` or `http` at an agent; `tcp` if it was intercepted.
    pub protocol: String,
    /// What was asked for.
    pub destination: String,
    /// The depots, each with the congestion control and round trip of its connection to the next.
    pub through: Vec<String>,
    /// Why there are none, where there should be.
    pub direct_because: Option<String>,
    /// Bytes from the client.
    pub up_bytes: u64,
    /// Bytes to the client.
    pub down_bytes: u64,
    /// Its age.
    pub seconds: f64,
}
