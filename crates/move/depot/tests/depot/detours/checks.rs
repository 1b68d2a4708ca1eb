// SPDX-License-Identifier: GPL-2.0-or-later
//! Depots of detours that are asked whether they are up.

use super::SERVED;
use crate::common::{
    client::{body, get, status},
    process::Daemon,
    refusing_address,
    scripted::Scripted,
};
use rustix::process::Signal;
use std::{
    io::Write,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

/// Settings of a depot with a way around another one, which it asks every 300 ms.
fn settings(around: SocketAddr, more: &str) -> String {
    format!(
        "id = \"d1\"\nadmin.listen = \"127.0.0.1:0\"\n\
         [[detour]]\naround = \"{around}\"\ncheck = \"300ms\"\n{more}"
    )
}

/// A file by a chain of one depot passes this one and that of this id, without having tried another one.
fn goes_through(depot: &Daemon, (route, id): (&str, &str)) {
    let (head, body, end) = get(depot.address, route);
    assert!(status(&head) == 200 && body == b"served" && end.is_ok(), "{head}");
    let via = format!("Via: 1.1 {id} (longhaul), 1.1 d1 (longhaul)");
    assert!(head.contains(&via), "{id}: {head}");
    assert!(!depot.log_text().contains("another route"), "{}", depot.log_text());
}

#[test]
fn down_depot_is_bypassed_until_it_is_up() {
    let origin = Scripted::answering(SERVED);
    let (first, other) = (Daemon::depot("id = \"first\""), Daemon::depot("id = \"other\""));
    let (at, beside) = (first.address, other.address);
    let depot = Daemon::depot(&settings(at, &format!("through = [\"{beside}\"]")));
    let route = origin.route(&at.to_string(), "/");
    depot.await_detours(&[(at, true), (beside, true)]);
    goes_through(&depot, (&route, "first"));

    // As a host that hangs: its kernel still takes connections.
    first.signal(Signal::STOP);
    depot.await_detours(&[(at, false), (beside, true)]);
    depot.await_log(&["WARN", "down", &format!("depot={at}"), "it does not answer within 0.3 s"]);
    goes_through(&depot, (&route, "other"));
    first.signal(Signal::CONT);
    depot.await_detours(&[(at, true), (beside, true)]);
    goes_through(&depot, (&route, "first"));

    drop(first);
    depot.await_detours(&[(at, false), (beside, true)]);
    goes_through(&depot, (&route, "other"));
    let metrics = body(&format!("http://{}/metrics", depot.admin()));
    let metrics = String::from_utf8(metrics).unwrap();
    for (depot, up) in [(at, 0), (beside, 1)] {
        let line = format!("longhaul_depot_detour_up{{depot=\"{depot}\"}} {up}\n");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    let first = Daemon::depot_with(&format!("id = \"first\"\nlisten = [\"{at}\"]"));
    depot.await_detours(&[(at, true), (beside, true)]);
    goes_through(&depot, (&route, "first"));

    // Where all are down, all are tried.
    drop((first, other));
    depot.await_detours(&[(at, false), (beside, false)]);
    assert_eq!(status(&get(depot.address, &route).0), 502);
    depot.await_log(&["WARN", "another route", &format!("upstream={at} instead={beside}")]);
}

#[test]
fn endless_check_answer_blocks_no_other_check() {
    let (live, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = (Arc::clone(&live), Arc::clone(&most));
    // A byte of its head now and then, for ever.
    let endless = Scripted::new(move |mut stream, _| {
        counted.1.fetch_max(counted.0.fetch_add(1, SeqCst) + 1, SeqCst);
        stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").unwrap();
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
        counted.0.fetch_sub(1, SeqCst);
    });
    let other = Daemon::depot("id = \"other\"");
    let (at, beside) = (endless.address, other.address);
    let depot = Daemon::depot(&settings(at, &format!("through = [\"{beside}\"]")));
    depot.await_detours(&[(at, false), (beside, true)]);
    let files = depot.open_files();
    (0..10).for_each(|_| drop(endless.next_head()));
    // The one that ends, before its peer has seen that, and the next one.
    let most = most.load(SeqCst);
    assert!(most <= 2, "{most} questions at a time");
    assert!(depot.open_files() <= files + 3, "{files}, then {}", depot.open_files());
    // The other one is asked all the while.
    drop(other);
    depot.await_detours(&[(at, false), (beside, false)]);
}

#[test]
fn reload_changes_checked_depots() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("depot.toml");
    let (one, other) = (Scripted::answering(SERVED), refusing_address());
    let open = "listen = [\"127.0.0.1:0\"]\nallow = { local = true }\n";
    // No rule and no ticket leads there: but the configuration names it.
    let with = |around, more: &str| format!("{open}{}", settings(around, more));
    let depot = Daemon::of_file(&file, &with(one.address, ""));
    depot.await_detours(&[(one.address, false)]);
    assert!(one.next_head().starts_with("GET /lh1/load HTTP/1.1\r\n"));
    depot.read_again(&file, &with(other, ""));
    depot.await_detours(&[(other, false)]);
    while one.try_next_head().is_some() {}
    depot.read_again(&file, &with(other, "").replace("\"300ms\"", "\"off\""));
    depot.await_detours(&[]);
    assert_eq!(one.try_next_head(), None);
    // If address rules forbid it, the depot is not probed, and its state is unknown.
    depot.read_again(&file, &with(one.address, "").replace("local = true", "local = false"));
    depot.await_log(&["WARN", "cannot ask", "allow.local opens these"]);
    depot.await_detours(&[(one.address, true)]);
    assert_eq!(one.try_next_head(), None);
}
