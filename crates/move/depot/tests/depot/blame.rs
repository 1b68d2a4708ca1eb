// SPDX-License-Identifier: GPL-2.0-or-later
//! Whose fault it was: in a chain whose depots have equal time-outs, and where an exchange ends at its
//! last byte.

use crate::common::{
    client::{connect, get, read_answer, run, status},
    noise,
    process::Daemon,
    refusing_address,
    scripted::{Scripted, read_head},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::mpsc,
    time::{Duration, Instant},
};
use testkit::until;

/// So many depots in a row with these settings, the one nearest to the client first, and the others as a
/// route names them.
fn chain(ids: &[&str], settings: &str) -> (Vec<Daemon>, String) {
    let methods = "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\n\
                   local = true\nmethods = [\"GET\", \"PUT\"]\n";
    let depot = |id: &&str| Daemon::depot(&format!("id = \"{id}\"\n{settings}\n{methods}"));
    let depots: Vec<Daemon> = ids.iter().map(depot).collect();
    let through: Vec<String> = depots[1..].iter().map(Daemon::authority).collect();
    (depots, through.join(","))
}

/// An origin that sends this, and nothing more.
fn freezing(part: &'static str) -> Scripted {
    Scripted::new(move |mut stream, _| {
        stream.write_all(part.as_bytes()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

const IMPATIENT: &str = "[timeouts]\nconnect = \"300ms\"\nresponse_head = \"400ms\"\n\
                         idle = \"400ms\"\nclient_idle = \"500ms\"";

#[test]
fn silent_origin_is_named_by_its_depot() {
    for ids in [&["near", "far"][..], &["near", "middle", "far"]] {
        let (depots, through) = chain(ids, IMPATIENT);
        let (head, ..) = get(depots[0].address, &freezing("").route(&through, "/"));
        assert_eq!(status(&head), 504, "{head}");
        let said = head.lines().find(|line| line.starts_with("Proxy-Status: ")).unwrap();
        assert!(said.starts_with("Proxy-Status: far; error=http_response_timeout"), "{head}");
        let (last, others) = depots.split_last().unwrap();
        last.await_log(&["refused", "status=504", "did not answer within 0.4 s"]);
        for depot in others {
            depot.await_log(&[
                "upstream refused",
                "status=504",
                "far reports http_response_timeout",
            ]);
        }
    }
}

#[test]
fn origin_stalled_in_body_is_named_by_its_depot() {
    for part in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        let (depots, through) = chain(&["near", "middle", "far"], IMPATIENT);
        let (head, body, _) = get(depots[0].address, &freezing(part).route(&through, "/"));
        assert_eq!(status(&head), 200, "{head}");
        assert!(!body.ends_with(b"0\r\n\r\n"), "a part is not the whole");
        depots[2].await_log(&["WARN", "upstream stalled"]);
        for depot in &depots[..2] {
            depot.await_log(&["WARN", "upstream cut off"]);
        }
    }
}

#[test]
fn upload_not_read_by_origin_is_origin_failure() {
    let (depots, through) =
        chain(&["near", "far"], &format!("{IMPATIENT}\n[log]\nformat = \"json\""));
    let origin = Scripted::new(|stream, _| {
        // It takes nothing until the depot gives it up.
        let _ = stream.set_read_timeout(Some(Duration::from_secs(3)));
        let mut head = [0; 1];
        while stream.peek(&mut head).is_ok_and(|length| length > 0) {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let mut client = connect(depots[0].address);
    let route = origin.route(&through, "/");
    write!(client, "PUT {route} HTTP/1.1\r\nHost: d\r\nContent-Length: 100000000\r\n\r\n").unwrap();
    let mut sender = client.try_clone().unwrap();
    std::thread::spawn(move || {
        let piece = noise(7, 1 << 20);
        while sender.write_all(&piece).is_ok() {}
    });
    let head = read_head(&client).unwrap();
    assert_eq!(status(&head), 504, "{head}");
    assert!(head.contains("Proxy-Status: far; error=http_response_timeout"), "{head}");
    let line = depots[1].await_log(&["\"outcome\":\"upstream_stalled\"", "\"status\":504"]);
    assert!(line.contains("upstream stalled after ") && line.contains("refused: "), "{line}");
    drop(client);
}

#[test]
fn upload_closed_by_origin_is_origin_failure() {
    let (depots, _) = chain(&["near"], "log.format = \"json\"");
    let depot = &depots[0];
    let origin = Scripted::new(|mut stream, _| {
        // Then it closes, in good order or by a reset.
        let mut some = vec![0; 1 << 20];
        let _ = stream.read_exact(&mut some);
    });
    let body = noise(8, 32 << 20);
    for framing in ["Content-Length: 33554432", "Transfer-Encoding: chunked"] {
        let mut client = connect(depot.address);
        let route = origin.route("-", "/");
        write!(client, "PUT {route} HTTP/1.1\r\nHost: d\r\n{framing}\r\n\r\n").unwrap();
        let (mut sender, body) = (client.try_clone().unwrap(), body.clone());
        std::thread::spawn(move || {
            let _ = write!(sender, "2000000\r\n").and_then(|()| sender.write_all(&body));
        });
        let head = read_head(&client).unwrap();
        assert_eq!(status(&head), 502, "{head}");
        depot.await_log(&[
            "\"outcome\":\"upstream_gone\"",
            "\"status\":502",
            "upstream gone after ",
        ]);
    }
    // Uploads to an unreachable origin are refused as usual.
    let nobody = refusing_address();
    let mut client = connect(depot.address);
    let head = format!("PUT /lh1/fetch/-/http:{nobody}/ HTTP/1.1\r\nHost: d\r\nContent-Length: 1");
    write!(client, "{head}\r\n\r\nx").unwrap();
    assert_eq!(status(&read_answer(client).0), 502);
    depot.await_log(&["\"outcome\":\"refused\"", "\"status\":502"]);
}

/// Closes a connection by a reset.
fn reset(client: TcpStream) {
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
}

/// A depot whose kernel takes all of an answer at once, and a client that has asked for it, and whose
/// kernel takes little.
fn handed_over(length: usize, then: &str) -> (Daemon, TcpStream) {
    let depot = Daemon::depot(
        "admin.listen = \"127.0.0.1:0\"\n[[hop]]\npeer = \"127.0.0.0/8\"\nsndbuf = \"2MB\"",
    );
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    answer.extend_from_slice(&noise(9, length));
    let origin = Scripted::answering(answer);
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(8 << 10).unwrap();
    socket.connect(&depot.address.into()).unwrap();
    let mut client: TcpStream = socket.into();
    write!(client, "GET {} HTTP/1.1\r\nHost: d\r\n{then}\r\n", origin.route("-", "/")).unwrap();
    until("all is handed over", || {
        depot.status().transfers.iter().any(|transfer| transfer.down_bytes == length as u64)
    });
    (depot, client)
}

/// Whether all that a depot has sent to a client is acknowledged.
fn is_acknowledged(client: &TcpStream) -> bool {
    let (depot, client) = (client.peer_addr().unwrap(), client.local_addr().unwrap());
    let output =
        run("ss", "iproute2", &["-Htn", "src", &depot.to_string(), "dst", &client.to_string()]);
    let text = String::from_utf8(output.stdout).unwrap();
    // The state, what has come, and what is not acknowledged.
    text.lines().all(|line| line.split_whitespace().nth(2) == Some("0"))
}

#[test]
fn client_closing_after_whole_body_is_served() {
    const LENGTH: usize = 400_000;
    for then in ["", "Connection: close\r\n"] {
        for _ in 0..3 {
            let (depot, mut client) = handed_over(LENGTH, then);
            // The depot looks less and less often.
            std::thread::sleep(Duration::from_millis(200));
            read_head(&client).unwrap();
            client.read_exact(&mut vec![0; LENGTH]).unwrap();
            until("it is acknowledged", || is_acknowledged(&client));
            reset(client);
            depot.await_log(&["complete", &format!("bytes={LENGTH}")]);
            assert!(!depot.log_text().contains("WARN"), "{}", depot.log_text());
        }
    }
}

#[test]
fn client_leaving_early_is_logged_incomplete() {
    const LENGTH: usize = 400_000;
    for then in ["", "Connection: close\r\n"] {
        let (depot, client) = handed_over(LENGTH, then);
        reset(client);
        let line = depot.await_log(&["WARN", "client gone at "]);
        assert!(line.contains("it has not acknowledged the last "), "{line}");
    }
}

/// An origin that sends for so long, as `framing` says, as much as is taken. Then it gives up by a reset,
/// and says so.
fn endless(framing: &'static str, patience: Duration) -> (Scripted, mpsc::Receiver<()>) {
    let (sender, gave_up) = mpsc::channel();
    let origin = Scripted::new(move |mut stream, _| {
        let piece = vec![b'x'; 0xffff];
        let chunk = [b"ffff\r\n", &piece[..], b"\r\n"].concat();
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
        stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        let bytes = if framing.contains("chunked") { &chunk } else { &piece };
        let begun = Instant::now();
        let mut at = 0;
        while begun.elapsed() < patience {
            at += stream.write(&bytes[at..]).unwrap_or(0);
            at %= bytes.len();
        }
        reset(stream);
        let _ = sender.send(());
    });
    (origin, gave_up)
}

/// A client that asks, takes a little, and stops.
fn stopped(depot: &Daemon, route: &str) -> TcpStream {
    let mut client = connect(depot.address);
    write!(client, "GET {route} HTTP/1.1\r\nHost: d\r\n\r\n").unwrap();
    client.read_exact(&mut [0; 1000]).unwrap();
    client
}

#[test]
fn slow_client_is_blamed_only_by_its_depot() {
    let (depots, through) = chain(&["near", "far"], IMPATIENT);
    let framings = ["Content-Length: 999999999999", "Transfer-Encoding: chunked"];
    let origins = framings.map(|framing| endless(framing, crate::common::PATIENCE));
    let clients: Vec<_> = (0..10)
        .map(|n| {
            // At no fixed distance from each other, and from the depots' clocks.
            std::thread::sleep(Duration::from_millis(13 * n));
            stopped(&depots[0], &origins[n as usize % 2].0.route(&through, "/"))
        })
        .collect();
    let lines = |depot: &Daemon, words: &str| {
        depot.log_text().lines().filter(|line| line.contains(words)).count()
    };
    until("each has its line at both", || {
        depots.iter().all(|depot| lines(depot, " WARN ") == clients.len())
    });
    assert_eq!(lines(&depots[0], "client stalled"), clients.len(), "{}", depots[0].log_text());
    assert_eq!(lines(&depots[1], "client gone"), clients.len(), "{}", depots[1].log_text());
}

#[test]
fn origin_of_slow_client_is_not_blamed() {
    let depot = &chain(&["near"], "[timeouts]\nclient_idle = \"3s\"").0[0];
    let (origin, gave_up) = endless("Content-Length: 999999999999", Duration::from_millis(2_500));
    let _client = stopped(depot, &origin.route("-", "/"));
    gave_up.recv_timeout(crate::common::PATIENCE).unwrap();
    depot.await_log(&["WARN", "client stalled", "upstream gave up waiting"]);
    assert!(!depot.log_text().contains("upstream failed"), "{}", depot.log_text());
}
