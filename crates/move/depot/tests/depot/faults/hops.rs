// SPDX-License-Identifier: GPL-2.0-or-later
//! Next hops and clients that fail while a body goes up, and next hops that trickle.

use super::ask;
use crate::common::{
    PATIENCE,
    client::{connect, read_answer, status},
    held::resident,
    idle::Idle,
    noise,
    process::Daemon,
    scripted::{Scripted, read_head},
    sha256,
};
use longhaul_depot::{fetch_status, status::Transfer};
use socket2::{Domain, Socket, Type};
use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    sync::mpsc,
    time::Duration,
};
use testkit::until;

const OPEN: &str = "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\n\
                    local = true\nmethods = [\"GET\", \"PUT\"]";

/// Both ways of moving bytes.
fn depots(settings: &str) -> [Daemon; 2] {
    ["splice", "copy"]
        .map(|mode| Daemon::depot(&format!("id = \"d1\"\ncopy = \"{mode}\"\n{settings}\n{OPEN}")))
}

fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// A client that has sent the head of an upload and the first bytes of its body.
fn upload(depot: &Daemon, origin: &Scripted, fields: &str, body: &[u8]) -> TcpStream {
    let mut client = connect(depot.address);
    let route = origin.route("-", "/up");
    write!(client, "PUT {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n{fields}\r\n\r\n")
        .unwrap();
    client.write_all(body).unwrap();
    client
}

/// What an origin got of a body, and how that ended.
type Got = (Vec<u8>, std::io::Result<usize>);

/// An origin that reads an upload to the end of its connection and tells what it got.
fn collecting() -> (Scripted, mpsc::Receiver<Got>) {
    let (sender, got) = mpsc::channel();
    let origin = Scripted::new(move |mut stream, _| {
        let mut body = Vec::new();
        let end = stream.read_to_end(&mut body);
        sender.send((body, end)).unwrap();
    });
    (origin, got)
}

#[test]
fn truncated_upload_is_never_completed() {
    let body = noise(101, 300_000);
    for depot in depots("") {
        let idle = Idle::now([&depot]);
        for (fields, rude) in [
            ("Content-Length: 300001", false),
            ("Content-Length: 300001", true),
            ("Transfer-Encoding: chunked", false),
            ("Transfer-Encoding: chunked", true),
        ] {
            let chunked = fields.starts_with('T');
            let head = if chunked { "493e1\r\n" } else { "" };
            let (origin, got) = collecting();
            let text = [head.as_bytes(), &body].concat();
            let client = upload(&depot, &origin, fields, &text);
            origin.next_head();
            if rude {
                reset(client);
            } else {
                client.shutdown(Shutdown::Write).unwrap();
                // No client gets a success status.
                let (head, ..) = read_answer(client);
                assert!(![200, 201, 204].contains(&status(&head)), "{head}");
            }
            let (came, end) = got.recv_timeout(PATIENCE).unwrap();
            let error = end.expect_err("a reset, whatever the framing").kind();
            assert_eq!(error, ErrorKind::ConnectionReset, "{fields}, {rude}");
            assert!(text.starts_with(&came), "what came is right");
            depot.await_log(&["WARN", if rude { "client failed" } else { "client cut off" }]);
        }
        idle.again();
    }
}

#[test]
fn half_closed_client_with_whole_upload_is_answered() {
    let body = noise(102, 2_000_000);
    for depot in depots("") {
        let idle = Idle::now([&depot]);
        let origin = Scripted::new(|mut stream, head| {
            let mut body = vec![0; 2_000_000];
            stream.read_exact(&mut body).unwrap();
            assert!(head.contains("Content-Length: 2000000"), "{head}");
            // An answer that ends with the connection: the origin shuts its side, too.
            write!(stream, "HTTP/1.1 201 Created\r\n\r\n{}", sha256(&body)).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let _ = stream.read(&mut [0]);
        });
        let client = upload(&depot, &origin, "Content-Length: 2000000", &body);
        client.shutdown(Shutdown::Write).unwrap();
        let (head, answer, end) = read_answer(client);
        assert!(status(&head) == 201 && end.is_ok(), "{head} {end:?}");
        assert_eq!(String::from_utf8(answer).unwrap(), sha256(&body));
        depot.await_log(&["INFO", "ended", "status=201", "sent_bytes=2000000"]);
        idle.again();
    }
}

