// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections to peers: new ones, and idle ones for reuse.

mod dialer;
mod growth;
mod peer;
pub mod pool;
mod refusal;
pub mod resolver;

pub use dialer::{Connector, Dialer, Hops};
pub use peer::{PeerAddr, PeerHost};
pub use pool::Pool;
pub use refusal::{Class, FaultSource, Refusal, Retry};
pub use resolver::{Names, Resolver};
