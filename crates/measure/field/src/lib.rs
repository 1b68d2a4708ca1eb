// SPDX-License-Identifier: GPL-2.0-or-later
//! Real hosts for experiments, over the user's own `ssh`.
//!
//! ```text
//! hosts        hosts.toml: which machine is which node of a scenario
//! remote       one host as the engine sees it: reached, given this program, asked
//!   clock      how far its clock is off
//! needs        what a run needs of a host
//! survey       what all hosts are, before anything is changed
//! method       a run, step by step
//! collect      fetches a host's record
//! merge        the records of all hosts become one
//! message      what engine and guard say to each other
//! path         what a scenario asks of paths, and whether they are that
//! pack         a host's record as one file
//! guard        on the host: takes it, sets it up, puts everything back
//! ```
//! On each host runs a guard, a copy of this program, for as long as the engine's connection lasts. All that is changed on a host is changed by
//! its guard, which notes the old value first. It puts everything back when it is asked to, when the connection ends, and when
//! nothing comes for its lease. A keeper does that if the guard is killed, and the next guard if both are.
//!
//! Threats. A guard may run as root (`sudo`). It takes its orders from whoever can log in as that user and run this program by sudo, and sets
//! only keys below `net`. Orders are lines of bounded length. What a host
//! answers is not trusted: it is bounded, and made printable before it is shown.

mod clock;
mod collect;
mod error;
pub mod guard;
mod hosts;
mod merge;
mod message;
mod method;
mod needs;
mod pack;
mod path;
mod remote;
mod survey;

pub use clock::{ClockOffset, Clocks};

/// The method's name in records.
pub const METHOD: &str = "field";

pub use error::FieldError;
pub use hosts::{Host, Hosts};
pub use message::{Facts, PathMeasured, Reservation, Setting};
pub use method::{Field, SOURCES};
pub use needs::Needs;
pub use path::Path;
pub use remote::{Program, Remote};
pub use survey::{PathFound, Survey, Surveyed, survey};
