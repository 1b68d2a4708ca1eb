// SPDX-License-Identifier: GPL-2.0-or-later
//! Defects of the depot itself: a panic ends one request, which is told and counted, and nothing else.

use crate::{
    common::{
        client::{get, status},
        process::Daemon,
        scripted::Scripted,
    },
    sessions::peers::{Acceptor, asked, open, opened},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    time::Duration,
};
use testkit::until;

const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";

/// A depot that panics where it would go around a depot, or has found that one stalls.
fn depot(around: SocketAddr) -> Daemon {
    Daemon::depot_with_defects(&format!(
        "id = \"d1\"\nadmin.listen = \"127.0.0.1:0\"\n[stall]\nrate = \"1mbit\"\ntime = \"300ms\"\n\
         [[detour]]\naround = \"{around}\"\ncheck = \"off\"\nstraight = true"
    ))
}

fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn await_panics(depot: &Daemon, count: u64) {
    until("the panic is counted", || depot.status().panics == count);
}

#[test]
fn panic_before_the_answer_is_told_with_500() {
    let (origin, gone) = (Scripted::answering(SERVED), nobody());
    let depot = depot(gone);
    let through = origin.route(&gone.to_string(), "/");
    let (head, body, end) = get(depot.address, &through);
    assert!(status(&head) == 500 && end.is_ok(), "{head}");
    assert!(head.contains("Proxy-Status: d1; error=proxy_internal_error"), "{head}");
    assert!(String::from_utf8_lossy(&body).contains("defect"), "{body:?}");
    depot.await_log(&["ERROR", "a defect of this depot has ended a request"]);
    depot.await_log(&["cut off: a defect of this depot"]);
    await_panics(&depot, 1);
    // It knows now that the other is gone, and goes around it.
    let (head, body, _) = get(depot.address, &through);
    assert!(status(&head) == 200 && body == b"served", "{head}");
}

#[test]
fn panic_in_a_body_or_session_resets_the_connection() {
    let slow = Scripted::new(|mut stream, _| {
        // A close would be the end of this body.
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nbegun").unwrap();
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let gone = nobody();
    let depot = depot(gone);
    let (head, body, end) = get(depot.address, &slow.route("-", "/"));
    assert!(status(&head) == 200 && body.starts_with(b"begun"), "{head}");
    assert!(end.is_err(), "the body looks complete");
    await_panics(&depot, 1);

    let acceptor = Acceptor::echo();
    let mut client = asked(&depot, &open(&[gone, acceptor.address]));
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(client.read(&mut [0]).is_err(), "the session looks like one that has ended");
    await_panics(&depot, 2);
    depot.await_log(&["ERROR", "a defect of this depot has ended a connection"]);
    // Others are served.
    let (_client, _answer) = opened(&depot, &open(&[acceptor.address]));
}
