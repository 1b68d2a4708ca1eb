// SPDX-License-Identifier: GPL-2.0-or-later
//! `[allow]`: which clients the depot serves, and which next hops it connects to.

use crate::config::{network, upstream_rule::UpstreamRule};
use ipnet::IpNet;
use protocol::http::Method;
use serde::{Deserialize, Serialize};

/// Clients that the depot serves and next hops that it connects to: none unless listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Allow {
    /// Networks of clients, and of depots that come before this one.
    #[serde(deserialize_with = "network::list")]
    pub clients: Vec<IpNet>,
    /// Origins and depots that it connects to, and depots that it redirects clients to.
    pub upstreams: Vec<UpstreamRule>,
    /// Servers at which sessions may end that know nothing of sessions. Not `upstreams`: to those, clients send
    /// what `methods` allow and nothing else, and they may know this depot by its address.
    pub servers: Vec<UpstreamRule>,
    /// What clients without a ticket may ask.
    pub methods: Vec<Method>,
    /// Whether it may connect to loopback, link-local and its own addresses.
    pub local: bool,
    /// Whether it may connect to private addresses that no rule names by their network.
    pub private: bool,
}

impl Default for Allow {
    fn default() -> Self {
        Self {
            clients: Vec::new(),
            upstreams: Vec::new(),
            servers: Vec::new(),
            methods: vec![Method::Get, Method::Head],
            local: false,
            private: false,
        }
    }
}
