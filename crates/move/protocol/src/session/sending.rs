// SPDX-License-Identifier: GPL-2.0-or-later
//! One direction at its sending end: what to send next, and what to send again (docs/lsl.md, sections 7 to 9).
//!
//! The bytes themselves stay with the caller, who can read them again: from a file, or from a window of what was not
//! acknowledged. A caller asks [`Sending::next`], reads that range and has it sealed.

use crate::session::{
    fields::Malformed,
    key::SessionKey,
    record::{Ack, DataHead, EndCode, Whole},
    tree::{self, Position, Prefix, Value, group_end, group_start},
};
use std::{collections::VecDeque, ops::Range};

/// Which of the two directions of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// From the initiator to the acceptor.
    FromInitiator = 0,
    /// From the acceptor to the initiator.
    FromAcceptor = 1,
}

impl Direction {
    /// The opposite direction.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::FromInitiator => Self::FromAcceptor,
            Self::FromAcceptor => Self::FromInitiator,
        }
    }
}

/// Maximum number of ranges remembered for retransmission. An honest receiver does not request more at one time.
const MAX_AGAIN: usize = 64;

/// The sending end.
#[derive(Debug, Clone)]
pub struct Sending {
    direction: Direction,
    sent: Prefix,
    /// Where positions can be checked from: the end of a group at or below what was acknowledged, and those of
    /// the groups that were sent after it.
    checkpoints: VecDeque<Prefix>,
    acknowledged: u64,
    limit: u64,
    again: VecDeque<Range<u64>>,
    is_done: bool,
}

/// The next action of the sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The bytes that follow those sent so far; [`Sending::seal`] them.
    New(Range<u64>),
    /// Bytes that were asked for again; [`seal_again`] them, with those before them in their group.
    Again {
        /// Where their group begins.
        group: u64,
        /// Which they are.
        range: Range<u64>,
    },
}

/// A position that is being checked.
#[derive(Debug)]
pub struct PositionCheck {
    prefix: Prefix,
    checkpoints: VecDeque<Prefix>,
    position: Position,
}

/// Why a stream cannot continue at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PositionError {
    /// The beginning is not the same at both ends.
    #[error(
        "the other end has another beginning of this stream: the file is not the same, or it has \
         changed"
    )]
    PrefixDiffers,
    /// The bytes that the other end lacks cannot be read again.
    #[error("the other end lacks bytes that cannot be read again")]
    BytesGone,
}

impl PositionError {
    /// The code to send to the other end.
    pub fn code(self) -> EndCode {
        match self {
            Self::PrefixDiffers => EndCode::PrefixDiffers,
            Self::BytesGone => EndCode::BytesGone,
        }
    }
}

impl Sending {
    /// A stream that has not begun.
    pub fn new(direction: Direction, limit: u64) -> Self {
        Self::at(direction, Prefix::default(), limit)
    }

    /// A stream of which this much has arrived.
    pub fn at(direction: Direction, prefix: Prefix, limit: u64) -> Self {
        Self {
            direction,
            acknowledged: prefix.length(),
            checkpoints: [prefix.clone()].into(),
            sent: prefix,
            limit,
            again: VecDeque::new(),
            is_done: false,
        }
    }

    /// How much was sent.
    pub fn sent(&self) -> u64 {
        self.sent.length()
    }

    /// The BLAKE3 hash of what was sent so far.
    pub fn hash(&self) -> Value {
        self.sent.root()
    }

    /// How far the other end takes bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// How much the other end has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// From where on the bytes may be needed again.
    pub fn needed_from(&self) -> u64 {
        self.checkpoints.front().map_or(0, Prefix::length)
    }

    /// The next action for a stream that has `available` bytes so far. `None`: nothing to send now.
    pub fn next(&self, available: u64) -> Option<Next> {
        if let Some(range) = self.again.front() {
            return Some(Next::Again { group: group_start(range.start), range: range.clone() });
        }
        let from = self.sent.length();
        let to = available.min(self.limit).min(group_end(from));
        (from < to).then_some(Next::New(from..to))
    }

    /// Takes the bytes of [`Next::New`], and makes what precedes them.
    pub fn seal(&mut self, bytes: &[u8]) -> DataHead {
        let offset = self.sent.length();
        self.sent.extend(bytes);
        self.checkpoints.extend(self.sent.snapshot());
        DataHead { offset, check: self.sent.check() }
    }

    /// Removes the first range to retransmit, which has been sent.
    pub fn sent_again(&mut self) {
        self.again.pop_front();
    }

    /// Reads ACK. [`needed_from`](Self::needed_from) may have grown then.
    ///
    /// # Errors
    /// It acknowledges what was not sent.
    pub fn acknowledge(&mut self, ack: Ack) -> Result<(), Malformed> {
        if ack.offset > self.sent.length() {
            return Err(Malformed("ACK of bytes that were not sent"));
        }
        self.acknowledged = self.acknowledged.max(ack.offset);
        self.limit = self.limit.max(ack.limit);
        while self.checkpoints.get(1).is_some_and(|next| next.length() <= self.acknowledged) {
            self.checkpoints.pop_front();
        }
        Ok(())
    }

