// SPDX-License-Identifier: GPL-2.0-or-later
//! The netmodel in real time: a scenario's network on this one machine, between network namespaces
//! over TAP devices, so that real kernels and real programs run on it.
//!
//! [`Wan`] brings a run's network up inside the calling process; [`background`] keeps one up in the
//! background for a person to try programs on; check measures what the emulator really gives
//! on this machine. [`bridge`] is the emulator between two real cards. [`pacing_gateway`] paces what leaves by a real device.

pub mod background;
pub mod bridge;
mod card_socket;
mod check;
mod directed_link;
mod emulator;
mod error;
mod gso_frame;
mod health;
mod link_clock;
mod moves;
mod network;
mod node;
pub mod pacing_gateway;
pub mod packet_ring;
mod poll_policy;
mod port;
mod run_files;
mod sys;

pub use check::{LossRow, QueueRow, RateRow, Report, RoundTripRow, check};
pub use emulator::{LinkState, Snapshot};
pub use error::WanError;
pub use health::{Health, Punctuality};
pub use network::{LinkStatus, Wan, lacking};
pub use node::{NodeAddress, NodeNetwork};
pub use scenario::addresses::device as device_name;

/// Of threads that move packets, and of those that measure them: above senders of traffic, whose packets are to be read.
const REAL_TIME_PRIORITY: i32 = 10;
