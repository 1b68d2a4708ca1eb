// SPDX-License-Identifier: GPL-2.0-or-later
//! The Logistical Session Layer: headers that depots read, and records between the two ends of a session. No
//! I/O, no clock, no source of randomness. `docs/lsl.md` is the specification; rules are cited by their numbers.
//!
//! ```text
//! duplex     both directions, once the ends have greeted each other
//! fields     type, length, value: what headers and handshakes consist of
//! record     the records between the two ends
//! handshake  how a session begins and continues
//!   key        its key, and what is proved with it
//! tree       a stream hashed in groups; positions in it
//! sending    one direction at its sending end
//! receiving  one direction at its receiving end
//! ```

mod duplex;
mod fields;
pub mod handshake;
mod key;
mod receiving;
pub mod record;
mod sending;
mod tree;

pub use duplex::{Duplex, Event, Output, split_record};
pub use fields::Malformed;
pub use key::{KeyPair, SessionKey};
pub use receiving::{ReceiveError, Received, Receiving};
pub use sending::{Direction, Next, PositionCheck, PositionError, Sending, seal_again};
pub use tree::{GROUP, MAX_STREAM, Position, Prefix, Value, group_end, group_start};
