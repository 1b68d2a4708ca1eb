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
//! | what reordering the path has | 8985 | `reordering` |
//! | bringing the window down (PRR, pipe) | 6937, 6675 | `recovery` |
//! | round trips and the timeout | 6298 | `rtt` |
//! | delivery rate | draft-cheng-iccrg-delivery-rate-estimation | `delivery_rate` |
//! | sending: windows, pacing, probes, timeouts | 5681, 8985 | `sender` |
//! | taking a needless reduction back | 2883, 3522, 5682 | `sender/undo` |
//! | receiving: delayed acknowledgement | 1122, 2018 | `receiver` |
//! | the receiver's window | 7323 | `receive_window` |
//!
//! The work for an acknowledgement does not grow with the window: every segment is sent, marked and
//! forgotten once, and sets of segments are ranges (`crate::ranges`).
//!
//! A connection that is kept carries further files, one behind the other, each in segments of its own.
//!
//! Not here: urgent data, keep-alive and closing, which no result depends on.

mod carried;
mod connection;
mod connection_setup;
mod content;
mod delivery_rate;
mod detection;
mod receive_window;
mod receiver;
mod recovery;
mod reordering;
mod rtt;
mod scoreboard;
mod send_buffer;
mod sender;
#[cfg(test)]
mod tests;

pub(crate) use carried::Carried;
pub(crate) use connection::{Connection, ConnectionEvent};
pub(crate) use connection_setup::ConnectionSetup;
pub(crate) use content::Content;

use crate::{
    event_queue::{EventId, EventKind, EventQueue},
    network::Network,
};
use scenario::Tcp;
use units::Timestamp;

/// What an endpoint may use while it acts.
pub(crate) struct Context<'a> {
    pub(crate) now: Timestamp,
    pub(crate) tcp: &'a Tcp,
    pub(crate) network: &'a mut Network,
    pub(crate) events: &'a mut EventQueue,
    pub(crate) route: ConnectionRoute,
}

/// Which connection it is, and where its packets go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionRoute {
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

impl ConnectionRoute {
    pub(crate) fn event_id(&self, kind: EventKind) -> EventId {
        EventId::new(kind, self.owner, self.generation)
    }
}
