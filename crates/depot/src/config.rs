// SPDX-License-Identifier: GPL-2.0-or-later
//! A depot's configuration, as its TOML file has it. `docs/depot.md` explains each key.

use crate::admission::{Grant, UpstreamRule, Verdict};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use session::{
    DEPOT_PORT, DepotAddress, DepotId, DepotIdError,
    digest::Algorithm,
    message::{Method, stripes::MAX_STREAMS},
};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZeroUsize,
    path::PathBuf,
    str::FromStr,
};
use units::{Bytes, Duration, ParseError, Rate};

pub use pacing::{Pacing, PacingMethod};
pub use timeouts::Timeouts;

mod pacing;
mod timeouts;

/// All settings. The default listens on port 3880 and relays for nobody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The depot's name in `Via`; `None` makes one of the host's name and the port. No two depots
    /// of one chain may share it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// Where it is asked, as tickets name it, besides the addresses that it listens on.
    pub names: Vec<DepotAddress>,
    /// Where a depot that is to take over asks for the listeners: a Unix socket's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handover: Option<PathBuf>,
    /// How many threads it has; 0: as many as there are processors.
    pub threads: usize,
    /// How bodies are moved.
    pub relay: RelayMode,
    /// Which bodies are hashed as they pass.
    pub digest: DigestMode,
    /// For whom, and to where, the depot relays.
    pub allow: Allow,
    /// Whose tickets open it.
    pub trust: TrustFiles,
    /// TLS, towards clients and next hops.
    pub tls: TlsFiles,
    /// When it gives up.
    pub timeouts: Timeouts,
    /// What it holds at most.
    pub limits: Limits,
    /// Which connections to next hops it keeps for their next request.
    pub reuse: Reuse,
    /// Where operators may watch it.
    pub admin: Admin,
    /// Where its lines about requests go.
    pub log: Log,
    /// Other depots that do the same work.
    pub pool: Pool,
    /// When a next hop is too slow.
    pub stall: Stall,
    /// Ways around depots that fail.
    #[serde(rename = "detour", skip_serializing_if = "Vec::is_empty")]
    pub detours: Vec<Detour>,
    /// Socket settings by peer.
    #[serde(rename = "hop", skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
}

/// For whom, and to where, the depot relays: nobody and nowhere unless listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Allow {
    /// Networks of clients, and of depots that come before this one.
    pub clients: Vec<IpNet>,
    /// Origins and depots that it connects to, and depots that it leads clients to.
    pub upstreams: Vec<UpstreamRule>,
    /// What clients without a ticket may ask.
    pub methods: Vec<Method>,
    /// Whether it may connect to loopback, link-local and its own addresses.
    pub local: bool,
    /// Whether it may connect to private addresses that no rule names by their network.
    pub private: bool,
}

/// Whose tickets open the depot: nobody's unless there are keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrustFiles {
    /// The public keys: a JWK Set, one JWK, or a PEM file. Read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<PathBuf>,
    /// Tickets that count no more, one `jti` a line. Read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked: Option<PathBuf>,
    /// Whether a ticket is needed even by listed clients.
    pub required: bool,
    /// Networks of depots that are believed whom they ask for, and are told it.
    pub depots: Vec<IpNet>,
    /// How many tickets with limited uses are remembered at a time.
    pub replays: NonZeroUsize,
}

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

/// How bodies are moved from socket to socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RelayMode {
    /// In the kernel, by splice(2); falls back to copying where the kernel cannot.
    #[default]
    Splice,
    /// Through a buffer of this process.
    Copy,
}

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

/// What the depot holds at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections accepted at a time.
    pub connections: usize,
    /// The same from one address. A depot before this one brings many clients from one address.
    pub per_client: usize,
    /// To which rate all transfers of one address together are held, in each direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_rate: Option<Rate>,
    /// Less than this, while it alone is waited for, has a client broken off; without, idle times alone do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_rate: Option<Rate>,
    /// Over how long that is measured.
    pub least_time: Duration,
    /// The size of a request's or response's head.
    pub head: Bytes,
    /// The pipe that a transfer moves through.
    pub pipe: Bytes,
    /// What all pipes may hold together; transfers beyond that are copied.
    pub memory: Bytes,
}

/// Which connections to next hops are kept for their next request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reuse {
    /// How many of each next hop; 0 keeps none.
    pub per_hop: usize,
    /// For how long. Less than next hops keep theirs, or requests run into closed connections.
    pub idle: Duration,
}

