// SPDX-License-Identifier: GPL-2.0-or-later
//! `[[hop]]`: socket settings by peer.

use crate::config::{error::ConfigError, network, pacing::HopPacing, range::check_rate};
use ipnet::IpNet;
use protocol::http::stripes::MAX_STREAMS;
use serde::{Deserialize, Serialize};
use std::{net::IpAddr, str::FromStr};
use units::{Bytes, Duration, ParseError};

/// Maximum number of idle connections to one depot.
const MAX_WARM: u16 = 1000;

/// Maximum number of bytes that a new connection carries to grow its window.
const MAX_PRIME: Bytes = Bytes::new(64 << 20);

/// Socket settings for every connection with a peer in a network, accepted or opened.
///
/// The key is the peer because in a download the sender over the long path is the *accepted* socket of the
/// depot nearer the origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerOptions {
    /// The network. If several hold a peer, the most specific one wins.
    #[serde(deserialize_with = "network::one")]
    pub peer: IpNet,
    /// The source address of connections to peers there, of the same family. `None`: that of
    /// [`Config::source`](crate::Config::source).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// The congestion control. `None`: the kernel's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Which side tunes buffers that are not set here.
    #[serde(default, skip_serializing_if = "Buffers::is_default")]
    pub buffers: Buffers,
    /// `SO_SNDBUF`. `None`: the buffer follows the path, which is usually best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sndbuf: Option<Bytes>,
    /// `SO_RCVBUF`, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rcvbuf: Option<Bytes>,
    /// How packets to the peer are spaced.
    #[serde(default, skip_serializing_if = "HopPacing::is_none")]
    pub pacing: HopPacing,
    /// Maximum bytes kept unsent. `None`: as much as a pipe holds, and only towards clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notsent_lowat: Option<Bytes>,
    /// How many connections a transfer from there uses, if it is a depot: 1 to 16.
    #[serde(
        default = "PeerOptions::one_stream",
        skip_serializing_if = "PeerOptions::is_one_stream"
    )]
    pub streams: u8,
    /// Whether to offer and accept Multipath TCP. A peer without it gets TCP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mptcp: bool,
    /// How many idle connections are kept open to each next depot there that was used recently.
    #[serde(default, skip_serializing_if = "PeerOptions::is_none_warm")]
    pub warm: u16,
    /// How long an idle connection with a depot there is held, whichever side opened it, and how long after
    /// the last request `warm` applies.
    #[serde(
        default = "PeerOptions::default_idle",
        skip_serializing_if = "PeerOptions::is_default_idle"
    )]
    pub idle: Duration,
    /// How many bytes each of them carries when it is opened, so that its window grows.
    #[serde(
        default = "PeerOptions::default_prime",
        skip_serializing_if = "PeerOptions::is_default_prime"
    )]
    pub prime: Bytes,
}

/// Which side tunes the buffers of a hop's connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Buffers {
    /// The kernel, and the depot if the kernel's limits are too low for the path.
    #[default]
    Auto,
    /// The kernel alone.
    Kernel,
}

impl Buffers {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl PeerOptions {
    /// A hop without settings.
    pub fn of(peer: IpNet) -> Self {
        Self {
            peer,
            source: None,
            congestion: None,
            buffers: Buffers::default(),
            sndbuf: None,
            rcvbuf: None,
            pacing: HopPacing::None,
            notsent_lowat: None,
            streams: Self::one_stream(),
            mptcp: false,
            warm: 0,
            idle: Self::default_idle(),
            prime: Self::default_prime(),
        }
    }

    /// How long idle connections of depots without a hop are held.
    pub(crate) fn default_idle() -> Duration {
        Duration::from_secs(600)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
    fn is_default_idle(idle: &Duration) -> bool {
        *idle == Self::default_idle()
    }

    /// The bytes that new connections with depots without a hop carry.
    pub(crate) fn default_prime() -> Bytes {
        Bytes::new(1 << 20)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
    fn is_default_prime(prime: &Bytes) -> bool {
        *prime == Self::default_prime()
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
    fn is_none_warm(warm: &u16) -> bool {
        *warm == 0
    }

    fn one_stream() -> u8 {
        1
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
    fn is_one_stream(streams: &u8) -> bool {
        *streams == 1
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let sizes = [
            ("hop.sndbuf", self.sndbuf),
            ("hop.rcvbuf", self.rcvbuf),
            ("hop.notsent_lowat", self.notsent_lowat),
        ];
        for (key, size) in sizes {
            // The kernel keeps twice the size in a signed 32-bit number.
            if let Some(size) = size.filter(|s| !(1 << 12..=1 << 30).contains(&s.get())) {
                return Err(ConfigError::range(key, &size, "4KB to 1GB"));
            }
        }
        if !(1..=MAX_STREAMS).contains(&self.streams) {
            return Err(ConfigError::range("hop.streams", &self.streams, "1 to 16"));
        }
        if self.warm > MAX_WARM {
            return Err(ConfigError::range("hop.warm", &self.warm, "0 to 1000"));
        }
        if self.prime > MAX_PRIME {
            return Err(ConfigError::range("hop.prime", &self.prime, "0B to 64MB"));
        }
        // Depots agree on whole seconds.
        if !(Duration::from_secs(1)..=Duration::from_secs(24 * 3600)).contains(&self.idle) {
            return Err(ConfigError::range("hop.idle", &self.idle, "1s to 24h"));
        }
        if self.mptcp && self.pacing != HopPacing::None {
            return Err(ConfigError::Paths { peer: self.peer, rate: "pacing" });
        }
        check_rate("hop.pacing", self.pacing.rate())
    }
}

impl FromStr for PeerOptions {
    type Err = String;
    /// Reads `NET=CC[,sndbuf=SIZE][,rcvbuf=SIZE]`, a hop in one word.
    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected NET=CC[,sndbuf=SIZE][,rcvbuf=SIZE], \
                                as in 203.0.113.7/32=bbr,sndbuf=32MB";
        let (peer, settings) = text.split_once('=').ok_or(EXPECTED)?;
        let peer = network::parse_network(peer)
            .map_err(|_| format!("{peer:?} is not a network: {EXPECTED}"))?;
        let mut settings = settings.split(',');
        let congestion = settings.next().filter(|cc| !cc.is_empty()).ok_or(EXPECTED)?;
        let mut hop = Self { congestion: Some(congestion.to_owned()), ..Self::of(peer) };
        for setting in settings {
            let (size, value) = match setting.split_once('=') {
                Some(("sndbuf", value)) => (&mut hop.sndbuf, value),
                Some(("rcvbuf", value)) => (&mut hop.rcvbuf, value),
                _ => return Err(format!("{setting:?} is not a setting of a hop: {EXPECTED}")),
            };
            let value =
                value.parse().map_err(|error: ParseError| format!("{error}: {EXPECTED}"))?;
            if size.replace(value).is_some() {
                return Err(format!("{setting:?} is given twice: {EXPECTED}"));
            }
        }
        Ok(hop)
    }
}
