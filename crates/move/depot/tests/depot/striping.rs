// SPDX-License-Identifier: GPL-2.0-or-later
//! One transfer over several connections between two depots: the same bytes whatever becomes of the
//! connections, or a failure that shows.

use crate::common::{
    client::{body, connect, curl, get, read_answer, status},
    noise,
    process::Daemon,
    scripted::{Scripted, read_head},
    sha256,
    wire::{Wire, wires},
};
use std::{
    io::{Read, Write},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};
use testkit::until;

/// A depot near the client, which requests `streams` connections from the next depot.
fn near(streams: u8) -> Daemon {
    near_with(streams, "")
}

fn near_with(streams: u8, more: &str) -> Daemon {
    Daemon::depot(&format!(
        "id = \"near\"\n{more}\n[[hop]]\npeer = \"127.0.0.0/8\"\nstreams = {streams}\n\
         [admin]\nlisten = \"127.0.0.1:0\""
    ))
}

fn far() -> Daemon {
    Daemon::depot("id = \"far\"\n[admin]\nlisten = \"127.0.0.1:0\"")
}

/// An origin that sends the second half of a body when it is told to.
struct Halves {
    origin: Scripted,
    go: Arc<AtomicBool>,
}

impl Halves {
    fn new(head: &'static str, body: &[u8]) -> Self {
        let (body, go): (Arc<[u8]>, _) = (body.into(), Arc::new(AtomicBool::new(false)));
        let gate = Arc::clone(&go);
        let origin = Scripted::new(move |mut stream, _| {
            let (first, second) = body.split_at(body.len() / 2);
            // Where the depot gives up, so does this.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(first));
            until("the second half is wanted", || gate.load(Relaxed));
            let _ = stream.write_all(second);
        });
        Self { origin, go }
    }

    /// A body with its length.
    fn of(body: &[u8]) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        Self::new(head.leak(), body)
    }
}

fn status_of(depot: &Daemon) -> serde_json::Value {
    let text = body(&format!("http://{}/status.json", depot.admin()));
    serde_json::from_slice(&text).unwrap()
}

/// Over how many connections the one transfer goes of a depot, towards the next hop.
fn streams(depot: &Daemon) -> u64 {
    status_of(depot)["transfers"][0]["upstream_tcp"]["streams"].as_u64().unwrap_or(0)
}

/// Requests the origin's body from `near` by way of `next`. The origin sends the second half once `wanted`
/// connections have joined.
fn fetch(near: &Daemon, next: SocketAddr, halves: &Halves, wanted: u64) -> (String, Vec<u8>) {
    let route = halves.origin.route(&next.to_string(), "/");
    thread::scope(|scope| {
        let client = scope.spawn(|| get(near.address, &route));
        until("connections join", || streams(near) == wanted);
        halves.go.store(true, Relaxed);
        let (head, got, _) = client.join().unwrap();
        (head, got)
    })
}

#[test]
fn body_survives_any_number_of_connections() {
    let body = noise(101, 20_000_003);
    for wanted in [1, 2, 4, 16] {
        let (near, far) = (near(wanted), far());
        let halves = Halves::of(&body);
        let (head, got) = fetch(&near, far.address, &halves, wanted.into());
        assert_eq!((status(&head), sha256(&got)), (200, sha256(&body)), "{wanted}");
        // Nothing of it reaches the client.
        assert!(!head.to_ascii_lowercase().contains("longhaul-"), "{head}");
        let (near, far) = (near.await_log(&["complete"]), far.await_log(&["complete"]));
        if wanted > 1 {
            assert!(near.contains(&format!("upstream_streams={wanted} ")), "{near}");
            assert!(near.contains(&format!("upstream_streams_asked={wanted}")), "{near}");
            assert!(far.contains(&format!("client_streams={wanted}")), "{far}");
        } else {
            assert!(!near.contains("_streams") && !far.contains("_streams"), "{near} {far}");
        }
    }
}

