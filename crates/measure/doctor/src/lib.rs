// SPDX-License-Identifier: GPL-2.0-or-later
//! What in this host, in a program or on a path keeps a transfer below a target, ranked by what its remedy would gain.
//!
//! ```text
//! facts      what is so: settings, device, routes, memory, sockets of programs, a measured path
//! limits     a transfer under these facts, as the crate `model` predicts it
//! rule       what a rule is
//! rules      a table of pure functions from facts and target to a finding
//! diagnosis  what the rules find, each with the rate now and after its remedy, in order of the gain
//! change     a change of this host, as a command, as an inverse, and done to facts or to the host
//! journal    what was changed, on the disk before it is changed
//! sharing    transfers in both directions at once, of a target with two rates
//! via        a file's time directly and through depots
//! report     a diagnosis as text and JSON
//! repair     changes one at a time, measures, and takes back what did not help
//! ```
//! Source: paper 004 (`PathNIF`) and the issue's list of misconfigurations; each rule names its own.
//! Limits: Linux; closed forms for one TCP connection that has its path for itself.

pub mod change;
pub mod diagnosis;
pub mod facts;
pub mod finding;
pub mod journal;
mod limits;
mod outside_limit;
pub mod repair;
pub mod report;
pub mod rule;
pub mod rules;
pub mod sharing;
mod target;
pub mod via;

pub use limits::{DURATION, predict};
pub use target::{ASSUMED_LOSS, Target, TargetError};
