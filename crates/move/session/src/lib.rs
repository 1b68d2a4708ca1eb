// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions for programs: a stream of bytes through depots that survives its connections and proves what
//! arrived (`docs/lsl.md`).
//!
//! ```text
//! Session ── reads, writes ──▶ core ◀── records ── drive ◀──▶ wire ◀──▶ depots
//!                               ▲                    ▲
//!                               └── what survives    └── initiator: connects again
//!                                   a connection         listener: accepts again
//! ```
//! An initiator [connects](Session::connect) by a [`Route`]; an acceptor [listens](Listener), or meets the initiator at a
//! depot. Both get a [`Session`], which reads and writes as a TCP stream does. Programs without tokio use
//! [`blocking`].

mod accepting;
mod acceptor;
pub mod blocking;
mod connection;
mod core;
mod digest;
mod drive;
mod error;
mod initiator;
mod listener;
mod options;
mod outgoing;
mod random;
mod registry;
mod rounds;
mod route;
mod session;
mod slow;
mod state;
mod wire;

pub use accepting::{Accepted, Acceptor, Greeted, NoSession};
pub use acceptor::Incoming;
pub use digest::Beginning;
pub use error::Error;
pub use listener::Listener;
pub use options::{ListenOptions, Options};
pub use outgoing::{Outgoing, Stored, StoredFile, Window};
pub use protocol::session::{
    handshake::WholeDigest,
    request::{Request, SigningKey},
};
pub use route::{Route, RouteError};
pub use session::{RouteStatistics, Session, Statistics};
pub use state::{State, StateError};

/// The examples of the guide, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/lsl-library.md")]
struct Guide;
