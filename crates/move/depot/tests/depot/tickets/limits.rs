// SPDX-License-Identifier: GPL-2.0-or-later
//! What a ticket holds a transfer to. Without the guards the whole body would come, and at once.

use super::{Keys, refused, ticket};
use crate::common::{
    client::{exchange, get, status},
    noise,
    process::Daemon,
    scripted::Scripted,
};
use protocol::{http::Method, ticket::Ticket};
use std::{io::Write, time::Instant};
use units::{Bytes, Rate};

const LENGTH: usize = 300_000;

/// How an origin says where a body ends.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Length,
    Chunks,
    Close,
}

/// An origin whose answers have a body of `length` bytes.
fn origin(ends: Ends, length: usize) -> Scripted {
    let body = noise(61, length);
    let mut answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n".to_vec();
    match ends {
        Ends::Length => write!(answer, "Content-Length: {length}\r\n\r\n").unwrap(),
        Ends::Close => answer.extend(b"\r\n"),
        Ends::Chunks => answer.extend(b"Transfer-Encoding: chunked\r\n\r\n"),
    }
    match ends {
        Ends::Chunks => {
            for chunk in body.chunks(70_001) {
                write!(answer, "{:x}\r\n", chunk.len()).unwrap();
                answer.extend(chunk);
                answer.extend(b"\r\n");
            }
            answer.extend(b"0\r\n\r\n");
        }
        _ => answer.extend(&body),
    }
    Scripted::answering(answer)
}

/// A ticket for `bytes` bytes of a body.
fn of_bytes(origin: &Scripted, depot: &Daemon, bytes: usize) -> Ticket {
    Ticket { bytes: Some(Bytes::new(bytes as u64)), ..ticket(origin.address, "/f", &[depot]) }
}

#[test]
fn download_over_ticket_byte_limit_is_aborted() {
    let keys = Keys::new();
    let depot = keys.open();
    for ends in [Ends::Length, Ends::Chunks, Ends::Close] {
        let origin = origin(ends, LENGTH);
        let route = keys.route(&of_bytes(&origin, &depot, LENGTH), "f");
        let (head, got, end) = get(depot.address, &route);
        assert!(status(&head) == 200 && end.is_ok(), "{ends:?}: {head}");
        assert!(got.len() >= LENGTH, "{ends:?}: {} bytes", got.len());
        let route = keys.route(&of_bytes(&origin, &depot, LENGTH - 1), "f");
        if let Ends::Length = ends {
            refused(&depot, &route, 403, "for at most 299999 bytes of a body, and this has 300000");
            continue;
        }
        let (_, got, end) = get(depot.address, &route);
        match ends {
            // As much as is granted, and no end of the chunks: an error at every client.
            Ends::Chunks => assert!(!got.ends_with(b"0\r\n\r\n"), "the body has an end"),
            // Only a reset tells that it was cut off.
            _ => assert!(end.is_err(), "the body has an end"),
        }
        depot.await_log(&["WARN", "more than announced, or granted"]);
    }
}

#[test]
fn upload_over_ticket_byte_limit_is_aborted() {
    let keys = Keys::new();
    let depot = keys.open();
    let origin = Scripted::new(|mut stream, _| {
        // Reads the upload to its end or to the reset.
        let _ = std::io::copy(&mut &stream, &mut std::io::sink());
        let _ = stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
    });
    let ticket = Ticket { methods: vec![Method::Put], ..of_bytes(&origin, &depot, 10) };
    let put = |body: &str| {
        let route = keys.route(&ticket, "f");
        let text = format!("PUT {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n{body}");
        exchange(depot.address, text.as_bytes())
    };
    let (head, text, _) = put("Content-Length: 11\r\n\r\n01234567890");
    assert_eq!(status(&head), 403, "{head}{}", String::from_utf8_lossy(&text));
    let (head, ..) = put("Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n");
    assert_ne!(status(&head), 201, "{head}");
    depot.await_log(&["WARN", "more than announced, or granted"]);
}

#[test]
fn transfer_keeps_the_ticket_rate() {
    let keys = Keys::new();
    let depot = keys.open();
    // TCP does not space its first ten segments, which are large on loopback.
    let length = 3_000_000;
    let origin = origin(Ends::Length, length);
    let rate = Rate::bits_per_second(24_000_000);
    let slow = Ticket { rate: Some(rate), ..ticket(origin.address, "/f", &[&depot]) };
    let begin = Instant::now();
    let (_, got, _) = get(depot.address, &keys.route(&slow, "f"));
    assert_eq!(got.len(), length);
    // A second's worth, less the first segments. A slow machine only takes longer.
    assert!(begin.elapsed().as_secs_f64() > 0.5, "{:?}", begin.elapsed());
}

#[test]
fn lower_of_ticket_and_client_rate_applies() {
    let keys = Keys::new();
    let depot = keys.depot("", "local = true\n[limits]\nclient_rate = \"480mbit\"");
    for (ticket_bps, held_bps) in [(240_000_000, 240_000_000), (960_000_000, 480_000_000)] {
        let origin = origin(Ends::Length, LENGTH);
        let rate = Some(Rate::bits_per_second(ticket_bps));
        let paced = Ticket { rate, ..ticket(origin.address, "/f", &[&depot]) };
        assert_eq!(status(&get(depot.address, &keys.route(&paced, "f")).0), 200);
        let pacing = format!("client_pacing_bps={held_bps}");
        depot.await_log(&["complete", &format!("upstream=\"{}\"", origin.address), &pacing]);
    }
}
