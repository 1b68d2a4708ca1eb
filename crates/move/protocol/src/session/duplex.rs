// SPDX-License-Identifier: GPL-2.0-or-later
//! Both directions of a session whose ends have greeted each other: reads records, and says what to send.
//!
//! ```text
//! record ──▶ receive() ──▶ bytes to deliver      next() ──▶ record, or a range of bytes to read and seal
//! ```
//! It outlives connections: [`Duplex::reattach`] continues on another one. It may have several at once (`lanes`).

mod lanes;

use crate::session::{
    Direction, Malformed, Next, PositionCheck, PositionError, ReceiveError, Received, Receiving,
    Sending, SessionKey,
    record::{
        Ack, DATA_HEAD, DataHead, End, RECORD_HEAD, RecordHead, RecordKind, Whole, offset, record,
    },
};
use bytes::{Buf, Bytes, BytesMut};
use lanes::Lanes;
use std::collections::VecDeque;

/// So much is delivered before it is acknowledged. Rule 9.1 allows four times as much.
const ACK_EVERY: u64 = 1 << 20;
/// Records that wait to be sent, at most: a peer that asks for more without reading breaks the rules.
const MAX_OUTBOX: usize = 1024;

/// Both directions.
#[derive(Debug)]
pub struct Duplex {
    own: Direction,
    key: SessionKey,
    sending: Sending,
    receiving: Receiving,
    outbox: VecDeque<Vec<u8>>,
    acknowledged: Ack,
    /// Whether the application sends no more.
    is_ending: bool,
    /// Whether FIN was sent on this connection.
    fin_sent: bool,
    /// Whether DONE was sent, on this connection or an earlier one. The other end repeats FIN if it has not arrived.
    done_sent: bool,
    /// The connections, if there may be several at once.
    lanes: Option<Lanes>,
}

/// The result of processing a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Nothing for the application.
    Nothing,
    /// These bytes are the next ones, verified.
    Deliver(Vec<Bytes>),
    /// The other end has sent FIN, and everything before it has been delivered to the caller.
    /// [`Duplex::complete`] compares the whole.
    Whole(Vec<Bytes>),
    /// The other end has acknowledged more, or takes more.
    Acknowledged,
    /// The other end ends the connection, or the session.
    Ended(End),
}

/// A record to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A whole record.
    Record(Vec<u8>),
    /// Bytes, which the caller reads and has sealed.
    Data(Next),
    /// The end of the stream, of which the caller has the digest: [`Duplex::fin`].
    Fin,
}

/// Splits a whole record off what was read; `None` if it is not all there.
///
/// # Errors
/// It is malformed.
pub fn split_record(
    buffer: &mut BytesMut,
) -> Result<Option<(Option<RecordKind>, Bytes)>, Malformed> {
    let Some(head) = buffer.first_chunk::<RECORD_HEAD>() else { return Ok(None) };
    let RecordHead { kind, length } = RecordHead::parse(*head)?;
    if buffer.len() < RECORD_HEAD + length {
        return Ok(None);
    }
    buffer.advance(RECORD_HEAD);
    Ok(Some((kind, buffer.split_to(length).freeze())))
}

impl Duplex {
    /// Both directions of a session in which this end sends in the direction `own`.
    pub fn new(own: Direction, key: SessionKey, sending: Sending, receiving: Receiving) -> Self {
        Self {
            own,
            key,
            acknowledged: receiving.ack(),
            sending,
            receiving,
            outbox: VecDeque::new(),
            is_ending: false,
            fin_sent: false,
            done_sent: false,
            lanes: None,
        }
    }

    /// The direction in which this end sends.
    pub fn sending(&self) -> &Sending {
        &self.sending
    }

    /// The direction in which this end receives.
    pub fn receiving(&self) -> &Receiving {
        &self.receiving
    }

    /// The session's key.
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// Continues on a new connection, at the position of the other end that was checked.
    ///
    /// # Errors
    /// The other end has another beginning of what this one sends.
    pub fn reattach(&mut self, check: PositionCheck, limit: u64) -> Result<(), PositionError> {
        self.sending.resume(check, limit)?;
        self.receiving.resume();
        self.outbox.clear();
        self.lanes = None;
        (self.fin_sent, self.acknowledged) = (false, self.receiving.ack());
        Ok(())
    }

    /// Begins again with an initiator that has not proved itself: nothing was sent to it, and what it has sent stays.
    pub fn begin_again(&mut self, own: Direction, key: SessionKey, limit: u64) {
        (self.key, self.sending) = (key, Sending::new(own, limit));
        self.receiving.resume();
        self.outbox.clear();
        self.lanes = None;
        self.acknowledged = self.receiving.ack();
    }

    /// Sends this record, which ends a handshake, before anything else.
    pub fn send_first(&mut self, record: Vec<u8>) {
        self.outbox.push_front(record);
    }

    /// Takes a record; `kind` is `None` if it is to be ignored.
    ///
    /// # Errors
    /// It breaks the rules, or the stream cannot be received.
    pub fn receive(
        &mut self,
        kind: Option<RecordKind>,
        payload: Bytes,
    ) -> Result<Event, ReceiveError> {
        match kind {
            None | Some(RecordKind::Pong) => Ok(Event::Nothing),
            Some(RecordKind::Data) => self.data(payload),
            Some(RecordKind::Ack) => {
                self.sending.acknowledge(Ack::parse(&payload)?)?;
                Ok(Event::Acknowledged)
            }
            Some(RecordKind::Again) => {
                self.sending.again(offset(&payload)?)?;
                Ok(Event::Acknowledged)
            }
            Some(RecordKind::Fin) => {
                self.receiving.fin(Whole::parse(&payload)?, &self.key)?;
                self.ask_for_missing()?;
                Ok(self.whole_or(Vec::new()))
            }
            Some(RecordKind::Done) if self.fin_sent => {
                self.sending.done(&Whole::parse(&payload)?, &self.key)?;
                Ok(Event::Acknowledged)
            }
            Some(RecordKind::Ping) => {
                self.push(record(RecordKind::Pong, &payload))?;
                Ok(Event::Nothing)
            }
            Some(RecordKind::End) => {
                Ok(Event::Ended(End::parse(&payload, self.own.other(), Some(&self.key))?))
            }
            Some(
                RecordKind::Done
                | RecordKind::Hello
                | RecordKind::Welcome
                | RecordKind::Attach
                | RecordKind::Attached
                | RecordKind::Confirm
                | RecordKind::Sealed
                | RecordKind::Got,
            ) => Err(Malformed("a record is not allowed here").into()),
        }
    }

