// SPDX-License-Identifier: GPL-2.0-or-later
//! Scenarios by emulation ([`Emulation`]): real kernel TCP and real programs over an emulated network on this machine.
//!
//! A run, from top to bottom: longhaul's congestion controls that it asks for are brought
//! into the kernel (`congestion_controls`), the network comes up (`wan`), hosts with classes get their gateways
//! (`pacing_gateways`), a real nginx at each flow's source (longhaul's own
//! server for a flow that nginx can't send: `flow_server`) and a depot process at each `via` (`servers`), the
//! sampler looks at sockets, queues and files while stock clients download (`client`, `sampler`), or longhaul's own receiver
//! where they can't (`streams`) and the generator sends other traffic (`traffic`), the network goes down,
//! what arrived is hashed (`payload`), and everything that was seen is put together (`recording`). What cannot be emulated is
//! said beforehand (`preflight`).

mod captures;
mod client;
mod congestion_controls;
mod drive;
mod emulation;
mod ended;
mod error;
mod events;
mod flow_server;
mod kept_connections;
mod pacing;
mod pacing_gateways;
pub mod part;
mod payload;
mod phases;
mod preflight;
mod recording;
mod sampler;
mod sender_limits;
mod servers;
mod small_buffers;
mod stage;
mod streams;
mod tcp_timeouts;
mod traffic;

pub use client::program as client_program;
pub use congestion_controls::LoadedControls;
pub use emulation::{Emulation, effective_run, ignored};
pub use error::LabError;
pub use kept_connections::ungrown_connections;
pub use payload::{Digest256, Payloads};
pub use preflight::{check_emulated_network, unsupported_on_hosts};
pub use servers::{has_stock_client, package_of};
pub use small_buffers::small_buffers;
