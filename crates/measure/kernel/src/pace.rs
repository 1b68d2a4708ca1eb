// SPDX-License-Identifier: GPL-2.0-or-later
//! Precise pacing of what leaves a device, on a stock kernel.
//!
//! `src/bpf/pace.bpf.c` runs where packets leave a device (tcx, Linux 6.6 or newer), finds each packet's target
//! and keeps packets apart as `cc/pace.h` says, by one of two methods ([`Method`]):
//! - gap packets (Takano et al., paper 001): PAUSE frames behind each packet;
//! - departure times, which the queueing discipline fq keeps.
//!
//! [`DevicePacer::attach`] holds it as long as the process; [`add`] keeps it until [`delete`], by pins in the BPF file
//! system, and [`replace`] keeps all the rules of one owner, whatever they were before. All ensure that the
//! device gets single segments (`gso_max_segs 1`), unless super-packets are wanted. [`is_paced`] says without any
//! rights what is kept so.
//!
//! In addition, [`SocketPacer`] makes TCP pace the traffic of programs that do not ask for pacing.
//!
//! # Limits
//! - Packets that come ready made of many segments (forwarded after GRO, or of a connection that was there
//!   before) are paced as one; they are counted.
//! - Gap packets: the gap behind one is at most [`Frames::max_gap`]: an estimated target below what that allows
//!   is missed. A set rate below it is refused.
//! - Gap packets: one transmit queue, and in it one after the other: devices and queueing disciplines of other
//!   kinds are refused.
//! - Gap packets: a clone belongs to no socket, so `SO_TIMESTAMPING` tells when the last gap frame leaves.
//! - Departure times: packets that would have to wait for more than two seconds are dropped and counted. Removing fq
//!   from the device ends pacing.

mod attach;
mod counters;
#[cfg(test)]
mod departures;
mod fq;
mod layout;
mod method;
mod notice;
mod peer_rules;
mod pinned;
mod readings;
mod refusal;
mod requirements;
mod routes;
mod rules;
mod socket_pacer;
mod status;
mod usable_methods;

pub use attach::{DevicePacer, lacking};
pub use counters::{Counts, Sender};
pub use fq::install_fq;
pub use method::Method;
pub use notice::is_paced;
pub use peer_rules::{LineRate, PacedPeer, PlanError, plan};
pub use pinned::{PacedDevice, add, delete, list, replace};
pub use refusal::Refusal;
pub use routes::devices_towards;
pub use rules::{Frames, Match, Options, Owner, Rule, Setup, Target};
pub use socket_pacer::SocketPacer;
pub use status::{DeviceStatus, PacingStatus, RuleStatus, SenderStatus, estimator_name};
pub use usable_methods::{MethodSupport, PacingMethods};
