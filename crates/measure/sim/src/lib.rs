// SPDX-License-Identifier: GPL-2.0-or-later
//! Scenarios in virtual time: the links of `netmodel` and the congestion controls of `cc/`, which also
//! run in the emulator and in the kernel, with TCP's endpoints, depots and traffic around them.
//!
//! ```text
//! Simulation ── event_queue   what happens next: first packets of link directions, timers
//!    │
//!    ├─ flows, traffic      who opens connections, and what they carry
//!    ├─ connection_table    connections by number, and whose they are
//!    ├─ file_log            traffic's files for the record
//!    ├─ tcp                 both ends of a connection
//!    ├─ sender_qdisc        pacing between a sender and its first link
//!    ├─ network             link directions, and packets on their way over paths, many at a time at junctions
//!    ├─ capture             what captured nodes send and receive, as frames
//!    └─ observe             samples and the summary
//! ```
//! [`Simulated`] is the method of an experiment.
//!
//! An event is the arrival of a packet at the end of a link, or a timer. For each link only the first
//! packet has an entry in the event queue, and a timer that is put off stays where it is until its old time, so
//! the event queue is short however much is on its way. Where links lead only into other links, one entry is
//! for many packets (`junction`). The work for an acknowledgement does not depend on
//! the window.
//!
//! At the end of every run, and whenever an outcome is asked for, it is asserted that every packet and
//! byte that was sent was delivered, dropped or lost, or is on its way.

mod capture;
mod connection_table;
mod event_queue;
mod file_log;
mod flows;
mod junction;
mod method;
mod network;
mod observe;
mod packet;
mod plan;
mod ranges;
mod sender_qdisc;
mod simulation;
mod simulation_state;
mod tcp;
#[cfg(test)]
mod testing;
mod timer;
mod traffic;
mod winner_tree;

pub use method::Simulated;
pub use plan::Unsupported;
pub use simulation::{Outcome, Simulation};
