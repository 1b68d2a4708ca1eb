// SPDX-License-Identifier: GPL-2.0-or-later
//! Which destinations go through which depots.
//!
//! ```toml
//! [[route]]
//! to = ["*.example.org", "10.0.0.0/8", "*:5432"]
//! via = ["d1.example.com", "d2.example.org"]
//! ```
//! Routes that match are tried in their order. One whose `via` is empty ends the list: directly.

use crate::short::{FirstContact, ShortRule};
use ipnet::IpNet;
use protocol::{Authority, DepotAddress, Host, session::MAX_HOPS};
use serde::Deserialize;
use std::{
    fmt::{self, Display},
    net::{IpAddr, SocketAddr},
    str::FromStr,
};
use tokio::net::lookup_host;
use units::Bytes;

/// The most routes of a file.
const MOST: usize = 1000;

/// Destinations: a host, a port, or both.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Match {
    host: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
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
            (Hosts::Others, _) => f.write_str("*")?,
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
        return Some(Hosts::Network(network.trunc()));
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(Hosts::Network(ip.into()));
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
}

impl Destination {
    /// Tells destinations apart; names are the same however they are written.
    pub(crate) fn key(&self) -> String {
        self.server().to_string().to_ascii_lowercase()
    }
}

impl Match {
    /// Network and port, each if it is limited. `None` for names, of which a packet carries none.
    pub(crate) fn addresses(&self) -> Option<(Option<IpNet>, Option<u16>)> {
        match self.host {
            Hosts::Others => Some((None, self.port)),
            Hosts::Network(network) => Some((Some(network), self.port)),
            Hosts::Name(_) | Hosts::Below(_) => None,
        }
    }

    /// Whether this is one of the destinations. Names match none.
    pub(crate) fn contains(&self, address: SocketAddr) -> bool {
        self.addresses().is_some_and(|(network, port)| {
            network.is_none_or(|network| network.contains(&address.ip().to_canonical()))
                && port.is_none_or(|port| port == address.port())
        })
    }

    /// What the last depot is asked to connect to, if this is one of the destinations.
    async fn server(&self, destination: &Destination) -> Option<Authority> {
        let server = destination.server();
        if self.port.is_some_and(|port| port != server.port) {
            return None;
        }
        let is_one = match (&self.host, &server.host) {
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

/// Depots, and the destinations that are reached through them.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    all: Vec<Route>,
    direct_below: Option<Bytes>,
    first_contact: FirstContact,
}

/// Destinations, and the depots to them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    pub(crate) to: Vec<Match>,
    pub(crate) via: Vec<DepotAddress>,
    direct_below: Option<Bytes>,
    first_contact: Option<FirstContact>,
}

/// Depots, the nearest first, and what the last of them is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRoute<'r> {
    /// At least one.
    pub depots: &'r [DepotAddress],
    /// The server.
    pub server: Authority,
    /// Which destinations are reached directly all the same.
    pub short: Option<ShortRule>,
}

impl Routes {
    /// These, in this order.
    pub fn new(routes: Vec<Route>) -> Self {
        Self { all: routes, ..Self::default() }
    }

    /// With this rule for short connections where a route has none of its own.
    #[must_use]
    pub fn directly_below(self, direct_below: Option<Bytes>, first_contact: FirstContact) -> Self {
        Self { direct_below, first_contact, ..self }
    }

    /// Without rules for short connections.
    #[must_use]
    pub fn without_short(mut self) -> Self {
        self.direct_below = None;
        self.all.iter_mut().for_each(|route| route.direct_below = None);
        self
    }

    /// Whether a route has a rule for short connections.
    pub fn has_short(&self) -> bool {
        self.all.iter().any(|route| self.rule(route).is_some())
    }

    /// A limit of 0 is none.
    fn rule(&self, route: &Route) -> Option<ShortRule> {
        let below = route.direct_below.or(self.direct_below).filter(|below| below.get() > 0)?;
        Some(ShortRule { below, first: route.first_contact.unwrap_or(self.first_contact) })
    }

    /// The same destinations through each of these, in this order; without destinations all but this machine.
    pub fn through(via: Vec<Vec<DepotAddress>>, to: Vec<Match>) -> Self {
        let others = Match { host: Hosts::Others, port: None };
        let to = if to.is_empty() { vec![others] } else { to };
        let route = |via| Route { to: to.clone(), via, direct_below: None, first_contact: None };
        Self::new(via.into_iter().map(route).collect())
    }

    /// All of them, in their order.
    pub(crate) fn all(&self) -> &[Route] {
        &self.all
    }

    /// What is wrong with them, if anything.
    ///
    /// # Errors
    /// The text names the route by its number.
    pub fn check(&self) -> Result<(), String> {
        if self.all.len() > MOST {
            return Err(format!("there are more than {MOST} routes"));
        }
        let has_rule = self.direct_below.is_some() || self.has_short();
        if self.first_contact != FirstContact::default() && !has_rule {
            return Err("\"first_contact\" needs \"direct_below\"".to_owned());
        }
        for (at, route) in self.all.iter().enumerate() {
            let at = at + 1;
            if route.to.is_empty() {
                return Err(format!("route {at}: \"to\" names no destination"));
            }
            if route.via.len() > MAX_HOPS {
                return Err(format!("route {at}: \"via\" has more than {MAX_HOPS} depots"));
            }
            if route.first_contact.is_some() && self.rule(route).is_none() {
                return Err(format!("route {at}: \"first_contact\" needs \"direct_below\""));
            }
        }
        Ok(())
    }

