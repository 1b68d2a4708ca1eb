// SPDX-License-Identifier: GPL-2.0-or-later
//! Several connections at once (docs/lsl.md, section 15): DATA goes where the scheduler says, ACK, FIN and DONE go over each, and GOT
//! and PONG over the one that they are about.
//!
//! A connection that is lost takes nothing with it: the others carry again what it has carried, and the receiver forgets nothing.

use super::{Duplex, Event, MAX_OUTBOX, Output};
use crate::session::{
    LaneId, MAX_LANES, Malformed, Next, ReceiveError,
    record::{Ack, DATA_HEAD, DataHead, RecordKind, Whole, got, record},
    scheduler::{Assignment, Scheduler, StreamEnd},
};
use bytes::Bytes;
use std::{collections::VecDeque, ops::Range, time::Duration};

/// The connections.
#[derive(Debug)]
pub(super) struct Lanes {
    scheduler: Scheduler,
    ends: Vec<LaneEnd>,
    /// The DONE that was sent.
    done: Option<Vec<u8>>,
}

/// What is to be sent on a connection, apart from DATA.
#[derive(Debug)]
struct LaneEnd {
    id: LaneId,
    outbox: VecDeque<Vec<u8>>,
    is_ack_due: bool,
    /// Bytes of the stream that have arrived by it.
    came: u64,
    /// As the other end knows it.
    told: u64,
    fin_sent: bool,
}

impl Lanes {
    fn join(&mut self, id: LaneId, outbox: VecDeque<Vec<u8>>, now: Duration) {
        let (is_ack_due, fin_sent) = (true, false);
        self.ends.push(LaneEnd { id, outbox, is_ack_due, came: 0, told: 0, fin_sent });
        self.scheduler.join(id, now);
    }

    fn end(&mut self, id: LaneId) -> Result<&mut LaneEnd, Malformed> {
        let end = self.ends.iter_mut().find(|end| end.id == id);
        end.ok_or(Malformed("the connection was replaced by another"))
    }

    /// ACK is due on all.
    pub(super) fn acknowledge(&mut self) {
        self.ends.iter_mut().for_each(|end| end.is_ack_due = true);
    }

    /// DONE goes over all, behind GOT of what has come: what is over is also counted.
    pub(super) fn complete(&mut self, done: &[u8]) {
        if self.done.is_some() {
            return;
        }
        for end in &mut self.ends {
            let got = end.untold();
            end.outbox.extend(got);
            end.outbox.push_back(done.to_vec());
        }
        self.done = Some(done.to_vec());
    }
}

impl LaneEnd {
    /// GOT, if it is due.
    fn untold(&mut self) -> Option<Vec<u8>> {
        let is_due = self.told != self.came;
        self.told = self.came;
        is_due.then(|| record(RecordKind::Got, &self.came.to_be_bytes()))
    }

    fn push(&mut self, record: Vec<u8>) -> Result<(), Malformed> {
        if self.outbox.len() == MAX_OUTBOX {
            return Err(Malformed("more is asked for than is read"));
        }
        self.outbox.push_back(record);
        Ok(())
    }
}

impl Duplex {
    /// From now on there may be several connections at once, of which `first` is one. `now` counts from any moment, here and
    /// below.
    pub fn spread(&mut self, first: LaneId, now: Duration) {
        let scheduler = Scheduler::new(self.sending.sent());
        let mut lanes = Lanes { scheduler, ends: Vec::new(), done: None };
        lanes.join(first, std::mem::take(&mut self.outbox), now);
        self.lanes = Some(lanes);
    }

    /// Whether there may be several connections at once.
    pub fn is_spread(&self) -> bool {
        self.lanes.is_some()
    }

    /// Whether a further connection may join. One that is gone at the other end may still be there at this one, so the bound is
    /// the protocol's, and not what was agreed on.
    pub fn takes_another(&self) -> bool {
        self.lanes.as_ref().is_some_and(|lanes| lanes.ends.len() < MAX_LANES)
    }

    /// A further connection, on which `first` is sent before anything else. Whether there is room for it.
    pub fn join(&mut self, id: LaneId, first: Option<Vec<u8>>, now: Duration) -> bool {
        let joins = self.takes_another();
        if joins && let Some(lanes) = &mut self.lanes {
            lanes.join(id, first.into_iter().collect(), now);
        }
        joins
    }

    /// A connection is gone. Whether others are left; without any there is one at a time again.
    pub fn leave(&mut self, id: LaneId) -> bool {
        if let Some(lanes) = &mut self.lanes {
            lanes.ends.retain(|end| end.id != id);
            lanes.scheduler.leave(id);
            if !lanes.ends.is_empty() {
                return true;
            }
        }
        self.lanes = None;
        false
    }