#[test]
fn one_slow_stripe_changes_no_byte() {
    let body = noise(102, 12_000_001);
    let (near, far) = (near(4), far());
    for slow in [
        |n| if n == 0 { Wire::Slow } else { Wire::Good },
        |n| {
            if n == 2 { Wire::Slow } else { Wire::Good }
        },
    ] {
        let halves = Halves::of(&body);
        let (head, got) = fetch(&near, wires(far.address, slow), &halves, 4);
        assert_eq!((status(&head), sha256(&got)), (200, sha256(&body)));
    }
}

#[test]
fn broken_stripe_breaks_the_transfer() {
    let body = noise(103, 20_000_000);
    let cuts: [fn(usize) -> Wire; 2] = [
        |n| if n == 0 { Wire::Cut(1_000_000) } else { Wire::Good },
        |n| if n == 1 { Wire::Cut(100_000) } else { Wire::Good },
    ];
    for cut in cuts {
        let (near, far) = (near(4), far());
        let halves = Halves::of(&body);
        // It may break at any time, also before all have joined.
        halves.go.store(true, Relaxed);
        let route = halves.origin.route(&wires(far.address, cut).to_string(), "/");
        let (_, got, _) = get(near.address, &route);
        assert!(got.len() < body.len() && body.starts_with(&got), "{} bytes", got.len());
        near.await_log(&["upstream failed at"]);
        far.await_log(&["client gone at"]);
    }
}

#[test]
fn missing_stripes_do_not_stop_the_transfer() {
    let body = noise(104, 8_000_001);
    let (near, far) = (near_with(4, "timeouts.connect = \"1s\""), far());
    let halves = Halves::of(&body);
    let mute = |n| if n % 2 == 1 { Wire::Mute } else { Wire::Good };
    let (head, got) = fetch(&near, wires(far.address, mute), &halves, 2);
    assert_eq!((status(&head), sha256(&got)), (200, sha256(&body)));
    let line = near.await_log(&["complete"]);
    assert!(line.contains("upstream_streams=2 upstream_streams_asked=4"), "{line}");
}

#[test]
fn each_joining_connection_takes_a_slot() {
    let body = noise(105, 8_000_001);
    let near = near(4);
    let far = Daemon::depot("id = \"far\"\n[limits]\nper_client = 2");
    let halves = Halves::of(&body);
    let (head, got) = fetch(&near, far.address, &halves, 2);
    assert_eq!((status(&head), sha256(&got)), (200, sha256(&body)));
    near.await_log(&["could not join", "503"]);
    far.await_log(&["refused", "connections from 127.0.0.1 are open"]);
}

#[test]
fn joining_connections_count_for_their_client() {
    let body = noise(110, 8_000_001);
    let trust = "trust.depots = [\"127.0.0.1/32\"]";
    let near = near_with(4, trust);
    let far = Daemon::depot(&format!("id = \"far\"\n{trust}\nlimits.per_client = 2"));
    let halves = Halves::of(&body);
    let (head, got) = fetch(&near, far.address, &halves, 2);
    assert_eq!((status(&head), sha256(&got)), (200, sha256(&body)));
    near.await_log(&["could not join", "503"]);
    far.await_log(&["refused", "2 connections from 127.0.0.1 are open", "limits.per_client"]);
}

#[test]
fn wrong_join_token_is_refused_and_counted() {
    let far = far();
    let zeros = "0".repeat(32);
    for path in [zeros.as_str(), "", "x", &zeros[1..]] {
        let (head, text, _) = get(far.address, &format!("/lh1/join/{path}"));
        assert_eq!(status(&head), 403, "{path}: {head}");
        assert!(String::from_utf8_lossy(&text).contains("no transfer waits"), "{path}");
    }
    let metrics = body(&format!("http://{}/metrics", far.admin()));
    let metrics = String::from_utf8_lossy(&metrics).into_owned();
    let counted = "longhaul_depot_refusals_total{status=\"403\",error=\"http_request_denied\"} 4";
    assert!(metrics.contains(counted), "{metrics}");
    // What opens a transfer, or might, is in no log.
    assert!(!far.log_text().contains(&zeros[1..]), "{}", far.log_text());
}

