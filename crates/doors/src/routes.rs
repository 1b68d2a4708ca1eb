// SPDX-License-Identifier: GPL-2.0-or-later
//! Which destinations go through which depots.

use ipnet::IpNet;
use session::{Authority, DepotAddress, Host};
use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};
use tokio::net::lookup_host;

/// Destinations that go through the depots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// All ports of a network, as in `10.0.0.0/8` or `2001:db8::1`.
    Network(IpNet),
    /// This port everywhere but on this machine, as in `*:5432`.
    Port(u16),
    /// One port of one host, as in `db.example.org:5432`. The last depot is told the name.
    Server(Authority),
}

/// What is neither a network nor a host and a port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a network (10.0.0.0/8), an address, HOST:PORT nor *:PORT")]
pub struct MatchError(String);

impl FromStr for Match {
    type Err = MatchError;

    fn from_str(text: &str) -> Result<Self, MatchError> {
        if let Ok(network) = text.parse::<IpNet>() {
            return Ok(Self::Network(network.trunc()));
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Self::Network(ip.into()));
        }
        let error = || MatchError(text.to_owned());
        if let Some(port) = text.strip_prefix("*:") {
            let port = port.parse().ok().filter(|&port| port > 0);
            return port.map(Self::Port).ok_or_else(error);
        }
        text.parse().map(Self::Server).map_err(|_| error())
    }
}

/// Depots, and the destinations that are reached through them.
#[derive(Debug, Clone)]
pub struct Routes {
    via: Vec<Vec<DepotAddress>>,
    matches: Vec<Match>,
}

impl Routes {
    /// Each of `via` is one way, the depot nearest this machine first; a later one is taken when those before it fail.
    /// Without a match everything goes through the depots that is not on this machine.
    pub fn new(via: Vec<Vec<DepotAddress>>, matches: Vec<Match>) -> Self {
        Self { via, matches }
    }

    /// The ways to go, the first one first.
    pub fn via(&self) -> &[Vec<DepotAddress>] {
        &self.via
    }

    /// What the last depot is asked to connect to, if this destination goes through the depots at all.
    pub async fn target(&self, destination: SocketAddr) -> Option<Authority> {
        let ip = destination.ip().to_canonical();
        let address = Authority { host: Host::Ip(ip), port: destination.port() };
        let is_here = ip.is_loopback() || ip.is_unspecified();
        if self.matches.is_empty() {
            return (!is_here).then_some(address);
        }
        for of in &self.matches {
            let target = match of {
                Match::Network(network) => network.contains(&ip).then(|| address.clone()),
                Match::Port(port) => (!is_here && *port == address.port).then(|| address.clone()),
                Match::Server(server) => leads_to(server, ip, address.port).await,
            };
            if target.is_some() {
                return target;
            }
        }
        None
    }
}

/// The server, if this is where it is.
async fn leads_to(server: &Authority, ip: IpAddr, port: u16) -> Option<Authority> {
    if server.port != port {
        return None;
    }
    let is_it = match &server.host {
        Host::Ip(of) => of.to_canonical() == ip,
        // Asked each time: the system's resolver keeps answers for as long as they are good.
        Host::Name(name) => lookup_host((name.as_str(), port))
            .await
            .is_ok_and(|mut found| found.any(|found| found.ip().to_canonical() == ip)),
    };
    is_it.then(|| server.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn target(matches: &[&str], destination: &str) -> Option<String> {
        let matches = matches.iter().map(|text| text.parse().unwrap()).collect();
        let routes = Routes::new(vec![vec!["depot.example".parse().unwrap()]], matches);
        let target = routes.target(destination.parse().unwrap()).await;
        target.map(|target| target.to_string())
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
            assert_eq!(target(&[], destination).await.as_deref(), expected, "{destination}");
        }
    }

    #[tokio::test]
    async fn matches_choose_destinations() {
        let matches = ["10.1.2.3/8", "2001:db8::7", "*:5432", "localhost:9", "192.0.2.1:22"];
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
        ] {
            assert_eq!(target(&matches, destination).await.as_deref(), expected, "{destination}");
        }
    }

    #[test]
    fn malformed_matches_are_refused() {
        for text in
            ["", "10.0.0.0/33", "*:0", "*:x", "*", "host", "host:", "host:0", ":80", "a b:1"]
        {
            let error = text.parse::<Match>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
