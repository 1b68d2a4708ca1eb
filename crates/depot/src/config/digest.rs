// SPDX-License-Identifier: GPL-2.0-or-later
//! `digest`: which bodies are hashed as they pass.

use serde::{Deserialize, Serialize};
use session::digest::Algorithm;

/// Which bodies are hashed as they pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DigestMode {
    /// None: what was promised of a body is passed on, and left to the client.
    Off,
    /// Those of which a digest was promised.
    #[default]
    Check,
    /// All; where none was promised, SHA-256 is, to the next depot.
    #[serde(rename = "sha-256")]
    Sha256,
    /// The same with MD5, as in Augusto et al.: cheaper, and good against accidents alone.
    Md5,
}

impl DigestMode {
    /// What is made where nothing was promised.
    pub(crate) fn makes(self) -> Option<Algorithm> {
        match self {
            Self::Off | Self::Check => None,
            Self::Sha256 => Some(Algorithm::Sha256),
            Self::Md5 => Some(Algorithm::Md5),
        }
    }
}
