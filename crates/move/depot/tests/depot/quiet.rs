// SPDX-License-Identifier: GPL-2.0-or-later
//! A depot that waits uses no processor time: an event that is reported for ever, and never dealt
//! with, would have it turn in circles.

use crate::common::{client::connect, process::Daemon, scripted::Scripted};
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::mpsc,
    time::Duration,
};
use testkit::until;

/// How long each depot is watched, and what it may use meanwhile.
const WATCHED: Duration = Duration::from_secs(2);
const ALLOWED: Duration = Duration::from_millis(200);

/// A depot that gives nothing up.
fn depot(mode: &str) -> Daemon {
    let times = "idle = \"1h\"\nclient_idle = \"1h\"\nhalf_closed = \"1h\"";
    Daemon::depot(&format!("copy = \"{mode}\"\n[timeouts]\n{times}"))
}

fn ask(depot: &Daemon, origin: &Scripted) -> TcpStream {
    let mut stream = connect(depot.address);
    let route = origin.route("-", "/");
    write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

fn stays_quiet(depots: &[Daemon]) {
    let before: Vec<Duration> = depots.iter().map(Daemon::cpu_time).collect();
    std::thread::sleep(WATCHED);
    for (depot, before) in depots.iter().zip(before) {
        let used = depot.cpu_time().saturating_sub(before);
        assert!(used < ALLOWED, "{used:?} of {WATCHED:?}");
    }
}

/// An origin that sends `first` and then nothing, keeping the connection open.
fn halting(first: &'static str) -> Scripted {
    Scripted::new(move |mut stream, _| {
        stream.write_all(first.as_bytes()).unwrap();
        stream.set_read_timeout(None).unwrap();
        drop(stream.read(&mut [0]));
    })
}

const HALF: &str = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf";

#[test]
fn while_the_origin_is_silent() {
    let depots = ["splice", "copy"].map(depot);
    let origins = ["", HALF].map(halting);
    let mut clients = Vec::new();
    for depot in &depots {
        clients.extend(origins.each_ref().map(|origin| ask(depot, origin)));
        for origin in &origins {
            origin.next_head();
        }
    }
    stays_quiet(&depots);
}

#[test]
fn while_a_half_closed_client_waits() {
    let depots = ["splice", "copy"].map(depot);
    let origins = ["", HALF].map(halting);
    let mut clients = Vec::new();
    for depot in &depots {
        for origin in &origins {
            let client = ask(depot, origin);
            client.shutdown(Shutdown::Write).unwrap();
            clients.push(client);
            origin.next_head();
        }
    }
    stays_quiet(&depots);
}

#[test]
fn while_the_reader_has_stopped() {
    let depots = ["splice", "copy"].map(depot);
    let (full, wait) = mpsc::channel();
    let origin = Scripted::new(move |mut stream, _| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        // Until nothing more is taken: every buffer up to the reader is full.
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let zeros = vec![0; 65_536];
        while stream.write_all(&zeros).is_ok() {}
        full.send(()).unwrap();
        stream.set_read_timeout(None).unwrap();
        drop(stream.read(&mut [0]));
    });
    let mut clients: Vec<TcpStream> = depots.iter().map(|depot| ask(depot, &origin)).collect();
    // One that has shut its sending side too.
    clients.push(ask(&depots[0], &origin));
    clients[2].shutdown(Shutdown::Write).unwrap();
    for _ in &clients {
        wait.recv_timeout(crate::common::PATIENCE).unwrap();
    }
    stays_quiet(&depots);
    drop(clients);
    for depot in &depots {
        depot.await_log(&["WARN", "client gone"]);
    }
}

#[test]
fn cpu_measure_detects_work() {
    let depot = depot("splice");
    let start = depot.cpu_time();
    until("work takes time", || {
        drop(crate::common::client::get(depot.address, "/"));
        depot.cpu_time() > start
    });
}