/// Where operators may watch the depot: nowhere unless told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// The address of the page, the metrics and the health check. Whoever reaches it sees who
    /// fetches what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
}

/// Where the lines about requests go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// To standard error, or a file.
    pub access: AccessTo,
    /// How they are written.
    pub format: LogFormat,
}

/// Where the lines about requests go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum AccessTo {
    /// To standard error, among all others.
    #[default]
    Stderr,
    /// To a file, which is appended to.
    File(PathBuf),
}

/// How the lines about requests are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// As all others are.
    #[default]
    Text,
    /// A JSON object each.
    Json,
}

/// Other depots that do the same work, to which clients are sent when there is too much of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pool {
    /// The others.
    pub members: Vec<DepotAddress>,
    /// From which share of `limits.connections` on clients are sent there.
    pub above: f64,
    /// How often they are asked how full they are.
    pub every: Duration,
}

/// When a next hop is too slow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stall {
    /// Less than this is; without, none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// For so long.
    pub time: Duration,
    /// Whether to break a transfer off that could go another way.
    pub reroute: bool,
}

/// A way around a depot that fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detour {
    /// The depot.
    pub around: DepotAddress,
    /// Those to ask in its place, in order.
    #[serde(default)]
    pub through: Vec<DepotAddress>,
    /// Whether to go on without it at last.
    #[serde(default)]
    pub straight: bool,
    /// For how long it is then asked last.
    #[serde(default = "Detour::avoid")]
    pub avoid: Duration,
}

/// Socket settings for every connection with a peer in a network, whoever opened it.
///
/// They go by peer because in a download the sender over the long haul is the *accepted* socket
/// of the depot nearer the origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// The network; of several that hold a peer, the narrowest counts.
    pub peer: IpNet,
    /// The congestion control; the kernel's default without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Who looks after buffers that are not set here.
    #[serde(default, skip_serializing_if = "Buffers::is_default")]
    pub buffers: Buffers,
    /// `SO_SNDBUF`; without, the buffer follows the path, which is usually best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sndbuf: Option<Bytes>,
    /// `SO_RCVBUF`; as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rcvbuf: Option<Bytes>,
    /// How what is sent is spaced.
    #[serde(default, skip_serializing_if = "Pacing::is_none")]
    pub pacing: Pacing,
    /// How much is kept unsent; without, as much as a pipe holds, and only towards clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notsent_lowat: Option<Bytes>,
    /// Over how many connections a transfer comes from there, if it is a depot; 1 to 16.
    #[serde(default = "Hop::one_stream", skip_serializing_if = "Hop::is_one_stream")]
    pub streams: u8,
    /// Whether to connect by Multipath TCP, and to take it; a peer without it gets TCP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mptcp: bool,
}

/// Who looks after the buffers of a hop's connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Buffers {
    /// The kernel; and the depot where the kernel's limits are too low for the path.
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
    /// A way that is closed.
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

