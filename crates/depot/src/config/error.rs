// SPDX-License-Identifier: GPL-2.0-or-later
//! What is wrong with a configuration.

use crate::config::pacing::PacingMethod;
use ipnet::IpNet;
use session::{DepotAddress, DepotIdError};

/// What is wrong with a configuration. The fault is with who wrote it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not TOML, an unknown key, or a value that does not parse; the text points at the line.
    #[error("{file}: {error}")]
    Toml {
        /// The file's name.
        file: String,
        /// What and where.
        error: Box<toml::de::Error>,
    },
    /// The id is no token.
    #[error(transparent)]
    Id(#[from] DepotIdError),
    /// There is no address to listen on.
    #[error("`listen` is empty: give at least one address, as in \"0.0.0.0:3880\"")]
    NoListener,
    /// TLS without what it needs.
    #[error(
        "`tls.certificate` and `tls.key` belong together, and `tls.listen` needs them: \
         give both files, or none of the three"
    )]
    NoCertificate,
    /// A route that `allow.upstreams` closes.
    #[error("[[detour]] through \"{0}\": `allow.upstreams` does not list it")]
    Detour(DepotAddress),
    /// Two detours for one depot.
    #[error("two [[detour]] tables are around {0}: join them into one")]
    DetourTwice(DepotAddress),
    /// Two hops for one network.
    #[error("two [[hop]] tables have the peer {0}: join them into one")]
    HopTwice(IpNet),
    /// A hop within one whose packets are all spaced where they leave.
    #[error(
        "[[hop]] peer = \"{peer}\" lies within \"{around}\", where all packets are paced by {method}: give it \
         the same `pacing`"
    )]
    PacedAround {
        /// The hop.
        peer: IpNet,
        /// The one around it.
        around: IpNet,
        /// How that one is paced.
        method: PacingMethod,
    },
    /// Two settings that the kernel does not have together.
    #[error(
        "[[hop]] peer = \"{peer}\": `{rate}` and `mptcp` exclude each other, Linux paces TCP alone"
    )]
    Paths {
        /// The hop.
        peer: IpNet,
        /// Which rate is set.
        rate: &'static str,
    },
    /// A size or number is outside its range.
    #[error("`{key}` is {value}: expected {expected}")]
    Range {
        /// The key.
        key: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
}

impl ConfigError {
    pub(super) fn range(key: &'static str, value: &impl ToString, expected: &'static str) -> Self {
        Self::Range { key, value: value.to_string(), expected }
    }
}