#[test]
fn origin_closing_during_upload_is_blamed() {
    // It shuts its sending side, or resets, without an answer, and the client still sends.
    let body = noise(103, 8 << 20);
    let fields = format!("Content-Length: {}", body.len());
    for depot in depots("") {
        let idle = Idle::now([&depot]);
        for rude in [false, true] {
            let origin = Scripted::new(move |mut stream, _| {
                stream.read_exact(&mut [0; 1000]).unwrap();
                if rude {
                    return reset(stream);
                }
                stream.shutdown(Shutdown::Write).unwrap();
                let _ = stream.read_to_end(&mut Vec::new());
            });
            let mut client = connect(depot.address);
            let mut writer = client.try_clone().unwrap();
            let route = origin.route("-", "/up");
            write!(client, "PUT {route} HTTP/1.1\r\nHost: d\r\n{fields}\r\n\r\n").unwrap();
            std::thread::scope(|scope| {
                // What is not taken any more is the client's to notice.
                scope.spawn(|| drop(writer.write_all(&body)));
                let head = read_head(&client).expect("an answer before the close");
                assert_eq!(status(&head), 502, "{head}");
                assert!(head.contains("d1; error=connection_terminated"), "{head}");
                let _ = client.shutdown(Shutdown::Both);
            });
            depot.await_log(&["WARN", "refused", "status=502", "connection_terminated"]);
        }
        idle.again();
    }
}

#[test]
fn early_answer_to_upload_is_relayed_whole() {
    let (body, answer) = (noise(104, 8 << 20), noise(105, 100_000));
    let fields = format!("Content-Length: {}", body.len());
    for depot in depots("") {
        let idle = Idle::now([&depot]);
        let refusal = answer.clone();
        let origin = Scripted::new(move |mut stream, _| {
            stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 100000\r\n\r\n").unwrap();
            stream.write_all(&refusal).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            // It reads on, so that nothing left unread turns its close into a reset.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let client = connect(depot.address);
        let (mut reader, mut writer) = (client.try_clone().unwrap(), client);
        let route = origin.route("-", "/up");
        write!(writer, "PUT {route} HTTP/1.1\r\nHost: d\r\n{fields}\r\n\r\n").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(writer.write_all(&body)));
            let head = read_head(&reader).expect("an answer");
            assert_eq!(status(&head), 413, "{head}");
            let mut got = vec![0; answer.len()];
            reader.read_exact(&mut got).unwrap();
            assert_eq!(sha256(&got), sha256(&answer));
            let _ = reader.shutdown(Shutdown::Both);
        });
        depot.await_log(&["status=413", "bytes=100000"]);
        idle.again();
    }
}

#[test]
fn origin_that_reads_no_upload_times_out() {
    let times = "[timeouts]\nclient_idle = \"300ms\"\nresponse_head = \"300ms\"\nidle = \"1h\"\n\
                 [[hop]]\npeer = \"127.0.0.0/8\"\nsndbuf = \"64KB\"\nrcvbuf = \"64KB\"";
    let body = noise(106, 16 << 20);
    let fields = format!("Content-Length: {}", body.len());
    for depot in depots(times) {
        let idle = Idle::now([&depot]);
        let (done, until) = mpsc::channel::<()>();
        let until = std::sync::Arc::new(std::sync::Mutex::new(until));
        let origin = Scripted::new(move |_stream, _| {
            let _ = until.lock().unwrap().recv();
        });
        let client = connect(depot.address);
        let mut writer = client.try_clone().unwrap();
        let route = origin.route("-", "/up");
        write!(&client, "PUT {route} HTTP/1.1\r\nHost: d\r\n{fields}\r\n\r\n").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(writer.write_all(&body)));
            let head = read_head(&client).expect("an answer");
            assert_eq!(status(&head), 504, "{head}");
            let _ = client.shutdown(Shutdown::Both);
        });
        depot.await_log(&["WARN", "refused", "status=504", "http_response_timeout"]);
        drop(done);
        idle.again();
    }
}

