// SPDX-License-Identifier: GPL-2.0-or-later
//! The Logistical Session Layer: headers that depots read, and records between the two ends of a session. No
//! I/O, no clock, no source of randomness. `docs/lsl.md` is the specification; rules are cited by their numbers.
//!
//! ```text
//! session_id  a session's name
//! fields      type, length, value: what headers and handshakes consist of
//! header      preface, version, kind and length of the headers
//!   open        OPEN: session, route, target
//!   answer      ANSWER: status, error, reports of depots
//!   stripes     JOIN: one hop over several connections
//! record      the records between the two ends
//! handshake   how a session begins and continues
//!   key         its key, and what is proved with it
//!   request     what is asked of a depot that keeps sessions
//! parcel      the bytes of a session that a depot keeps, as its ends read them
//! sealed      records that no depot on the path can read
//! duplex      both directions, once the ends have greeted each other
//!   sending     one direction at its sending end
//!   receiving   one direction at its receiving end
//!   tree        a stream hashed in groups; positions in it
//! scheduler   which of several connections carries which bytes
//! ```

mod answer;
mod duplex;
mod fields;
pub mod handshake;
mod header;
mod key;
mod open;
pub mod parcel;
mod receiving;
pub mod record;
pub mod request;
mod scheduler;
pub mod sealed;
mod sending;
mod session_id;
mod stripes;
mod tree;

pub use answer::{Answer, Answers, HopReport, MAX_TEXT};
pub use duplex::{Duplex, Event, Output, split_record};
pub use fields::Malformed;
pub use header::{ALPN, FIRST_BYTE, Header, MAX_HEADER, UnknownField};
pub use key::{KeyPair, SessionKey};
pub use open::{Congestion, Hop, MAX_HOPS, Open, OpenStep, Role, Target, TicketText};
pub use receiving::{ReceiveError, Received, Receiving};
pub use scheduler::{LaneId, MAX_LANES};
pub use sending::{Direction, Next, PositionCheck, PositionError, Sending, seal_again};
pub use session_id::{SessionId, SessionIdError};
pub use stripes::{JoinToken, Striped};
pub use tree::{GROUP, MAX_STREAM, Position, Prefix, Value, group_end, group_start};
