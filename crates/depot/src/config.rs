// SPDX-License-Identifier: GPL-2.0-or-later
//! A depot's configuration, as its TOML file has it. `docs/depot.md` explains each key.

use crate::admission::UpstreamRule;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use session::{DEPOT_PORT, DepotId, DepotIdError};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};
use units::{Bytes, Duration, ParseError};

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
    /// How bodies are moved.
    pub relay: RelayMode,
    /// For whom, and to where, the depot relays.
    pub allow: Allow,
    /// When it gives up.
    pub timeouts: Timeouts,
    /// What it holds at most.
    pub limits: Limits,
    /// Socket settings by peer.
    #[serde(rename = "hop", skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
}

/// For whom, and to where, the depot relays: nobody and nowhere unless listed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Allow {
    /// Networks of clients, and of depots that come before this one.
    pub clients: Vec<IpNet>,
    /// Origins and depots that it connects to, and depots that it leads clients to.
    pub upstreams: Vec<UpstreamRule>,
    /// Whether it may connect to loopback, link-local and its own addresses.
    pub local: bool,
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

/// When the depot gives up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// To resolve the next hop's name and connect to it, all its addresses together.
    pub connect: Duration,
    /// For the client to send its whole request head.
    pub request_head: Duration,
    /// For the next hop to send its whole response head.
    pub response_head: Duration,
    /// For the next hop to send a byte.
    pub idle: Duration,
    /// For the client to take a byte. Longer than `idle`: it may be a depot whose own reader is
    /// slow, and which takes nothing until that one has taken a pipe's worth.
    pub client_idle: Duration,
    /// As `idle`, once the client has closed its sending side: it may be gone.
    pub half_closed: Duration,
    /// For the peer's system to acknowledge what was sent to it.
    pub tcp_user: Duration,
    /// For transfers to finish once the depot is told to stop.
    pub drain: Duration,
}

/// What the depot holds at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections accepted at a time.
    pub connections: usize,
    /// The same from one address. A depot before this one brings many clients from one address.
    pub per_client: usize,
    /// The size of a request's or response's head.
    pub head: Bytes,
    /// The pipe, or buffer, that a transfer moves through.
    pub pipe: Bytes,
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
    /// `SO_SNDBUF`; without, the kernel tunes the buffer by itself, which is usually best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sndbuf: Option<Bytes>,
    /// `SO_RCVBUF`; as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rcvbuf: Option<Bytes>,
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
    /// Two hops for one network.
    #[error("two [[hop]] tables have the peer {0}: join them into one")]
    HopTwice(IpNet),
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
        if self.listen.is_empty() {
            return Err(ConfigError::NoListener);
        }
        let peers: Vec<IpNet> = self.hops.iter().map(|hop| hop.peer.trunc()).collect();
        if let Some(i) = (1..peers.len()).find(|i| peers[..*i].contains(&peers[*i])) {
            return Err(ConfigError::HopTwice(peers[i]));
        }
        self.timeouts.check()?;
        self.limits.check()?;
        self.hops.iter().try_for_each(Hop::check)
    }

    /// The settings for connections with `peer`: those of the narrowest network that holds it.
    pub(crate) fn hop(&self, peer: IpAddr) -> Option<&Hop> {
        let peer = peer.to_canonical();
        self.hops
            .iter()
            .filter(|hop| hop.peer.contains(&peer))
            .max_by_key(|hop| hop.peer.prefix_len())
    }
}

impl Timeouts {
    fn check(&self) -> Result<(), ConfigError> {
        let range = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
        for (key, time) in [
            ("timeouts.connect", self.connect),
            ("timeouts.request_head", self.request_head),
            ("timeouts.response_head", self.response_head),
            ("timeouts.idle", self.idle),
            ("timeouts.client_idle", self.client_idle),
            ("timeouts.half_closed", self.half_closed),
            ("timeouts.tcp_user", self.tcp_user),
            ("timeouts.drain", self.drain),
        ] {
            if !range.contains(&time) {
                return Err(ConfigError::range(key, &time, "1ms to 24h"));
            }
        }
        Ok(())
    }
}

impl Limits {
    fn check(&self) -> Result<(), ConfigError> {
        for (key, value, range, expected) in [
            ("limits.connections", self.connections as u64, 1..=1_000_000, "1 to 1000000"),
            ("limits.per_client", self.per_client as u64, 1..=1_000_000, "1 to 1000000"),
            ("limits.head", self.head.get(), 1 << 10..=1 << 20, "1KB to 1MB"),
            ("limits.pipe", self.pipe.get(), 1 << 16..=1 << 24, "64KB to 16MB"),
        ] {
            if !range.contains(&value) {
                return Err(ConfigError::range(key, &value, expected));
            }
        }
        Ok(())
    }
}

