// SPDX-License-Identifier: GPL-2.0-or-later
//! The relay daemon: configuration, admission, HTTP, observation.
//!
//! A depot takes a request whose path holds a route (`protocol`), leads the client on or connects
//! to the next hop, and passes the answer from one socket to the other with bounded memory:
//!
//! ```text
//! server         start, reload, drain
//!   takeover       a successor takes over (`handover`), and learns what this depot knows (`inheritance`)
//!   acceptor       which connections are let in
//!     http           one client's requests, passed on and answered (`relay` moves the bytes)
//!     session        sessions: bytes in both directions (`docs/lsl.md`)
//!       stored         sessions that the depot keeps
//!   admission      clients that it serves and next hops that it connects to: none by default
//!   state          what all connections share
//!   settings       the configuration and the files that it names: what a reload replaces
//!   observe        what it does and did: metrics, status page, access log
//!   trace          ids by which one transfer is followed through a chain
//!   client         a client's connection, and answers of the depot's own
//!   upstream       the next hop's connection: new, or kept from an earlier request (`idle_pool`)
//!   hop_sockets    congestion control and buffers by peer
//!   peer_load      other depots that take clients when this one is full (`sibling_loads`)
//!   failover_routes  routes around depots that fail
//!   detour_checks  which depots of these are up
//!   announcing     this depot's announcements, and queries for those of others (`announcements`, `register_keys`, `announcing_in_etcd`)
//!   warm           connections to next depots, open ahead of need (`next_depots`)
//!   upkeep         what is done once a second
//!   host_findings  settings of the host that slow the start of transfers
//!   config_warnings  settings that are valid but rarely intended
//!   file_rights    files that root can use and the depot's user perhaps cannot
//!   packet_pacing  peers whose packets are spaced below TCP, which is watched
//!   wrong_port     clients that speak TLS, or do not, at the wrong port
//!   memory         memory given back after a crowd
//!   control        commands of operators: list, end, deny, slow
//! ```
//! `docs/depot.md` is the operator's guide, `docs/protocol.md` the specification.

mod acceptor;
mod admission;
mod announcements;
mod announcing;
mod announcing_in_etcd;
mod buffers;
mod certificate;
mod client;
mod config;
mod config_warnings;
pub mod control;
mod detour_checks;
mod error;
mod failover_routes;
mod file_rights;
mod handover;
mod hop_sockets;
mod host_findings;
mod http;
mod idle_pool;
mod inheritance;
mod lifecycle;
mod listeners;
mod memory;
mod next_depots;
mod next_hops;
mod observe;
mod packet_pacing;
mod peer_load;
mod private_socket;
mod proxy;
mod register_keys;
mod server;
mod session;
mod settings;
mod shown_certificates;
mod sibling_loads;
mod spare_descriptors;
mod state;
mod stored;
mod takeover;
mod tls;
mod trace;
mod transfers;
mod upkeep;
mod upstream;
mod warm;
mod wrong_port;

pub use config::{
    AccessTo, Admin, Allow, Buffers, Config, ConfigError, Control, CopyMode, Detour, DetourCheck,
    DigestMode, HopPacing, IdleConnections, LeastRate, Limits, Log, LogFormat, PacingMethod,
    PeerOptions, Proxy, Sessions, Siblings, Site, SiteError, SiteHost, SiteName, SiteOrigin, Stall,
    Store, Tcp, Timeouts, TlsFiles, TrustFiles, UpstreamRule, UpstreamRuleError, parse_network,
};
pub use error::Error;
pub use file_rights::warn_of_root_rights;
pub use hop_sockets::TuneError;
pub use host::FileError;
pub use host_findings::warn_of_host_settings;
pub use observe::{AccessLogError, FetchError, StderrLog, fetch as fetch_status, status};
pub use packet_pacing::{NotPaced, Pacers};
pub use server::{Reread, check, run};
