// SPDX-License-Identifier: GPL-2.0-or-later
//! `[tls]`: certificates and trusted authorities.

use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, path::PathBuf};

/// TLS, towards clients and next hops. The files are PEM, and read again when they change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsFiles {
    /// Addresses to listen on with TLS.
    pub listen: Vec<SocketAddr>,
    /// The depot's certificate chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// Its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The authorities trusted for certificates of next hops. `None`: those of this system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roots: Option<PathBuf>,
}
