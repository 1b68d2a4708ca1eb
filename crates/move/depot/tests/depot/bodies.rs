// SPDX-License-Identifier: GPL-2.0-or-later
//! Bodies of every framing, whole and broken, through two real depots, by splice and by copy.

use crate::common::{
    client::{connect, curl, exchange, get, status, wget},
    noise,
    process::Daemon,
    scripted::Scripted,
    sha256,
};
use rand_core::{Rng, SeedableRng};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr},
    thread::sleep,
    time::{Duration, Instant},
};
use testkit::until;

/// The ways to move bodies; every test here runs in each.
const MODES: [&str; 2] = ["copy = \"splice\"", "copy = \"copy\""];

/// Two depots, the one nearer the client first.
struct Pair(Daemon, Daemon);

impl Pair {
    fn new(mode: &str) -> Self {
        let depot = |id| Daemon::depot(&format!("id = \"{id}\"\n{mode}"));
        Self(depot("near"), depot("far"))
    }

    /// The path at the nearer depot that fetches `path` from `origin` through both.
    fn route(&self, origin: &Scripted, path: &str) -> String {
        origin.route(&self.1.authority(), path)
    }

    fn url(&self, origin: &Scripted, path: &str) -> String {
        self.0.url(&self.route(origin, path))
    }

    fn address(&self) -> SocketAddr {
        self.0.address
    }
}

/// An answer with these fields and this body.
fn answer(fields: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes(), body].concat()
}

