// SPDX-License-Identifier: GPL-2.0-or-later
//! The Logistical Session Layer: headers that depots read, and records between the two ends of a session. No
//! I/O, no clock, no source of randomness. `docs/lsl.md` is the specification; rules are cited by their numbers.
//!
//! ```text
//! fields   type, length, value: what headers and handshakes consist of
//! ```

mod fields;

pub use fields::Malformed;