    /// The routes to a destination, in the order to try them; none: connect directly.
    pub async fn matching(&self, destination: &Destination) -> Vec<ServerRoute<'_>> {
        let mut matching = Vec::new();
        for route in &self.all {
            for of in &route.to {
                if let Some(server) = of.server(destination).await {
                    if route.via.is_empty() {
                        return matching;
                    }
                    let short = self.rule(route);
                    matching.push(ServerRoute { depots: &route.via, server, short });
                    break;
                }
            }
        }
        matching
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(to: &[&str]) -> Routes {
        let to = to.iter().map(|text| text.parse().unwrap()).collect();
        Routes::through(vec![vec!["depot.example".parse().unwrap()]], to)
    }

    async fn server(routes: &Routes, destination: Destination) -> Option<String> {
        let matching = routes.matching(&destination).await;
        matching.first().map(|route| route.server.to_string())
    }

    async fn at(routes: &Routes, address: &str) -> Option<String> {
        server(routes, Destination::Address(address.parse().unwrap())).await
    }

    async fn named(routes: &Routes, server_name: &str) -> Option<String> {
        server(routes, Destination::Named(server_name.parse().unwrap())).await
    }

    #[tokio::test]
    async fn everything_goes_through_but_this_machine() {
        for (destination, expected) in [
            ("192.0.2.1:80", Some("192.0.2.1:80")),
            ("[::ffff:192.0.2.1]:80", Some("192.0.2.1:80")),
            ("[2001:db8::1]:443", Some("[2001:db8::1]:443")),
            ("127.0.0.2:80", None),
            ("[::1]:80", None),
            ("[::ffff:127.0.0.1]:80", None),
            ("0.0.0.0:80", None),
        ] {
            assert_eq!(at(&through(&[]), destination).await.as_deref(), expected, "{destination}");
        }
        for (destination, expected) in [
            ("host.example:80", Some("host.example:80")),
            ("LOCALHOST:80", None),
            ("a.localhost:80", None),
            ("127.0.0.1:80", None),
        ] {
            assert_eq!(
                named(&through(&[]), destination).await.as_deref(),
                expected,
                "{destination}"
            );
        }
    }

    #[tokio::test]
    async fn matches_choose_destinations() {
        let routes = through(&[
            "10.1.2.3/8",
            "2001:db8::7",
            "*:5432",
            "localhost:9",
            "192.0.2.1:22",
            "[2001:db8:1::/48]:25",
            "*.example.org",
            "files.example.net",
        ]);
        for (destination, expected) in [
            ("10.9.9.9:1", Some("10.9.9.9:1")),
            ("[2001:db8::7]:1", Some("[2001:db8::7]:1")),
            ("[2001:db8::8]:1", None),
            ("198.51.100.1:5432", Some("198.51.100.1:5432")),
            ("127.0.0.1:5432", None),
            // Who names this machine means it.
            ("127.0.0.1:9", Some("localhost:9")),
            ("127.0.0.1:10", None),
            ("192.0.2.1:22", Some("192.0.2.1:22")),
            ("192.0.2.1:23", None),
            ("[2001:db8:1::2]:25", Some("[2001:db8:1::2]:25")),
        ] {
            assert_eq!(at(&routes, destination).await.as_deref(), expected, "{destination}");
        }
        for (destination, matches) in [
            ("a.example.org:80", true),
            ("A.B.EXAMPLE.ORG:80", true),
            ("example.org:80", false),
            (".example.org:80", false),
            ("badexample.org:80", false),
            ("files.example.net:80", true),
            ("x.files.example.net:80", false),
            ("db.example.com:5432", true),
            ("10.2.3.4:99", true),
        ] {
            let Ok(authority) = destination.parse() else { continue };
            let found = server(&routes, Destination::Named(authority)).await;
            assert_eq!(found.is_some(), matches, "{destination}");
        }
    }

    #[derive(Deserialize)]
    struct File {
        route: Vec<Route>,
    }

    fn read(text: &str) -> Routes {
        Routes::new(toml::from_str::<File>(text).unwrap().route)
    }

    #[tokio::test]
    async fn routes_are_tried_in_order_up_to_a_direct_one() {
        let routes = read(
            r#"
            [[route]]
            to = ["*.example.org"]
            via = ["d1", "https:d2"]
            [[route]]
            to = ["*"]
            via = ["d3"]
            [[route]]
            to = ["direct.example.org"]
            via = []
            [[route]]
            to = ["*"]
            via = ["d4"]
            "#,
        );
        routes.check().unwrap();
        let matching = |name: &str| {
            let (routes, destination) = (routes.clone(), Destination::Named(name.parse().unwrap()));
            async move {
                let matching = routes.matching(&destination).await;
                matching.iter().map(|route| route.depots[0].to_string()).collect::<Vec<_>>()
            }
        };
        assert_eq!(matching("a.example.org:80").await, ["d1:3880", "d3:3880", "d4:3880"]);
        assert_eq!(matching("direct.example.org:80").await, ["d1:3880", "d3:3880"]);
        assert_eq!(matching("b.example.com:80").await, ["d3:3880", "d4:3880"]);
    }

    #[test]
    fn malformed_matches_are_refused() {
        for text in ["", "10.0.0.0/33", "*:0", "*:x", "host:", "host:0", ":80", "a b:1", "*.", "**"]
        {
            let error = text.parse::<Match>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
        let none = read("[[route]]\nto = []\nvia = [\"d\"]");
        assert_eq!(none.check().unwrap_err(), "route 1: \"to\" names no destination");
    }
}
