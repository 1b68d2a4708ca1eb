// SPDX-License-Identifier: GPL-2.0-or-later
//! One direction at its receiving end: verifies what arrives, and asks again for what is damaged (docs/lsl.md,
//! sections 8 and 9).
//!
//! ```text
//!  in order, verified ──▶ delivered
//!  damaged            ──▶ AGAIN; later groups are held until it has arrived
//! ```
//! Over several connections at once (section 15), later groups are held as well, and nothing is asked for again: damage ends
//! the connection, and the sender knows what it has carried. All that is held is within the limit that was granted.

use crate::session::{
    fields::Malformed,
    key::SessionKey,
    record::{Ack, DataHead, EndCode, Whole},
    sending::Direction,
    tree::{GROUP, GroupBytes, MAX_STREAM, Position, Prefix, Value, group_start, value_of},
};
use bytes::{Buf, Bytes};
use std::collections::BTreeMap;

/// As often may the same bytes arrive damaged.
const MAX_DAMAGED: u32 = 8;

/// The receiving end.
#[derive(Debug)]
pub struct Receiving {
    direction: Direction,
    have: Prefix,
    delivered: u64,
    /// How much may be received and not be delivered.
    window: u64,
    /// Verified bytes of groups behind a gap, by where they begin.
    held: BTreeMap<u64, Bytes>,
    /// The end of the last bytes that have arrived, in whatever state.
    seen: u64,
    gap: Option<Gap>,
    /// The same of groups that come over several connections.
    groups: BTreeMap<u64, GroupBytes>,
    /// Bytes that a connection has brought damaged last.
    damaged: Option<Gap>,
    fin: Option<Whole>,
}

/// Bytes that were asked for again.
#[derive(Debug, Clone, Copy)]
struct Gap {
    offset: u64,
    times: u32,
}

/// The result of receiving DATA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// These are the next bytes, verified. With what else was held.
    Deliver(Vec<Bytes>),
    /// Nothing is to be done.
    Nothing,
    /// Send AGAIN for this offset.
    Again(u64),
}

/// The stream cannot be received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The other end breaks the rules.
    #[error("the other end breaks the protocol: {0}")]
    Malformed(#[from] Malformed),
    /// The same bytes have arrived damaged again and again.
    #[error("the bytes from {0} on keep arriving damaged: something on the path changes them")]
    Damaged(u64),
    /// The whole is not what was sent.
    #[error("the whole differs from what was sent")]
    WholeDiffers,
}

impl ReceiveError {
    /// The code to send to the other end.
    pub fn code(self) -> EndCode {
        match self {
            Self::Malformed(_) => EndCode::Malformed,
            Self::Damaged(_) => EndCode::Damaged,
            Self::WholeDiffers => EndCode::WholeDiffers,
        }
    }
}

impl Receiving {
    /// A stream of which this much is there; of what follows at most `window` bytes are received ahead of
    /// delivery.
    pub fn new(direction: Direction, have: Prefix, window: u64) -> Self {
        let length = have.length();
        Self {
            direction,
            have,
            delivered: length,
            window,
            held: BTreeMap::new(),
            seen: length,
            gap: None,
            groups: BTreeMap::new(),
            damaged: None,
            fin: None,
        }
    }

    /// How much was received in order.
    pub fn received(&self) -> u64 {
        self.have.length()
    }

    /// The BLAKE3 hash of what was received in order so far.
    pub fn hash(&self) -> Value {
        self.have.root()
    }

    /// The proof of it.
    pub fn position(&self) -> Position {
        self.have.position()
    }

    /// How far the other end may send.
    pub fn limit(&self) -> u64 {
        self.delivered.saturating_add(self.window).min(MAX_STREAM)
    }

    /// The connection is a new one: what follows begins at the position.
    pub fn resume(&mut self) {
        self.held.clear();
        self.groups.clear();
        (self.seen, self.gap) = (self.have.length(), None);
        self.fin = None;
    }

    /// Takes what arrived.
    ///
    /// # Errors
    /// It goes beyond the limit, or has been damaged too often.
    pub fn data(&mut self, head: &DataHead, mut bytes: Bytes) -> Result<Received, ReceiveError> {
        let end = self.end_of(head, &bytes)?;
        let have = self.have.length();
        if end <= have {
            return Ok(Received::Nothing);
        }
        if head.offset > have {
            return Ok(self.ahead(head, bytes));
        }
        bytes.advance((have - head.offset) as usize);
        let mut with = self.have.clone();
        with.extend(&bytes);
        if with.check() != head.check {
            return self.damaged(have);
        }
        self.have = with;
        let mut delivered = vec![bytes];
        while let Some(held) = self.held.remove(&self.have.length()) {
            self.have.extend(&held);
            delivered.push(held);
        }
        self.held.retain(|at, _| *at > self.have.length());
        self.gap = None;
        Ok(Received::Deliver(delivered))
    }

    /// Where what arrived ends, which is as far as it may be.
    fn end_of(&mut self, head: &DataHead, bytes: &Bytes) -> Result<u64, Malformed> {
        let end = head.offset + bytes.len() as u64;
        if end > self.limit() {
            return Err(Malformed("DATA beyond the limit"));
        }
        if self.fin.as_ref().is_some_and(|fin| end > fin.length) {
            return Err(Malformed("DATA beyond the length that FIN has"));
        }
        self.seen = self.seen.max(end);
        Ok(end)
    }

