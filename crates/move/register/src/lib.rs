// SPDX-License-Identifier: GPL-2.0-or-later
//! The register: the depots to choose from, with location, load and rules.
//!
//! ```text
//! file              the register file of a user or operator: depots by name, and where to discover others
//! announcement_set  signed announcements, the latest of each depot
//! query             requests all announcements that a depot has
//! cache             the last known announcements, for when no source responds
//! register          the depots to choose from, and the chains that they form
//! ```
//! Depots sign their announcements (`protocol::announcement`), and a register accepts only trusted keys. So announcements may come
//! through other depots or etcd without giving these any say.

mod announcement_set;
mod cache;
mod file;
mod query;
mod register;

pub use announcement_set::{AnnouncementList, AnnouncementSet};
pub use file::{Listed, RegisterFile};
pub use register::{AsOf, Register, chains};
