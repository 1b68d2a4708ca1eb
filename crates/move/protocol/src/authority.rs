// SPDX-License-Identifier: GPL-2.0-or-later
//! `host:port`, as used in routes, `Host` fields and configuration.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

/// A host: a name in lower case, or an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A DNS name of letters, digits, hyphens and underscores, in lower case, without a final dot.
    Name(String),
    /// An IPv4 or IPv6 address; IPv6 is written in brackets.
    Ip(IpAddr),
}

/// A host and a TCP port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Authority {
    /// Where.
    pub host: Host,
    /// The port, never 0.
    pub port: u16,
}

/// Why a text is no `host:port`. The fault is with who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// The host is neither a name nor an address.
    #[error(
        "{0:?} is neither a DNS name, an IPv4 address nor an IPv6 address in brackets: \
         expected host:port, as in depot1.example.org:3880 or [2001:db8::1]:3880"
    )]
    Host(String),
    /// The port is missing or not a number between 1 and 65535.
    #[error("{0:?} has no port between 1 and 65535: expected host:port")]
    Port(String),
    /// It is a URL.
    #[error("{text:?} is a URL, and only its host and port are expected: {meant}")]
    Url {
        /// The text.
        text: String,
        /// What to write instead.
        meant: String,
    },
}

impl Authority {
    /// Reads `host` or `host:port`; `default_port` stands where the text names none.
    ///
    /// # Errors
    /// The host is neither a name nor an address, or there is no port between 1 and 65535.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, AuthorityError> {
        Self::parse_plain(text, default_port).map_err(|error| {
            let within = within_url(text).and_then(|host| Self::parse(host, default_port).ok());
            within.map_or(error, |meant| AuthorityError::Url {
                text: text.to_owned(),
                meant: meant.to_string(),
            })
        })
    }

    fn parse_plain(text: &str, default_port: Option<u16>) -> Result<Self, AuthorityError> {
        let no_port = || AuthorityError::Port(text.to_owned());
        let (host, port) = split_port(text);
        let port = match port {
            // Digits only: u16's own parser would take "+80" too.
            Some(p) if !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()) => {
                p.parse().map_err(|_| no_port())?
            }
            Some(_) => return Err(no_port()),
            None => default_port.ok_or_else(no_port)?,
        };
        if port == 0 {
            return Err(no_port());
        }
        Ok(Self { host: host.parse()?, port })
    }

    /// As in a `Host` field or a URL: the port is left out where it is `default_port`.
    pub fn without_port(&self, default_port: u16) -> String {
        if self.port == default_port { self.host.to_string() } else { self.to_string() }
    }
}

/// The host and port in a text that looks like a URL: for messages where only these two are expected.
pub fn within_url(text: &str) -> Option<&str> {
    let (has_scheme, rest) = text.split_once("://").map_or((false, text), |(_, rest)| (true, rest));
    let inner = rest.split(['/', '?', '#']).next()?;
    (inner != text && (has_scheme || inner.contains(':'))).then_some(inner)
}

/// Splits off `:port`; a colon inside brackets belongs to the address.
fn split_port(text: &str) -> (&str, Option<&str>) {
    let after_brackets = text.rfind(']').map_or(0, |i| i + 1);
    match text[after_brackets..].find(':') {
        Some(i) => (&text[..after_brackets + i], Some(&text[after_brackets + i + 1..])),
        None => (text, None),
    }
}

impl From<SocketAddr> for Authority {
    fn from(address: SocketAddr) -> Self {
        Self { host: Host::Ip(address.ip()), port: address.port() }
    }
}

impl FromStr for Authority {
    type Err = AuthorityError;
    /// Reads `host:port`; the port must be there.
    fn from_str(text: &str) -> Result<Self, AuthorityError> {
        Self::parse(text, None)
    }
}

