// SPDX-License-Identifier: GPL-2.0-or-later
//! Depots that share their work: clients of a full one are sent to one that is not.

use crate::common::{
    client::{body, connect, exchange, get, read_answer, status},
    process::Daemon,
    scripted::{Scripted, read_head},
};
use std::{io::Write, net::TcpStream};
use testkit::until;

const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";

/// A depot for four clients, with these siblings.
fn depot(id: &str, members: &[&Daemon]) -> Daemon {
    let members: Vec<_> = members.iter().map(|depot| depot.authority()).collect();
    Daemon::depot(&format!(
        "id = \"{id}\"\nlimits.connections = 4\nidle_connections.per_hop = 0\n\
         admin.listen = \"127.0.0.1:0\"\n\
         [siblings]\nmembers = {members:?}\nabove = 0.5\nevery = \"50ms\""
    ))
}

/// Clients that are connected and say nothing. Those who have gone must have left their places, or these
/// might find none.
fn idle(depot: &Daemon, present: usize, number: usize) -> Vec<TcpStream> {
    let open = |expected| {
        until("as many are connected", || depot.status().connections.open == expected);
    };
    open(present);
    let clients = (0..number).map(|_| connect(depot.address)).collect();
    open(present + number);
    clients
}

#[test]
fn full_depot_redirects_clients_to_empty_sibling() {
    let origin = Scripted::answering(SERVED);
    let (fuller, empty) = (depot("fuller", &[]), depot("empty", &[]));
    let first = depot("first", &[&fuller, &empty]);
    let route = origin.route("-", "/f?x=1");
    let ask = || get(first.address, &route).0;
    assert_eq!(status(&ask()), 200, "it has room itself");

    let _in_fuller = idle(&fuller, 0, 2);
    let _in_first = idle(&first, 0, 3);
    let expected = format!("Location: http://{}{route}\r\n", empty.address);
    // The known loads of the others may be too old for a moment; then a depot with free slots serves by
    // itself.
    until("it redirects clients", || {
        let head = ask();
        status(&head) == 302
            && [&expected[..], "Connection: close"].iter().all(|has| head.contains(has))
    });
    first.await_log(&["led on", &format!("to=\"{}\"", empty.address)]);
    until("curl follows", || {
        assert_eq!(body(&first.url(&route)), b"served");
        empty.log_text().contains("complete")
    });

    // Nor when there is no place at all.
    let _last = idle(&first, 3, 1);
    until("the fourth is let in", || {
        let head = ask();
        status(&head) == 302 && head.contains(&expected)
    });
    // Requests that are not repeatable, and those of depots, are not redirected.
    let via = |method: &str, via: &str| {
        let text =
            format!("{method} {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n{via}\r\n");
        status(&exchange(first.address, text.as_bytes()).0)
    };
    until("a client's request is redirected", || via("GET", "") == 302);
    assert_eq!(via("GET", "Via: 1.1 other (longhaul)\r\n"), 503);
    assert_eq!(via("PUT", "Content-Length: 0\r\n"), 503);
    // Nor what would name another host behind the sibling's address.
    let (head, ..) = exchange(first.address, b"GET @evil/ HTTP/1.1\r\nHost: d\r\n\r\n");
    assert!(status(&head) == 503 && !head.contains("@evil"), "{head}");
}

#[test]
fn surplus_load_answer_closes_the_connection() {
    let load = r#"{"connections":0,"connections_limit":9,"leaving":false}"#;
    for (more, fields) in [("", "Connection: close\r\n"), ("HTTP/1.1 200 OK\r\n", ""), ("", "")] {
        let answer = format!(
            "HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{load}{more}",
            load.len()
        );
        // It keeps its connections, whatever it says.
        let member = Scripted::new(move |mut stream, _| {
            while stream.write_all(answer.as_bytes()).is_ok() && read_head(&stream).is_some() {}
        });
        let _depot = Daemon::depot(&format!(
            "id = \"d1\"\n[siblings]\nmembers = [\"{}\"]\nevery = \"300ms\"",
            member.address
        ));
        member.next_head();
        if more.len() + fields.len() > 0 {
            (0..3).for_each(|_| drop(member.next_head()));
        } else {
            std::thread::sleep(std::time::Duration::from_secs(1));
            assert_eq!(
                member.try_next_head(),
                None,
                "it says what it was asked, and is asked again"
            );
        }
    }
}

#[test]
fn full_pool_returns_503_with_retry_after() {
    let origin = Scripted::answering(SERVED);
    let other = depot("other", &[]);
    let first = depot("first", &[&other]);
    let _in_first = idle(&first, 0, 4);
    let ask = || get(first.address, &origin.route("-", "/")).0;
    until("the other one is known", || status(&ask()) == 302);
    // As full as the first: redirects would then go back and forth.
    let in_other = idle(&other, 0, 3);
    until("that it is full is known too", || status(&ask()) == 503);
    assert!(ask().contains("Retry-After: "), "{}", ask());
    drop(in_other);
    until("it has room again", || status(&ask()) == 302);
    // One that is gone is not sent to.
    drop(other);
    until("its silence is noticed", || status(&ask()) == 503);
}

#[test]
fn load_is_shown_to_clients_only() {
    let open = depot("open", &[]);
    let (head, text, _) = get(open.address, "/lh1/load");
    assert_eq!(status(&head), 200, "{head}");
    let load: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(load["connections"], 1);
    assert_eq!(load["connections_limit"], 4);
    assert_eq!(load["leaving"], false);
    let closed = Daemon::depot("[allow]");
    let mut stream = connect(closed.address);
    stream.write_all(b"GET /lh1/load HTTP/1.1\r\nHost: d\r\n\r\n").unwrap();
    assert_eq!(status(&read_answer(stream).0), 403);
}