    /// Takes a record that came on this connection; `kind` is `None` if it is to be ignored.
    ///
    /// # Errors
    /// As [`receive`](Self::receive), or the connection was replaced.
    pub fn receive_on(
        &mut self,
        id: LaneId,
        kind: Option<RecordKind>,
        payload: Bytes,
        now: Duration,
    ) -> Result<Event, ReceiveError> {
        let Some(lanes) = &mut self.lanes else { return self.receive(kind, payload) };
        let end = lanes.end(id)?;
        match kind {
            Some(RecordKind::Data) => self.data_on(id, payload),
            Some(RecordKind::Got) => {
                lanes.scheduler.got(id, got(&payload)?, now)?;
                Ok(Event::Nothing)
            }
            Some(RecordKind::Ack) => {
                self.sending.acknowledge(Ack::parse(&payload)?)?;
                lanes.scheduler.acknowledge(self.sending.acknowledged());
                Ok(Event::Acknowledged)
            }
            Some(RecordKind::Fin) => {
                self.receiving.fin(Whole::parse(&payload)?, &self.key)?;
                if let Some(done) = lanes.done.clone() {
                    lanes.end(id)?.push(done)?;
                    return Ok(Event::Nothing);
                }
                Ok(self.whole_or(Vec::new()))
            }
            Some(RecordKind::Ping) => {
                end.push(record(RecordKind::Pong, &payload))?;
                Ok(Event::Nothing)
            }
            Some(RecordKind::Again) => Err(Malformed("AGAIN over several connections").into()),
            _ => self.receive(kind, payload),
        }
    }

    fn data_on(&mut self, id: LaneId, mut payload: Bytes) -> Result<Event, ReceiveError> {
        let head = payload.split_to(DATA_HEAD);
        let head: &[u8; DATA_HEAD] = head[..].try_into().expect("a record of this type has it");
        let head = DataHead::parse(head, payload.len())?;
        let bytes = payload.len() as u64;
        let delivered = self.receiving.data_of_several(&head, payload)?;
        if let Some(lanes) = &mut self.lanes {
            lanes.end(id)?.came += bytes;
        }
        Ok(if delivered.is_empty() { Event::Nothing } else { self.whole_or(delivered) })
    }

    /// The next record to send on this connection of a stream that has `available` bytes so far. `None`: nothing now.
    pub fn next_on(&mut self, id: LaneId, available: u64, now: Duration) -> Option<Output> {
        let Some(lanes) = &mut self.lanes else { return self.next(available) };
        let end = lanes.ends.iter_mut().find(|end| end.id == id)?;
        if let Some(record) = end.outbox.pop_front() {
            return Some(Output::Record(record));
        }
        if std::mem::take(&mut end.is_ack_due) {
            return Some(Output::Record(self.receiving.ack().to_record()));
        }
        if let Some(got) = end.untold() {
            return Some(Output::Record(got));
        }
        let sent = self.sending.sent();
        if self.sending.is_done() {
            return None;
        }
        let stream = StreamEnd { sent, to: available.min(self.sending.limit()) };
        let assigned = lanes.scheduler.next(id, stream, now).map(|assigned| match assigned {
            Assignment::New(range) => Next::New(range),
            Assignment::Again(range) => Next::Again { group: range.start, range },
        });
        if let Some(next) = assigned {
            return Some(Output::Data(next));
        }
        let is_due = self.is_ending && !end.fin_sent && sent == available;
        is_due.then(|| {
            end.fin_sent = true;
            Output::Fin
        })
    }

    /// DATA of this range is about to be sent on the connection.
    pub fn sent_on(&mut self, id: LaneId, range: &Range<u64>, now: Duration) {
        if let Some(lanes) = &mut self.lanes {
            lanes.scheduler.sent(id, range, now);
        }
    }

    /// Sends this record on all connections before anything else. Whether there are several at once.
    pub fn send_last_words(&mut self, words: &[u8]) -> bool {
        for end in self.lanes.iter_mut().flat_map(|lanes| &mut lanes.ends) {
            end.outbox.push_front(words.to_vec());
        }
        self.is_spread()
    }

    /// Asks the other end for a sign of life on this connection.
    pub fn ping_on(&mut self, id: LaneId) {
        match &mut self.lanes {
            None => self.ping(),
            Some(lanes) => {
                if let Ok(end) = lanes.end(id) {
                    let _ = end.push(record(RecordKind::Ping, &[0; 8]));
                }
            }
        }
    }

    /// As [`is_over`](Self::is_over), and this connection has nothing more to say.
    pub fn is_over_on(&self, id: LaneId) -> bool {
        let ends = self.lanes.iter().flat_map(|lanes| &lanes.ends);
        let is_empty = |end: &LaneEnd| end.id != id || end.outbox.is_empty();
        self.is_over() && ends.into_iter().all(is_empty)
    }

    /// Whether the connection is to be given up: what it carries does not arrive.
    pub fn is_stuck(&self, id: LaneId, now: Duration) -> bool {
        self.lanes.as_ref().is_some_and(|lanes| lanes.scheduler.is_stuck(id, now))
    }

    /// Whether time alone may change what a connection is to send.
    pub fn waits(&self) -> bool {
        self.lanes.as_ref().is_some_and(|lanes| lanes.scheduler.waits())
    }

    /// Bytes of what this end sends that have arrived by the connection, and of what it receives. Those that came again are
    /// included.
    pub fn carried(&self, id: LaneId) -> (u64, u64) {
        let Some(lanes) = &self.lanes else { return (0, 0) };
        let came = lanes.ends.iter().find(|end| end.id == id).map_or(0, |end| end.came);
        (lanes.scheduler.carried(id), came)
    }
}
