// SPDX-License-Identifier: GPL-2.0-or-later
//! Destinations, and patterns that choose among them.

use ipnet::{IpNet, Ipv4Net};
use protocol::{Authority, Host};
use serde::Deserialize;
use std::{
    fmt::{self, Display},
    net::{IpAddr, SocketAddr},
    str::FromStr,
};
use tokio::net::lookup_host;

/// Destinations: a host, a port, or both.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Match {
    host: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    /// All, this machine among them.
    All,
    /// All but this machine.
    Others,
    Network(IpNet),
    Name(String),
    /// All below this domain.
    Below(String),
}

/// Text that is no [`Match`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is neither a network (10.0.0.0/8), an address, HOST[:PORT], *.DOMAIN[:PORT] nor *[:PORT]"
)]
pub struct MatchError(String);

impl Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.host, self.port) {
            (Hosts::All | Hosts::Others, _) => f.write_str("*")?,
            (Hosts::Network(IpNet::V6(network)), Some(_)) => write!(f, "[{network}]")?,
            (Hosts::Network(network), _) => write!(f, "{network}")?,
            (Hosts::Name(name), _) => f.write_str(name)?,
            (Hosts::Below(domain), _) => write!(f, "*.{domain}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl FromStr for Match {
    type Err = MatchError;

    fn from_str(text: &str) -> Result<Self, MatchError> {
        if let Some(host) = hosts(text) {
            return Ok(Self { host, port: None });
        }
        let error = || MatchError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|&port| port > 0).ok_or_else(error)?;
        Ok(Self { host: hosts(host).ok_or_else(error)?, port: Some(port) })
    }
}

impl TryFrom<String> for Match {
    type Error = MatchError;

    fn try_from(text: String) -> Result<Self, MatchError> {
        text.parse()
    }
}

fn hosts(text: &str) -> Option<Hosts> {
    if text == "*" {
        return Some(Hosts::Others);
    }
    if let Ok(network) = text.parse::<IpNet>() {
        return Some(Hosts::Network(canonical(network.trunc())));
    }
    let address = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = address.parse::<IpAddr>() {
        return Some(Hosts::Network(ip.to_canonical().into()));
    }
    let name = |text: &str| match text.parse() {
        Ok(Host::Name(name)) => Some(name.to_ascii_lowercase()),
        _ => None,
    };
    match text.strip_prefix("*.") {
        Some(domain) => name(domain).map(Hosts::Below),
        None => name(text).map(Hosts::Name),
    }
}

/// Where somebody wants to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// An address, of which no name is known.
    Address(SocketAddr),
    /// A name, or an address that somebody has written as one.
    Named(Authority),
}

impl Destination {
    /// As a depot is asked for it.
    pub fn server(&self) -> Authority {
        match self {
            Self::Address(address) => {
                let host = Host::Ip(address.ip().to_canonical());
                Authority { host, port: address.port() }
            }
            Self::Named(server) => server.clone(),
        }
    }

    /// Tells destinations apart; names are the same however they are written.
    pub fn key(&self) -> String {
        self.server().to_string().to_ascii_lowercase()
    }
}

impl Match {
    /// Every destination, this machine among them.
    pub const ALL: Self = Self { host: Hosts::All, port: None };
    /// Every destination but this machine: `*`.
    pub const OTHERS: Self = Self { host: Hosts::Others, port: None };

    /// Network and port, each if it is limited. `None` for names, of which a packet carries none.
    pub fn addresses(&self) -> Option<(Option<IpNet>, Option<u16>)> {
        match self.host {
            Hosts::All | Hosts::Others => Some((None, self.port)),
            Hosts::Network(network) => Some((Some(network), self.port)),
            Hosts::Name(_) | Hosts::Below(_) => None,
        }
    }

    /// Whether this is one of the destinations. Names match none.
    pub fn contains(&self, address: SocketAddr) -> bool {
        self.addresses().is_some_and(|(network, port)| {
            network.is_none_or(|network| network.contains(&address.ip().to_canonical()))
                && port.is_none_or(|port| port == address.port())
        })
    }

    /// What the last depot is asked to connect to, if this is one of the destinations.
    pub(crate) async fn server(&self, destination: &Destination) -> Option<Authority> {
        let server = destination.server();
        if self.port.is_some_and(|port| port != server.port) {
            return None;
        }
        let is_one = match (&self.host, &server.host) {
            (Hosts::All, _) => true,
            (Hosts::Others, host) => !is_here(host),
            (Hosts::Network(network), Host::Ip(ip)) => network.contains(&ip.to_canonical()),
            (Hosts::Name(name), Host::Name(asked)) => asked.eq_ignore_ascii_case(name),
            (Hosts::Below(domain), Host::Name(asked)) => is_below(asked, domain),
            (Hosts::Name(name), Host::Ip(ip)) => {
                // The program has looked the name up. Its depot is to do so as well, for the answer may be another there.
                let server = Authority { host: Host::Name(name.clone()), port: server.port };
                return leads_to(name, *ip, server.port).await.then_some(server);
            }
            (Hosts::Network(_), Host::Name(_)) | (Hosts::Below(_), Host::Ip(_)) => false,
        };
        is_one.then_some(server)
    }
}

/// IPv4 networks that are written as IPv6 (`::ffff:192.0.2.0/120`) are IPv4: destinations are compared so.
fn canonical(network: IpNet) -> IpNet {
    let mapped = network.prefix_len().checked_sub(96).zip(match network.addr().to_canonical() {
        IpAddr::V4(address) if network.addr().is_ipv6() => Some(address),
        _ => None,
    });
    let of_four = mapped.and_then(|(prefix, address)| Ipv4Net::new(address, prefix).ok());
    of_four.map_or(network, IpNet::V4)
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Ip(ip) => {
            let ip = ip.to_canonical();
            ip.is_loopback() || ip.is_unspecified()
        }
        Host::Name(name) => name.eq_ignore_ascii_case("localhost") || is_below(name, "localhost"),
    }
}

fn is_below(name: &str, domain: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.strip_suffix(domain).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
}

/// Whether a name has this address. Asked each time: the system's resolver keeps answers for as long as they are good.
async fn leads_to(name: &str, ip: IpAddr, port: u16) -> bool {
    let ip = ip.to_canonical();
    let found = lookup_host((name, port)).await;
    found.is_ok_and(|mut found| found.any(|found| found.ip().to_canonical() == ip))
}
