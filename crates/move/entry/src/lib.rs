// SPDX-License-Identifier: GPL-2.0-or-later
//! How unmodified programs get their connections through a chain of depots.
//!
//! ```text
//! short    destinations that are reached directly because their connections are short
//! chain    a session to a plain TCP server, on a socket that is there already or a connection of its own
//! trial    routes tried in their order, and depots that are left alone since they are down
//! run      a program of which a supervisor makes the connections
//! agent    a proxy on this machine: SOCKS5 and HTTP
//! intercept  connections of other machines and of this one, taken over on their route by nftables
//! connections  those that are open, and totals
//! shares   how many of something each client or server may have
//! tunnel   bytes between two connections, where the program cannot have the one to the depot itself
//! ```
//! A session to a plain server is a header and then nothing but the server's bytes (docs/lsl.md, 2.2). So once it is
//! open, the program has the socket to itself, and this crate does not touch its data.

pub mod agent;
pub mod chain;
pub mod connections;
#[cfg(test)]
mod fuzz_tests;
pub mod intercept;
pub mod run;
mod shares;
mod short;
mod sys;
mod trial;
mod tunnel;
