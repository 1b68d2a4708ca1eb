// SPDX-License-Identifier: GPL-2.0-or-later
//! Operations of a session's connection.

use super::{Core, Lane, Phase, Progress, State};
use crate::{
    digest::Digests,
    error::{Error, Loss},
    outgoing::{Piece, read_stored},
};
use ::route::SendOptions;
use bytes::Bytes;
use protocol::session::{
    Direction, Duplex, Event, HopReport, MAX_LANES, Next, Output, Position, PositionCheck, Prefix,
    Received, Sending, SessionKey,
    handshake::{Agreed, EARLY_LIMIT},
    record::{DATA_HEAD, DataHead, End, RECORD_HEAD, RecordKind},
    seal_again,
};
use std::{ops::Range, sync::Arc};

/// Length of the headers before the bytes of a DATA record.
const BEFORE_DATA: usize = RECORD_HEAD + DATA_HEAD;
/// Interval in bytes at which positions are remembered that a receiver may store.
const MARK_EVERY: u64 = 64 << 20;

impl Core {
    /// How an initiator is to send from now on. The most connections at once are those of the first time.
    pub(crate) fn send_by(&self, send_options: &SendOptions) {
        let mut state = self.state();
        state.send_options = send_options.clone();
        if state.most_at_once == 0 {
            let usual = self.options.connections.max(1);
            state.most_at_once =
                usual.max(send_options.connections.unwrap_or(1)).min(MAX_LANES as u8);
        }
    }

    /// How it sends now, and the most connections that it asks for at once.
    pub(crate) fn send_options(&self) -> (SendOptions, u8) {
        let state = self.state();
        (state.send_options.clone(), state.most_at_once)
    }

    /// There is a connection to be used, which may be sealed.
    pub(crate) fn connected(&self, is_sealed: bool) {
        let mut state = self.state();
        state.connections += 1;
        state.is_sealed = is_sealed;
    }

    /// The connection is gone: nothing is sent until there is another.
    pub(super) fn pause(&self, state: &mut State) {
        let phase = std::mem::replace(
            &mut state.phase,
            Phase::Early(Sending::new(self.direction, EARLY_LIMIT)),
        );
        state.phase = match phase {
            Phase::Open(duplex) => Phase::Paused(duplex),
            // The acceptor does not know it yet: it starts from the beginning.
            Phase::Early(_) => Phase::Early(Sending::new(self.direction, EARLY_LIMIT)),
            paused @ Phase::Paused(_) => paused,
        };
        state.wake();
    }

    /// How far the other end may send, what this one has, and the key; `None` if there is no key yet.
    pub(crate) fn terms(&self) -> Option<(SessionKey, u64, Position)> {
        let mut state = self.state();
        let duplex = state.phase.duplex()?;
        let receiving = duplex.receiving();
        Some((duplex.key().clone(), receiving.limit(), receiving.position()))
    }

    /// The depots that the connection goes through.
    pub(crate) fn set_hops(&self, hops: Vec<HopReport>) {
        self.state().hops = hops;
    }

    /// The acceptor's first answer on this connection: goes on from what it has.
    pub(crate) async fn welcomed(
        &self,
        lane: &Lane<'_>,
        agreed: Agreed,
        confirm: Vec<u8>,
    ) -> Result<(), Loss> {
        let Agreed { key, terms, position, connections } = agreed;
        // Where the rest fails, the acceptor is told with a proof.
        self.state().key = Some(key.clone());
        let resumed = position.offset;
        let check = self.check(position).await?;
        let mut state = self.state();
        let Phase::Early(sending) = &mut state.phase else {
            return Err(Loss::Connection("WELCOME came twice".to_owned()));
        };
        let mut sending = sending.clone();
        sending.welcome(check, terms.limit)?;
        let receiving = Self::first_receiving(self.direction, Prefix::default());
        let mut duplex = Duplex::new(self.direction, key, sending, receiving);
        duplex.send_first(confirm);
        if state.progress.is_ended {
            duplex.finish();
        }
        state.phase = Phase::Paused(Box::new(duplex));
        state.note = terms.note;
        state.resumed = resumed;
        let connections = connections.min(state.most_at_once);
        self.open(&mut state, lane, connections);
        drop(state);
        self.wake_writers();
        Ok(())
    }