/// In chunks of 1000 bytes.
fn chunked(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in body.chunks(1000) {
        out.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\nX-Trailer: x\r\n\r\n");
    out
}

#[test]
fn chunks_are_relayed_as_they_come() {
    let body = noise(1, 500_000);
    for mode in MODES {
        let depots = Pair::new(mode);
        let origin = Scripted::answering(answer("Transfer-Encoding: chunked\r\n", &chunked(&body)));
        let got = curl(&["-f", &depots.url(&origin, "/x")]);
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        assert_eq!(sha256(&got.stdout), sha256(&body), "{mode}");
        let (_, raw, end) = get(depots.address(), &depots.route(&origin, "/x"));
        assert!(end.is_ok());
        assert_eq!(sha256(&raw), sha256(&chunked(&body)), "{mode}: trailers and all");
    }
}

#[test]
fn body_may_end_with_the_connection() {
    let body = noise(2, 500_000);
    for mode in MODES {
        let depots = Pair::new(mode);
        let origin = Scripted::answering(answer("", &body));
        let (head, got, end) = get(depots.address(), &depots.route(&origin, "/x"));
        assert!(
            end.is_ok() && head.contains("Connection: close") && !head.contains("Length"),
            "{head}"
        );
        assert_eq!(sha256(&got), sha256(&body), "{mode}");
        // Whether it was whole, the depot cannot say.
        let line = depots.0.await_log(&["INFO", "ended", "bytes=500000"]);
        assert!(!line.contains("complete"), "{line}");
    }
}

#[test]
fn errors_of_the_origin_are_relayed_with_their_bodies() {
    let depots = Pair::new(MODES[0]);
    for (line, fields, sent) in [
        ("500 Internal Server Error", "Content-Length: 6\r\n", &b"broken"[..]),
        ("503 Service Unavailable", "Retry-After: 7\r\nContent-Length: 4\r\n", b"busy"),
        ("502 Bad Gateway", "Transfer-Encoding: chunked\r\n", b"4\r\nback\r\n0\r\n\r\n"),
        ("404 Not Found", "", b"until the end"),
    ] {
        let answer = [format!("HTTP/1.1 {line}\r\n{fields}\r\n").as_bytes(), sent].concat();
        let origin = Scripted::answering(answer);
        let (head, body, end) = get(depots.address(), &depots.route(&origin, "/x"));
        assert!(head.starts_with(&format!("HTTP/1.1 {line}\r\n")) && end.is_ok(), "{head}");
        assert!(fields.lines().all(|field| head.contains(field)), "{head}");
        assert!(!head.contains("Proxy-Status"), "it is the origin's own: {head}");
        assert_eq!(body, sent, "{line}");
        depots.0.await_log(&["INFO", &format!("status={}", &line[..3])]);
    }
}

#[test]
fn over_ipv6() {
    let body = noise(13, 1_000_000);
    let depot = Daemon::launch(
        "depot",
        "listen = [\"[::1]:0\"]\n[allow]\nclients = [\"::1/128\"]\nupstreams = [\"[::1]:*\"]\nlocal = true",
    )
    .unwrap();
    let bytes = answer("Content-Length: 1000000\r\n", &body);
    let origin = Scripted::on("[::1]:0", move |mut stream, _| {
        let _ = stream.write_all(&bytes);
    });
    let got = curl(&["-g", "-f", &depot.url(&origin.route("-", "/x"))]);
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    assert_eq!(sha256(&got.stdout), sha256(&body));
    let seen = origin.next_head();
    assert!(seen.contains(&format!("\r\nHost: [::1]:{}\r\n", origin.address.port())), "{seen}");
}

#[test]
fn http_1_0_client_gets_http_1_0() {
    let depots = Pair::new(MODES[0]);
    let origin = Scripted::new(|mut stream, head| {
        let old = head.starts_with("GET /x HTTP/1.0\r\n");
        let answer = if old { answer("", b"plain") } else { answer("", b"not asked as 1.0") };
        let _ = stream.write_all(&answer);
    });
    let request = format!("GET {} HTTP/1.0\r\n\r\n", depots.route(&origin, "/x"));
    let (head, body, end) = exchange(depots.address(), request.as_bytes());
    assert_eq!((status(&head), body.as_slice(), end.is_ok()), (200, &b"plain"[..], true));
    let seen = origin.next_head();
    assert!(seen.contains("\r\nVia: 1.0 near (longhaul), 1.0 far (longhaul)\r\n"), "{seen}");
    assert!(seen.contains(&format!("\r\nHost: {}\r\n", origin.address)), "{seen}");
}

#[test]
fn answers_without_body_end_immediately() {
    let depots = Pair::new(MODES[0]);
    for (line, method) in [
        ("204 No Content", "GET"),
        ("304 Not Modified\r\nContent-Length: 5", "GET"),
        ("200 OK\r\nContent-Length: 5", "HEAD"),
        ("200 OK\r\nTransfer-Encoding: chunked", "HEAD"),
        ("200 OK\r\nContent-Length: 0", "GET"),
    ] {
        // The origin keeps the connection open: the depots must not wait for it.
        let text = format!("HTTP/1.1 {line}\r\n\r\n");
        let origin = Scripted::new(move |mut stream, _| {
            let _ = stream.write_all(text.as_bytes());
            let _ = std::io::Read::read(&mut stream, &mut [0]);
        });
        let route = depots.route(&origin, "/x");
        let request = format!("{method} {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n");
        let (head, body, end) = exchange(depots.address(), request.as_bytes());
        assert_eq!(head.split("\r\n").next().unwrap()[9..12], line[..3], "{line}");
        assert!(body.is_empty() && end.is_ok(), "{line}");
    }
}

#[test]
fn interim_answers_are_passed_on() {
    let depots = Pair::new(MODES[0]);
    let interim = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    let origin =
        Scripted::answering([interim, &answer("Content-Length: 2\r\n", b"ok")[..]].concat());
    let (head, rest, _) = get(depots.address(), &depots.route(&origin, "/x"));
    assert_eq!(status(&head), 103);
    assert!(head.contains("\r\nLink: x\r\n"), "{head}");
    let rest = String::from_utf8(rest).unwrap();
    assert_eq!(status(&rest), 200);
    assert!(rest.ends_with("\r\n\r\nok"), "{rest}");
}

#[test]
fn locations_are_made_absolute() {
    let depots = Pair::new(MODES[0]);
    let origin =
        Scripted::answering("HTTP/1.1 301 Moved\r\nLocation: ../y?z\r\nContent-Length: 0\r\n\r\n");
    let (head, ..) = get(depots.address(), &depots.route(&origin, "/dir/x"));
    let expected = format!("\r\nLocation: http://{}/dir/../y?z\r\n", origin.address);
    assert!(head.contains(&expected), "{head}");
}

#[test]
fn redirects_of_the_origin_stay_in_the_chain() {
    let depots = Pair::new(MODES[0]);
    let origin = Scripted::new(|mut stream, head| {
        let moved = head.starts_with("GET /dir/x ");
        let fields = "Location: y?z\r\nContent-Length: 0\r\n";
        let answer = if moved {
            format!("HTTP/1.1 301 Moved\r\n{fields}\r\n").into_bytes()
        } else {
            answer("Content-Length: 4\r\n", b"here")
        };
        let _ = stream.write_all(&answer);
    });
    let got = curl(&["-f", "-L", &depots.url(&origin, "/dir/x")]);
    assert_eq!(got.stdout, b"here", "{}", String::from_utf8_lossy(&got.stderr));
    for path in ["/dir/x", "/dir/y?z"] {
        let seen = origin.next_head();
        assert!(seen.starts_with(&format!("GET {path} ")), "{seen}");
        assert!(seen.contains("Via: 1.1 near (longhaul), 1.1 far (longhaul)\r\n"), "{seen}");
    }
}

#[test]
fn no_byte_beyond_the_length_is_relayed() {
    for mode in MODES {
        let depots = Pair::new(mode);
        for length in [5, 100_000] {
            let body = noise(3, length);
            let surplus = [&body[..], &noise(4, 70_000)].concat();
            let fields = format!("Content-Length: {length}\r\n");
            let origin = Scripted::answering(answer(&fields, &surplus));
            let (_, got, end) = get(depots.address(), &depots.route(&origin, "/x"));
            assert!(end.is_ok());
            assert_eq!(sha256(&got), sha256(&body), "{mode}, {length}");
        }
    }
}

#[test]
fn truncated_body_is_an_error_at_the_client() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("part");
    let file_name = file.to_str().unwrap();
    for mode in MODES {
        let depots = Pair::new(mode);
        let part = noise(5, 300_000);
        let origin = Scripted::answering(answer("Content-Length: 300001\r\n", &part));
        let url = depots.url(&origin, "/x");
        let got = curl(&["-f", "-o", file_name, &url]);
        assert_eq!(got.status.code(), Some(18), "{}", String::from_utf8_lossy(&got.stderr));
        // What did arrive is there to be resumed.
        assert_eq!(sha256(&std::fs::read(&file).unwrap()), sha256(&part), "{mode}");
        for depot in [&depots.0, &depots.1] {
            depot.await_log(&["WARN", "upstream cut off at 300000 of 300001 bytes"]);
        }
        assert!(!wget(&["-O", file_name, &url]).status.success(), "{mode}");
        let chunks = chunked(&part);
        let cut = &chunks[..chunks.len() - 30];
        let origin = Scripted::answering(answer("Transfer-Encoding: chunked\r\n", cut));
        let got = curl(&["-f", "-o", file_name, &depots.url(&origin, "/x")]);
        assert_eq!(got.status.code(), Some(18), "{}", String::from_utf8_lossy(&got.stderr));
    }
}