    /// Takes what arrived on one of several connections (rule 15.5): the next bytes, if there are any now.
    ///
    /// # Errors
    /// It goes beyond the limit, lacks what precedes it in its group, or is damaged, perhaps too often.
    pub fn data_of_several(
        &mut self,
        head: &DataHead,
        mut bytes: Bytes,
    ) -> Result<Vec<Bytes>, ReceiveError> {
        let end = self.end_of(head, &bytes)?;
        let (have, group) = (self.have.length(), group_start(head.offset));
        if end <= have {
            return Ok(Vec::new());
        }
        if head.offset > have && group <= have {
            return Err(Malformed("DATA without what precedes it in its group").into());
        }
        if head.offset > have {
            self.hold(group, head, &bytes)?;
            return Ok(Vec::new());
        }
        bytes.advance((have - head.offset) as usize);
        let mut with = self.have.clone();
        with.extend(&bytes);
        if with.check() != head.check {
            return Err(self.damage(have));
        }
        self.have = with;
        let mut delivered = vec![bytes];
        while let Some(held) = self.groups.remove(&self.have.length()) {
            let held = Bytes::from(held.into_bytes());
            self.have.extend(&held);
            delivered.push(held);
        }
        Ok(delivered)
    }

    /// Holds bytes of a later group.
    fn hold(&mut self, group: u64, head: &DataHead, bytes: &Bytes) -> Result<(), ReceiveError> {
        let held = self.groups.get(&group).map_or(group, |held| group + held.length());
        let Some(known) = held.checked_sub(head.offset) else {
            return Err(Malformed("DATA without what precedes it in its group").into());
        };
        let new = bytes.get(known as usize..).unwrap_or_default();
        if new.is_empty() {
            return Ok(());
        }
        let entry = self.groups.entry(group).or_insert_with(|| GroupBytes::at(group));
        if entry.extend(new, &head.check) {
            return Ok(());
        }
        if entry.length() == 0 {
            self.groups.remove(&group);
        }
        Err(self.damage(head.offset))
    }

    /// Bytes have arrived damaged, which come again on another connection.
    fn damage(&mut self, offset: u64) -> ReceiveError {
        let times = self.damaged.filter(|gap| gap.offset == offset).map_or(0, |gap| gap.times) + 1;
        if times > MAX_DAMAGED {
            return ReceiveError::Damaged(offset);
        }
        self.damaged = Some(Gap { offset, times });
        Malformed("DATA was changed on the way").into()
    }

    /// The offset from which to request retransmission after a gap, once all earlier bytes have been delivered.
    pub fn missing(&mut self) -> Option<u64> {
        let have = self.have.length();
        let known = self.fin.as_ref().map_or(self.seen, |fin| fin.length.max(self.seen));
        if self.gap.is_some() || have >= known {
            return None;
        }
        self.gap = Some(Gap { offset: have, times: 1 });
        Some(have)
    }

    /// Bytes behind a gap.
    fn ahead(&mut self, head: &DataHead, bytes: Bytes) -> Received {
        let have = self.have.length();
        let of_gap = group_start(have) == group_start(head.offset);
        let begins = head.offset.is_multiple_of(GROUP);
        if !of_gap && begins && value_of(head.offset, &bytes) == head.check {
            self.held.insert(head.offset, bytes);
        }
        if self.gap.is_some() {
            return Received::Nothing;
        }
        self.gap = Some(Gap { offset: have, times: 1 });
        Received::Again(have)
    }

    fn damaged(&mut self, offset: u64) -> Result<Received, ReceiveError> {
        let times = self.gap.filter(|gap| gap.offset == offset).map_or(0, |gap| gap.times) + 1;
        if times > MAX_DAMAGED {
            return Err(ReceiveError::Damaged(offset));
        }
        self.gap = Some(Gap { offset, times });
        Ok(Received::Again(offset))
    }

    /// So many more bytes were delivered.
    pub fn deliver(&mut self, bytes: u64) {
        self.delivered = (self.delivered + bytes).min(self.have.length());
    }

    /// Changes how many bytes may be received ahead of delivery. A limit already granted to the sender stays valid.
    pub fn set_window(&mut self, window: u64) {
        self.window = window.max(self.limit() - self.delivered);
    }

    /// The acknowledgement of what was delivered.
    pub fn ack(&self) -> Ack {
        Ack { offset: self.delivered, limit: self.limit() }
    }

    /// Reads FIN.
    ///
    /// # Errors
    /// Its proof is wrong, it differs from an earlier one, or has less than has arrived.
    pub fn fin(&mut self, fin: Whole, key: &SessionKey) -> Result<(), ReceiveError> {
        fin.check_proof("fin", self.direction, key)?;
        let changed = self.fin.as_ref().is_some_and(|earlier| *earlier != fin);
        if changed || fin.length < self.seen {
            return Err(Malformed("FIN does not agree with what came before it").into());
        }
        self.fin = Some(fin);
        Ok(())
    }

    /// Whether FIN has come, and everything before it.
    pub fn is_whole(&self) -> bool {
        self.fin.as_ref().is_some_and(|fin| fin.length == self.have.length())
    }

    /// DONE, if all is there and what was sent. `digest` is that of the whole, and empty if none was agreed on.
    ///
    /// # Errors
    /// It differs.
    pub fn done(&self, key: &SessionKey, digest: &[u8]) -> Result<Option<Whole>, ReceiveError> {
        let Some(fin) = self.fin.as_ref().filter(|_| self.is_whole()) else { return Ok(None) };
        if fin.hash != self.have.root() || fin.digest != digest {
            return Err(ReceiveError::WholeDiffers);
        }
        Ok(Some(Whole::of("done", self.direction, &self.have, key, Vec::new())))
    }
}
