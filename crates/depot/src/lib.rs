// SPDX-License-Identifier: GPL-2.0-or-later
//! The relay daemon: listeners, admission, relay engine; and a small origin server.
//!
//! A depot takes a request whose path holds a route (`session`), leads the client on or connects
//! to the next hop, and passes the answer from one socket to the other with bounded memory:
//!
//! ```text
//! server     listeners, limits, drain
//!   connection   one client: head in, step, answer out
//!     admission    for whom, and to where, it relays: nobody and nowhere by default
//!     upstream     connect to the next hop, ask, read its head
//!     relay        the body: splice or copy
//!     tune         congestion control and buffers by peer, read back
//! ```
//! `docs/depot.md` is the operator's guide, `docs/protocol.md` the specification.

mod admission;
mod config;
mod connection;
mod head;
mod kernel;
mod limits;
pub mod origin;
mod relay;
mod server;
mod transfer_log;
mod tune;
mod upstream;

pub use admission::{UpstreamRule, UpstreamRuleError};
pub use config::{Allow, Config, ConfigError, Hop, Limits, RelayMode, Timeouts};
pub use server::{Depot, Error, check, run};
pub use tune::TuneError;
