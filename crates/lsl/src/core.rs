// SPDX-License-Identifier: GPL-2.0-or-later
//! What of a session survives its connections: both streams, as far as they are.
//!
//! The application's handle, and the one connection that there is at a time, share it behind a lock that is never held
//! while anybody waits.

//!
//! ```text
//! application  what the handle does: write, read, end, confirm
//! connection   what the connection does: records in, records out
//! ```

mod application;
mod connection;

use crate::{error::Error, options::Options, outgoing::Outgoing};
use ::session::lsl::{
    Direction, Duplex, HopReport, Position, Prefix, Receiving, Sending, SessionId, SessionKey,
    handshake::EARLY_LIMIT,
};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};
use tokio::sync::Notify;

/// A session, without its connection.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) session: SessionId,
    direction: Direction,
    options: Options,
    state: Mutex<State>,
    /// Told when there may be something to send, or the session is over.
    pub(crate) to_send: Notify,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    outgoing: Outgoing,
    progress: Progress,
    incoming: VecDeque<Bytes>,
    /// How much was received when the application was given the last of it.
    taken: u64,
    marks: VecDeque<Position>,
    failure: Option<Error>,
    /// What the other end is told before the last connection is closed.
    last_words: Option<Vec<u8>>,
    key: Option<SessionKey>,
    hops: Vec<HopReport>,
    note: Vec<u8>,
    connections: u32,
    /// What the other end had when the session began.
    resumed: u64,
    /// Connections on which both ends have proved themselves.
    opened: u32,
    wakers: Vec<Waker>,
    /// Room for the next record.
    spare: Vec<u8>,
}

/// What has happened, once and for all.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each happens by itself")]
struct Progress {
    /// The application writes no more.
    is_ended: bool,
    /// All has arrived, and is what was sent.
    is_whole: bool,
    /// The application has all.
    is_confirmed: bool,
    /// The other end has proved that it has the key.
    is_proved: bool,
    /// Both ends have said and heard everything, and the connection is closed.
    is_closed: bool,
    /// The application is not there any more.
    is_abandoned: bool,
}

/// How far the two ends are with each other.
#[derive(Debug)]
enum Phase {
    /// An initiator that has not heard of the acceptor yet.
    Early(Sending),
    /// There is no connection on which anything may be sent.
    Paused(Box<Duplex>),
    /// Both ends have proved themselves on this connection.
    Open(Box<Duplex>),
}

impl Phase {
    fn duplex(&mut self) -> Option<&mut Duplex> {
        match self {
            Self::Early(_) => None,
            Self::Paused(duplex) | Self::Open(duplex) => Some(duplex),
        }
    }
}

impl State {
    fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

impl Core {
    /// An initiator's, before its first connection.
    pub(crate) fn initiator(session: SessionId, outgoing: Outgoing, options: Options) -> Arc<Self> {
        let sending = Sending::new(Direction::FromInitiator, EARLY_LIMIT);
        Self::new(session, Direction::FromInitiator, Phase::Early(sending), outgoing, options)
    }

    /// One of an end that has the key already.
    pub(crate) fn with_key(
        session: SessionId,
        key: SessionKey,
        sending: Sending,
        receiving: Receiving,
        own: Direction,
        outgoing: Outgoing,
        options: Options,
    ) -> Arc<Self> {
        let duplex = Box::new(Duplex::new(own, key, sending, receiving));
        Self::new(session, own, Phase::Paused(duplex), outgoing, options)
    }

    /// What an end of this direction receives, of which `prefix` is there already.
    pub(crate) fn first_receiving(direction: Direction, prefix: Prefix) -> Receiving {
        Receiving::new(direction.other(), prefix, EARLY_LIMIT)
    }

    fn new(
        session: SessionId,
        direction: Direction,
        phase: Phase,
        outgoing: Outgoing,
        options: Options,
    ) -> Arc<Self> {
        let is_ended = matches!(outgoing, Outgoing::Stored(_));
        let state = State {
            phase,
            outgoing,
            progress: Progress { is_ended, ..Progress::default() },
            incoming: VecDeque::new(),
            taken: 0,
            marks: VecDeque::new(),
            failure: None,
            last_words: None,
            key: None,
            hops: Vec::new(),
            note: Vec::new(),
            connections: 0,
            resumed: 0,
            opened: 0,
            wakers: Vec::new(),
            spare: Vec::new(),
        };
        let core =
            Self { session, direction, options, state: Mutex::new(state), to_send: Notify::new() };
        {
            let mut state = core.state();
            let taken = state.phase.duplex().map_or(0, |duplex| duplex.receiving().received());
            state.taken = taken;
            state.key = state.phase.duplex().map(|duplex| duplex.key().clone());
            if is_ended && let Some(duplex) = state.phase.duplex() {
                duplex.finish(Vec::new());
            }
        }
        Arc::new(core)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }
}

/// How far a session is.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub sent: u64,
    pub acknowledged: u64,
    pub received: u64,
    pub hops: Vec<HopReport>,
    pub connections: u32,
    pub opened: u32,
    pub resumed: u64,
    pub is_connected: bool,
}
