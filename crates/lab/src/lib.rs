// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a scenario and archives it. Method so far: `emu`, real kernel TCP and real programs over
//! an emulated network on this machine.
//!
//! A run, from top to bottom: longhaul's congestion controls that it asks for are brought into the
//! kernel (`controls`), the network comes up (`wan`), a real nginx at each flow's source and
//! a depot process at each `via` (`servers`), the sampler looks at sockets, queues and files while
//! stock clients download (`client`, `sampler`, `sockets`), the network goes down, what arrived is
//! hashed (`payload`), and everything that was seen becomes a record (`recording`), with what the
//! paper's equations predict (`model`) beside it. [`run_all`] does that for all runs of a scenario
//! and skips those on record.

mod batch;
mod client;
mod controls;
mod counters;
mod emu;
mod error;
mod machine;
mod model;
mod payload;
mod recording;
mod sampler;
mod servers;
mod sockets;

pub use batch::{Event, Options, run_all};
pub use controls::Controls;
pub use error::LabError;