    /// Reads AGAIN.
    ///
    /// # Errors
    /// Bytes are asked for that were not sent, or that were acknowledged.
    pub fn again(&mut self, offset: u64) -> Result<(), Malformed> {
        let sent = self.sent.length();
        if offset >= sent || offset < self.acknowledged || self.again.len() == MAX_AGAIN {
            return Err(Malformed("AGAIN for bytes that were not sent or have arrived"));
        }
        self.again.push_back(offset..group_end(offset).min(sent));
        Ok(())
    }

    /// The stream is over: FIN.
    pub fn fin(&self, key: &SessionKey, digest: Vec<u8>) -> Whole {
        Whole::of("fin", self.direction, &self.sent, key, digest)
    }

    /// Reads DONE.
    ///
    /// # Errors
    /// It is not about what was sent, or its proof is wrong.
    pub fn done(&mut self, done: &Whole, key: &SessionKey) -> Result<(), Malformed> {
        done.check_proof("done", self.direction, key)?;
        if (done.length, done.hash) != (self.sent.length(), self.sent.root()) {
            return Err(Malformed("DONE is not about what was sent"));
        }
        self.is_done = true;
        self.acknowledged = self.sent.length();
        Ok(())
    }

    /// Whether the other end has the whole.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Begins to check the position at which the other end says it is. The caller can still read the bytes from
    /// `kept` on, of a stream that is `available` bytes long so far.
    ///
    /// # Errors
    /// Those that it lacks are gone, or it has more than there is.
    pub fn check(
        &self,
        position: Position,
        kept: u64,
        available: u64,
    ) -> Result<PositionCheck, PositionError> {
        if position.offset > available {
            return Err(PositionError::PrefixDiffers);
        }
        let at_or_below = |prefix: &&Prefix| prefix.length() <= position.offset;
        let from = match self.checkpoints.iter().rev().find(at_or_below) {
            Some(checkpoint) => checkpoint.clone(),
            None if kept == 0 => Prefix::default(),
            None => return Err(PositionError::BytesGone),
        };
        Ok(PositionCheck { checkpoints: [from.clone()].into(), prefix: from, position })
    }

    /// Goes on from what the other end already has, on the connection on which data may have been sent early.
    ///
    /// # Errors
    /// Its beginning of the stream is another one.
    pub fn welcome(&mut self, check: PositionCheck, limit: u64) -> Result<(), PositionError> {
        if self.sent.length() < check.position.offset {
            return self.resume(check, limit);
        }
        if check.prefix.position() != check.position {
            return Err(PositionError::PrefixDiffers);
        }
        self.limit = self.limit.max(limit);
        Ok(())
    }

    /// Goes on where the other end is, on a new connection.
    ///
    /// # Errors
    /// Its beginning of the stream is another one.
    pub fn resume(&mut self, check: PositionCheck, limit: u64) -> Result<(), PositionError> {
        let PositionCheck { prefix, checkpoints, position } = check;
        if prefix.position() != position {
            return Err(PositionError::PrefixDiffers);
        }
        (self.acknowledged, self.limit) = (position.offset, limit);
        (self.sent, self.checkpoints) = (prefix, checkpoints);
        self.again.clear();
        Ok(())
    }
}

impl PositionCheck {
    /// The bytes that it needs next, at most a group at a time; `None` if it has all.
    pub fn next(&self) -> Option<Range<u64>> {
        let (from, to) = (self.prefix.length(), self.position.offset);
        (from < to).then(|| from..group_end(from).min(to))
    }

    /// Takes them.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.prefix.extend(bytes);
        if let Some(snapshot) = self.prefix.snapshot() {
            // The other end has what lies before it.
            self.checkpoints = [snapshot].into();
        }
    }
}

/// Makes what precedes bytes that are sent again: `before` are those of their group that precede them.
pub fn seal_again(offset: u64, before: &[u8], bytes: &[u8]) -> DataHead {
    let check = tree::value_of(group_start(offset), &[before, bytes].concat());
    DataHead { offset, check }
}

impl Whole {
    /// A stream as `prefix` has it, with its proof.
    pub(super) fn of(
        label: &str,
        direction: Direction,
        prefix: &Prefix,
        key: &SessionKey,
        digest: Vec<u8>,
    ) -> Self {
        let (length, hash) = (prefix.length(), prefix.root());
        let parts: [&[u8]; 4] = [&[direction as u8], &length.to_be_bytes(), &hash, &digest];
        Self { proof: key.proof(label, &parts), length, hash, digest }
    }

    /// Checks that an end of the session has said so.
    pub(super) fn check_proof(
        &self,
        label: &str,
        direction: Direction,
        key: &SessionKey,
    ) -> Result<(), Malformed> {
        let length = self.length.to_be_bytes();
        let parts: [&[u8]; 4] = [&[direction as u8], &length, &self.hash, &self.digest];
        if key.proves(&self.proof, label, &parts) {
            Ok(())
        } else {
            Err(Malformed("the proof of FIN or DONE is wrong"))
        }
    }
}