impl Config {
    /// Reads a configuration file's text; `file` is its name, for the message.
    ///
    /// # Errors
    /// [`ConfigError::Toml`], or what [`check`](Self::check) finds.
    pub fn from_toml(text: &str, file: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text)
            .map_err(|error| ConfigError::Toml { file: file.to_owned(), error: Box::new(error) })?;
        config.check()?;
        Ok(config)
    }

    /// The text of a file that reads as this configuration.
    pub fn to_toml(&self) -> String {
        // Every value here has a form in TOML; a test prints and reads them all.
        toml::to_string(self).expect("a configuration is TOML")
    }

    /// Checks what types alone cannot.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        if let Some(id) = &self.id {
            id.parse::<DepotId>()?;
        }
        if self.listen.is_empty() && self.tls.listen.is_empty() {
            return Err(ConfigError::NoListener);
        }
        let (certificate, key) = (self.tls.certificate.is_some(), self.tls.key.is_some());
        if certificate != key || (!certificate && !self.tls.listen.is_empty()) {
            return Err(ConfigError::NoCertificate);
        }
        let peers: Vec<IpNet> = self.hops.iter().map(|hop| hop.peer.trunc()).collect();
        if let Some(i) = (1..peers.len()).find(|i| peers[..*i].contains(&peers[*i])) {
            return Err(ConfigError::HopTwice(peers[i]));
        }
        if self.threads > 1024 {
            return Err(ConfigError::range("threads", &self.threads, "0 to 1024"));
        }
        self.timeouts.check()?;
        check_time("stall.time", self.stall.time)?;
        check_time("pool.every", self.pool.every)?;
        if !(0.0..=1.0).contains(&self.pool.above) {
            return Err(ConfigError::range("pool.above", &self.pool.above, "0 to 1"));
        }
        self.check_detours()?;
        self.limits.check()?;
        let paths = self.hops.iter().find(|hop| hop.mptcp);
        if let Some(hop) = paths.filter(|_| self.limits.client_rate.is_some()) {
            return Err(ConfigError::Paths { peer: hop.peer, rate: "limits.client_rate" });
        }
        self.check_paced_below()?;
        self.hops.iter().try_for_each(Hop::check)
    }

    fn check_detours(&self) -> Result<(), ConfigError> {
        for (n, detour) in self.detours.iter().enumerate() {
            check_time("detour.avoid", detour.avoid)?;
            let closed = |depot: &&DepotAddress| {
                self.allow.upstream(&depot.authority, Grant::Rules) == Verdict::Refused
            };
            if let Some(depot) = detour.through.iter().find(closed) {
                return Err(ConfigError::Detour(depot.clone()));
            }
            if self.detours[..n].iter().any(|other| other.around == detour.around) {
                return Err(ConfigError::DetourTwice(detour.around.clone()));
            }
        }
        Ok(())
    }

    /// Which keys differ that count only when a depot starts.
    pub(crate) fn fixed_differences(&self, new: &Self) -> Vec<&'static str> {
        let differ = [
            ("id", self.id != new.id),
            ("listen", self.listen != new.listen),
            ("tls.listen", self.tls.listen != new.tls.listen),
            // Its listeners cannot be without.
            ("tls.certificate", !self.tls.listen.is_empty() && new.tls.certificate.is_none()),
            ("handover", self.handover != new.handover),
            ("threads", self.threads != new.threads),
            ("relay", self.relay != new.relay),
            ("limits.pipe", self.limits.pipe != new.limits.pipe),
            ("limits.memory", self.limits.memory != new.limits.memory),
            ("trust.replays", self.trust.replays != new.trust.replays),
            ("admin", self.admin != new.admin),
            ("log", self.log != new.log),
        ];
        differ.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    /// Whether any peer may come by Multipath TCP.
    pub(crate) fn takes_mptcp(&self) -> bool {
        self.hops.iter().any(|hop| hop.mptcp)
    }

    /// The settings for connections with `peer`: those of the narrowest network that holds it.
    pub(crate) fn hop(&self, peer: IpAddr) -> Option<&Hop> {
        self.hop_around(&peer.to_canonical().into())
    }

    /// The narrowest of the hops that hold all of a network: part of it may have a narrower one.
    pub(crate) fn hop_around(&self, peers: &IpNet) -> Option<&Hop> {
        self.hops
            .iter()
            .filter(|hop| hop.peer.contains(peers))
            .max_by_key(|hop| hop.peer.prefix_len())
    }
}

/// Holds a time to what timers take.
fn check_time(key: &'static str, time: Duration) -> Result<(), ConfigError> {
    let range = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
    if range.contains(&time) { Ok(()) } else { Err(ConfigError::range(key, &time, "1ms to 24h")) }
}

/// Holds a rate that is set to what makes sense as one.
fn check_rate(key: &'static str, rate: Option<Rate>) -> Result<(), ConfigError> {
    let too_low = rate.filter(|rate| rate.bps() < 8_000);
    too_low.map_or(Ok(()), |rate| Err(ConfigError::range(key, &rate, "8kbit or more")))
}

impl Limits {
    fn check(&self) -> Result<(), ConfigError> {
        for (key, value, range, expected) in [
            ("limits.connections", self.connections as u64, 1..=1_000_000, "1 to 1000000"),
            ("limits.per_client", self.per_client as u64, 1..=1_000_000, "1 to 1000000"),
            ("limits.head", self.head.get(), 1 << 10..=1 << 20, "1KB to 1MB"),
            ("limits.pipe", self.pipe.get(), 1 << 16..=1 << 24, "64KB to 16MB"),
            ("limits.memory", self.memory.get(), 1 << 16..=1 << 40, "64KB to 1024GB"),
        ] {
            if !range.contains(&value) {
                return Err(ConfigError::range(key, &value, expected));
            }
        }
        check_time("limits.least_time", self.least_time)?;
        check_rate("limits.client_rate", self.client_rate)
    }
}

