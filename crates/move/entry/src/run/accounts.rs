// SPDX-License-Identifier: GPL-2.0-or-later
//! What the program's connections carry. No process is between them and their peers, so the kernel is asked: it tells of
//! each socket that it lets go of, and lists those that are there.
//!
//! Limits: 65 536 open connections are followed, further ones are not. If notices come faster than they are read, some are
//! lost: their connections then count as unknown, and what was known for the rule of short connections is forgotten.

use super::tally::{Connection, Outcome, Tally, Traffic};
use crate::{
    short::{Choice, History},
    sys,
};
use host::{Carried, ClosedSocket, ClosedSockets, TcpSocket, TcpSockets};
use route::{Destination, Route};
use std::{
    cell::RefCell,
    collections::{HashMap, hash_map::Entry},
    io,
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    task::spawn_local,
    time::sleep,
};
use units::Bytes;

/// The most open connections that are followed.
const MOST: usize = 65_536;
/// How long connections whose program has ended have time to end themselves.
const SETTLING: Duration = Duration::from_secs(1);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// The least time between two looks at open connections.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The program's connections.
#[derive(Default)]
pub(super) struct Accounts(RefCell<State>);

#[derive(Default)]
struct State {
    tally: Tally,
    /// By the cookies of their sockets.
    open: HashMap<u64, Open>,
    history: History,
    /// If connections are followed.
    sockets: Option<TcpSockets>,
    looked: Option<Instant>,
}

/// A connection that is open.
struct Open {
    number: u64,
    to: String,
    headers: Carried,
    begun: Instant,
    /// What it had moved when it was looked at.
    moved: u64,
}

impl Open {
    fn traffic(&self, carried: Carried, is_open: bool) -> Traffic {
        let less = |all: Bytes, own: Bytes| all.get().saturating_sub(own.get());
        Traffic {
            sent: less(carried.sent, self.headers.sent),
            received: less(carried.received, self.headers.received),
            lasted: self.begun.elapsed(),
            is_open,
        }
    }
}

/// How a connection was made.
pub(super) struct Made {
    pub outcome: Outcome,
    /// Its socket's cookie.
    pub cookie: Option<u64>,
    /// What the socket has carried that is not the program's.
    pub headers: Carried,
}

impl Made {
    /// One that has carried nothing yet.
    pub(super) fn fresh(outcome: Outcome) -> Self {
        Self { outcome, cookie: None, headers: Carried::default() }
    }
}

impl Accounts {
    /// Begins to follow connections.
    ///
    /// # Errors
    /// The kernel does not tell. The traffic of connections is then not known.
    pub(super) fn follow(self: &Rc<Self>) -> io::Result<()> {
        let begin =
            || Ok((TcpSockets::open()?, sys::watch(ClosedSockets::open()?, Interest::READABLE)?));
        let (sockets, closed) = begin().inspect_err(|error: &io::Error| {
            let why = format!("the kernel does not tell: {error}");
            self.0.borrow_mut().tally.set_unknown_because(&why);
        })?;
        self.0.borrow_mut().sockets = Some(sockets);
        spawn_local(Rc::clone(self).read(closed));
        Ok(())
    }

