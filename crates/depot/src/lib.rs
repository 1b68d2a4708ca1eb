// SPDX-License-Identifier: GPL-2.0-or-later
//! The relay daemon: listeners, admission, relay engine; and what stands beside it: a small origin server,
//! and what has a site lead its clients to the depots that are up.
//!
//! A depot takes a request whose path holds a route (`session`), leads the client on or connects
//! to the next hop, and passes the answer from one socket to the other with bounded memory:
//!
//! ```text
//! server       listeners, limits, drain
//!   connection   one client: request after request
//!     admission    for whom, and to where, it relays: nobody and nowhere by default
//!     identity     by which names it is asked: a ticket opens no others
//!     trace        by what one transfer is followed through a chain
//!     exchange     one request up and its answer down, at the same time
//!       upstream     a connection to the next hop: new, or one that waits for work
//!       body         moving bytes: splice or copy, lengths and chunks
//!       stream       TCP, with or without TLS
//!       stripes      several connections of two depots for one transfer
//!     rates        to what rate a transfer is held, and all of one client together
//!     paced        peers to whom packets are spaced below TCP, which is watched
//!     tune         congestion control and buffers by peer, read back
//!     trim         memory given back after a crowd
//!     buffers      raised where the kernel's own tuning is not enough for the path
//!     observe      what it does and did: metrics, status page, access log
//! ```
//! `docs/depot.md` is the operator's guide, `docs/protocol.md` the specification.

mod admission;
mod body;
mod buffers;
mod certificate;
mod check;
mod config;
mod connection;
mod detours;
mod door;
mod exchange;
mod handover;
mod head;
mod identity;
mod kernel;
pub mod lead;
mod least_rate;
mod limits;
mod listeners;
mod observe;
pub mod origin;
mod paced;
mod places;
mod plan;
mod rates;
mod reserve;
mod server;
mod settings;
mod siblings;
mod stream;
mod stripes;
mod tls;
mod trace;
mod trim;
mod trust;
mod tune;
mod upstream;
mod watched;

pub use admission::{UpstreamRule, UpstreamRuleError};
pub use config::{
    AccessTo, Admin, Allow, Buffers, Config, ConfigError, Detour, DigestMode, Hop, Limits, Log,
    LogFormat, Pacing, PacingMethod, Pool, RelayMode, Reuse, Stall, Timeouts, TlsFiles, TrustFiles,
};
pub use observe::{AccessLogError, FetchError, StderrLog, fetch as fetch_status, status};
pub use paced::{NotPaced, Pacers};
pub use server::{Error, Reread, check, run};
pub use tune::TuneError;
pub use watched::FileError;