impl Hop {
    /// One for which nothing is set.
    pub fn of(peer: IpNet) -> Self {
        Self {
            peer,
            congestion: None,
            buffers: Buffers::default(),
            sndbuf: None,
            rcvbuf: None,
            pacing: Pacing::None,
            notsent_lowat: None,
            streams: Self::one_stream(),
            mptcp: false,
        }
    }

    fn one_stream() -> u8 {
        1
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
    fn is_one_stream(streams: &u8) -> bool {
        *streams == 1
    }

    fn check(&self) -> Result<(), ConfigError> {
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
        if self.mptcp && self.pacing != Pacing::None {
            return Err(ConfigError::Paths { peer: self.peer, rate: "pacing" });
        }
        check_rate("hop.pacing", self.pacing.rate())
    }
}

impl From<String> for AccessTo {
    fn from(text: String) -> Self {
        if text == "stderr" { Self::Stderr } else { Self::File(text.into()) }
    }
}

impl From<AccessTo> for String {
    fn from(to: AccessTo) -> Self {
        to.to_string()
    }
}

impl fmt::Display for AccessTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stderr => f.write_str("stderr"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for Hop {
    type Err = String;
    /// Reads `NET=CC[,sndbuf=SIZE][,rcvbuf=SIZE]`, a hop in one word.
    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected NET=CC[,sndbuf=SIZE][,rcvbuf=SIZE], \
                                as in 203.0.113.7/32=bbr,sndbuf=32MB";
        let (peer, settings) = text.split_once('=').ok_or(EXPECTED)?;
        let peer = peer.parse().map_err(|_| format!("{peer:?} is no network: {EXPECTED}"))?;
        let mut settings = settings.split(',');
        let congestion = settings.next().filter(|cc| !cc.is_empty()).ok_or(EXPECTED)?;
        let mut hop = Self { congestion: Some(congestion.to_owned()), ..Self::of(peer) };
        for setting in settings {
            let (size, value) = match setting.split_once('=') {
                Some(("sndbuf", value)) => (&mut hop.sndbuf, value),
                Some(("rcvbuf", value)) => (&mut hop.rcvbuf, value),
                _ => return Err(format!("{setting:?} is no setting of a hop: {EXPECTED}")),
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

impl ConfigError {
    fn range(key: &'static str, value: &impl ToString, expected: &'static str) -> Self {
        Self::Range { key, value: value.to_string(), expected }
    }
}

impl Default for Config {
    fn default() -> Self {
        let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        Self {
            id: None,
            listen: any.map(|ip| SocketAddr::new(ip, DEPOT_PORT)).into(),
            names: Vec::new(),
            handover: None,
            threads: 0,
            relay: RelayMode::default(),
            digest: DigestMode::default(),
            allow: Allow::default(),
            trust: TrustFiles::default(),
            tls: TlsFiles::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            reuse: Reuse::default(),
            pool: Pool::default(),
            stall: Stall::default(),
            detours: Vec::new(),
            admin: Admin::default(),
            log: Log::default(),
            hops: Vec::new(),
        }
    }
}

impl Default for Allow {
    fn default() -> Self {
        Self {
            clients: Vec::new(),
            upstreams: Vec::new(),
            methods: vec![Method::Get, Method::Head],
            local: false,
            private: false,
        }
    }
}

impl Default for TrustFiles {
    fn default() -> Self {
        let replays = const { NonZeroUsize::new(100_000).unwrap() };
        Self { keys: None, revoked: None, required: false, depots: Vec::new(), replays }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            per_client: 256,
            client_rate: None,
            least_rate: None,
            least_time: Duration::from_secs(60),
            head: Bytes::new(64 << 10),
            pipe: Bytes::new(1 << 20),
            memory: Bytes::new(1 << 30),
        }
    }
}

impl Detour {
    fn avoid() -> Duration {
        Duration::from_secs(30)
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self { members: Vec::new(), above: 0.8, every: Duration::from_secs(2) }
    }
}

impl Default for Stall {
    fn default() -> Self {
        Self { rate: None, time: Duration::from_secs(30), reroute: false }
    }
}

impl Default for Reuse {
    fn default() -> Self {
        Self { per_hop: 256, idle: Duration::from_secs(4) }
    }
}

#[cfg(test)]
mod tests;
