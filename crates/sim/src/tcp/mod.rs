// SPDX-License-Identifier: GPL-2.0-or-later
//! TCP's two endpoints of a connection, data going one way.
//!
//! Windows, acknowledgements and blocks count segments, each a full one but a file's last. A
//! [`Connection`] is opened by its receiver, the client, which asks for the data:
//!
//! ```text
//! client  Syn ─▶  ◀─ SynAck  Request ─▶  ◀─ Data …  Ack ─▶
//! ```
//!
//! | part | RFC | file |
//! |---|---|---|
//! | what is in flight, selective acknowledgement | 2018, 6675 | `scoreboard` |
//! | finding losses by time (RACK) or count | 8985, 6675 | `detection` |
//! | bringing the window down (PRR, pipe) | 6937, 6675 | `recovery` |
//! | round trips and the timeout | 6298 | `rtt` |
//! | delivery rate | draft-cheng-iccrg-delivery-rate-estimation | `sample` |
//! | sending: windows, pacing, probes, timeouts | 5681, 8985 | `sender` |
//! | receiving: delayed acknowledgement | 1122, 2018 | `receiver` |
//! | the receiver's window | 7323 | `room` |
//!
//! The work for an acknowledgement does not grow with the window: every segment is sent, marked and
//! forgotten once, and sets of segments are ranges (`crate::ranges`).
//!
//! Not here: undoing a window that was reduced for nothing, because no lane reorders packets, and
//! urgent data, keep-alive and closing, which no result depends on.

mod buffer;
mod connection;
mod detection;
mod receiver;
mod recovery;
mod room;
mod rtt;
mod sample;
mod scoreboard;
mod sender;

pub(crate) use connection::{Connection, News, Setup};
pub(crate) use sender::Content;

use crate::{
    agenda::{Agenda, Id, What},
    network::Network,
};
use scenario::Tcp;
use units::Timestamp;

/// What an endpoint may use while it acts.
pub(crate) struct Context<'a> {
    pub(crate) now: Timestamp,
    pub(crate) tcp: &'a Tcp,
    pub(crate) network: &'a mut Network,
    pub(crate) agenda: &'a mut Agenda,
    pub(crate) line: Line,
}

/// Which connection it is, and where its packets go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) owner: u32,
    /// Tells the connections apart that had the same number one after the other.
    pub(crate) generation: u32,
    /// The path of the data.
    pub(crate) forward: u32,
    /// The path of acknowledgements.
    pub(crate) backward: u32,
    /// Bytes of headers in each segment.
    pub(crate) header: u32,
}

impl Line {
    pub(crate) fn id(&self, what: What) -> Id {
        Id::new(what, self.owner, self.generation)
    }
}

/// A point of time at which something is due, with an entry on the agenda that is at or before it: put
/// off at no cost, looked at again when the entry's time has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer {
    due: Option<Timestamp>,
    planned: Option<Timestamp>,
}

impl Timer {
    pub(crate) const OFF: Self = Self { due: None, planned: None };

    pub(crate) fn set(&mut self, due: Timestamp, plan: impl FnOnce(Timestamp)) {
        self.due = Some(due);
        if self.planned.is_none_or(|planned| planned > due) {
            self.planned = Some(due);
            plan(due);
        }
    }

    /// Sets it, unless it is due before.
    pub(crate) fn bring_forward(&mut self, due: Timestamp, plan: impl FnOnce(Timestamp)) {
        if self.due.is_none_or(|before| before > due) {
            self.set(due, plan);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.due = None;
    }

    pub(crate) fn is_set(&self) -> bool {
        self.due.is_some()
    }

    /// An entry's time has come: whether it is due. Where it was put off, it is planned again.
    pub(crate) fn fires(&mut self, now: Timestamp, plan: impl FnOnce(Timestamp)) -> bool {
        if self.planned.is_none_or(|planned| planned > now) {
            return false; // an entry that was overtaken by an earlier one
        }
        self.planned = None;
        match self.due {
            Some(due) if due <= now => {
                self.due = None;
                true
            }
            Some(due) => {
                self.planned = Some(due);
                plan(due);
                false
            }
            None => false,
        }
    }
}
