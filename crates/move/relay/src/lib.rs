// SPDX-License-Identifier: GPL-2.0-or-later
//! Moves bytes between TCP connections, with bounded memory. It knows no HTTP and no configuration file:
//! what it needs to know of either is passed as values.
//!
//! ```text
//! tcp       a connection: socket, TLS above it, options, what the kernel knows of it
//! dial      a connection to a peer: names, addresses, TLS; connections kept for reuse; refusals
//! copy      bytes from a Source to a Sink: splice or copy, idle timeouts, minimum rate
//! stripes   one stream of bytes over several connections
//! rates     the rate that a transfer, and all transfers of one client, are held to
//! guesses   how many wrong passwords a client may try
//! buffers   socket buffers: raised where the kernel's own tuning is too small for the path, kept small where memory is
//!           short
//! ```
//!
//! `examples/relay.rs` is a plain TCP relay on top of it.

pub mod buffers;
pub mod client_key;
pub mod copy;
pub mod dial;
pub mod guesses;
pub mod rates;
mod side;
pub mod stripes;
mod table;
pub mod tcp;

pub use side::Side;
pub use table::shrink;
