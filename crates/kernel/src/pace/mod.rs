// SPDX-License-Identifier: GPL-2.0-or-later
//! Precise pacing by gap packets (Takano et al., paper 001) on a stock kernel.
//!
//! `src/bpf/pace.bpf.c` runs where packets leave a device (tcx, Linux 6.6 or newer) and follows each paced
//! packet with PAUSE frames as long as `cc/pace.h` says. [`Injector::attach`] holds it as long as the
//! process; [`add`] keeps it until [`delete`], by pins in the BPF file system. Both see to it that the device
//! is given single segments (`gso_max_segs 1`).
//!
//! Beside it, [`Sockets`] has TCP pace by itself what programs send that don't ask for it.
//!
//! # Limits
//! - Packets that come ready made of many segments (forwarded after GRO, or of a connection that was there
//!   before) are paced as one; they are counted.
//! - The gap behind a packet is at most [`Frames::max_gap`]: an estimated target below what that allows is
//!   missed. A set rate below it is refused.
//! - One transmit queue, and in it one after the other: devices and queueing disciplines of other kinds
//!   are refused.
//! - A clone is no socket's, so `SO_TIMESTAMPING` tells when the last gap frame leaves.

mod attach;
mod device;
mod figures;
mod layout;
mod pinned;
mod refusal;
mod rules;
mod sockets;

pub use attach::{Injector, lacking};
pub use figures::{Counts, Sender};
pub use pinned::{Attached, add, delete, list};
pub use refusal::Refusal;
pub use rules::{Aim, Frames, Match, Options, Rule, Setup};
pub use sockets::Sockets;