    fn data(&mut self, mut payload: Bytes) -> Result<Event, ReceiveError> {
        let head = payload.split_to(DATA_HEAD);
        let head: &[u8; DATA_HEAD] = head[..].try_into().expect("a record of this type has it");
        let head = DataHead::parse(head, payload.len())?;
        let delivered = match self.receiving.data(&head, payload)? {
            Received::Deliver(bytes) => bytes,
            Received::Nothing => return Ok(Event::Nothing),
            Received::Again(offset) => {
                self.push(record(RecordKind::Again, &offset.to_be_bytes()))?;
                return Ok(Event::Nothing);
            }
        };
        self.ask_for_missing()?;
        Ok(self.whole_or(delivered))
    }

    /// Takes DATA of an initiator that has not proved itself yet: nothing is answered.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn early_data(&mut self, head: &DataHead, bytes: Bytes) -> Result<Received, ReceiveError> {
        let received = self.receiving.data(head, bytes)?;
        if let Received::Again(offset) = received {
            self.push(record(RecordKind::Again, &offset.to_be_bytes()))?;
        }
        Ok(received)
    }

    fn whole_or(&self, delivered: Vec<Bytes>) -> Event {
        match delivered {
            delivered if self.receiving.is_whole() => Event::Whole(delivered),
            delivered if delivered.is_empty() => Event::Nothing,
            delivered => Event::Deliver(delivered),
        }
    }

    fn ask_for_missing(&mut self) -> Result<(), Malformed> {
        match self.receiving.missing() {
            Some(offset) => self.push(record(RecordKind::Again, &offset.to_be_bytes())),
            None => Ok(()),
        }
    }

    fn push(&mut self, record: Vec<u8>) -> Result<(), Malformed> {
        if self.outbox.len() == MAX_OUTBOX {
            return Err(Malformed("more is asked for than is read"));
        }
        self.outbox.push_back(record);
        Ok(())
    }

    /// So many more bytes have been delivered to the application. If `now` is true they are acknowledged without
    /// waiting for more.
    pub fn delivered(&mut self, bytes: u64, now: bool) {
        self.receiving.deliver(bytes);
        let ack = self.receiving.ack();
        let more = ack.offset - self.acknowledged.offset.min(ack.offset);
        if more >= ACK_EVERY || now && ack != self.acknowledged {
            self.acknowledged = ack;
            match &mut self.lanes {
                None => self.outbox.push_back(ack.to_record()),
                Some(lanes) => lanes.acknowledge(),
            }
        }
    }

    /// More may be received ahead of delivery.
    pub fn set_window(&mut self, window: u64) {
        self.receiving.set_window(window);
    }

    /// Answers FIN with DONE, if what was received is what was sent. `digest` is that of the whole, and empty if none was
    /// agreed on.
    ///
    /// # Errors
    /// It is not.
    pub fn complete(&mut self, digest: &[u8]) -> Result<(), ReceiveError> {
        if let Some(done) = self.receiving.done(&self.key, digest)? {
            let done = done.to_record(RecordKind::Done);
            match &mut self.lanes {
                None => self.outbox.push_back(done),
                Some(lanes) => lanes.complete(&done),
            }
            self.done_sent = true;
        }
        Ok(())
    }

    /// The application sends no more than is available.
    pub fn finish(&mut self) {
        self.is_ending = true;
    }

    /// Asks the other end for a sign of life.
    pub fn ping(&mut self) {
        self.outbox.push_back(record(RecordKind::Ping, &[0; 8]));
    }

    /// The next record to send of a stream that has `available` bytes so far. `None`: nothing to send now.
    pub fn next(&mut self, available: u64) -> Option<Output> {
        if let Some(record) = self.outbox.pop_front() {
            return Some(Output::Record(record));
        }
        if let Some(next) = self.sending.next(available) {
            return Some(Output::Data(next));
        }
        let is_due = self.is_ending && !self.fin_sent && !self.sending.is_done();
        (is_due && self.sending.sent() == available).then_some(Output::Fin)
    }

    /// The record of [`Output::Fin`]. `digest` is that of the whole, and empty if none was agreed on.
    pub fn fin(&mut self, digest: Vec<u8>) -> Vec<u8> {
        self.fin_sent = true;
        self.sending.fin(&self.key, digest).to_record(RecordKind::Fin)
    }

    /// As [`Sending::seal`].
    pub fn seal(&mut self, bytes: &[u8]) -> DataHead {
        self.sending.seal(bytes)
    }

    /// As [`Sending::sent_again`].
    pub fn sent_again(&mut self) {
        self.sending.sent_again();
    }

    /// Whether both directions are done, as far as this end can tell: its DONE may not have arrived, and is sent again
    /// on a further connection if the other end asks.
    pub fn is_over(&self) -> bool {
        self.sending.is_done() && self.done_sent && self.outbox.is_empty()
    }
}
