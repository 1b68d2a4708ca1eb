// SPDX-License-Identifier: GPL-2.0-or-later
//! What is so of a host, its programs and a path, as plain values: rules decide by these alone.

pub mod device;
pub mod host;
pub mod path;
pub mod program;

pub use self::{
    device::{Device, Discipline},
    host::{Host, KernelVersion, Memory, Route},
    path::{Path, Sample, Sent},
    program::Socket,
};

use serde::Serialize;

/// All facts. What could not be found out is absent, and no rule answers to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Facts {
    /// This host.
    pub host: Host,
    /// Connections of the program that was asked about.
    pub sockets: Vec<Socket>,
    /// The path to a peer, if it was measured.
    pub path: Option<Path>,
    /// The path to a peer, if that was measured, too.
    pub sent: Option<Sent>,
    /// Whether something on the path merges acknowledgements, so that they take no rate that matters.
    pub thins_acknowledgements: bool,
}
