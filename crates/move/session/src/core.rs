// SPDX-License-Identifier: GPL-2.0-or-later
//! State of a session that survives its connections: the progress of both streams.
//!
//! The application's handle and the session's connections share it behind a lock that is never held while anybody waits.
//! There is one connection at a time, unless both ends have agreed on several at once.
//!
//! ```text
//! application  what the handle does: write, read, end, confirm
//! connection   what a connection does: records in, records out
//! lanes        which connections there are
//! ```

mod application;
mod connection;
mod lanes;

pub(crate) use lanes::{Lane, RouteFigures};

use crate::{
    digest::{Beginning, Digests},
    error::Error,
    options::Options,
    outgoing::Outgoing,
    state::State as Kept,
};
use ::route::SendOptions;
use bytes::Bytes;
use protocol::session::{
    Direction, Duplex, HopReport, LaneId, Position, Prefix, Receiving, Sending, SessionId,
    SessionKey,
    handshake::{EARLY_LIMIT, WholeDigest},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Instant,
};
use tokio::sync::{Notify, watch};

/// A session, without its connection.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) session: SessionId,
    direction: Direction,
    options: Options,
    /// The further digests, if they were agreed on.
    digests: Option<Digests>,
    state: Mutex<State>,
    /// Told when there may be something to send, or the session is over, before there is a connection.
    pub(crate) to_send: Notify,
    /// The connections, which are told the same.
    writers: Mutex<Vec<(LaneId, Arc<Notify>)>>,
    /// Held while the next record is made: of several connections one at a time reads the content, in order.
    making: tokio::sync::Mutex<()>,
    /// What the scheduler's time counts from.
    epoch: Instant,
    /// Whether the chooser of routes knows how all connections went. An acceptor has none.
    pub(crate) settled: watch::Sender<bool>,
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
    /// The END to send before the last connection is closed.
    last_words: Option<Vec<u8>>,
    key: Option<SessionKey>,
    hops: Vec<HopReport>,
    note: Vec<u8>,
    connections: u32,
    /// The most that an initiator asks for at once.
    most_at_once: u8,
    /// How an initiator sends on the first hop, as its chooser of routes wants it.
    send_options: SendOptions,
    /// The connection of [`Phase::Open`], if there is one at a time; otherwise the first of them.
    first_lane: Option<LaneId>,
    /// The latest number of a connection.
    last_lane: u32,
    /// What earlier connections carried, by route, if several were used at once.
    routes: Vec<RouteFigures>,
    /// Connections that are used at once now, and their routes.
    lanes: Vec<(LaneId, usize)>,
    /// Bytes that the other end had when the session began.
    resumed: u64,
    /// Connections on which both ends have proved themselves.
    opened: u32,
    /// The latest connection is sealed.
    is_sealed: bool,
    wakers: Vec<Waker>,
    /// Room for the next record.
    spare: Vec<u8>,
}

/// Permanent events of the session.
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
        let own = Direction::FromInitiator;
        let phase = Phase::Early(Sending::new(own, EARLY_LIMIT));
        let digests = Digests::begin(options.digest, Beginning::default());
        let digests = digests.expect("nothing is there yet");
        Self::new(session, own, phase, outgoing, digests, options)
    }

    /// One of an end that knows this of the session already, and may send up to `limit`.
    ///
    /// # Errors
    /// The received bytes were not hashed for the further digest.
    pub(crate) fn with_key(
        known: &Kept,
        own: Direction,
        limit: u64,
        received: Beginning,
        outgoing: Outgoing,
        options: Options,
    ) -> Result<Arc<Self>, Error> {
        let sending = Sending::new(own, limit);
        let receiving = Self::first_receiving(own, received.prefix().clone());
        let digests = Digests::begin(known.digest, received)?;
        let duplex = Duplex::new(own, known.key.clone(), sending, receiving);
        let phase = Phase::Paused(Box::new(duplex));
        Ok(Self::new(known.session, own, phase, outgoing, digests, options))
    }

    /// The receiving state of an end of this direction that has `prefix` already.
    pub(crate) fn first_receiving(direction: Direction, prefix: Prefix) -> Receiving {
        Receiving::new(direction.other(), prefix, EARLY_LIMIT)
    }

    fn new(
        session: SessionId,
        direction: Direction,
        phase: Phase,
        outgoing: Outgoing,
        digests: Option<Digests>,
        options: Options,
    ) -> Arc<Self> {
        let is_ended = matches!(&outgoing, Outgoing::Stored(stored) if !stored.grows());
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
            most_at_once: 0,
            send_options: SendOptions::default(),
            first_lane: None,
            last_lane: 0,
            routes: Vec::new(),
            lanes: Vec::new(),
            resumed: 0,
            opened: 0,
            is_sealed: false,
            wakers: Vec::new(),
            spare: Vec::new(),
        };
        let core = Self {
            session,
            direction,
            options,
            digests,
            state: Mutex::new(state),
            to_send: Notify::new(),
            writers: Mutex::default(),
            making: tokio::sync::Mutex::default(),
            epoch: Instant::now(),
            settled: watch::Sender::new(direction != Direction::FromInitiator),
        };
        {
            let mut state = core.state();
            let taken = state.phase.duplex().map_or(0, |duplex| duplex.receiving().received());
            state.taken = taken;
            state.key = state.phase.duplex().map(|duplex| duplex.key().clone());
            if is_ended && let Some(duplex) = state.phase.duplex() {
                duplex.finish();
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

    /// The further digest on which the ends have agreed.
    pub(crate) fn digest(&self) -> Option<WholeDigest> {
        self.digests.as_ref().map(Digests::kind)
    }
}

/// How far a session is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    pub sent: u64,
    /// Up to here the other end has room.
    pub limit: u64,
    pub acknowledged: u64,
    pub received: u64,
    pub hops: Vec<HopReport>,
    pub connections: u32,
    pub opened: u32,
    pub resumed: u64,
    pub is_connected: bool,
    pub is_sealed: bool,
    /// By route, if several connections are used at once.
    pub routes: Vec<RouteFigures>,
    pub send_options: SendOptions,
}
