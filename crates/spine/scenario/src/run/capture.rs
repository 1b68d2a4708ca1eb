// SPDX-License-Identifier: GPL-2.0-or-later
//! What a node's capture keeps.

use crate::{json, run::Family};
use serde::{Deserialize, Serialize};
use units::Bytes;

/// A capture of all packets that a node sends and receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// Bytes kept of each packet, from its Ethernet header.
    #[serde(rename = "snap_bytes")]
    pub snap: u32,
    /// The file grows no further than this.
    #[serde(rename = "limit_bytes", with = "json::bytes")]
    pub limit: Bytes,
}

impl Capture {
    /// A capture has a file that can be kept, whatever the run carries.
    pub const DEFAULT_LIMIT: Bytes = Bytes::new(4 << 30);

    /// Ethernet, IP and TCP with all its options (40 bytes) fit. 96 is a round figure above the 94 of IPv4.
    pub(crate) fn default_snap(family: Family) -> u32 {
        match family {
            Family::Ipv4 => 96,
            Family::Ipv6 => 14 + 40 + 20 + 40,
        }
    }
}
