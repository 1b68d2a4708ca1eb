// SPDX-License-Identifier: GPL-2.0-or-later
//! The connections of a session: one at a time, or several at once if both ends have agreed on that (docs/lsl.md, section 15).

use super::{Core, Phase, State};
use crate::error::Loss;
use protocol::session::LaneId;
use std::{
    future::poll_fn,
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, time::timeout};

/// How long a further connection waits to be allowed.
const ALLOWED_WITHIN: Duration = Duration::from_secs(5);

/// A connection while it is driven. When it is dropped, the session is told so.
#[derive(Debug)]
pub(crate) struct Lane<'c> {
    core: &'c Core,
    pub(crate) id: LaneId,
    /// Which of the initiator's routes it uses.
    pub(crate) route: usize,
    /// Told when there may be something to send, or the session is over.
    pub(crate) to_send: Arc<Notify>,
}

/// What the connections of a route came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RouteFigures {
    pub connections: u32,
    /// Bytes of the stream that have arrived by them, those that came again included.
    pub sent: u64,
    pub received: u64,
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        self.core.end_lane(self.id);
    }
}

impl State {
    /// What the connections of each route came to so far.
    pub(super) fn route_figures(&mut self) -> Vec<RouteFigures> {
        let mut routes = self.routes.clone();
        for (id, route) in self.lanes.clone() {
            let (sent, received) = self.phase.duplex().map_or((0, 0), |duplex| duplex.carried(id));
            let figures = at(&mut routes, route);
            figures.connections += 1;
            figures.sent += sent;
            figures.received += received;
        }
        routes
    }

    /// Keeps what a connection came to that is about to go.
    fn retire(&mut self, id: LaneId) {
        let Some(index) = self.lanes.iter().position(|(lane, _)| *lane == id) else { return };
        let (_, route) = self.lanes.swap_remove(index);
        let (sent, received) = self.phase.duplex().map_or((0, 0), |duplex| duplex.carried(id));
        let figures = at(&mut self.routes, route);
        figures.connections += 1;
        figures.sent += sent;
        figures.received += received;
    }
}

fn at(routes: &mut Vec<RouteFigures>, route: usize) -> &mut RouteFigures {
    if routes.len() <= route {
        routes.resize(route + 1, RouteFigures::default());
    }
    &mut routes[route]
}

impl Core {
    /// Time, as the scheduler counts it.
    pub(super) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    fn writers(&self) -> MutexGuard<'_, Vec<(LaneId, Arc<Notify>)>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There may be something to send.
    pub(super) fn wake_writers(&self) {
        self.to_send.notify_one();
        self.writers().iter().for_each(|(_, writer)| writer.notify_one());
    }

    /// A connection by this route of the initiator begins. It carries nothing before its handshake.
    pub(crate) fn begin_lane(&self, route: usize) -> Lane<'_> {
        let id = {
            let mut state = self.state();
            state.last_lane += 1;
            LaneId(state.last_lane)
        };
        let to_send = Arc::new(Notify::new());
        self.writers().push((id, Arc::clone(&to_send)));
        Lane { core: self, id, route, to_send }
    }

    /// The connection is gone. If no other is there, nothing is sent until there is one.
    fn end_lane(&self, id: LaneId) {
        self.writers().retain(|(writer, _)| *writer != id);
        let mut state = self.state();
        let is_one_of_several = state.lanes.iter().any(|(lane, _)| *lane == id);
        let is_only = state.lanes.is_empty() && state.first_lane == Some(id);
        if is_one_of_several {
            state.retire(id);
        }
        if is_one_of_several || is_only {
            let others = state.phase.duplex().is_some_and(|duplex| duplex.leave(id));
            if !others {
                state.first_lane = None;
                self.pause(&mut state);
            }
        } else if state.first_lane.is_none() {
            // Before the handshake's end an initiator may have sent something already.
            self.pause(&mut state);
        }
        state.wake();
        drop(state);
        self.wake_writers();
    }

    /// A further connection joins, on which `first` is sent before anything else.
    pub(crate) fn join(&self, lane: &Lane<'_>, first: Option<Vec<u8>>) -> Result<(), Loss> {
        let now = self.now();
        let mut state = self.state();
        let joined = match &mut state.phase {
            Phase::Open(duplex) => duplex.join(lane.id, first, now),
            Phase::Early(_) | Phase::Paused(_) => false,
        };
        if !joined {
            let reason = "the session takes no further connection at once".to_owned();
            return Err(Loss::Connection(reason));
        }
        state.lanes.push((lane.id, lane.route));
        drop(state);
        self.wake_writers();
        Ok(())
    }

    /// Whether a further connection may join. It may come before what allows it: that is under way on another connection.
    pub(crate) async fn takes_another(&self) -> bool {
        let takes = |state: &mut State| {
            matches!(&state.phase, Phase::Open(duplex) if duplex.takes_another()).then_some(())
        };
        let taken = timeout(ALLOWED_WITHIN, poll_fn(|context| self.poll(context, takes))).await;
        matches!(taken, Ok(Ok(())))
    }

    /// Whether several connections may be used at once.
    pub(crate) fn is_spread(&self) -> bool {
        matches!(&self.state().phase, Phase::Open(duplex) if duplex.is_spread())
    }

    /// Waits until several connections may be used at once.
    pub(crate) async fn spread(&self) {
        let is_spread = |state: &mut State| {
            matches!(&state.phase, Phase::Open(duplex) if duplex.is_spread()).then_some(())
        };
        if poll_fn(|context| self.poll(context, is_spread)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the session is over, or none of several connections is left.
    pub(crate) async fn no_connection(&self) -> Result<(), Loss> {
        let ended = |state: &mut State| {
            let is_closed = state.progress.is_closed;
            // When it is over, the last connection is about to say so.
            let is_open = matches!(state.phase, Phase::Open(_))
                || state.phase.duplex().is_some_and(|duplex| duplex.is_over());
            (state.failure.is_none() && (is_closed || !is_open)).then_some(is_closed)
        };
        if poll_fn(|context| self.poll(context, ended)).await? {
            Ok(())
        } else {
            Err(Loss::Connection("all connections are lost".to_owned()))
        }
    }

    /// Whether time alone may change what is to be sent.
    pub(crate) fn waits(&self) -> bool {
        matches!(&self.state().phase, Phase::Open(duplex) if duplex.waits())
    }

    /// Whether the connection is to be given up: what it carries does not arrive, and there are others.
    pub(crate) fn is_stuck(&self, lane: &Lane<'_>) -> bool {
        let now = self.now();
        matches!(&self.state().phase, Phase::Open(duplex) if duplex.is_stuck(lane.id, now))
    }

    /// As [`is_over`](Self::is_over), and this connection has nothing more to say.
    pub(crate) fn is_over_on(&self, lane: &Lane<'_>) -> bool {
        let mut state = self.state();
        let failed = state.failure.is_some() && state.last_words.is_none();
        failed || state.phase.duplex().is_some_and(|duplex| duplex.is_over_on(lane.id))
    }
}
