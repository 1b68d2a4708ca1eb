// SPDX-License-Identifier: GPL-2.0-or-later
//! Each client's share of a depot's connection slots, also through other depots, and the answer to a client
//! that exceeds it.

use crate::common::{
    client::{body, connect_from, get, read_answer, status},
    process::Daemon,
    scripted::{Gate, Scripted, halting, read_head},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
};
use testkit::until;

const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";
const TRUST: &str = "trust.depots = [\"127.0.0.1/32\"]";
const TWO_EACH: &str = "limits.per_client = 2";

fn depot(id: &str, settings: &str) -> Daemon {
    Daemon::depot(&format!("id = \"{id}\"\nadmin.listen = \"127.0.0.1:0\"\n{settings}"))
}

/// A depot that counts the requests of a trusted depot for that depot's clients.
fn far(settings: &str) -> Daemon {
    depot("far", &format!("{TRUST}\n{settings}"))
}

/// Asks from an address, with these fields.
fn asked_with(from: &str, depot: &Daemon, route: &str, fields: &str) -> TcpStream {
    let mut stream = connect_from(from, depot.address);
    let request = format!("GET {route} HTTP/1.1\r\nHost: d\r\n{fields}Connection: close\r\n\r\n");
    // One that is refused may be so before it has asked.
    let _ = stream.write_all(request.as_bytes());
    stream
}

fn asked(from: &str, depot: &Daemon, route: &str) -> TcpStream {
    asked_with(from, depot, route, "")
}

/// A transfer that is under way: its head has come.
fn under_way(from: &str, depot: &Daemon, route: &str) -> TcpStream {
    let stream = asked(from, depot, route);
    let head = read_head(&stream).expect("an answer");
    assert_eq!(status(&head), 200, "{from}: {head}");
    stream
}

/// The rest of one.
fn is_whole(mut stream: TcpStream) {
    let mut body = Vec::new();
    stream.read_to_end(&mut body).unwrap();
    assert_eq!(body, b"served");
}

/// What a request is told that gets no place, which must name the depot whose limit it is.
fn refused(stream: TcpStream, id: &str) -> String {
    let (head, body, _) = read_answer(stream);
    assert_eq!(status(&head), 503, "{head}");
    assert!(
        head.contains(&format!("Proxy-Status: {id}; error=connection_limit_reached")),
        "{head}"
    );
    let text = String::from_utf8(body).unwrap();
    assert!(text.starts_with(&format!("longhaul depot {id}: ")), "{text}");
    assert!(text.contains(&format!("depot {id}")), "{text}");
    text
}

/// A counter, 0 where there is none.
fn metric(depot: &Daemon, name: &str) -> u64 {
    let text = String::from_utf8(body(&format!("http://{}/metrics", depot.admin()))).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().unwrap())
}

#[test]
fn client_behind_trusted_depot_has_client_limit() {
    let (near, far, gate) = (depot("near", TRUST), far(TWO_EACH), Gate::default());
    let origin = halting(b"served", &gate);
    let route = origin.route(&far.authority(), "/");
    let mut readers = Vec::new();
    // Six in all from one depot, which would be three times what a client may have.
    for from in ["127.0.0.9", "127.0.0.10", "127.0.0.11"] {
        readers.extend([0, 1].map(|_| under_way(from, &near, &route)));
    }
    let text = refused(asked("127.0.0.9", &near, &route), "far");
    let why =
        "2 connections from 127.0.0.9 are open at depot far, the most that its limits.per_client";
    assert!(text.contains(why), "{text}");
    // What it has through a depot and by itself counts together.
    let straight = origin.route("-", "/");
    assert!(refused(asked("127.0.0.9", &far, &straight), "far").contains("127.0.0.9"));
    readers.push(under_way("127.0.0.12", &far, &straight));
    readers.push(under_way("127.0.0.12", &near, &route));
    refused(asked("127.0.0.12", &near, &route), "far");
    gate.open();
    readers.into_iter().for_each(is_whole);
    until("places are given back", || {
        status(&read_answer(asked("127.0.0.9", &near, &route)).0) == 200
    });
}