#[test]
fn depot_without_striping_is_read_as_usual() {
    let body = noise(106, 3_000_000);
    let near = near(4);
    // It ignores the field, as older ones do.
    let mut answer =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(&body);
    let older = Scripted::answering(answer);
    let route = format!("/lh1/fetch/{}/http:192.0.2.1/", older.address);
    let (head, got, _) = get(near.address, &route);
    assert_eq!((status(&head), sha256(&got)), (200, sha256(&body)));
    assert!(older.next_head().to_ascii_lowercase().contains("longhaul-streams: 4\r\n"));
    let line = near.await_log(&["complete"]);
    assert!(line.contains("upstream_streams=1 upstream_streams_asked=4"), "{line}");
}

#[test]
fn malformed_striped_answer_is_refused() {
    let near = near(4);
    let fields = ["5; token=00000000000000000000000000000000", "2", "2; token=0"];
    for field in fields {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nLonghaul-Streams: {field}\r\n\r\nhello"
        );
        let route = format!("/lh1/fetch/{}/http:192.0.2.1/", Scripted::answering(answer).address);
        assert_eq!(status(&get(near.address, &route).0), 502, "{field}");
    }
    let empty = "HTTP/1.1 304 Not Modified\r\n\
                 Longhaul-Streams: 2; token=00000000000000000000000000000000\r\n\r\n";
    let route = format!("/lh1/fetch/{}/http:192.0.2.1/", Scripted::answering(empty).address);
    assert_eq!(status(&get(near.address, &route).0), 502, "nothing to divide");
    // Nor are blocks that leave a gap taken for a body.
    let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\
        Longhaul-Streams: 2; token=00000000000000000000000000000000\r\n\r\n"
        .to_vec();
    relay::stripes::blocks::put_head(4, 5, &mut answer);
    answer.extend_from_slice(b"hello");
    relay::stripes::blocks::put_end(9, &mut answer);
    let next = Scripted::new(move |mut stream, head| {
        let refusal: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
        let joins = head.starts_with("GET /lh1/join/");
        stream.write_all(if joins { refusal } else { &answer }).unwrap();
        // Open until the depot has had enough: it must not need the end to see it.
        let _ = stream.read(&mut [0]);
    });
    let route = format!("/lh1/fetch/{}/http:192.0.2.1/", next.address);
    let (_, got, _) = get(near.address, &route);
    assert!(got.is_empty(), "{got:?}");
    near.await_log(&["upstream failed at 0 of 9 bytes", "missing"]);
}