    /// Both ends have proved themselves for another connection, which [`opened`](Self::opened) takes. `confirm` is what an
    /// initiator sends first.
    pub(crate) async fn reattached(
        &self,
        limit: u64,
        position: Position,
        confirm: Option<Vec<u8>>,
    ) -> Result<(), Loss> {
        let check = self.check(position).await?;
        let mut state = self.state();
        let duplex = state.phase.duplex().expect("a session with a key is attached again");
        duplex.reattach(check, limit)?;
        if let Some(record) = confirm {
            duplex.send_first(record);
        }
        Ok(())
    }

    /// Both ends have proved themselves on this connection; up to `connections` may be used at once.
    pub(crate) fn opened(&self, lane: &Lane<'_>, connections: u8) {
        self.open(&mut self.state(), lane, connections);
        self.wake_writers();
    }

    /// The initiator of a new session has proved itself.
    pub(crate) fn confirmed(&self, lane: &Lane<'_>, connections: u8) {
        self.proved();
        self.opened(lane, connections);
    }

    /// An initiator that has not proved itself begins again, with another key.
    pub(crate) fn begun_again(&self, key: SessionKey, limit: u64) {
        let mut state = self.state();
        state.key = Some(key.clone());
        let own = self.direction;
        state.phase.duplex().expect("an acceptor has a key").begin_again(own, key, limit);
    }

    /// The other end has proved that it has the key.
    pub(crate) fn proved(&self) {
        let mut state = self.state();
        state.progress.is_proved = true;
        state.wake();
    }

    /// Whether it has.
    pub(crate) fn is_proved(&self) -> bool {
        self.state().progress.is_proved
    }

    /// The session has failed before a connection could say so; with what the other end is told.
    pub(crate) fn fail_with_words(&self, error: Error) -> Option<Vec<u8>> {
        self.fail(error);
        self.state().last_words.take()
    }

    fn open(&self, state: &mut State, lane: &Lane<'_>, connections: u8) {
        let placeholder = Phase::Early(Sending::new(Direction::FromInitiator, 0));
        state.phase = match std::mem::replace(&mut state.phase, placeholder) {
            Phase::Paused(duplex) => Phase::Open(duplex),
            other => other,
        };
        state.opened += 1;
        state.first_lane = Some(lane.id);
        if connections > 1
            && let Some(duplex) = state.phase.duplex()
        {
            duplex.spread(lane.id, self.now());
            state.lanes.push((lane.id, lane.route));
        }
        state.wake();
    }

    /// Reads what this end has sent up to the other one's position, if it has to, and compares.
    async fn check(&self, position: Position) -> Result<PositionCheck, Loss> {
        let mut check = {
            let mut state = self.state();
            let (kept, available) = (state.outgoing.kept_from(), state.outgoing.available());
            match &mut state.phase {
                Phase::Early(sending) => sending.check(position, kept, available)?,
                Phase::Open(duplex) | Phase::Paused(duplex) => {
                    duplex.sending().check(position, kept, available)?
                }
            }
        };
        while let Some(range) = check.next() {
            let bytes = self.read(range.clone(), 0).await?;
            check.feed(&bytes);
            if let Some(digests) = &self.digests {
                digests.feed_sent(range.start, &bytes);
            }
            tokio::task::yield_now().await;
        }
        Ok(check)
    }

    /// Reads a range of the content into a buffer, after `room` free bytes.
    async fn read(&self, range: Range<u64>, room: usize) -> Result<Vec<u8>, Loss> {
        let (buffer, piece) = Self::begin_read(&mut self.state(), &range, room);
        self.end_read((buffer, piece), range, room).await
    }