/// Memory is shared among the clients that a trusted depot names, and not by its own address.
#[test]
fn memory_share_counts_clients_behind_depots() {
    let (near, far) = (depot("near", TRUST), far("limits.memory = \"32MB\""));
    let gate = Gate::default();
    let origin = halting(b"served", &gate);
    let route = origin.route(&far.authority(), "/");
    // A quarter of 32 MB is ten times 768 KB.
    let mut readers: Vec<_> = (0..10).map(|_| under_way("127.0.0.9", &near, &route)).collect();
    let text = refused(asked("127.0.0.9", &near, &route), "far");
    let why = "7 MB are reserved for 10 transfers of 127.0.0.9 at depot far, whose limits.memory (32MB) gives a client 8 MB";
    assert!(text.contains(why), "{text}");
    // By itself it has no more, and another one behind the same depot has its own.
    refused(asked("127.0.0.9", &far, &origin.route("-", "/")), "far");
    readers.extend((0..8).map(|_| under_way("127.0.0.10", &near, &route)));
    assert_eq!(metric(&far, "longhaul_depot_memory_refusals_total{of=\"client\"}"), 2);
    assert_eq!(metric(&far, "longhaul_depot_memory_largest_client_bytes"), 10 * (768 << 10));
    let largest = far.status().memory.largest_client.unwrap();
    assert_eq!((largest.client.as_str(), largest.transfers), ("127.0.0.9", 10));
    gate.open();
    readers.into_iter().for_each(is_whole);
    until("memory is given back", || {
        status(&read_answer(asked("127.0.0.9", &near, &route)).0) == 200
    });
}

#[test]
fn depot_connection_carries_clients_in_turn() {
    let (near, far) = (depot("near", TRUST), far(TWO_EACH));
    let origin = Scripted::answering(SERVED);
    let route = origin.route(&far.authority(), "/");
    for n in 0..24 {
        let from = format!("127.0.0.{}", 9 + n % 3);
        assert_eq!(status(&read_answer(asked(&from, &near, &route)).0), 200, "{n}");
    }
    let connections: u64 = near.status().times.connect.counts.iter().sum();
    assert!(connections < 24, "they share connections");
}

#[test]
fn held_connections_of_a_depot_count_for_clients() {
    let hop = "[[hop]]\npeer = \"127.0.0.1/32\"\nwarm = 4";
    let (near, gate) = (depot("near", &format!("{TRUST}\n{hop}")), Gate::default());
    let far = far(TWO_EACH);
    let ready = Scripted::answering(SERVED).route(&far.authority(), "/");
    assert_eq!(status(&read_answer(asked("127.0.0.8", &near, &ready)).0), 200);
    until("all are held", || {
        let connections = far.status().connections;
        connections.held >= 4 && connections.open == 0
    });
    let route = halting(b"served", &gate).route(&far.authority(), "/");
    let readers = [0, 1].map(|_| under_way("127.0.0.9", &near, &route));
    until("readers are on held ones", || far.status().connections.open == 0);
    refused(asked("127.0.0.9", &near, &route), "far");
    let other = under_way("127.0.0.10", &near, &route);
    gate.open();
    readers.into_iter().chain([other]).for_each(is_whole);
}

#[test]
fn stranger_that_names_clients_gains_nothing() {
    let (far, gate) = (far(TWO_EACH), Gate::default());
    let route = halting(b"served", &gate).route("-", "/");
    let forged = |n: u8| format!("Forwarded: for=192.0.2.{n}\r\nVia: 1.1 near (longhaul)\r\n");
    let readers = [1, 2].map(|n| {
        let stream = asked_with("127.0.0.9", &far, &route, &forged(n));
        assert_eq!(status(&read_head(&stream).expect("an answer")), 200);
        stream
    });
    let text = refused(asked_with("127.0.0.9", &far, &route, &forged(3)), "far");
    assert!(text.contains("2 connections from 127.0.0.9"), "{text}");
    // Nor does it use up what others have.
    let others = [1, 2].map(|n| format!("127.0.0.{}", 20 + n));
    let others = others.map(|from| under_way(&from, &far, &route));
    gate.open();
    readers.into_iter().chain(others).for_each(is_whole);
}

#[test]
fn untrusted_depot_counts_as_one_client() {
    for (of_near, of_far) in [("", TRUST), (TRUST, ""), ("", "")] {
        let (near, gate) = (depot("near", of_near), Gate::default());
        let far = depot("far", &format!("{of_far}\n{TWO_EACH}"));
        let route = halting(b"served", &gate).route(&far.authority(), "/");
        let readers = ["127.0.0.9", "127.0.0.10"].map(|from| under_way(from, &near, &route));
        let text = refused(asked("127.0.0.11", &near, &route), "far");
        assert!(text.contains("2 connections from 127.0.0.1 are open"), "{text}");
        gate.open();
        readers.into_iter().for_each(is_whole);
    }
}

