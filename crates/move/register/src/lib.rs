// SPDX-License-Identifier: GPL-2.0-or-later
//! The register: which depots there are to choose from, where they are, and what they tell of themselves.
//!
//! ```text
//! file       what a user or operator writes: depots by name, and whom to ask for others
//! known      announcements of depots, the newest of each
//! ask        all announcements that a depot has heard
//! last       the last known state of a register, for when none of those asked answers
//! register   the depots to choose from, and the chains that they make
//! ```
//! Depots sign their announcements (`protocol::announcement`), and a register counts those whose keys it trusts. So it does not matter
//! who passes them on, or who can write to the place where they are kept.

mod ask;
mod file;
mod known;
mod last;
mod register;

pub use file::{Listed, RegisterFile};
pub use known::{Known, Told};
pub use register::{AsOf, Register, chains};
