// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a scenario by a method, and archives it. A method ([`Method`]) says what it can't do, and takes one run to a record:
//! `sim` in virtual time, `lab` by emulation.
//!
//! ```text
//! run_all   the runs' queue: what is on record is not run again, the rest goes to jobs
//!   record_directories   where records lie, and what makes one outdated
//!   obstacles            what is in the way of runs, said at once
//! capture                captures of nodes, as files in pcapng
//! journal                what happened to runs, in a file next to the records
//!   sweep                how far runs are by that, for who looks
//! precision              when repeats are enough
//! archive                all records in one file, and read from one
//! manifest               the part of a record that does not depend on the method
//! congestion_controls    those that runs name, with their parameters
//! ```

pub mod archive;
mod batch;
pub mod capture;
pub mod congestion_controls;
mod differences;
mod error;
mod journal;
mod machine;
pub mod manifest;
mod method;
mod obstacles;
mod precision;
mod record_directories;
mod step;
mod sweep;

pub use batch::{Event, Options, ReusePolicy, RunEvent, run_all};
pub use congestion_controls::check_congestion_controls;
pub use error::ExperimentError;
pub use journal::{OnRecord, Started};
pub use machine::versions;
pub use method::{Method, Progress, RunContext, prepare_all};
pub use obstacles::{Obstacle, Obstacles};
pub use record_directories::failed_records;
pub use step::Step;
pub use sweep::{AttemptEnd, AttemptState, RunState, Standing, Sweep};
