// SPDX-License-Identifier: GPL-2.0-or-later
//! A next hop that resets its connection. The kernel reports a reset once, to the first read, write or query.
//! The end that follows must not be taken for an orderly one.

use crate::common::{
    PATIENCE,
    process::Daemon,
    scripted::{Gate, Scripted},
};
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::Duration,
};

/// More than a depot, and the buffers of all sockets on the way, hold.
const BODY: usize = 64 << 20;

/// Depots that may reach everything here.
const LOOPBACK: &str = "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\n\
    local = true\nmethods = [\"GET\", \"POST\"]\n";

/// A client that takes little at a time.
fn client(depot: &Daemon) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&depot.address.into()).unwrap();
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// An upload whose next hop answers before it has all, with a body that ends with the connection, and resets
/// in the middle of it.
fn ends(depot: &Daemon, chunked: bool) -> std::io::Result<usize> {
    let (went, gone) = (Gate::default(), std::sync::mpsc::channel());
    let (told, sender) = (gone.1, gone.0);
    let script = went.clone();
    let origin = Scripted::new(move |mut stream, _| {
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        // Until the peer reads no more.
        assert!(stream.write_all(&vec![b'x'; BODY]).is_err());
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        drop(stream);
        sender.send(()).unwrap();
        script.wait();
    });
    let route = origin.route("-", "/f");
    let mut client = client(depot);
    let framing = if chunked { "Transfer-Encoding: chunked" } else { "Content-Length: 100000" };
    let head = format!("POST {route} HTTP/1.1\r\nHost: depot\r\n{framing}\r\n\r\n");
    client.write_all(head.as_bytes()).unwrap();
    told.recv_timeout(PATIENCE).unwrap();
    // What is written now meets the reset; nothing tells when it has, and where the answer meets it first,
    // this is the easier case.
    let piece: &[u8] = if chunked { b"4\r\nmore\r\n" } else { b"more" };
    for _ in 0..20 {
        client.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    went.open();
    let (mut taken, mut buffer) = (0, vec![0; 65_536]);
    loop {
        match client.read(&mut buffer)? {
            0 => return Ok(taken),
            length => taken += length,
        }
    }
}

#[test]
fn reset_seen_by_upload_is_not_an_orderly_end() {
    for relay in ["splice", "copy"] {
        let depot = Daemon::depot(&format!("copy = \"{relay}\"\n{LOOPBACK}"));
        for chunked in [false, true] {
            let end = ends(&depot, chunked);
            let reset = end.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset);
            assert!(reset, "relay {relay}, chunked {chunked}: {end:?}");
        }
    }
}

/// The depot waits for a moment for what follows a head, and the reset may fall into that moment.
#[test]
fn reset_after_head_is_not_an_orderly_end() {
    for relay in ["splice", "copy"] {
        let depot = Daemon::depot(&format!("copy = \"{relay}\"\n{LOOPBACK}"));
        for round in 0..60 {
            let behind = Duration::from_micros(50 * round);
            let origin = Scripted::new(move |mut stream, _| {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                std::thread::sleep(behind);
                SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
            });
            let mut client = client(&depot);
            let route = origin.route("-", "/f");
            write!(client, "GET {route} HTTP/1.1\r\nHost: depot\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            let end = client.read_to_end(&mut answer);
            // Where the reset overtook the head, the depot says so in an answer of its own.
            let refused = answer.starts_with(b"HTTP/1.1 502 ");
            let reset = end.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset);
            assert!(refused || reset, "relay {relay}, {behind:?}: {}", answer.escape_ascii());
        }
    }
}
