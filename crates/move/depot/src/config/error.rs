// SPDX-License-Identifier: GPL-2.0-or-later
//! What is wrong with a configuration.

use crate::config::{pacing::PacingMethod, site_names::SiteName};
use ipnet::IpNet;
use protocol::{Authority, DepotAddress, DepotIdError};
use std::net::{IpAddr, SocketAddr};
use toml::de::DeTable;
use units::suggest;

/// What is wrong with a configuration. The fault is with who wrote it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not TOML, an unknown key, or a value that does not parse; the text points at the line.
    #[error("{file}: {}{}", error.to_string().trim_end(), suggest::of_message(error.message()))]
    Toml {
        /// The file's name.
        file: String,
        /// What and where.
        error: Box<toml::de::Error>,
    },
    /// `id` is not a valid token.
    #[error(transparent)]
    Id(#[from] DepotIdError),
    /// There is no address to listen on.
    #[error("`listen` is empty: give at least one address, as in \"0.0.0.0:3880\"")]
    NoListener,
    /// Something in `[register]` is wrong.
    #[error("`register`: {0}")]
    Register(String),
    /// TLS without what it needs.
    #[error(
        "`tls.certificate` and `tls.key` belong together, and `tls.listen` needs them, or a [[site]] with its own: \
         give both files, or none of the three"
    )]
    NoCertificate,
    /// A route that `allow.upstreams` closes.
    #[error("[[detour]] through \"{0}\": `allow.upstreams` does not list it")]
    Detour(DepotAddress),
    /// Two detours for one depot.
    #[error("two [[detour]] tables are around {0}: join them into one")]
    DetourTwice(DepotAddress),
    /// Two listeners at one address.
    #[error("`{setting}` and `{other}` both have the address {address}: give each its own port")]
    ListenTwice {
        /// The setting of the second.
        setting: &'static str,
        /// The setting of the first.
        other: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// Two addresses of one family for all connections.
    #[error(
        "`source` has a second address of one family, {0}: list one IPv4 and one IPv6 address at most, and give \
         peers with another one a [[hop]] with `source`"
    )]
    SourceTwice(IpAddr),
    /// A hop whose peers the source address cannot reach.
    #[error(
        "[[hop]] peer = \"{peer}\": connections cannot leave by {address}, which is of the other family (IPv4, IPv6)"
    )]
    SourceFamily {
        /// The hop.
        peer: IpNet,
        /// The address.
        address: IpAddr,
    },
    /// Two hops for one network.
    #[error("two [[hop]] tables have the peer {0}: join them into one")]
    HopTwice(IpNet),
    /// A hop inside another one whose packets are paced below TCP.
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
    /// Warm connections with a peer that `trust.depots` does not list.
    #[error(
        "[[hop]] peer = \"{0}\": `warm` is for depots: list their network in `trust.depots`, or leave it out"
    )]
    WarmStranger(IpNet),
    /// More warm connections than are kept at all.
    #[error(
        "[[hop]] peer = \"{peer}\": `warm` is {warm}, more than `idle_connections.per_hop`, which is {per_hop}"
    )]
    WarmBeyondReuse {
        /// The hop.
        peer: IpNet,
        /// What it is.
        warm: u16,
        /// How many connections are kept.
        per_hop: usize,
    },
    /// Two sites of one name.
    #[error("two [[site]] tables have the name \"{0}\": a name leads to one origin")]
    SiteTwice(SiteName),
    /// A site under the depot's own name.
    #[error(
        "[[site]] name = \"{0}\": `names` lists it as the depot's own, where routes and tickets lead"
    )]
    SiteIsDepot(SiteName),
    /// A site whose requests would come round.
    #[error(
        "[[site]] name = \"{site}\": requests would come back to where they have been, at {at}"
    )]
    SiteLoop {
        /// Its name.
        site: SiteName,
        /// The address of the loop.
        at: Authority,
    },
    /// A certificate without a key, or a key without one.
    #[error(
        "[[site]] name = \"{0}\": `certificate` and `key` belong together: give both files, or none"
    )]
    SiteKey(SiteName),
    /// A site without a certificate where the depot listens with TLS.
    #[error(
        "[[site]] name = \"{0}\" has no certificate, and `tls.listen` needs one for each name: give it \
         `certificate` and `key`, which may be the depot's own where those are for both names"
    )]
    SiteCertificate(SiteName),
    /// A certificate that no listener uses.
    #[error(
        "[[site]] name = \"{0}\" has a certificate, and nothing listens with TLS: list addresses in \
         `tls.listen`, as in [\"0.0.0.0:443\"]"
    )]
    SiteListener(SiteName),
    /// A port of `[[tcp]]` that something else listens on.
    #[error(
        "[[tcp]] listen = \"{0}\": another table or listener has this address: give it its own port"
    )]
    TcpTwice(SocketAddr),
    /// A proxy that could not tell its users from others.
    #[error(
        "[proxy] would be an open proxy: set `passwords` to a file of users and their hashed passwords, or `trust.keys` for \
         tickets"
    )]
    ProxyOpen,
    /// A proxy whose way leads back to it.
    #[error("[proxy] `via` has {0}, which `names` lists as this depot itself")]
    ProxyLoop(DepotAddress),
    /// What is wrong in a table, which may be one of several.
    #[error("{error}")]
    InTable {
        /// The table's name.
        table: &'static str,
        /// Which of them, from 0.
        index: usize,
        /// The key in it.
        key: &'static str,
        /// What is wrong.
        error: Box<ConfigError>,
    },
    /// The same, and where.
    #[error("{file}: line {line}: {error}")]
    At {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        error: Box<ConfigError>,
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

    pub(super) fn in_table(
        table: &'static str,
        index: usize,
        key: &'static str,
        error: Self,
    ) -> Self {
        Self::InTable { table, index, key, error: Box::new(error) }
    }

    /// Adds the line of the file that the error is about, if known.
    pub(super) fn located(self, text: &str, file: &str) -> Self {
        let Self::InTable { table, index, key, error } = self else { return self };
        match line_of(text, table, index, key) {
            Some(line) => Self::At { file: file.to_owned(), line, error },
            None => *error,
        }
    }
}

/// The line, from 1, of a key in a table, which may be one of several. If the table lacks the key, the table's
/// line.
fn line_of(text: &str, table: &str, index: usize, key: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let (name, tables) = document.get_ref().get_key_value(table)?;
    let (whole, tables) = (name.span(), tables.get_ref());
    let table = match tables.as_array() {
        Some(several) => several.get(index)?.get_ref().as_table()?,
        None => tables.as_table()?,
    };
    let span = table.get_key_value(key).map_or(whole, |(key, _)| key.span());
    Some(1 + text[..span.start].matches('\n').count())
}