#[test]
fn trusted_depot_keeps_its_own_limit() {
    let (near, gate) = (depot("near", TRUST), Gate::default());
    let far = far("limits.per_depot = 3");
    let origin = halting(b"served", &gate);
    let route = origin.route(&far.authority(), "/");
    let from = |n: u8| format!("127.0.0.{}", 10 + n);
    let readers = [0, 1, 2].map(|n| under_way(&from(n), &near, &route));
    let text = refused(asked(&from(3), &near, &route), "far");
    assert!(text.contains("its limits.per_depot allows"), "{text}");
    assert!(!text.contains("127.0.0.1"), "clients need not know from where a depot asks: {text}");
    far.await_log(&["refused", "limits.per_depot", "(127.0.0.1)"]);
    let own = under_way(&from(3), &far, &origin.route("-", "/"));
    gate.open();
    readers.into_iter().chain([own]).for_each(is_whole);
}

#[test]
fn reload_changes_whose_connections_count_by_client() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("far.toml");
    let text = |trust: &str| {
        format!(
            "id = \"far\"\nlisten = [\"127.0.0.1:0\"]\n{trust}\n{TWO_EACH}\n[allow]\n\
             clients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n"
        )
    };
    let (near, far) = (depot("near", TRUST), Daemon::of_file(&file, &text(TRUST)));
    let gate = Gate::default();
    let route = halting(b"served", &gate).route(&far.authority(), "/");
    let from = |n: u8| format!("127.0.0.{}", 10 + n);
    let mut readers: Vec<_> = (0..3).map(|n| under_way(&from(n), &near, &route)).collect();
    far.read_again(&file, &text(""));
    readers.extend((3..5).map(|n| under_way(&from(n), &near, &route)));
    let said = refused(asked(&from(5), &near, &route), "far");
    assert!(said.contains("2 connections from 127.0.0.1 are open"), "{said}");
    far.read_again(&file, &text(TRUST));
    readers.extend((6..9).map(|n| under_way(&from(n), &near, &route)));
    gate.open();
    readers.into_iter().for_each(is_whole);
}

#[test]
fn far_depot_refusal_is_a_logged_failure() {
    let (near, gate) = (depot("near", TRUST), Gate::default());
    let (middle, far) = (depot("middle", TRUST), far("limits.per_client = 1"));
    let chain = format!("{},{}", middle.authority(), far.authority());
    let route = halting(b"served", &gate).route(&chain, "/");
    let reader = under_way("127.0.0.9", &near, &route);
    refused(asked("127.0.0.9", &near, &route), "far");
    for depot in [&near, &middle] {
        let line = depot.await_log(&["upstream refused", "status=503"]);
        for part in [
            " WARN ",
            "error=\"connection_limit_reached\"",
            "far reports connection_limit_reached: 1 connections from 127.0.0.9",
            "at depot far, the most that its limits.per_client allows",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        let requests = |outcome: &str| {
            metric(depot, &format!("longhaul_depot_requests_total{{outcome=\"{outcome}\"}}"))
        };
        assert_eq!((requests("upstream_refused"), requests("complete")), (1, 0));
        assert!(depot.status().refusals.is_empty(), "the depot itself has refused nothing");
    }
    let counted =
        "longhaul_depot_refusals_total{status=\"503\",error=\"connection_limit_reached\"}";
    assert_eq!(metric(&far, counted), 1);
    gate.open();
    is_whole(reader);
}

#[test]
fn far_refusal_of_bad_request_is_not_a_failure() {
    let near = depot("near", TRUST);
    let far = depot("far", "[allow]\nclients = [\"127.0.0.0/8\"]\nupstreams = []");
    let route = Scripted::answering(SERVED).route(&far.authority(), "/");
    assert_eq!(status(&get(near.address, &route).0), 403);
    near.await_log(&["upstream refused", "status=403", "far reports destination_ip_prohibited"]);
    let requests = |outcome: &str| {
        metric(&near, &format!("longhaul_depot_requests_total{{outcome=\"{outcome}\"}}"))
    };
    assert_eq!((requests("refused"), requests("upstream_refused")), (1, 0));
    assert_eq!(requests("complete"), 0);
}

#[test]
fn origin_error_counts_as_complete() {
    let (near, far) = (depot("near", TRUST), far(""));
    for fields in ["", "Via: 1.1 near (longhaul\r\n"] {
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\nProxy-Status: far; error=connection_limit_reached\r\n\
             {fields}Content-Length: 6\r\n\r\nserved"
        );
        let route = Scripted::answering(answer).route(&far.authority(), "/");
        assert_eq!(status(&get(near.address, &route).0), 503);
    }
    for depot in [&near, &far] {
        until("both are complete", || depot.status().totals.requests["complete"] == 2);
    }
    assert_eq!(near.status().totals.requests["upstream_refused"], 0);
}
