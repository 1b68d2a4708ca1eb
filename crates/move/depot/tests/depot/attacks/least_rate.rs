// SPDX-License-Identifier: GPL-2.0-or-later
//! Clients that take or send a byte now and then, so that no idle time ever ends, and clients over TLS
//! that take nothing at all. And those that are slow through no fault of theirs.

use super::open_depot;
use crate::common::{
    PATIENCE,
    client::{connect, read_answer, status},
    noise,
    pki::Pki,
    process::Daemon,
    scripted::{Scripted, read_head},
};
use socket2::{Domain, Socket, Type};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

/// 10 KB in a second, at least.
const LEAST: &str = "[limits]\nleast_rate = \"80kbit\"\nleast_time = \"1s\"\n";
/// How long tolerated clients here are slow: several times the limit.
const LONG: Duration = Duration::from_millis(3_500);
/// Send buffers that hold little.
const NARROW: &str = "[[hop]]\npeer = \"127.0.0.0/8\"\nsndbuf = \"4KB\"\n";

/// A connection of which the kernel takes little before it is read.
fn narrow(to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn secured(pki: &Pki, tcp: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.roots()).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(tls, tcp)
}

fn with_length(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn chunked(body: &[u8]) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    [format!("{head}{:x}\r\n", body.len()).as_bytes(), body, b"\r\n0\r\n\r\n"].concat()
}

/// Reads a byte now and then until there is no more to read; says when it was cut off.
fn sip(mut client: impl Read + Send + 'static) {
    thread::spawn(move || {
        while client.read(&mut [0; 1]).is_ok_and(|length| length > 0) {
            thread::sleep(Duration::from_millis(50));
        }
    });
}

#[test]
fn slow_readers_are_aborted() {
    let pki = Pki::new();
    let allow = "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\n\
                 local = true\n";
    let plain = open_depot(LEAST);
    let tls = Daemon::depot_with(&pki.settings("own", LEAST).replacen(
        "[tls]",
        &format!("{allow}[tls]"),
        1,
    ));
    let (long, short) = (noise(1, 40 << 20), noise(2, 200_000));
    let hints = format!("HTTP/1.1 103 Early Hints\r\nLink: </{}>\r\n\r\n", "x".repeat(60_000));
    // Of a short answer the depot's kernel has all, and the depot waits for its end.
    let answers = [
        ("/long", with_length(&long)),
        ("/chunked", chunked(&long)),
        ("/short", with_length(&short)),
        ("/interim", [hints.repeat(16).as_bytes(), &with_length(b"")].concat()),
    ];
    let (mut origins, mut names) = (Vec::new(), Vec::new());
    for (path, answer) in answers {
        let origin = Scripted::answering(answer);
        for then in ["", "Connection: close\r\n"] {
            let name = format!("{path}{}", then.len());
            let request =
                format!("GET {} HTTP/1.1\r\nHost: d\r\n{then}\r\n", origin.route("-", &name));
            let mut client = narrow(plain.address);
            client.write_all(request.as_bytes()).unwrap();
            sip(client);
            let mut client = secured(&pki, narrow(tls.address));
            client.write_all(request.as_bytes()).unwrap();
            sip(client);
            names.push(name);
        }
        origins.push(origin);
    }
    for name in names {
        for depot in [&plain, &tls] {
            let line = depot.await_log(&["WARN", &format!("{name}\"")]);
            let said = ["client stalled", "it took less than `limits.least_rate`"];
            assert!(said.iter().all(|said| line.contains(said)), "{line}");
        }
    }
}

#[test]
fn slow_uploaders_are_aborted() {
    let depot = open_depot(LEAST);
    for (name, framing, begin, drop_of) in [
        ("/length", "Content-Length: 1000000", "", "x"),
        ("/chunks", "Transfer-Encoding: chunked", "", "1\r\nx\r\n"),
        ("/in-a-chunk", "Transfer-Encoding: chunked", "fffff\r\n", "x"),
        ("/in-its-head", "Transfer-Encoding: chunked", "1\r\nx\r\n5;", "x"),
    ] {
        let (sender, ends) = mpsc::channel();
        let origin = Scripted::new(move |mut stream, _| {
            sender.send(stream.read_to_end(&mut Vec::new())).unwrap();
        });
        let mut client = connect(depot.address);
        let route = origin.route("-", name);
        write!(client, "PUT {route} HTTP/1.1\r\nHost: d\r\n{framing}\r\n\r\n{begin}").unwrap();
        let mut dripping = client.try_clone().unwrap();
        thread::spawn(move || {
            while dripping.write_all(drop_of.as_bytes()).is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
        });
        let line = depot.await_log(&["WARN", &format!("{name}\"")]);
        let said = ["client stalled", "it sent less than `limits.least_rate`"];
        assert!(said.iter().all(|said| line.contains(said)), "{line}");
        // A reset, so that the part is not taken for all.
        assert!(ends.recv_timeout(PATIENCE).unwrap().is_err(), "{name}");
    }
}

