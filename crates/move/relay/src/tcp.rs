// SPDX-License-Identifier: GPL-2.0-or-later
//! TCP connections: their bytes, their options, and what the kernel knows of them.

pub mod congestion;
mod connection;
mod first;
pub mod info;
mod memory_level;
mod poll;
mod read_head;
mod sink;
pub mod socket_options;
mod source;
mod split;
mod stream;
pub mod tls;
pub mod tls_files;
mod wire;

pub use connection::{Connection, TlsSocket};
pub(crate) use first::First;
pub use memory_level::MemoryLevel;
pub use poll::readable;
pub use read_head::{Incoming, ReadHeadError, read_head, read_header, with_what_follows};
pub use sink::{More, Sink};
pub use source::Source;
pub use stream::Stream;
pub use wire::Wire;
