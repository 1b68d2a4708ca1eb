// SPDX-License-Identifier: GPL-2.0-or-later
//! When the first byte of a session arrives: `first_byte listen ADDR:PORT` prints the time at which it is delivered,
//! `first_byte send ADDR:PORT [DEPOT,...]` the time at which it begins to connect, and sends one byte. Both are
//! nanoseconds of this machine's monotonic clock. `bench/session --wan` subtracts them.

use longhaul_session::{ListenOptions, Listener, Options, Route, Session};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address] => listen(address).await,
        ["send", address] => send(address, "").await,
        ["send", address, via] => send(address, via).await,
        _ => Err("usage: first_byte listen ADDR:PORT | send ADDR:PORT [DEPOT,...]".into()),
    }
}

async fn listen(address: &str) -> Result<(), Box<dyn Error>> {
    let listener = Listener::bind(address, ListenOptions::default()).await?;
    loop {
        let session = listener.accept().await.accept(Options::default()).await?;
        session.end();
        while session.chunk().await?.is_some() {
            println!("{}", now());
        }
        session.closed().await?;
    }
}

async fn send(address: &str, via: &str) -> Result<(), Box<dyn Error>> {
    let depots: Result<Vec<_>, _> =
        via.split(',').filter(|d| !d.is_empty()).map(str::parse).collect();
    let route = Route::to(&depots?, address)?;
    println!("{}", now());
    let session = Session::connect(vec![route], Options::default());
    session.write(b"1").await?;
    session.end();
    while session.chunk().await?.is_some() {}
    session.sent().await?;
    Ok(session.closed().await?)
}

fn now() -> i128 {
    let now = clock_gettime(ClockId::Monotonic);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}