#[test]
fn clients_waiting_for_others_are_tolerated() {
    let depot = open_depot(LEAST);
    let drip = |mut stream: &TcpStream| {
        let begun = std::time::Instant::now();
        let mut length = 0;
        while begun.elapsed() < LONG {
            stream.write_all(b"4\r\ndrop\r\n").unwrap();
            length += 4;
            thread::sleep(Duration::from_millis(100));
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
        length
    };
    // An origin that sends slowly.
    let origin = Scripted::new(move |mut stream, _| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        drip(&stream);
    });
    let slow = thread::spawn({
        let (to, route) = (depot.address, origin.route("-", "/slow-answer"));
        move || crate::common::client::get(to, &route)
    });
    // One that takes an upload slowly, and one that has it wait before.
    let lazy = Scripted::new(|mut stream, head| {
        thread::sleep(LONG);
        if head.contains("100-continue") {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        }
        let length: u64 = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "))
            .and_then(|length| length.parse().ok())
            .unwrap();
        std::io::copy(&mut (&stream).take(length), &mut std::io::sink()).unwrap();
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    });
    for (fields, length) in [("", 40 << 20), ("Expect: 100-continue\r\n", 1000)] {
        // Made before the depot counts the client's time: it takes a while.
        let body = noise(3, length);
        let mut client = connect(depot.address);
        let route = lazy.route("-", "/upload");
        let head = format!("PUT {route} HTTP/1.1\r\nHost: d\r\nContent-Length: {length}");
        write!(client, "{head}\r\nConnection: close\r\n{fields}\r\n").unwrap();
        if !fields.is_empty() {
            assert_eq!(status(&read_head(&client).unwrap()), 100);
        }
        let mut sender = client.try_clone().unwrap();
        let sender = thread::spawn(move || sender.write_all(&body));
        let (head, ..) = read_answer(client);
        assert_eq!(status(&head), 204, "{head}");
        sender.join().unwrap().unwrap();
    }
    let (head, body, end) = slow.join().unwrap();
    assert!(status(&head) == 200 && body.ends_with(b"0\r\n\r\n") && end.is_ok(), "{head}");
    assert!(!depot.log_text().contains("least_rate"), "{}", depot.log_text());
}

#[test]
fn default_least_rate_aborts_readers_except_depots() {
    let time = "[limits]\nleast_time = \"1s\"\n";
    let (depot, off) = (open_depot(time), open_depot(&format!("{time}least_rate = \"off\"\n")));
    let trusting = open_depot(&format!("{LEAST}[trust]\ndepots = [\"127.0.0.0/8\"]\n"));
    let origin = Scripted::answering(with_length(&noise(6, 40 << 20)));
    for depot in [&depot, &off, &trusting] {
        let mut client = narrow(depot.address);
        write!(client, "GET {} HTTP/1.1\r\nHost: d\r\n\r\n", origin.route("-", "/sip")).unwrap();
        sip(client);
    }
    depot.await_log(&["WARN", "client stalled", "it took less than `limits.least_rate`"]);
    // An upload that comes as slowly is passed on as it comes.
    let taking = Scripted::new(|mut stream, _| {
        let mut body = vec![0; 4];
        stream.read_exact(&mut body).unwrap();
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    });
    let mut client = connect(depot.address);
    let route = taking.route("-", "/upload");
    write!(client, "PUT {route} HTTP/1.1\r\nHost: d\r\nContent-Length: 4\r\n\r\n").unwrap();
    for _ in 0..4 {
        thread::sleep(LONG / 4);
        client.write_all(b"x").unwrap();
    }
    assert_eq!(status(&read_head(&client).unwrap()), 204);
    for depot in [&off, &trusting] {
        assert!(!depot.log_text().contains("client stalled"), "{}", depot.log_text());
    }
}

#[test]
fn client_with_lower_depot_rate_is_tolerated() {
    let depot = open_depot(&format!("{LEAST}client_rate = \"40kbit\"\n"));
    let body = noise(4, 20_000);
    let origin = Scripted::answering(with_length(&body));
    let (head, got, _) = crate::common::client::get(depot.address, &origin.route("-", "/"));
    assert_eq!((status(&head), got.len()), (200, body.len()));
    depot.await_log(&["complete"]);
}

#[test]
fn tls_client_that_reads_nothing_is_closed() {
    let pki = Pki::new();
    let depot = pki.depot("timeouts.client_idle = \"500ms\"");
    let narrow_depot = Daemon::depot_with(&format!(
        "{}{NARROW}[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\n\
         local = true\n",
        pki.settings("own", "timeouts.client_idle = \"500ms\"")
    ));
    let (mut clients, mut origins) = (Vec::new(), Vec::new());
    // What is left of it waits in the kernel, in TLS, or in the depot.
    for length in [3_000, 12_000, 30_000, 60_000, 200_000, 20 << 20] {
        let body = noise(5, length);
        for (framing, answer) in [("l", with_length(&body)), ("c", chunked(&body))] {
            let origin = Scripted::answering(answer);
            for then in ["", "Connection: close\r\n"] {
                let name = format!("/{length}{framing}{}", then.len());
                for depot in [&depot, &narrow_depot] {
                    let mut client = secured(&pki, narrow(depot.address));
                    let route = origin.route("-", &name);
                    write!(client, "GET {route} HTTP/1.1\r\nHost: d\r\n{then}\r\n").unwrap();
                    clients.push((depot, client, length, name.clone()));
                }
            }
            origins.push(origin);
        }
    }
    for (depot, client, length, name) in clients {
        let line = depot.await_log(&[&format!("{name}\"")]);
        // A little may all be in the client's kernel, for all that the depot can know.
        assert!(length < 20_000 || line.contains("client stalled"), "{line}");
        drop(client);
    }
}
