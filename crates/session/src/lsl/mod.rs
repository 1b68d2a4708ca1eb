// SPDX-License-Identifier: GPL-2.0-or-later
//! The Logistical Session Layer: headers that depots read, and records between the two ends of a session. No
//! I/O, no clock, no source of randomness. `docs/lsl.md` is the specification; rules are cited by their numbers.
//!
//! ```text
//! fields      type, length, value: what headers and handshakes consist of
//! header      preface, version, kind and length of the two headers
//!   open        OPEN: session, route, target
//!   answer      ANSWER: status, error, reports of depots
//! session_id  a session's name
//! ```

mod answer;
mod fields;
mod header;
mod open;
mod session_id;

pub use answer::{Answer, HopReport, MAX_TEXT};
pub use fields::Malformed;
pub use header::{ALPN, FIRST_BYTE, Header, MAX_HEADER, UnknownField};
pub use open::{Congestion, Hop, MAX_HOPS, Open, OpenStep, Role, Target, TicketText};
pub use session_id::{SessionId, SessionIdError};