#[test]
fn bodies_in_every_framing_and_with_digests_are_the_same() {
    let body = noise(107, 6_000_000);
    let mut chunked = Vec::new();
    for part in body.chunks(100_000) {
        write!(chunked, "{:x}\r\n", part.len()).unwrap();
        chunked.extend_from_slice(part);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\nX-Sum: 5\r\n\r\n");
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let until_close = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    for digest in ["check", "sha-256"] {
        let near = near(4);
        let far = Daemon::depot(&format!("id = \"far\"\ndigest = \"{digest}\""));
        let of =
            [Halves::of(&body), Halves::new(chunks, &chunked), Halves::new(until_close, &body)];
        for halves in of {
            let route = halves.origin.route(&far.authority(), "/");
            let url = near.url(&route);
            let got = thread::scope(|scope| {
                let client = scope.spawn(|| crate::common::client::body(&url));
                until("connections join", || streams(&near) == 4);
                halves.go.store(true, Relaxed);
                client.join().unwrap()
            });
            assert_eq!(sha256(&got), sha256(&body), "{digest}");
        }
    }
}

#[test]
fn striped_ranges_reuse_the_first_connection() {
    let dir = tempfile::tempdir().unwrap();
    let file = noise(108, 9_000_000);
    std::fs::write(dir.path().join("file"), &file).unwrap();
    let (near, far) = (near(3), far());
    let origin = Daemon::origin(dir.path(), "fetch", &[]);
    let route = format!("/lh1/fetch/{}/http:{}/file", far.authority(), origin.authority());
    let url = near.url(&route);
    // One curl, one connection of its own; each range is a transfer of its own.
    let output = curl(&[
        "-f",
        "-r",
        "1000000-4999999",
        &url,
        "--next",
        "-s",
        "--noproxy",
        "*",
        "-f",
        "-r",
        "5000000-8999999",
        &url,
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(sha256(&output.stdout), sha256(&file[1_000_000..]));
    for depot in [&near, &far] {
        until("both are in the log", || depot.log_text().matches(" complete ").count() == 2);
    }
    let requests = far.log_text().matches("target=\"/lh1/fetch/").count();
    assert_eq!(requests, 2, "{}", far.log_text());
    let from = |line: &str| line.split("client=\"").nth(1).map(|rest| rest[..20].to_owned());
    let text = far.log_text();
    let mut clients = text.lines().filter(|line| line.contains("/lh1/fetch/")).map(from);
    assert_eq!(clients.next(), clients.next(), "the same connection: {text}");
}

#[test]
fn connections_share_the_rate_that_is_set() {
    let body = noise(110, 3_000_000);
    let near = near(4);
    let far = Daemon::depot(
        "id = \"far\"\n[[hop]]\npeer = \"127.0.0.0/8\"\npacing = \"800mbit\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"",
    );
    let halves = Halves::of(&body);
    let route = halves.origin.route(&far.authority(), "/");
    thread::scope(|scope| {
        let client = scope.spawn(|| get(near.address, &route));
        until("connections join", || streams(&near) == 4);
        let first = &status_of(&far)["transfers"][0]["client_tcp"];
        assert_eq!(first["pacing_bps"], 200_000_000, "{first}");
        halves.go.store(true, Relaxed);
        assert_eq!(sha256(&client.join().unwrap().1), sha256(&body));
    });
    // The first one has the whole rate again, for the next request.
    far.await_log(&["complete", "client_pacing_bps=800000000"]);
}

#[test]
fn uploads_go_over_one_connection() {
    let methods = "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\n\
                   local = true\nmethods = [\"GET\", \"PUT\"]";
    let hop = "[[hop]]\npeer = \"127.0.0.0/8\"\nstreams = 4";
    let (near, far) = (
        Daemon::depot(&format!("id = \"near\"\n{hop}\n{methods}")),
        Daemon::depot(&format!("id = \"far\"\n{methods}")),
    );
    let body = noise(109, 3_000_000);
    let origin = Scripted::new(move |mut stream, head| {
        let length = head.to_ascii_lowercase();
        let length = length.split("content-length: ").nth(1).unwrap();
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let sum = sha256(&body);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{sum}", sum.len()).unwrap();
    });
    let mut stream = connect(near.address);
    let route = origin.route(&far.authority(), "/");
    let length = body.len();
    write!(
        stream,
        "PUT {route} HTTP/1.1\r\nHost: d\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    stream.write_all(&body).unwrap();
    let (head, got, _) = read_answer(stream);
    assert_eq!((status(&head), got), (200, sha256(&body).into_bytes()));
    let line = near.await_log(&["complete"]);
    assert!(!line.contains("streams"), "{line}");
}

#[test]
fn stopped_reader_buffers_few_blocks() {
    const BODY: u64 = 300 << 20;
    let (near, far) = (near(16), far());
    let sent = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let origin = Scripted::new(move |mut stream, _| {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n").unwrap();
        let block = vec![7; 1 << 20];
        for _ in 0..BODY >> 20 {
            if stream.write_all(&block).is_err() {
                return;
            }
            counted.fetch_add(1 << 20, Relaxed);
        }
    });
    let route = origin.route(&far.authority(), "/");
    let mut stream = connect(near.address);
    write!(stream, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(status(&read_head(&stream).unwrap()), 200);
    // Nothing is taken until nothing more is sent: all that could be held is.
    let (mut before, mut same) = (u64::MAX, 0);
    until("the origin has to stop", || {
        let now = sent.load(Relaxed);
        same = if now == before { same + 1 } else { 0 };
        before = now;
        same > 100
    });
    assert!(before < BODY, "the sockets held it all: nothing was shown");
    let resident = |depot: &Daemon| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", depot.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    for depot in [&near, &far] {
        assert!(resident(depot) < 64 << 20, "{} of {before} bytes", resident(depot));
    }
    let got = std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    assert_eq!(got, BODY);
}
