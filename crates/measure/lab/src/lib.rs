// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a scenario and archives it, by one of two methods ([`Method`]): `emu`, real kernel TCP and
//! real programs over an emulated network on this machine, and `sim`, both in virtual time.
//!
//! [`run_all`] takes the runs of a scenario one after the other, those of `sim` also side by side,
//! and skips those on record (`batch`, `record_directories`). A method says beforehand what it can't do
//! (`preflight`); its measurements become a record, together with predictions of closed forms (`manifest`,
//! `model`).
//!
//! A run by `emu`, from top to bottom: longhaul's congestion controls that it asks for are brought
//! into the kernel (`congestion_controls`), the network comes up (`wan`), hosts with classes get their gateways
//! (`pacing_gateways`), a real nginx at each flow's source (a server of
//! its own for a flow whose program has a rate: `rated_server`) and a depot process at each `via` (`servers`), the
//! sampler looks at sockets, queues and files while stock clients download (`client`, `sampler`), the network goes down, what arrived is hashed (`payload`), and everything that was seen is
//! put together (`recording`). A run by `sim` is a simulation that goes on step by step, and writes down
//! now and then what there is so far (`simulation`).

mod batch;
mod client;
mod congestion_controls;
mod emulation;
mod error;
mod machine;
mod manifest;
mod method;
mod pacing;
mod pacing_gateways;
mod payload;
mod phases;
mod prediction;
mod preflight;
mod rated_server;
mod record_directories;
mod recording;
mod sampler;
mod sender_limits;
mod servers;
mod simulation;
mod small_buffers;
mod source_hash;
mod tcp_timeouts;

pub use batch::{Event, Options, ReusePolicy, RunEvent, run_all};
pub use congestion_controls::LoadedControls;
pub use error::LabError;
pub use method::Method;
pub use preflight::{check_congestion_controls, check_emulated_network};
pub use simulation::Progress;
pub use small_buffers::small_buffers;
