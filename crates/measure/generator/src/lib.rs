// SPDX-License-Identifier: GPL-2.0-or-later
//! Traffic by real sockets between network namespaces of this machine, as the lab's emulated runs need it.
//!
//! [`datagrams`] sends UDP at constant rates, [`connections`] files and bursts over TCP. Everything runs on threads of the calling process, whose sockets belong to the
//! namespaces that they were opened in, so nothing is left when the process ends, by whatever cause. The crate knows no
//! scenarios: its caller says what is sent where, and what a report means for a run.

pub mod connections;
pub mod datagrams;
mod sys;
