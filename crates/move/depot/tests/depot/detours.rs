// SPDX-License-Identifier: GPL-2.0-or-later
//! Ways around depots that fail or stall.

mod checks;

use crate::common::{
    client::{curl, exchange, get, status},
    noise,
    process::Daemon,
    refusing_address,
    scripted::Scripted,
    sha256,
};
use std::{io::Write, net::SocketAddr};
use testkit::until;

const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";

/// A depot with a way around another one, of which only requests find out whether it is up.
fn depot(around: SocketAddr, more: &str) -> Daemon {
    Daemon::depot(&format!(
        "id = \"d1\"\n[[detour]]\naround = \"{around}\"\ncheck = \"off\"\n{more}"
    ))
}

#[test]
fn depot_failing_before_answer_is_bypassed() {
    let origin = Scripted::answering(SERVED);
    let silent = Scripted::new(|mut stream, _| drop(std::io::Read::read(&mut stream, &mut [0])));
    let closing = Scripted::new(|stream, _| drop(stream));
    let nonsense = Scripted::answering("SSH-2.0\r\n\r\n");
    for failing in [refusing_address(), silent.address, closing.address, nonsense.address] {
        let other = Daemon::depot("id = \"other\"");
        let through = format!(
            "through = [\"{}\", \"{}\"]\n[timeouts]\nresponse_head = \"2s\"",
            refusing_address(),
            other.address
        );
        let depot = depot(failing, &through);
        let route = origin.route(&failing.to_string(), "/");
        for first in [true, false] {
            let (head, body, end) = get(depot.address, &route);
            assert!(status(&head) == 200 && body == b"served" && end.is_ok(), "{head}");
            assert!(head.contains("Via: 1.1 other (longhaul), 1.1 d1 (longhaul)"), "{head}");
            // Attempts are logged before the request's own line.
            let ended = if first { 1 } else { 2 };
            until("the request's line", || {
                depot.log_text().matches("INFO complete").count() >= ended
            });
            let tried = depot.log_text().matches("another route upstream=").count();
            // The second time the one that has not failed is asked first.
            assert_eq!(tried, 2, "first: {first}\n{}", depot.log_text());
        }
        depot.await_log(&["WARN", "another route upstream=", &failing.to_string()]);
        depot.await_log(&["complete", &format!("upstream=\"{}\"", other.address)]);
    }
}

#[test]
fn straight_detour_uses_rest_of_the_route() {
    let (origin, last) = (Scripted::answering(SERVED), Daemon::depot("id = \"last\""));
    for (behind, via) in [(true, "1.1 last (longhaul), 1.1 d1"), (false, "Via: 1.1 d1")] {
        let failing = refusing_address();
        let depot = depot(failing, "straight = true");
        let chain =
            if behind { format!("{failing},{}", last.address) } else { failing.to_string() };
        let (head, body, _) = get(depot.address, &origin.route(&chain, "/"));
        assert!(status(&head) == 200 && body == b"served", "{head}");
        assert!(head.contains(via), "{head}");
    }
}

#[test]
fn unrepeatable_requests_and_answers_take_no_detour() {
    let origin = Scripted::answering(SERVED);
    let failing = refusing_address();
    let depot = Daemon::depot_with(&format!(
        "id = \"d1\"\nlisten = [\"127.0.0.1:0\"]\n[allow]\nclients = [\"127.0.0.0/8\"]\n\
         upstreams = [\"127.0.0.0/8:*\"]\nlocal = true\nmethods = [\"GET\", \"PUT\", \"POST\"]\n\
         [[detour]]\naround = \"{failing}\"\ncheck = \"off\"\nstraight = true"
    ));
    let route = origin.route(&failing.to_string(), "/");
    let request = |method: &str, rest: &str| {
        let text = format!("{method} {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n{rest}");
        status(&exchange(depot.address, text.as_bytes()).0)
    };
    // A body may be half sent already, and a repeated request may take effect twice.
    assert_eq!(request("PUT", "Content-Length: 1\r\n\r\nx"), 502);
    assert_eq!(request("POST", "\r\n"), 502);
    assert_eq!(request("GET", "\r\n"), 200);
    // But once it is known which one fails, the other is asked first.
    assert_eq!(request("PUT", "Content-Length: 1\r\n\r\nx"), 200);
    // An answer is an answer.
    let refusing = Scripted::answering("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    let depot = self::depot(refusing.address, "straight = true");
    let (head, ..) = get(depot.address, &origin.route(&refusing.address.to_string(), "/"));
    assert_eq!(status(&head), 404, "{head}");
    // Without another way there is none.
    let depot = Daemon::depot("id = \"d1\"");
    let (head, ..) = get(depot.address, &origin.route(&refusing_address().to_string(), "/"));
    assert_eq!(status(&head), 502, "{head}");
}

#[test]
fn client_resumes_around_a_stalled_hop() {
    let body = noise(81, 300_000);
    let served = body.clone();
    // An origin that serves ranges, as curl asks for them.
    let origin = Scripted::new(move |mut stream, head| {
        let range = head.lines().find_map(|line| line.strip_prefix("Range: bytes="));
        let from: usize = range.map_or(0, |r| r.trim_end_matches('-').parse().unwrap());
        let (length, last) = (served.len(), served.len() - 1);
        let answer = match range {
            None => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"),
            Some(_) => format!(
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{last}/{length}\r\n\
                 Content-Length: {}\r\n\r\n",
                length - from
            ),
        };
        let _ =
            stream.write_all(answer.as_bytes()).and_then(|()| stream.write_all(&served[from..]));
    });
    // A depot that sends a byte now and then: it is never silent.
    let slow = Scripted::new(|mut stream, _| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n").unwrap();
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    });
    for reroute in [false, true] {
        let stall = format!(
            "straight = true\n[stall]\nrate = \"1mbit\"\ntime = \"500ms\"\nreroute = {reroute}"
        );
        let depot = depot(slow.address, &stall);
        let url = depot.url(&origin.route(&slow.address.to_string(), "/f"));
        if !reroute {
            let got = curl(&["-f", "--max-time", "2", "-o", "/dev/null", &url]);
            assert_eq!(got.status.code(), Some(28), "it goes on, however slowly");
            depot.await_log(&["WARN", "stalled hop", "least_bps=1000000", "reroute=false"]);
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let out = out.to_str().unwrap();
        let broken = curl(&["-f", "-o", out, &url]);
        assert_eq!(broken.status.code(), Some(18), "curl sees that a part is missing");
        depot.await_log(&["WARN", "stalled hop", "reroute=true"]);
        // The slow hop sent other bytes than the file's. The test replaces them; curl resumes after them as
        // usual.
        let part = std::fs::read(out).unwrap().len();
        std::fs::write(out, &body[..part]).unwrap();
        let resumed = curl(&["-f", "-C", "-", "-o", out, &url]);
        assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
        assert_eq!(sha256(&std::fs::read(out).unwrap()), sha256(&body));
    }
}
