// SPDX-License-Identifier: GPL-2.0-or-later
//! `[trust]`: whose tickets open the depot.

use crate::config::network;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::{net::IpAddr, num::NonZeroUsize, path::PathBuf};

/// Keys of ticket issuers that the depot trusts: none by default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrustFiles {
    /// The public keys: a JWK Set, one JWK, or a PEM file. Read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<PathBuf>,
    /// Revoked tickets, one `jti` a line. Read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked: Option<PathBuf>,
    /// Whether listed clients need a ticket too.
    pub required: bool,
    /// Networks of trusted depots. This depot believes the clients that they name, counts their requests for
    /// those clients, and names its own clients to them.
    #[serde(deserialize_with = "network::list")]
    pub depots: Vec<IpNet>,
    /// Maximum number of tickets with limited uses that are remembered at a time.
    pub replays: NonZeroUsize,
}

impl Default for TrustFiles {
    fn default() -> Self {
        let replays = const { NonZeroUsize::new(100_000).unwrap() };
        Self { keys: None, revoked: None, required: false, depots: Vec::new(), replays }
    }
}

impl TrustFiles {
    /// Whether a depot at this address is trusted to say who its clients are, and told who this one's are.
    pub(crate) fn has_depot(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.depots.iter().any(|net| net.contains(&address))
    }
}
