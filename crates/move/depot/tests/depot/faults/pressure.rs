// SPDX-License-Identifier: GPL-2.0-or-later
//! A source as fast as it can be and a reader of 1 MB/s. (`memory.rs` watches a longer time, and what
//! the kernel holds.)

use super::ask;
use crate::common::{
    PATIENCE, held::resident, idle::Idle, noise, process::Daemon, scripted::Scripted, sha256,
};
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

/// `SO_SNDBUF` and `SO_RCVBUF` of every socket on the way. The kernel keeps twice that.
const BUFFER: usize = 256 << 10;
const PIPE: usize = 256 << 10;
const SIZE: usize = 48 << 20;
/// What the origin hands to its kernel at a time.
const PART: usize = 64 << 10;
/// Four sockets, the pipe (or buffer), and what the source has handed over and not yet counted.
const BETWEEN: usize = 4 * 2 * BUFFER + PIPE + PART;

/// A client with a small receive buffer, which has asked.
fn small_reader(depot: &Daemon, route: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(BUFFER).unwrap();
    socket.connect(&depot.address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

#[test]
fn slow_reader_slows_its_source() {
    let body = noise(121, SIZE);
    for mode in ["splice", "copy"] {
        let depot = Daemon::depot(&format!(
            "copy = \"{mode}\"\n[limits]\npipe = \"{PIPE}\"\n\
             [[hop]]\npeer = \"127.0.0.0/8\"\nsndbuf = \"{BUFFER}\"\nrcvbuf = \"{BUFFER}\""
        ));
        let (sent, bytes) = (Arc::new(AtomicUsize::new(0)), body.clone());
        let counted = Arc::clone(&sent);
        let origin = Scripted::new(move |mut stream, _| {
            SockRef::from(&stream).set_send_buffer_size(BUFFER).unwrap();
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").unwrap();
            for part in bytes.chunks(PART) {
                stream.write_all(part).unwrap();
                counted.fetch_add(part.len(), SeqCst);
            }
        });
        let idle = Idle::now([&depot]);
        let before = resident(depot.pid());
        let mut reader = small_reader(&depot, &origin.route("-", "/"));
        let mut got = Vec::new();
        let head = crate::common::scripted::read_head(&reader).unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let (mut ahead, mut grown) = (0, 0);
        for _ in 0..4 * 16 {
            let mut part = vec![0; PART];
            reader.read_exact(&mut part).unwrap();
            got.append(&mut part);
            std::thread::sleep(Duration::from_millis(1000 / 16));
            ahead = ahead.max(sent.load(SeqCst).saturating_sub(got.len()));
            grown = grown.max(resident(depot.pid()).saturating_sub(before));
        }
        println!("{mode}: at most {ahead} bytes ahead of the reader, {grown} bytes more memory");
        assert!(ahead <= BETWEEN, "{mode}: the source was {ahead} bytes ahead");
        assert!(ahead >= BUFFER, "{mode}: the source was never held back");
        assert!(grown < 4 << 20, "{mode}: {grown} bytes of memory for one transfer");
        reader.read_to_end(&mut got).unwrap();
        assert_eq!(sha256(&got), sha256(&body), "{mode}");
        depot.await_log(&["INFO", "complete", &format!("bytes={SIZE}")]);
        idle.again();
    }
}

#[test]
fn reader_leaving_under_backpressure_is_closed() {
    let depot = Daemon::depot("");
    let idle = Idle::now([&depot]);
    let (sent, counted) = std::sync::mpsc::channel();
    let origin = Scripted::new(move |mut stream, _| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n").unwrap();
        let zeros = vec![0; PART];
        let mut bytes = 0_usize;
        let error = loop {
            match stream.write_all(&zeros) {
                Ok(()) => bytes += PART,
                Err(error) => break error,
            }
        };
        sent.send((bytes, error.kind())).unwrap();
    });
    let mut reader = ask(&depot, &origin.route("-", "/"));
    reader.read_exact(&mut vec![0; 1 << 20]).unwrap();
    drop(reader);
    // The source is told at once, by a reset, not by its own patience.
    let (bytes, error) = counted.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(error, std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe));
    assert!(bytes < 99_999_999_999);
    depot.await_log(&["WARN", "client gone at", "of 99999999999 bytes"]);
    idle.again();
}