    /// The same, or `None` if the bytes are not kept any more: the other end has them.
    async fn read_if_kept(&self, range: Range<u64>) -> Result<Option<Vec<u8>>, Loss> {
        let begun = {
            let mut state = self.state();
            if range.start < state.outgoing.kept_from() {
                return Ok(None);
            }
            Self::begin_read(&mut state, &range, 0)
        };
        self.end_read(begun, range, 0).await.map(Some)
    }

    fn begin_read(state: &mut State, range: &Range<u64>, room: usize) -> (Vec<u8>, Piece) {
        let mut buffer = std::mem::take(&mut state.spare);
        buffer.resize(room + (range.end - range.start) as usize, 0);
        let piece = state.outgoing.read(range, &mut buffer[room..]);
        (buffer, piece)
    }

    async fn end_read(
        &self,
        (buffer, piece): (Vec<u8>, Piece),
        range: Range<u64>,
        room: usize,
    ) -> Result<Vec<u8>, Loss> {
        match piece {
            Piece::Copied => Ok(buffer),
            Piece::Stored(stored) => read_stored(stored, range.start, buffer, room)
                .await
                .map_err(|error| Loss::Fatal(Error::Source(Arc::new(error)))),
        }
    }

    /// The next record to send on this connection; `None` if there is none just now.
    pub(crate) async fn next_record(&self, lane: &Lane<'_>) -> Result<Option<Vec<u8>>, Loss> {
        let _making = self.making.lock().await;
        loop {
            let next = match self.next_output(lane) {
                None => return Ok(None),
                Some(Output::Record(record)) => return Ok(Some(record)),
                Some(Output::Fin) => return Ok(self.fin()),
                Some(Output::Data(next)) => next,
            };
            match next {
                Next::New(range) => {
                    if let Some(record) = self.new_data(lane, range).await? {
                        return Ok(Some(record));
                    }
                }
                Next::Again { group, range } => {
                    if let Some(record) = self.again(lane, group, range).await? {
                        return Ok(Some(record));
                    }
                }
            }
        }
    }

    fn next_output(&self, lane: &Lane<'_>) -> Option<Output> {
        let mut state = self.state();
        if let Some(words) = state.last_words.take() {
            return Some(Output::Record(words));
        }
        let available = state.outgoing.available();
        match &mut state.phase {
            // What several connections carry is known from the beginning.
            Phase::Early(_) if !self.options.secret.is_empty() || self.options.connections > 1 => {
                None
            }
            Phase::Early(sending) => sending.next(available).map(Output::Data),
            Phase::Open(duplex) => duplex.next_on(lane.id, available, self.now()),
            Phase::Paused(_) => None,
        }
    }

    fn fin(&self) -> Option<Vec<u8>> {
        let digest = self.digests.as_ref().map(|digests| digests.sent().1);
        let mut state = self.state();
        Some(state.phase.duplex()?.fin(digest.unwrap_or_default()))
    }

    /// Reads and seals the bytes that follow; `None` if others do by then.
    async fn new_data(&self, lane: &Lane<'_>, range: Range<u64>) -> Result<Option<Vec<u8>>, Loss> {
        let from = range.start;
        let mut record = self.read(range.clone(), BEFORE_DATA).await?;
        if self.digests.is_some() {
            // What is hashed at a time is one record.
            tokio::task::yield_now().await;
        }
        let (head, bytes) = record.split_at_mut(BEFORE_DATA);
        let sealed = {
            let mut state = self.state();
            // WELCOME may have come meanwhile, and the other end may have more than was sent.
            let sent = match &state.phase {
                Phase::Early(sending) => sending.sent(),
                Phase::Open(duplex) | Phase::Paused(duplex) => duplex.sending().sent(),
            };
            if sent != from {
                return Ok(None);
            }
            match &mut state.phase {
                Phase::Early(sending) => sending.seal(bytes),
                Phase::Open(duplex) | Phase::Paused(duplex) => {
                    let head = duplex.seal(bytes);
                    duplex.sent_on(lane.id, &range, self.now());
                    head
                }
            }
        };
        if let Some(digests) = &self.digests {
            digests.feed_sent(from, bytes);
        }
        head.copy_from_slice(&sealed.to_record(bytes.len()));
        Ok(Some(record))
    }

