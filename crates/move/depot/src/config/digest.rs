// SPDX-License-Identifier: GPL-2.0-or-later
//! `digest`: which bodies are hashed in transit.

use protocol::digest::Algorithm;
use serde::{Deserialize, Serialize};

/// Which bodies are hashed in transit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DigestMode {
    /// None: promised digests are relayed for the client to check.
    Off,
    /// Those with a promised digest.
    #[default]
    Check,
    /// All. For a body without a promised digest, SHA-256 is promised to the next depot.
    #[serde(rename = "sha-256")]
    Sha256,
    /// The same with MD5, as in Augusto et al.: cheaper, but it detects accidental changes only.
    Md5,
}

impl DigestMode {
    /// The algorithm for bodies without a promised digest.
    pub(crate) fn makes(self) -> Option<Algorithm> {
        match self {
            Self::Off | Self::Check => None,
            Self::Sha256 => Some(Algorithm::Sha256),
            Self::Md5 => Some(Algorithm::Md5),
        }
    }
}
