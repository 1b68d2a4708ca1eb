// SPDX-License-Identifier: GPL-2.0-or-later
//! Clients that go away, readers that are slow, and depots that are stopped.

use crate::common::{
    client::{connect, get, read_answer, status},
    noise,
    process::Daemon,
    scripted::{Gate, Scripted, halting},
    sha256,
};
use rustix::process::Signal;
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};
use testkit::until;

fn ask(depot: &Daemon, route: &str) -> TcpStream {
    let mut stream = connect(depot.address);
    write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// Two depots; the one nearer the client first.
fn pair(settings: &str) -> [Daemon; 2] {
    ["near", "far"].map(|id| Daemon::depot(&format!("id = \"{id}\"\n{settings}")))
}

/// Waits longer than any test does: only a reset can end things sooner.
const PATIENT: &str =
    "[timeouts]\nidle = \"1h\"\nclient_idle = \"1h\"\nhalf_closed = \"1h\"\nresponse_head = \"1h\"";

#[test]
fn client_reset_frees_chain_of_silent_origin() {
    for mode in ["splice", "copy"] {
        let depots = pair(&format!("copy = \"{mode}\"\n{PATIENT}"));
        let idle = depots.each_ref().map(Daemon::open_files);
        let gate = Gate::default();
        let origin = halting(&noise(1, 200_000), &gate);
        let mut client = ask(&depots[0], &origin.route(&depots[1].authority(), "/"));
        client.read_exact(&mut vec![0; 50_000]).unwrap();
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        for (depot, idle) in depots.iter().zip(idle) {
            depot.await_log(&["WARN", "client gone at", "of 200000 bytes"]);
            until("its files are closed", || depot.open_files() <= idle);
        }
        gate.open();
    }
}

#[test]
fn half_closed_client_times_out() {
    let depots = pair("[timeouts]\nhalf_closed = \"200ms\"");
    let gate = Gate::default();
    let body = noise(2, 200_000);
    let origin = halting(&body, &gate);
    let client = ask(&depots[0], &origin.route(&depots[1].authority(), "/"));
    let mut all = vec![0; 100_000];
    (&client).read_exact(&mut all).unwrap();
    // No reset: what has come was read, and the close is in good order.
    client.shutdown(Shutdown::Write).unwrap();
    for depot in &depots {
        depot.await_log(&["WARN", "client gone"]);
    }
    gate.open();
}

#[test]
fn client_leaving_before_answer_frees_chain() {
    let depots = pair(PATIENT);
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Scripted::new(move |_stream, _| held.wait());
    let client = ask(&depots[0], &origin.route(&depots[1].authority(), "/"));
    origin.next_head();
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    for depot in &depots {
        depot.await_log(&["WARN", "client gone"]);
    }
    gate.open();
}

#[test]
fn silent_origin_times_out() {
    // Only one of the two is impatient: otherwise either might be first to give up.
    let depots = [Daemon::depot(PATIENT), Daemon::depot("[timeouts]\nidle = \"300ms\"")];
    let gate = Gate::default();
    let origin = halting(&noise(3, 200_000), &gate);
    let (head, body, _) = get(depots[0].address, &origin.route(&depots[1].authority(), "/"));
    assert_eq!(status(&head), 200);
    assert!(body.len() < 200_000);
    depots[1].await_log(&["WARN", "upstream stalled at 100000 of 200000 bytes"]);
    gate.open();
}

#[test]
fn stopped_reader_times_out() {
    let depot = Daemon::depot(IMPATIENT);
    let origin = Scripted::answering(large());
    let stopped = ask(&depot, &origin.route("-", "/"));
    depot.await_log(&["WARN", "client stalled at"]);
    drop(stopped);
}

#[test]
fn slow_reader_does_not_time_out() {
    slow_reader(&[Daemon::depot(IMPATIENT)]);
}

#[test]
fn slow_reader_does_not_time_out_at_far_depot() {
    slow_reader(&pair(IMPATIENT));
}

/// Send buffers so large that much longer than the idle time passes until a third of one is free.
const IMPATIENT: &str = "[timeouts]\nclient_idle = \"1s\"\n[limits]\npipe = \"64KB\"\n\
    [[hop]]\npeer = \"127.0.0.0/8\"\nsndbuf = \"4MB\"\nrcvbuf = \"1MB\"";

/// Much more than all buffers between hold, so that the depots wait for the reader.
const LARGE: usize = 24 << 20;

fn large() -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
    [head.into_bytes(), noise(4, LARGE)].concat()
}