#[test]
fn reset_is_never_taken_for_the_end() {
    for mode in MODES {
        let depots = Pair::new(mode);
        for fields in ["", "Content-Length: 100000\r\n"] {
            let (wait, go) = std::sync::mpsc::channel::<()>();
            let go = std::sync::Arc::new(std::sync::Mutex::new(go));
            let bytes = answer(fields, &noise(6, 50_000));
            let origin = Scripted::new(move |mut stream, _| {
                let _ = stream.write_all(&bytes);
                let _ = go.lock().unwrap().recv();
                rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO))
                    .unwrap();
            });
            let mut stream = crate::common::client::connect(depots.address());
            let route = depots.route(&origin, "/x");
            write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
            // All that was sent has come through before the origin resets.
            let mut first = vec![0; 50_000];
            std::io::Read::read_exact(&mut stream, &mut first).unwrap();
            wait.send(()).unwrap();
            let (_, rest, end) = crate::common::client::read_answer(stream);
            assert!(rest.len() < 50_000, "{mode}");
            if fields.is_empty() {
                let error = end.expect_err("a reset").kind();
                assert_eq!(error, std::io::ErrorKind::ConnectionReset, "{mode}");
            }
            depots.1.await_log(&["WARN", "upstream failed"]);
        }
    }
}

