// SPDX-License-Identifier: GPL-2.0-or-later
//! A rule of `allow.upstreams`.

use crate::admission::address_class::AddressClass;
use ipnet::IpNet;
use protocol::{Authority, Host, within_url};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

/// A rule of `allow.upstreams`: `host:port`, `network:port`, or either with `*` for any port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamRule {
    host: HostRule,
    port: Option<u16>,
}

/// The host's part of a rule.
#[derive(Debug, Clone, Eq)]
enum HostRule {
    Name(String),
    /// As it was written: it may have host bits, which mean nothing.
    Net(IpNet),
}

impl PartialEq for HostRule {
    /// Whether both admit the same.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(name), Self::Name(other)) => name == other,
            (Self::Net(net), Self::Net(other)) => net.trunc() == other.trunc(),
            _ => false,
        }
    }
}

/// The text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} names no upstream: expected host:port, host:*, network:port or network:*, \
     as in {}", meant.as_deref().unwrap_or("origin.example.org:80 or 10.0.0.0/8:*")
)]
pub struct UpstreamRuleError {
    text: String,
    /// What to write instead of a URL.
    meant: Option<String>,
}

impl FromStr for UpstreamRule {
    type Err = UpstreamRuleError;
    fn from_str(text: &str) -> Result<Self, UpstreamRuleError> {
        let bad = || {
            let meant = within_url(text).and_then(|host| host.parse::<Authority>().ok());
            let (text, meant) = (text.to_owned(), meant.map(|meant| meant.to_string()));
            UpstreamRuleError { text, meant }
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let port = match port {
            "*" => None,
            digits if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().ok().filter(|p| *p != 0).ok_or_else(bad)?)
            }
            _ => return Err(bad()),
        };
        let host = match host.parse::<IpNet>() {
            Ok(net) => HostRule::Net(net),
            Err(_) => match host.parse().map_err(|_| bad())? {
                Host::Name(name) => HostRule::Name(name),
                Host::Ip(ip) => HostRule::Net(ip.into()),
            },
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for UpstreamRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostRule::Name(name) => write!(f, "{name}:")?,
            HostRule::Net(net) => write!(f, "{}:", net.trunc())?,
        }
        match self.port {
            Some(port) => port.fmt(f),
            None => f.write_str("*"),
        }
    }
}

impl serde::Serialize for UpstreamRule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for UpstreamRule {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl UpstreamRule {
    /// The network that the rule admits, as it was written; `None` if it is about a name.
    pub(crate) fn network(&self) -> Option<IpNet> {
        match self.host {
            HostRule::Net(net) => Some(net),
            HostRule::Name(_) => None,
        }
    }

    /// The one next hop that the rule is about, as routes write it; none where it is about several.
    pub(crate) fn names_one(&self) -> Option<String> {
        let port = self.port?;
        match &self.host {
            HostRule::Name(name) => Some(format!("{name}:{port}")),
            HostRule::Net(net) if net.prefix_len() == net.max_prefix_len() => {
                Some(SocketAddr::new(net.addr(), port).to_string())
            }
            HostRule::Net(_) => None,
        }
    }

    pub(crate) fn admits_name(&self, name: &str, port: u16) -> bool {
        self.port.is_none_or(|p| p == port) && matches!(&self.host, HostRule::Name(n) if n == name)
    }

    /// The name that the rule is about, if it admits this port.
    pub(crate) fn name_for(&self, port: u16) -> Option<&str> {
        match &self.host {
            HostRule::Name(name) if self.port.is_none_or(|p| p == port) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn admits_ip(&self, ip: IpAddr, port: u16) -> bool {
        self.port.is_none_or(|p| p == port)
            && matches!(&self.host, HostRule::Net(net) if net.contains(&ip.to_canonical()))
    }

    /// Whether the rule names a private network that holds this address. A rule for all addresses does not: it
    /// is meant for the Internet.
    pub(crate) fn names_private(&self, ip: IpAddr, port: u16) -> bool {
        let private =
            |net: &IpNet| matches!(AddressClass::by_block(net.network()), AddressClass::Private(_));
        self.admits_ip(ip, port) && matches!(&self.host, HostRule::Net(net) if private(net))
    }

    /// Whether a name that is not listed could still be admitted by an address of its.
    pub(crate) fn may_admit_address(&self, port: u16) -> bool {
        self.port.is_none_or(|p| p == port) && matches!(self.host, HostRule::Net(_))
    }
}
