// SPDX-License-Identifier: GPL-2.0-or-later
//! What bytes move through.

use crate::copy::pipe::Pipes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How bytes are moved from socket to socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CopyMode {
    /// In the kernel, by splice(2); falls back to copying where the kernel cannot.
    #[default]
    Splice,
    /// Through a buffer of this process.
    Copy,
}

/// What bytes move through.
#[derive(Debug)]
pub struct RelayResources {
    /// In the kernel or not.
    pub mode: CopyMode,
    /// All pipes.
    pub pipes: Arc<Pipes>,
}
