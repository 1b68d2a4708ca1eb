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
    /// The depot's certificate, and those between it and its root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// Its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The authorities whose certificates next hops may have; without, those this system trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roots: Option<PathBuf>,
}
