// SPDX-License-Identifier: GPL-2.0-or-later
//! The limit that refuses a connection: its setting, value and depot.

use http::StatusCode;
use protocol::{
    DepotId,
    http::{Fault, ProxyError},
};
use relay::buffers::NoMemory;
use std::net::IpAddr;
use units::Bytes;

/// The limit that a connection, or its next request, would exceed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LimitReached {
    /// This many connections are open, the maximum.
    Connections(usize),
    /// The last `kept` slots are for clients with fewer than `few` connections.
    LastPlaces { kept: usize, few: usize, client: IpAddr, own: usize },
    /// A client, or a site of several clients, has all that it may have.
    Client { client: IpAddr, own: usize, is_site: bool },
    /// A depot before this one has all that it may have.
    Depot { depot: IpAddr, own: usize },
    /// Depots hold this many idle connections, the maximum.
    Held(usize),
    /// There is no memory for another transfer.
    Memory { why: NoMemory, limit: Bytes },
}

impl LimitReached {
    /// What is answered (503). A depot before this one passes it on, so it names the depot whose limit it is.
    pub(crate) fn fault(&self, id: &DepotId) -> Fault {
        let reason = match self {
            Self::Connections(all) => format!(
                "{all} connections are open at depot {id}, the most that its limits.connections allows"
            ),
            Self::LastPlaces { kept, few, client, own } => format!(
                "depot {id} keeps the last {kept} places of its limits.connections for clients that have fewer \
                 than {few} connections: {own} connections from {client} are open"
            ),
            Self::Client { client, own, is_site } => {
                let whom = if *is_site { "a site" } else { "a client" };
                format!(
                    "{own} connections from {client} are open at depot {id}, the most that its limits.per_client \
                     allows {whom}"
                )
            }
            Self::Depot { own, .. } => format!(
                "{own} connections from the depot before it are open at depot {id}, the most that its \
                 limits.per_depot allows"
            ),
            Self::Held(all) => format!(
                "depots hold {all} connections at depot {id}, the most that its limits.held allows"
            ),
            Self::Memory { why, limit } => no_memory(why, *limit, id),
        };
        // Clients of the depot before need not know from which address that one asks.
        let detail = match self {
            Self::Depot { depot, .. } => Some(depot),
            _ => None,
        };
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Fault::new(status, ProxyError::ConnectionLimitReached, reason).with_detail(detail)
    }
}

/// Which memory a transfer lacks, and how much of it is reserved for whom.
fn no_memory(why: &NoMemory, limit: Bytes, id: &DepotId) -> String {
    let mib = |bytes: usize| bytes >> 20;
    match why {
        NoMemory::All { reserved } => format!(
            "{} MB of limits.memory ({limit}) are reserved for transfers at depot {id}, which leaves no room for another",
            mib(*reserved)
        ),
        NoMemory::Kept { reserved, client, transfers } => format!(
            "{} MB of limits.memory ({limit}) are reserved for transfers at depot {id}, which keeps the rest for clients \
             with few of them: {transfers} transfers of {client} are under way",
            mib(*reserved)
        ),
        NoMemory::Client { client, transfers, reserved, share, is_site } => format!(
            "{} MB are reserved for {transfers} transfers of {client} at depot {id}, whose limits.memory ({limit}) gives \
             {} {} MB",
            mib(*reserved),
            if *is_site { "a site" } else { "a client" },
            mib(*share)
        ),
    }
}