    /// Takes back the room of a record that has been sent.
    pub(crate) fn recycle(&self, record: Vec<u8>) {
        let mut state = self.state();
        if record.capacity() > state.spare.capacity() {
            state.spare = record;
        }
    }

    async fn again(
        &self,
        lane: &Lane<'_>,
        group: u64,
        range: Range<u64>,
    ) -> Result<Option<Vec<u8>>, Loss> {
        let Some(whole) = self.read_if_kept(group..range.end).await? else {
            if let Some(duplex) = self.state().phase.duplex() {
                duplex.sent_again();
            }
            return Ok(None);
        };
        let (before, bytes) = whole.split_at((range.start - group) as usize);
        let head = seal_again(range.start, before, bytes);
        if let Some(duplex) = self.state().phase.duplex() {
            duplex.sent_again();
            duplex.sent_on(lane.id, &range, self.now());
        }
        Ok(Some([&head.to_record(bytes.len())[..], bytes].concat()))
    }

    /// Takes DATA of an initiator that has not proved itself yet (rule 6.5).
    pub(crate) async fn early_data(&self, payload: Bytes) -> Result<(), Loss> {
        self.take_early(payload)?;
        self.hash_received().await;
        Ok(())
    }

    fn take_early(&self, mut payload: Bytes) -> Result<(), Loss> {
        let head = payload.split_to(DATA_HEAD);
        let head: &[u8; DATA_HEAD] = head[..].try_into().expect("a record of this type has it");
        let head = DataHead::parse(head, payload.len())?;
        let mut state = self.state();
        let duplex = state.phase.duplex().expect("an acceptor has the key");
        match duplex.early_data(&head, payload)? {
            Received::Deliver(bytes) => self.deliver(&mut state, bytes),
            // AGAIN cannot be sent yet; the gap is asked for later.
            Received::Nothing | Received::Again(_) => {}
        }
        state.wake();
        Ok(())
    }

    /// Takes a record that came on this connection.
    pub(crate) async fn receive(
        &self,
        lane: &Lane<'_>,
        kind: Option<RecordKind>,
        payload: Bytes,
    ) -> Result<(), Loss> {
        let is_whole = self.take_record(lane, kind, payload)?;
        self.hash_received().await;
        if is_whole { self.compare_whole() } else { Ok(()) }
    }

    /// Whether all has arrived with it.
    fn take_record(
        &self,
        lane: &Lane<'_>,
        kind: Option<RecordKind>,
        payload: Bytes,
    ) -> Result<bool, Loss> {
        let mut is_whole = false;
        let mut state = self.state();
        let Phase::Open(duplex) = &mut state.phase else {
            return Err(Loss::Connection("a record came before the handshake's end".to_owned()));
        };
        match duplex.receive_on(lane.id, kind, payload, self.now())? {
            Event::Nothing => {}
            Event::Deliver(bytes) => self.deliver(&mut state, bytes),
            Event::Whole(bytes) => {
                self.deliver(&mut state, bytes);
                is_whole = true;
            }
            Event::Acknowledged => {
                let needed = duplex.sending().needed_from();
                state.outgoing.release(needed);
            }
            Event::Ended(end) if end.is_proved && end.code != 9 => {
                return Err(Loss::Fatal(Error::ended(&end)));
            }
            Event::Ended(end) => {
                let error = Error::ended(&end);
                return Err(Loss::Connection(format!("the connection was ended: {error}")));
            }
        }
        state.wake();
        drop(state);
        self.wake_writers();
        Ok(is_whole)
    }

