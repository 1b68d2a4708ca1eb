// SPDX-License-Identifier: GPL-2.0-or-later
//! `[[tcp]]`: a port that is relayed to one server, as a TCP proxy.

use crate::config::{Config, ConfigError};
use protocol::{Authority, DepotAddress, session::MAX_HOPS};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A port whose connections are relayed to one server, through depots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// The address that clients connect to.
    pub listen: SocketAddr,
    /// The server.
    #[serde(with = "server")]
    pub upstream: Authority,
    /// The depots on the way there, the one nearest to this one first.
    #[serde(default)]
    pub via: Vec<DepotAddress>,
    /// Whether to send the server a PROXY protocol header, version 2.
    #[serde(default)]
    pub proxy_protocol: bool,
}

/// An authority as text.
mod server {
    use protocol::Authority;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &Authority, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Authority, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl Tcp {
    /// The depot or server that its connections go to.
    pub(crate) fn first_hop(&self) -> &Authority {
        self.via.first().map_or(&self.upstream, |depot| &depot.authority)
    }

    /// Whether its connections go to this depot or server.
    pub(crate) fn leads_to(&self, next: &Authority) -> bool {
        self.via.iter().any(|depot| depot.authority == *next) || self.upstream == *next
    }
}

impl Config {
    /// # Errors
    /// Two tables, or a table and a listener for clients, have one address, or a route is too long.
    pub(super) fn check_tcp(&self) -> Result<(), ConfigError> {
        let mut taken: Vec<SocketAddr> = self.listeners().map(|(_, address)| address).collect();
        for (n, table) in self.tcp.iter().enumerate() {
            let wrong = |key, error| Err(ConfigError::in_table("tcp", n, key, error));
            // With port 0 the system chooses one that is free.
            if table.listen.port() != 0 && taken.contains(&table.listen) {
                return wrong("listen", ConfigError::TcpTwice(table.listen));
            }
            if table.via.len() > MAX_HOPS - 1 {
                let expected = "at most 15 depots";
                return wrong("via", ConfigError::range("via", &table.via.len(), expected));
            }
            taken.push(table.listen);
        }
        Ok(())
    }
}
