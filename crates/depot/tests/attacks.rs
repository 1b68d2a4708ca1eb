// SPDX-License-Identifier: GPL-2.0-or-later
//! What strangers try on open proxies: to reach where they may not, to hold places for nothing, and
//! to hide one request within another.
//!
//! Behind each depot here stands an origin that answers whatever reaches it. Where a guard is missing,
//! its answer comes instead of the refusal, or it sees the request that was hidden.

#[path = "attacks/borrowing.rs"]
mod borrowing;
mod common;
#[path = "attacks/least_rate.rs"]
mod least_rate;
#[path = "attacks/many_networks.rs"]
mod many_networks;
#[path = "attacks/origin.rs"]
mod origin;
#[path = "attacks/reaching.rs"]
mod reaching;
#[path = "attacks/slow.rs"]
mod slow;
#[path = "attacks/smuggling.rs"]
mod smuggling;
#[path = "attacks/speaking.rs"]
mod speaking;

use common::{process::Daemon, scripted::Scripted};

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