#[test]
fn origin_that_trickles_its_head_times_out() {
    let depot = Daemon::depot("id = \"d1\"\n[timeouts]\nresponse_head = \"300ms\"");
    let idle = Idle::now([&depot]);
    let origin = Scripted::new(|mut stream, _| {
        let head = b"HTTP/1.1 200 OK\r\nX: ".iter().chain(std::iter::repeat(&b'y'));
        for byte in head {
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let (head, ..) = read_answer(ask(&depot, &origin.route("-", "/")));
    assert_eq!(status(&head), 504, "{head}");
    depot.await_log(&["WARN", "status=504", "http_response_timeout"]);
    idle.again();
}

#[test]
fn reset_with_unread_bytes_is_logged_as_client_gone() {
    const SIZE: u64 = 400_000;
    let depot = Daemon::depot(
        "id = \"d1\"\nadmin.listen = \"127.0.0.1:0\"\n[[hop]]\npeer = \"127.0.0.0/8\"\nsndbuf = \"2MB\"",
    );
    let idle = Idle::now([&depot]);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n");
    let origin = Scripted::answering([answer.as_bytes(), &noise(108, SIZE as usize)].concat());
    let admin = depot.admin().to_string();
    // Kept for another request, or not.
    for fields in ["X: 1", "Connection: close"] {
        // So little room that most of it waits at the depot's side.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(8 << 10).unwrap();
        socket.connect(&depot.address.into()).unwrap();
        let mut client = TcpStream::from(socket);
        let route = origin.route("-", &format!("/{}", fields.len()));
        write!(client, "GET {route} HTTP/1.1\r\nHost: d\r\n{fields}\r\n\r\n").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        until("its kernel has it all", || {
            let status = fetch_status(&admin).unwrap().0;
            let sent = |transfer: &Transfer| transfer.down_bytes == SIZE;
            status.totals.requests["complete"] > 0 || status.transfers.iter().any(sent)
        });
        reset(client);
        depot.await_log(&["WARN", "client gone at 400000 of 400000 bytes", &route]);
        assert!(!depot.log_text().contains("complete"), "{}", depot.log_text());
    }
    idle.again();
}

/// Faults by the hundred: what each leaves behind adds up to nothing.
#[test]
fn repeated_faults_leak_no_descriptors() {
    const ROUNDS: usize = 300;
    /// Less than 2 KB a fault.
    const MOST: usize = ROUNDS * 4 * (2 << 10);
    let body = noise(107, 100_000);
    for depot in depots("") {
        let idle = Idle::now([&depot]);
        let part = body.clone();
        let origin = Scripted::new(move |mut stream, head| {
            if head.starts_with("PUT") {
                let _ = stream.read_exact(&mut [0; 1000]);
                return reset(stream);
            }
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n").unwrap();
            let _ = stream.write_all(&part);
            match head.split(' ').nth(1).unwrap() {
                "/reset" => reset(stream),
                "/cut" => {}
                // Until the client has gone.
                _ => drop(stream.read(&mut [0])),
            }
        });
        let round = || {
            for fault in ["/reset", "/cut"] {
                let (_, got, _) = read_answer(ask(&depot, &origin.route("-", fault)));
                assert!(got.len() < 200_000 && body.starts_with(&got), "{fault}");
            }
            let mut client = ask(&depot, &origin.route("-", "/gone"));
            client.read_exact(&mut vec![0; 20_000]).unwrap();
            reset(client);
            let client = upload(&depot, &origin, "Content-Length: 200000", &body);
            assert_ne!(status(&read_answer(client).0), 200);
        };
        (0..ROUNDS / 4).for_each(|_| round());
        idle.again();
        let before = resident(depot.pid());
        (0..ROUNDS).for_each(|_| round());
        idle.again();
        let grown = resident(depot.pid()).saturating_sub(before);
        println!("{ROUNDS} rounds of four faults: {grown} bytes more");
        assert!(grown < MOST, "{grown} bytes in {ROUNDS} rounds");
    }
}
