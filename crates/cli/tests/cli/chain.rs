// SPDX-License-Identifier: GPL-2.0-or-later
//! Two depots with a server behind them, for programs that know nothing of depots.

use crate::depot::Depot;
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

/// Sends back what it is sent, up to the end, and then ends.
pub fn echo_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut bytes = vec![0; 65536];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    if stream.write_all(&bytes[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A port of this machine where nobody listens.
pub fn closed_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Two depots, and a server behind them.
pub struct Chain {
    pub dir: tempfile::TempDir,
    pub near: Depot,
    pub far: Depot,
    pub echo: String,
}

impl Chain {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("depot.toml");
        let open = "[allow]\nclients = [\"127.0.0.0/8\", \"::1/128\"]\nlocal = true\n\
            upstreams = [\"127.0.0.1:*\"]\nservers = [\"127.0.0.1:*\"]\n";
        fs::write(&config, open).unwrap();
        let arguments = ["--config", config.to_str().unwrap()];
        let [near, far] = ["near", "far"].map(|id| Depot::named(id, &arguments));
        Self { dir, near, far, echo: echo_server() }
    }

    pub fn via(&self) -> String {
        format!("{},{}", self.near.listen, self.far.listen)
    }
}

/// Waits until it holds.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}