/// Reads through depots (the one nearer the client first) slowly, and then the rest.
fn slow_reader(depots: &[Daemon]) {
    const SIZE: usize = LARGE;
    let body = noise(4, SIZE);
    let origin = Scripted::answering(large());
    let chain = depots.get(1).map_or("-".to_owned(), Daemon::authority);
    let mut slow = ask(&depots[0], &origin.route(&chain, "/"));
    let mut start = vec![0; 4 << 20];
    for part in start.chunks_mut(64 << 10) {
        slow.read_exact(part).unwrap();
        std::thread::sleep(Duration::from_millis(80));
    }
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    let all = [start, rest].concat();
    let at = all.len() - SIZE;
    assert_eq!(sha256(&all[at..]), sha256(&body));
    for depot in depots {
        depot.await_log(&["INFO", "complete", &format!("bytes={SIZE}")]);
    }
}

#[test]
fn upstream_failure_is_seen_despite_slow_reader() {
    for mode in ["splice", "copy"] {
        let depot = Daemon::depot(&format!("copy = \"{mode}\""));
        let gate = Gate::default();
        let held = gate.clone();
        let origin = Scripted::new(move |mut stream, _| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n").unwrap();
            // Until nothing more is taken: every buffer up to the reader is full.
            stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
            let zeros = vec![0; 65_536];
            while stream.write_all(&zeros).is_ok() {}
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            drop(stream);
            held.open();
        });
        let client = ask(&depot, &origin.route("-", "/"));
        gate.wait();
        depot.await_log(&["WARN", "upstream failed at", "of 999999999 bytes"]);
        drop(client);
    }
}

#[test]
fn stopping_depot_finishes_transfers() {
    let mut depot = Daemon::depot("id = \"d1\"");
    let (gate, body) = (Gate::default(), noise(5, 200_000));
    let origin = halting(&body, &gate);
    let mut client = ask(&depot, &origin.route("-", "/"));
    client.read_exact(&mut [0; 12]).unwrap();
    let waiting = connect(depot.address);
    depot.signal(Signal::TERM);
    depot.await_log(&["stopping"]);
    // A connected client without a request gets 503; no other client can connect.
    let (head, ..) = read_answer(waiting);
    assert_eq!(status(&head), 503, "{head}");
    until("no other client can connect", || TcpStream::connect(depot.address).is_err());
    gate.open();
    let (_, got, end) = read_answer(client);
    assert!(end.is_ok());
    assert_eq!(sha256(&got), sha256(&body));
    assert_eq!(depot.wait().code(), Some(0));
    assert!(depot.log_text().contains("all transfers are finished"), "{}", depot.log_text());
}

#[test]
fn unaccepted_connections_get_503_at_stop() {
    let mut depot = Daemon::depot("");
    // Stopped, it accepts nothing: the kernel alone takes these. Then it learns of them and of
    // the signal at once.
    depot.signal(Signal::STOP);
    let waiting = [(); 8].map(|()| connect(depot.address));
    depot.signal(Signal::TERM);
    depot.signal(Signal::CONT);
    for client in waiting {
        let (head, _, end) = read_answer(client);
        assert_eq!(status(&head), 503, "{head}");
        assert!(end.is_ok(), "{end:?}");
    }
    assert_eq!(depot.wait().code(), Some(0));
}

#[test]
fn drain_time_is_bounded() {
    let mut depot = Daemon::depot("[timeouts]\ndrain = \"100ms\"");
    let gate = Gate::default();
    let origin = halting(&noise(6, 200_000), &gate);
    let mut client = ask(&depot, &origin.route("-", "/"));
    client.read_exact(&mut [0; 12]).unwrap();
    depot.signal(Signal::INT);
    assert_eq!(depot.wait().code(), Some(0));
    assert!(depot.log_text().contains("drain time is over"), "{}", depot.log_text());
    assert!(depot.log_text().contains("cut off: the depot stops"), "{}", depot.log_text());
    gate.open();
}

#[test]
fn killed_depot_leaves_no_body_that_looks_whole() {
    for kill in [false, true] {
        let mut depot = Daemon::depot("");
        let gate = Gate::default();
        let held = gate.clone();
        let origin = Scripted::new(move |mut stream, _| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").unwrap();
            held.wait();
        });
        let mut client = ask(&depot, &origin.route("-", "/"));
        let mut bytes = [0; 4096];
        let mut got = Vec::new();
        while !got.ends_with(b"half") {
            let n = client.read(&mut bytes).unwrap();
            got.extend_from_slice(&bytes[..n]);
        }
        if kill {
            depot.signal(Signal::KILL);
        } else {
            depot.signal(Signal::TERM);
            depot.await_log(&["stopping"]);
            depot.signal(Signal::TERM);
            assert_eq!(depot.wait().code(), Some(0));
        }
        // The body ends with the connection: only a reset tells that it is not whole.
        let error = client.read(&mut bytes).expect_err("a reset");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        gate.open();
    }
}
