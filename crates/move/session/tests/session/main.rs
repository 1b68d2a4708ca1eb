// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions over real connections, which a wire between the ends may break or change.

mod accepted;
mod blocking;
mod digests;
mod faults;
mod sealed;
mod several;
mod slow;
mod strangers;
mod streams;
mod wire;

use longhaul_session::{ListenOptions, Listener, Options, Route};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::net::SocketAddr;
use testkit::refusing_address;

/// A listener on loopback.
async fn listener() -> Listener {
    Listener::bind("127.0.0.1:0", ListenOptions::default()).await.unwrap()
}

/// The route straight to an address.
fn route(address: SocketAddr) -> Route {
    Route::to(&[], &address.to_string()).unwrap()
}

fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Pcg64Mcg::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// Reads a session's stream to its end.
async fn read_all(session: &longhaul_session::Session) -> Result<Vec<u8>, longhaul_session::Error> {
    let mut all = Vec::new();
    while let Some(chunk) = session.chunk().await? {
        all.extend_from_slice(&chunk);
    }
    Ok(all)
}

fn options() -> Options {
    Options::default()
}