#[test]
fn bytes_before_a_reset_are_relayed() {
    let part = noise(14, 5000);
    for mode in MODES {
        let depots = Pair::new(mode);
        let bytes = answer("Content-Length: 1000000\r\n", &part);
        // Reset at once: the depot may learn of it before it has read anything.
        let origin = Scripted::new(move |mut stream, _| {
            let _ = stream.write_all(&bytes);
            let at_once = Some(std::time::Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(&stream, at_once).unwrap();
        });
        let (head, got, _) = get(depots.address(), &depots.route(&origin, "/x"));
        assert_eq!((status(&head), sha256(&got)), (200, sha256(&part)), "{mode}: {}", got.len());
        depots.1.await_log(&["WARN", "upstream failed at 5000 of 1000000 bytes"]);
    }
}

#[test]
fn single_bytes_far_apart() {
    // As many segments as a pipe has slots and more, none joined with another.
    let body = noise(7, 700);
    for mode in MODES {
        let depots = Pair::new(mode);
        let bytes = body.clone();
        let origin = Scripted::new(move |mut stream, _| {
            stream.set_nodelay(true).unwrap();
            stream.write_all(&answer("Content-Length: 700\r\n", b"")).unwrap();
            for byte in &bytes {
                stream.write_all(&[*byte]).unwrap();
                std::thread::yield_now();
            }
        });
        let (_, got, end) = get(depots.address(), &depots.route(&origin, "/x"));
        assert!(end.is_ok());
        assert_eq!(got, body, "{mode}");
    }
}

#[test]
fn more_small_segments_than_a_pipe_has_slots() {
    // 40 000 segments of a byte wait in front of a reader that does not read: a 64 KB pipe has 16
    // slots, one of 1 MB has 256.
    const SEGMENTS: usize = 40_000;
    for mode in MODES {
        let depots = Pair::new(&format!("{mode}\n[limits]\npipe = \"64KB\""));
        let body = noise(8, SEGMENTS);
        let (bytes, fields) = (body.clone(), format!("Content-Length: {SEGMENTS}\r\n"));
        let (done, all_sent) = std::sync::mpsc::channel();
        let origin = Scripted::new(move |mut stream, _| {
            stream.set_nodelay(true).unwrap();
            stream.write_all(&answer(&fields, b"")).unwrap();
            for byte in &bytes {
                stream.write_all(&[*byte]).unwrap();
            }
            let _ = done.send(());
        });
        let mut stream = crate::common::client::connect(depots.address());
        let route = depots.route(&origin, "/x");
        write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
        all_sent.recv_timeout(crate::common::PATIENCE).unwrap();
        let (_, got, end) = crate::common::client::read_answer(stream);
        assert!(end.is_ok());
        assert_eq!(sha256(&got), sha256(&body), "{mode}");
    }
}

#[test]
fn without_splice_bodies_are_copied() {
    let depot = Daemon::depot_without_splice("copy = \"splice\"");
    let body = noise(12, 1_000_000);
    let origin = Scripted::answering(answer("Content-Length: 1000000\r\n", &body));
    let (_, got, end) = get(depot.address, &origin.route("-", "/x"));
    assert!(end.is_ok());
    assert_eq!(sha256(&got), sha256(&body));
    depot.await_log(&["complete", "copy=\"copy\""]);
    let splicing = Daemon::depot("");
    let (_, got, _) = get(splicing.address, &origin.route("-", "/x"));
    assert_eq!(sha256(&got), sha256(&body));
    splicing.await_log(&["complete", "copy=\"splice\""]);
}

#[test]
fn sizes_at_random() {
    let seed = std::env::var("LONGHAUL_SEED").map_or(11, |seed| seed.parse().unwrap());
    println!("LONGHAUL_SEED={seed}");
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    for mode in MODES {
        let depots = Pair::new(mode);
        for round in 0..12 {
            // From nothing to a few megabytes, small sizes as often as large ones.
            let most = 1_u64 << (random.next_u64() % 23);
            let length = (random.next_u64() % most) as usize;
            let body = noise(random.next_u64(), length);
            let (fields, bytes) = match round % 3 {
                0 => (format!("Content-Length: {length}\r\n"), body.clone()),
                1 => (String::new(), body.clone()),
                _ => ("Transfer-Encoding: chunked\r\n".to_owned(), chunked(&body)),
            };
            // Written in pieces of random size, so that head and body share segments or not.
            let bytes = answer(&fields, &bytes);
            let mut cuts = rand_pcg::Pcg64Mcg::seed_from_u64(random.next_u64());
            let pieces: Vec<usize> =
                (0..64).map(|_| 1 + (cuts.next_u64() % 90_000) as usize).collect();
            let origin = Scripted::new(move |mut stream, _| {
                let mut rest = &bytes[..];
                for piece in pieces.iter().cycle() {
                    let (now, later) = rest.split_at((*piece).min(rest.len()));
                    if stream.write_all(now).is_err() || later.is_empty() {
                        return;
                    }
                    rest = later;
                }
            });
            let got = curl(&["-f", &depots.url(&origin, "/x")]);
            assert!(
                got.status.success(),
                "{mode}, {length}, {fields}: {}",
                String::from_utf8_lossy(&got.stderr)
            );
            assert_eq!(sha256(&got.stdout), sha256(&body), "{mode}, {length}, {fields}");
        }
    }
}

#[test]
fn half_closed_client_gets_the_whole_answer() {
    let body = noise(9, 3_000_000);
    for mode in MODES {
        let depots = Pair::new(mode);
        let origin = Scripted::answering(answer("Content-Length: 3000000\r\n", &body));
        let mut stream = crate::common::client::connect(depots.address());
        let route = depots.route(&origin, "/x");
        write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let (_, got, end) = crate::common::client::read_answer(stream);
        assert!(end.is_ok());
        assert_eq!(sha256(&got), sha256(&body), "{mode}");
    }
}

#[test]
fn requests_in_a_row_are_answered_in_turn() {
    let body = noise(10, 2_000_000);
    for mode in MODES {
        let depots = Pair::new(mode);
        let origin = Scripted::answering(answer("Content-Length: 2000000\r\n", &body));
        let (route, mut requests) = (depots.route(&origin, "/x"), Vec::new());
        for last in ["", "", "Connection: close\r\n"] {
            write!(requests, "GET {route} HTTP/1.1\r\nHost: d\r\n{last}\r\n").unwrap();
        }
        let (head, mut rest, end) = exchange(depots.address(), &requests);
        assert!(end.is_ok(), "{mode}: {end:?}");
        assert_eq!(status(&head), 200);
        for left in [2, 1, 0] {
            let after = rest.split_off(body.len());
            assert_eq!(sha256(&rest), sha256(&body), "{mode}, {left} left");
            let head = after.windows(4).position(|w| w == b"\r\n\r\n").map_or(0, |at| at + 4);
            assert_eq!(head == 0, left == 0);
            rest = after[head..].to_vec();
        }
        assert!(rest.is_empty());
    }
}

/// An origin whose body follows its head after some time.
fn in_two_parts(between: Duration) -> Scripted {
    Scripted::new(move |mut stream, _| {
        stream.set_nodelay(true).unwrap();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {PART}\r\n\r\n").unwrap();
        sleep(between);
        let _ = stream.write_all(&vec![b'x'; PART]);
    })
}

const PART: usize = 40_000;

/// What of an answer comes first, and when.
fn first_read(depot: &Daemon, route: &str) -> (usize, Duration) {
    let mut client = connect(depot.address);
    write!(client, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    let begun = Instant::now();
    let read = client.read(&mut vec![0; 2 * PART]).unwrap();
    (read, begun.elapsed())
}

#[test]
fn body_close_after_head_is_sent_with_it() {
    for mode in ["splice", "copy"] {
        let depot = Daemon::depot(&format!("copy = \"{mode}\""));
        let route = in_two_parts(Duration::from_micros(300)).route("-", "/");
        let whole = || (0..20).filter(|_| first_read(&depot, &route).0 > PART).count();
        // The test's own threads may be late, but not time and again.
        until(&format!("most of 20 come whole, by {mode}"), || whole() >= 15);
    }
}

#[test]
fn late_body_does_not_delay_the_head() {
    let depot = Daemon::depot("");
    let route = in_two_parts(Duration::from_secs(2)).route("-", "/");
    let (read, after) = first_read(&depot, &route);
    assert!(read < 1000 && after < Duration::from_secs(1), "{read} bytes after {after:?}");
}
