// SPDX-License-Identifier: GPL-2.0-or-later
//! What all transfers of a client together are held to, as the kernel says it back.

use crate::common::{
    client::{connect, connect_from, read_answer, status},
    noise,
    process::Daemon,
    scripted::{Gate, Scripted, halting, read_head},
};
use longhaul_depot::status::{Tcp, Transfer};
use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
};
use testkit::until;

/// What a client may have, and a half and a quarter of it.
const ALL: u64 = 800_000_000;
const HALF: u64 = ALL / 2;
const QUARTER: u64 = ALL / 4;

const ADMIN: &str = "admin.listen = \"127.0.0.1:0\"\n";
const OPEN: &str = "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\n\
                    local = true\nmethods = [\"GET\", \"PUT\"]\n";
const RATE: &str = "limits.client_rate = \"800mbit\"\n";

/// A depot with a rate limit for clients, and with further sections.
fn limited(more: &str) -> Daemon {
    Daemon::depot(&format!("{ADMIN}{RATE}{OPEN}{more}"))
}

/// A connection from an address of choice, on which something has been asked.
fn ask(from: &str, depot: &Daemon, request: &str) -> TcpStream {
    let mut stream = connect_from(from, depot.address);
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// A download that is under way, and halts in its middle until its gate is opened.
struct Download {
    gate: Gate,
    client: TcpStream,
    _origin: Scripted,
}

impl Download {
    fn begin(from: &str, depot: &Daemon) -> Self {
        let gate = Gate::default();
        let origin = halting(&noise(1, 100_000), &gate);
        let route = origin.route("-", "/f");
        let get = format!("GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n");
        let client = ask(from, depot, &get);
        let head = read_head(&client).unwrap();
        assert_eq!(status(&head), 200, "{head}");
        Self { gate, client, _origin: origin }
    }

    /// Its other half comes, and the depot is done with it.
    fn end(mut self) {
        self.gate.open();
        let got = std::io::copy(&mut self.client, &mut std::io::sink()).unwrap();
        assert_eq!(got, 100_000);
    }
}

/// To what a depot's transfers are held, oldest first: towards the client, and the next hop.
fn held(depot: &Daemon) -> Vec<[Option<u64>; 2]> {
    let pacing = |tcp: &Option<Tcp>| tcp.as_ref().and_then(|tcp| tcp.pacing_bps);
    let status = depot.status();
    status.transfers.iter().map(|t| [pacing(&t.client_tcp), pacing(&t.upstream_tcp)]).collect()
}

/// Awaits that they are held to these rates, both ways.
fn await_held(depot: &Daemon, rates: &[u64]) {
    let expected: Vec<_> = rates.iter().map(|rate| [Some(*rate); 2]).collect();
    let mut last = Vec::new();
    until(&format!("transfers are held to {rates:?}"), || {
        last = held(depot);
        last == expected
    });
}

#[test]
fn transfers_of_a_client_share_its_rate_while_they_last() {
    let depot = limited("");
    let first = Download::begin("127.0.0.1", &depot);
    assert_eq!(held(&depot), [[Some(ALL); 2]]);
    let second = Download::begin("127.0.0.1", &depot);
    assert_eq!(held(&depot), [[Some(HALF); 2]; 2]);
    // Another client has a rate of its own.
    let other = Download::begin("127.0.0.2", &depot);
    assert_eq!(held(&depot), [[Some(HALF); 2], [Some(HALF); 2], [Some(ALL); 2]]);
    first.end();
    await_held(&depot, &[ALL, ALL]);
    other.end();
    second.end();
    // And the log says what was in force at the end.
    for from in ["127.0.0.1", "127.0.0.2"] {
        let client = format!("client=\"{from}:");
        depot.await_log(&["complete", &client, &format!("client_pacing_bps={ALL}")]);
    }
    depot.await_log(&["complete", &format!("client_pacing_bps={HALF}")]);
}

#[test]
fn uploads_share_the_rate_of_downloads() {
    let depot = limited("");
    let origin = Scripted::new(|mut stream, _| {
        stream.read_exact(&mut vec![0; 100_000]).unwrap();
        stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let put = format!(
        "PUT {} HTTP/1.1\r\nHost: d\r\nContent-Length: 100000\r\nConnection: close\r\n\r\n",
        origin.route("-", "/f")
    );
    let mut upload = ask("127.0.0.1", &depot, &put);
    await_held(&depot, &[ALL]);
    let download = Download::begin("127.0.0.1", &depot);
    await_held(&depot, &[HALF, HALF]);
    download.end();
    await_held(&depot, &[ALL]);
    upload.write_all(&noise(3, 100_000)).unwrap();
    assert_eq!(status(&read_answer(upload).0), 201);
    depot.await_log(&["complete", "sent_bytes=100000", &format!("upstream_pacing_bps={ALL}")]);
}

#[test]
fn lower_of_hop_rate_and_share_applies() {
    let depot = limited("[[hop]]\npeer = \"127.0.0.2/32\"\npacing = \"320mbit\"");
    let first = Download::begin("127.0.0.2", &depot);
    let paced = Some(320_000_000);
    // The next hop is another peer.
    assert_eq!(held(&depot), [[paced, Some(ALL)]]);
    let second = Download::begin("127.0.0.2", &depot);
    assert_eq!(held(&depot), [[paced, Some(HALF)]; 2]);
    let third = Download::begin("127.0.0.2", &depot);
    // The kernel counts whole bytes.
    assert_eq!(held(&depot), [[Some(ALL / 3 / 8 * 8); 2]; 3]);
    for download in [first, second, third] {
        download.end();
    }
}

#[test]
fn striped_connections_share_the_rate() {
    let far = limited("");
    let near = Daemon::depot(&format!(
        "id = \"near\"\n{ADMIN}[[hop]]\npeer = \"127.0.0.0/8\"\nstreams = 4"
    ));
    let (gate, body) = (Gate::default(), noise(2, 3_000_000));
    let origin = halting(&body, &gate);
    let route = origin.route(&far.authority(), "/f");
    let mut client = ask("127.0.0.1", &near, &format!("GET {route} HTTP/1.1\r\nHost: d\r\n\r\n"));
    let joined = |transfer: &Transfer| transfer.client_tcp.as_ref().map(|tcp| tcp.streams);
    until("connections join", || far.status().transfers.first().and_then(joined) == Some(4));
    assert_eq!(held(&far), [[Some(QUARTER), Some(ALL)]]);
    // All four are this depot's one client, and so is every request from its address.
    let other = Download::begin("127.0.0.1", &far);
    assert_eq!(held(&far), [[Some(QUARTER / 2), Some(HALF)], [Some(HALF); 2]]);
    other.end();
    until("the rest is given back", || held(&far) == [[Some(QUARTER), Some(ALL)]]);
    gate.open();
    read_head(&client).unwrap();
    let mut got = vec![0; body.len()];
    client.read_exact(&mut got).unwrap();
    assert!(got == body);
    // The first has all of it again when the others have gone.
    far.await_log(&["complete", &format!("client_pacing_bps={ALL}"), "client_streams=4"]);
}

#[test]
fn kept_connection_gets_the_next_rate() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("depot.toml");
    let depot = of_file(&file, RATE);
    let served = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";
    let origin = Scripted::new(move |mut stream, _| {
        stream.write_all(served.as_bytes()).unwrap();
        while read_head(&stream).is_some() {
            stream.write_all(served.as_bytes()).unwrap();
        }
    });
    let mut client = connect(depot.address);
    let mut ask = |name: &str| {
        let route = origin.route("-", name);
        write!(client, "GET {route} HTTP/1.1\r\nHost: d\r\n\r\n").unwrap();
        read_head(&client).unwrap();
        client.read_exact(&mut [0; 6]).unwrap();
        depot.await_log(&["complete", &format!("{name}\"")])
    };
    let line = ask("/first");
    let both = |rate| [format!("client_pacing_bps={rate}"), format!("upstream_pacing_bps={rate}")];
    assert!(both(ALL).iter().all(|said| line.contains(said)), "{line}");
    // Both connections are used again, while the client has another transfer.
    let other = Download::begin("127.0.0.1", &depot);
    let line = ask("/beside");
    assert!(both(HALF).iter().all(|said| line.contains(said)), "{line}");
    other.end();
    await_held(&depot, &[]);
    let line = ask("/alone");
    assert!(both(ALL).iter().all(|said| line.contains(said)), "{line}");
    assert!(origin.next_head().contains("/first") && origin.try_next_head().is_none());
    reload(&depot, &file, "limits.client_rate = \"400mbit\"\n");
    let line = ask("/second");
    assert!(both(HALF).iter().all(|said| line.contains(said)), "{line}");
    reload(&depot, &file, "");
    let line = ask("/third");
    assert!(!line.contains("pacing_bps"), "{line}");
}

/// A depot with this configuration file.
fn of_file(file: &Path, rate: &str) -> Daemon {
    Daemon::of_file(file, &configuration(rate))
}

fn configuration(rate: &str) -> String {
    format!("listen = [\"127.0.0.1:0\"]\nidle_connections.idle = \"60s\"\n{ADMIN}{rate}{OPEN}")
}

/// Has the depot read that file again, with another rate.
fn reload(depot: &Daemon, file: &Path, rate: &str) {
    depot.read_again(file, &configuration(rate));
}

#[test]
fn reloaded_rate_applies_to_running_transfers() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("depot.toml");
    let depot = of_file(&file, "");
    let free = Download::begin("127.0.0.1", &depot);
    assert_eq!(held(&depot), [[None; 2]]);
    reload(&depot, &file, RATE);
    // What began while there was no rate is held to its part, too.
    assert_eq!(held(&depot), [[Some(ALL); 2]]);
    let first = Download::begin("127.0.0.1", &depot);
    assert_eq!(held(&depot), [[Some(HALF); 2]; 2]);
    reload(&depot, &file, "limits.client_rate = \"400mbit\"\n");
    assert_eq!(held(&depot), [[Some(QUARTER); 2]; 2]);
    reload(&depot, &file, "");
    assert_eq!(held(&depot), [[None; 2]; 2]);
    for download in [free, first] {
        download.end();
    }
}
