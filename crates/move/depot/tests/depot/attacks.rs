// SPDX-License-Identifier: GPL-2.0-or-later
//! What strangers try on open proxies: to reach where they may not, to hold places for nothing, and
//! to hide one request within another.
//!
//! Behind each depot here stands an origin that answers whatever reaches it. Where a guard is missing,
//! its answer comes instead of the refusal, or it sees the request that was hidden.

mod borrowing;
mod least_rate;
mod many_networks;
mod origin;
mod reaching;
mod slow;
mod smuggling;
mod speaking;

use crate::common::{process::Daemon, scripted::Scripted};

/// A depot on loopback that relays for all and in all methods, with further settings.
fn open_depot(settings: &str) -> Daemon {
    Daemon::depot(&format!(
        "id = \"d1\"\n{settings}\n[allow]\nclients = [\"127.0.0.0/8\"]\n\
         upstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n\
         methods = [\"GET\", \"HEAD\", \"PUT\", \"POST\", \"DELETE\", \"OPTIONS\"]"
    ))
}

/// An origin that answers its target back, and keeps no connection.
fn echo() -> Scripted {
    Scripted::new(|mut stream, head| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let _ = std::io::Write::write_all(&mut stream, answer(target).as_bytes());
    })
}

fn answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