    /// Hashes what has been received, for the further digest, if there is one.
    async fn hash_received(&self) {
        let Some(digests) = &self.digests else { return };
        while digests.hash_next() {
            tokio::task::yield_now().await;
        }
    }

    /// Compares all that has arrived at once. It is confirmed when the application has it.
    fn compare_whole(&self) -> Result<(), Loss> {
        let mut state = self.state();
        let duplex = state.phase.duplex().expect("what arrives has been verified");
        duplex.receiving().done(duplex.key(), &self.hashed_digest())?;
        state.progress.is_whole = true;
        if state.progress.is_confirmed {
            self.confirm_now(&mut state)?;
        }
        state.wake();
        drop(state);
        self.wake_writers();
        Ok(())
    }

    /// The further digest that FIN must contain.
    fn hashed_digest(&self) -> Vec<u8> {
        self.digests.as_ref().map(Digests::received).unwrap_or_default()
    }

    fn deliver(&self, state: &mut State, bytes: Vec<Bytes>) {
        if let Some(digests) = &self.digests {
            digests.push_received(&bytes);
        }
        state.incoming.extend(bytes.into_iter().filter(|bytes| !bytes.is_empty()));
        let duplex = state.phase.duplex().expect("what arrives has been verified");
        let received = duplex.receiving().received();
        let marked = state.marks.back().map_or(0, |mark| mark.offset);
        if received / MARK_EVERY > marked / MARK_EVERY {
            state.marks.push_back(duplex.receiving().position());
        }
    }

    pub(super) fn confirm_now(&self, state: &mut State) -> Result<(), Error> {
        let duplex = state.phase.duplex().expect("what arrives has been verified");
        Ok(duplex.complete(&self.hashed_digest())?)
    }

    /// Asks the other end for a sign of life on this connection.
    pub(crate) fn ping(&self, lane: &Lane<'_>) {
        if let Phase::Open(duplex) = &mut self.state().phase {
            duplex.ping_on(lane.id);
        }
    }

    /// The session has failed. Unless the other end has said so, it is told.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.state();
        if state.failure.is_none() {
            if let Some(code) = error.code() {
                let (text, key) = (error.to_string(), state.key.as_ref());
                let words = End::to_record(code, &text, self.direction, key);
                let has_lanes =
                    state.phase.duplex().is_some_and(|duplex| duplex.send_last_words(&words));
                state.last_words = (!has_lanes).then_some(words);
            }
            state.failure = Some(error);
        }
        state.wake();
        drop(state);
        self.wake_writers();
    }

    /// Both ends have said and heard everything, and the connection is closed.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.progress.is_closed = true;
        state.wake();
    }

    /// Whether nothing is left to be done: both streams are, or the session has failed.
    pub(crate) fn is_over(&self) -> bool {
        let mut state = self.state();
        let failed = state.failure.is_some() && state.last_words.is_none();
        failed || state.phase.duplex().is_some_and(|duplex| duplex.is_over())
    }

    /// Whether the session has failed, and the other end was told why, or is not to be told: it cannot continue.
    pub(crate) fn is_gone(&self) -> bool {
        let state = self.state();
        state.failure.is_some() && state.last_words.is_none()
    }

    /// Whether the application has gone, and everything that it has ended has arrived.
    pub(crate) fn is_abandoned(&self) -> bool {
        let mut state = self.state();
        let has_sent = |state: &mut State| {
            state.phase.duplex().is_some_and(|duplex| duplex.sending().is_done())
        };
        let Progress { is_abandoned, is_ended, is_confirmed, .. } = &state.progress;
        let (gone, ended, confirmed) = (*is_abandoned, *is_ended, *is_confirmed);
        gone && (!ended || !confirmed && has_sent(&mut state))
    }
}