impl FromStr for Host {
    type Err = AuthorityError;
    fn from_str(text: &str) -> Result<Self, AuthorityError> {
        let bad = || AuthorityError::Host(text.to_owned());
        if let Some(inner) = text.strip_prefix('[') {
            let v6 = inner.strip_suffix(']').ok_or_else(bad)?;
            return Ok(Self::Ip(IpAddr::V6(v6.parse::<Ipv6Addr>().map_err(|_| bad())?)));
        }
        if let Ok(ip) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Ip(IpAddr::V4(ip)));
        }
        if is_name(text) { Ok(Self::Name(text.to_ascii_lowercase())) } else { Err(bad()) }
    }
}

/// A DNS name as used for hosts. A last label of digits is refused: resolvers read `127.1` and
/// `0x7f000001` as addresses, and what looks like a name should be one.
fn is_name(text: &str) -> bool {
    let label = |l: &str| {
        (1..=63).contains(&l.len())
            && !l.starts_with('-')
            && !l.ends_with('-')
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253
        && text.split('.').all(label)
        && !last.bytes().all(|b| b.is_ascii_digit())
        && !last.to_ascii_lowercase().starts_with("0x")
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(IpAddr::V4(ip)) => dotted(*ip, f),
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
        }
    }
}

/// Each request prints several addresses; the standard library's way, a formatter for each number, takes
/// ten times as long.
fn dotted(ip: Ipv4Addr, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut buffer = itoa::Buffer::new();
    for (at, octet) in ip.octets().into_iter().enumerate() {
        if at > 0 {
            f.write_str(".")?;
        }
        f.write_str(buffer.format(octet))?;
    }
    Ok(())
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.fmt(f)?;
        f.write_str(":")?;
        f.write_str(itoa::Buffer::new().format(self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read_and_printed_alike() {
        for text in
            ["depot1:3880", "a.b-c.example.org:1", "10.0.0.1:80", "255.9.99.100:1", "[::1]:65535"]
        {
            assert_eq!(text.parse::<Authority>().unwrap().to_string(), text);
        }
        assert_eq!(
            "Depot.Example:80".parse::<Authority>().unwrap().to_string(),
            "depot.example:80"
        );
        let plain = Authority::parse("depot1", Some(3880)).unwrap();
        assert_eq!(plain.to_string(), "depot1:3880");
        assert_eq!(plain.without_port(3880), "depot1");
        assert_eq!(plain.without_port(80), "depot1:3880");
    }

    #[test]
    fn url_is_refused_with_its_host_and_port() {
        for (text, meant) in [
            ("http://d2:3880/", Some("d2:3880")),
            ("https://d2.example:443", Some("d2.example:443")),
            ("tcp://[2001:db8::1]:80/a?b", Some("[2001:db8::1]:80")),
            ("d2:3880/status", Some("d2:3880")),
            ("http://d2/", None),
            ("http://", None),
            ("a/b:80", None),
            ("http://a://b:80", None),
        ] {
            let error = text.parse::<Authority>().unwrap_err();
            let found = match &error {
                AuthorityError::Url { meant, .. } => Some(meant.as_str()),
                _ => None,
            };
            assert_eq!(found, meant, "{text}: {error}");
        }
    }

    #[test]
    fn malformed_host_and_port_is_refused() {
        for text in [
            "",
            ":80",
            "depot",
            "depot:",
            "depot:0",
            "depot:65536",
            "depot:+80",
            "depot:80x",
            "-d:80",
            "d-:80",
            "a..b:80",
            "a.:80",
            "::1:80",
            "[::1]",
            "[::1]x:80",
            "[::1:80",
            "[fe80::1%eth0]:80",
            "[10.0.0.1]:80",
            "127.1:80",
            "1:80",
            "0x7f000001:80",
            "256.1.1.1:80",
            "a b:80",
            "a/b:80",
            "user@host:80",
            "\u{e9}:80",
            "a:80:80",
        ] {
            assert!(text.parse::<Authority>().is_err(), "{text}");
        }
        assert!(format!("{}:80", "a".repeat(64)).parse::<Authority>().is_err());
    }
}