    async fn read(self: Rc<Self>, mut closed: AsyncFd<ClosedSockets>) {
        loop {
            let state = &self.0;
            let read = |closed: &mut ClosedSockets| {
                closed.read(|cookie| state.borrow().open.contains_key(&cookie))
            };
            match closed.async_io_mut(Interest::READABLE, read).await {
                Ok(Some(socket)) => state.borrow_mut().close(socket),
                Ok(None) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    let mut state = state.borrow_mut();
                    state.tally.set_unknown_because("too many connections ended at once");
                    state.history.forget_all();
                    drop(state);
                    spawn_local(Rc::clone(&self).drop_lost());
                }
                Err(error) => {
                    let why = format!("the kernel's notices cannot be read: {error}");
                    return state.borrow_mut().tally.set_unknown_because(&why);
                }
            }
        }
    }

    /// Forgets connections that have ended without a notice.
    async fn drop_lost(self: Rc<Self>) {
        let alive = self.0.borrow_mut().look();
        let Ok(alive) = alive else { return };
        let before: Vec<u64> = self.0.borrow().open.keys().copied().collect();
        // Notices that were not lost may still wait.
        sleep(SETTLING).await;
        let mut state = self.0.borrow_mut();
        for cookie in before.iter().filter(|cookie| !alive.contains_key(cookie)) {
            state.open.remove(cookie);
        }
    }

    /// Counts a connection, before the program may use it.
    pub(super) fn add(&self, connection: Connection, made: &Made) {
        let mut state = self.0.borrow_mut();
        let (to, has_failed) = (
            Destination::Address(connection.destination).key(),
            matches!(connection.outcome, Outcome::Failed { .. }),
        );
        let number = state.tally.add(connection);
        if has_failed || state.sockets.is_none() {
            return;
        }
        let is_full = state.open.len() >= MOST;
        let Some(cookie) = made.cookie else { return };
        let open = Open { number, to, headers: made.headers, begun: Instant::now(), moved: 0 };
        match state.open.entry(cookie) {
            // The program has disconnected this socket and connects it again: what it has carried is lost.
            Entry::Occupied(mut before) => {
                before.insert(open);
            }
            Entry::Vacant(place) if !is_full => {
                place.insert(open);
            }
            Entry::Vacant(_) => state.tally.set_unknown_because("too many connections were open"),
        }
    }

    /// The routes to try, without those that are for longer connections.
    pub(super) fn choose<'r>(&self, to: &Destination, routes: Vec<Route<'r>>) -> Choice<'r> {
        let to = to.key();
        if routes.iter().all(|route| route.short.is_none()) {
            return Choice { routes, is_short: false };
        }
        // Looking needs the state to itself.
        let mut state = self.0.borrow_mut();
        let history = std::mem::take(&mut state.history);
        let choice = history.choose(&to, routes, || state.most_moved(&to), Instant::now());
        state.history = history;
        choice
    }

    /// What is known, when the program has ended: its connections get a moment to end as well.
    pub(super) async fn settle(&self) -> Tally {
        let begun = Instant::now();
        loop {
            let is_late = begun.elapsed() >= SETTLING;
            if let Some(tally) = self.0.borrow_mut().settled(is_late) {
                return tally;
            }
            sleep(LOOK).await;
        }
    }
}

impl State {
    fn close(&mut self, socket: ClosedSocket) {
        let Some(open) = self.open.remove(&socket.cookie) else { return };
        if let Some(carried) = socket.carried {
            let traffic = open.traffic(carried, false);
            self.history.note(&open.to, traffic.moved(), Instant::now());
            self.tally.account(open.number, traffic);
        }
    }

    /// The most that one of a destination's open connections has moved.
    fn most_moved(&mut self, to: &str) -> u64 {
        let is_due = self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_AGAIN);
        if is_due && self.open.values().any(|open| open.to == to) {
            self.looked = Some(Instant::now());
            let alive = self.look().unwrap_or_default();
            for (cookie, open) in &mut self.open {
                if let Some(carried) = alive.get(cookie).and_then(TcpSocket::carried) {
                    open.moved = open.traffic(carried, true).moved();
                }
            }
        }
        let moved = self.open.values().filter(|open| open.to == to).map(|open| open.moved);
        moved.max().unwrap_or(0)
    }

    /// The sockets of followed connections, by their cookies.
    fn look(&mut self) -> io::Result<HashMap<u64, TcpSocket>> {
        let mut alive = HashMap::new();
        for v6 in [false, true] {
            let Some(sockets) = &mut self.sockets else { break };
            let found = sockets.connections(v6)?.into_iter();
            let followed = found.filter(|socket| self.open.contains_key(&socket.cookie));
            alive.extend(followed.map(|socket| (socket.cookie, socket)));
        }
        Ok(alive)
    }

    /// The tally, if no connection is about to end, or it is too late to wait.
    fn settled(&mut self, is_late: bool) -> Option<Tally> {
        if self.sockets.is_none() || self.open.is_empty() {
            return Some(self.tally.clone());
        }
        let alive = self.look().unwrap_or_default();
        let is_used = |cookie: &u64| alive.get(cookie).is_some_and(|socket| socket.is_open);
        (is_late || self.open.keys().all(is_used)).then(|| self.tally_with(&alive))
    }

    /// With what those have carried that have not ended.
    fn tally_with(&self, alive: &HashMap<u64, TcpSocket>) -> Tally {
        let mut tally = self.tally.clone();
        for (cookie, open) in &self.open {
            let socket = alive.get(cookie);
            if let Some((socket, carried)) = socket.and_then(|one| Some((one, one.carried()?))) {
                tally.account(open.number, open.traffic(carried, socket.is_open));
            }
        }
        tally
    }
}
