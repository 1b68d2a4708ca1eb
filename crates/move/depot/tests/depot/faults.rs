// SPDX-License-Identifier: GPL-2.0-or-later
//! What goes wrong around a depot, and within its host: each fault with what the client sees of it,
//! what the log says of it, and that nothing is kept of it.
//!
//! Other faults have files of their own: `leaving.rs` (clients that reset or stop, drain), `bodies.rs`
//! (cut-offs, resets, pipes without a free slot), `digests.rs` (bits turned), `detours.rs` (stalls),
//! `lifecycle.rs` (restarts), `quiet.rs` (spinning).

mod clock;
mod hops;
mod host;
mod names;
mod pressure;
mod restart;

use crate::common::{client::connect, process::Daemon};
use std::{io::Write, net::TcpStream};

/// A connection that has asked for a route and awaits the answer.
fn ask(depot: &Daemon, route: &str) -> TcpStream {
    let mut stream = connect(depot.address);
    write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// A loopback address for one test of this process: other tests use 127.0.0.1, where a released port may be
/// reused immediately.
fn own_loopback(number: u8) -> String {
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    format!("127.{}.{high}.{low}", 100 + number)
}
