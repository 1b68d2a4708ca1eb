// SPDX-License-Identifier: GPL-2.0-or-later
//! Address families.

use serde::{Deserialize, Serialize};

/// An address family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}