impl Hop {
    fn check(&self) -> Result<(), ConfigError> {
        for (key, size) in [("hop.sndbuf", self.sndbuf), ("hop.rcvbuf", self.rcvbuf)] {
            // The kernel keeps twice the size in a signed 32-bit number.
            if let Some(size) = size.filter(|s| !(1 << 12..=1 << 30).contains(&s.get())) {
                return Err(ConfigError::range(key, &size, "4KB to 1GB"));
            }
        }
        Ok(())
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
        let mut hop =
            Self { peer, congestion: Some(congestion.to_owned()), sndbuf: None, rcvbuf: None };
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
            relay: RelayMode::default(),
            allow: Allow::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            hops: Vec::new(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            request_head: Duration::from_secs(10),
            response_head: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            client_idle: Duration::from_secs(600),
            half_closed: Duration::from_secs(10),
            tcp_user: Duration::from_secs(60),
            drain: Duration::from_secs(30),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            per_client: 256,
            head: Bytes::new(64 << 10),
            pipe: Bytes::new(1 << 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_relays_for_nobody_and_survives_toml() {
        let config = Config::default();
        assert_eq!(config.allow, Allow::default());
        assert!(config.allow.clients.is_empty() && config.allow.upstreams.is_empty());
        assert_eq!(Config::from_toml(&config.to_toml(), "x").unwrap(), config);
        assert_eq!(Config::from_toml("", "x").unwrap(), config);
    }

    /// `docs/depot.md` gives each key with its default.
    #[test]
    fn the_guide_knows_every_key_and_default() {
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/depot.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        let table: toml::Table = Config::default().to_toml().parse().unwrap();
        for (key, value) in &table {
            let rows = match value {
                toml::Value::Table(inner) => {
                    inner.iter().map(|(k, v)| format!("| `{key}.{k}` | `{v}` |")).collect()
                }
                value => vec![format!("| `{key}` | `{value}` |")],
            };
            for row in rows {
                assert!(guide.contains(&row), "docs/depot.md lacks {row}");
            }
        }
    }

    #[test]
    fn a_full_file_is_read() {
        let text = r#"
            id = "depot-1"
            listen = ["127.0.0.1:0", "[::]:3880"]
            relay = "copy"
            [allow]
            clients = ["10.0.0.0/8", "2001:db8::/32"]
            upstreams = ["o.example:80", "10.0.0.0/8:*"]
            local = true
            [timeouts]
            idle = "5s"
            [limits]
            head = "16KB"
            [[hop]]
            peer = "10.0.0.0/8"
            congestion = "bbr"
            [[hop]]
            peer = "10.1.0.0/16"
            sndbuf = "16MB"
        "#;
        let config = Config::from_toml(text, "depot.toml").unwrap();
        assert_eq!(config.timeouts.idle, Duration::from_secs(5));
        assert_eq!(
            config.hop("10.1.2.3".parse().unwrap()).unwrap().sndbuf,
            Some(Bytes::new(16 << 20))
        );
        assert_eq!(
            config.hop("::ffff:10.2.0.1".parse().unwrap()).unwrap().congestion,
            Some("bbr".into())
        );
        assert_eq!(config.hop("192.0.2.1".parse().unwrap()), None);
        let again = Config::from_toml(&config.to_toml(), "x").unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, expected) in [
            ("colour = 1", "unknown field `colour`"),
            ("\n\nlisten = 5", "line 3"),
            ("[allow]\nclients = [\"10.0.0.0/33\"]", "line 2"),
            ("[allow]\nupstreams = [\"10.0.0.0/8\"]", "host:port"),
            ("[timeouts]\nidle = \"5\"", "a time with its unit"),
            ("[timeouts]\nidle = \"-5s\"", "a time with its unit"),
            ("[timeouts]\ndrain = \"0s\"", "`timeouts.drain` is 0s: expected 1ms to 24h"),
            ("[timeouts]\ntcp_user = \"25h\"", "`timeouts.tcp_user` is 90000s"),
            ("[timeouts]\nclient_idle = \"999us\"", "`timeouts.client_idle` is 999us"),
            ("[limits]\nhead = \"10 furlongs\"", "a size in bytes"),
            ("[limits]\nhead = \"1B\"", "1KB to 1MB"),
            ("[limits]\nconnections = 0", "limits.connections"),
            ("[[hop]]\npeer = \"::/0\"\nsndbuf = \"0\"", "4KB to 1GB"),
            ("[[hop]]\npeer = \"::1/0\"\n[[hop]]\npeer = \"::/0\"", "two [[hop]]"),
            ("[[hop]]\ncongestion = \"bbr\"", "missing field `peer`"),
            ("id = \"1 2\"", "cannot name a depot"),
            ("listen = []", "`listen` is empty"),
        ] {
            let error = Config::from_toml(text, "depot.toml").expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_hop_in_one_word_is_a_hop() {
        let words = ["203.0.113.7/32=bbr", "2001:db8::/32=reno,rcvbuf=1MB,sndbuf=64KB"];
        let hops = words.map(|word| word.parse().unwrap()).into();
        let table = "[[hop]]\npeer = \"203.0.113.7/32\"\ncongestion = \"bbr\"\n[[hop]]\n\
                     peer = \"2001:db8::/32\"\ncongestion = \"reno\"\nsndbuf = \"64KB\"\nrcvbuf = \"1MB\"";
        let config = Config { hops, ..Config::default() };
        assert_eq!(config, Config::from_toml(table, "x").unwrap());
        for word in [
            "",
            "bbr",
            "10.0.0.0/8=",
            "10.0.0.0/33=bbr",
            "10.0.0.0/8=bbr,sndbuf",
            "10.0.0.0/8=bbr,sndbuf=1 furlong",
            "10.0.0.0/8=bbr,colour=1MB",
            "10.0.0.0/8=bbr,sndbuf=1MB,sndbuf=1MB",
        ] {
            let error = word.parse::<Hop>().expect_err(word);
            assert!(error.contains("expected"), "{word}: {error}");
        }
    }
}
