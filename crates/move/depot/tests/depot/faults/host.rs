// SPDX-License-Identifier: GPL-2.0-or-later
//! A host that runs out of something: descriptors, pages for pipes, room for the log.

#![expect(unsafe_code, reason = "asks the C library for the size of a page")]

use super::ask;
use crate::common::{
    client::{connect, get, read_answer, status},
    held::Held,
    idle::Idle,
    noise,
    process::Daemon,
    scripted::{Gate, Scripted, halting},
    sha256,
};
use longhaul_depot::fetch_status;
use std::{fs, io::Read, io::Write, net::TcpStream, sync::Arc, thread, time::Duration};
use testkit::until;

const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";

/// Clients that each have half of a body from an origin that waits.
fn half_way(depot: &Daemon, route: &str, number: usize, half: usize) -> Vec<(TcpStream, Vec<u8>)> {
    let begin = |_| {
        let mut client = ask(depot, route);
        let mut got = Vec::new();
        let body = |got: &[u8]| got.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4);
        while body(&got).is_none_or(|at| got.len() < at + half) {
            let mut part = vec![0; 16 << 10];
            let length = client.read(&mut part).unwrap();
            assert!(length > 0, "cut off: {}", String::from_utf8_lossy(&got));
            got.extend_from_slice(&part[..length]);
        }
        (client, got.split_off(body(&got).unwrap()))
    };
    (0..number).map(begin).collect()
}

/// Asserts that each gets the rest.
fn all_finish(clients: Vec<(TcpStream, Vec<u8>)>, body: &[u8]) {
    for (mut client, mut got) in clients {
        client.read_to_end(&mut got).unwrap();
        assert_eq!(sha256(&got), sha256(body));
    }
}

#[test]
fn descriptor_exhaustion_stops_no_transfer() {
    const LIMIT: usize = 64;
    // The hard limit, which the depot cannot raise.
    let line = format!("ulimit -n {LIMIT}; exec \"$0\" \"$@\"");
    let depot = Daemon::depot_by(&line, "id = \"d1\"");
    let idle = Idle::now([&depot]);
    let (body, gate, other) = (noise(111, 300_000), Gate::default(), Scripted::answering(SERVED));
    let origin = halting(&body, &gate);
    // Four descriptors each.
    let number = (LIMIT - depot.open_files()) / 4 - 1;
    let running = half_way(&depot, &origin.route("-", "/"), number, body.len() / 2);
    // More than there are descriptors left for; the kernel takes those that the depot does not.
    let mut waiting = [(); LIMIT].map(|()| connect(depot.address));
    depot.await_log(&["WARN", "cannot accept a connection"]);
    // The first of them was accepted, and there is no socket for its next hop.
    let route = other.route("-", "/");
    for client in &mut waiting {
        write!(client, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    }
    let (mut served, mut told) = (0, 0);
    for client in waiting {
        let (head, body, end) = read_answer(client);
        end.unwrap();
        match status(&head) {
            200 if body == b"served" => served += 1,
            503 => {
                assert!(head.contains("Retry-After: "), "{head}");
                told += 1;
            }
            other => panic!("{other}: {head}"),
        }
    }
    assert!(told > 0, "no client was refused: {served} were served");
    depot.await_log(&["WARN", "refused", "status=503", "cannot set up a connection"]);
    gate.open();
    all_finish(running, &body);
    depot.await_log(&["INFO", "complete", "bytes=300000"]);
    // The descriptors of the others are closed a moment later.
    until("it recovers", || status(&get(depot.address, &route).0) == 200);
    idle.again();
}

#[test]
fn descriptor_exhaustion_skips_no_address_check() {
    // Whether an address is this host's own is a question that takes a descriptor.
    let depot = with_few_descriptors("upstreams = [\"192.0.2.0/24:*\"]");
    let idle = Idle::now([&depot]);
    let (head, text) = asked_without_descriptors(&depot, "/lh1/fetch/-/http:192.0.2.1/");
    assert!(status(&head) == 503 && text.contains("cannot be judged"), "{head}{text}");
    idle.again();
}

/// How many descriptors a depot [`with_few_descriptors`] may have.
const FEW: usize = 40;

/// A depot that may have few, with rules for upstreams.
fn with_few_descriptors(rules: &str) -> Daemon {
    let rules = format!("[allow]\nclients = [\"127.0.0.0/8\"]\n{rules}");
    let line = format!("ulimit -n {FEW}; exec \"$0\" \"$@\"");
    Daemon::depot_by(&line, &format!("id = \"d1\"\n{rules}"))
}

/// The answer, head and text, to the first of 64 clients that finds the depot without descriptors.
fn asked_without_descriptors(depot: &Daemon, route: &str) -> (String, String) {
    let waiting = [(); 64].map(|()| connect(depot.address));
    depot.await_log(&["WARN", "cannot accept a connection"]);
    // The depot lends those that it keeps to clients that it cannot serve. Until all are lent, another
    // connection may get one.
    until("no descriptor is free, nor will be", || {
        let before = depot.descriptors();
        thread::sleep(Duration::from_millis(200));
        before.len() >= FEW && before == depot.descriptors()
    });
    let mut first = &waiting[0];
    write!(first, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    let (head, body, _) = read_answer(waiting[0].try_clone().unwrap());
    (head, String::from_utf8_lossy(&body).into_owned())
}

#[test]
fn descriptor_exhaustion_is_not_reported_as_nxdomain() {
    let origin = Scripted::answering(SERVED);
    let route = format!("/lh1/fetch/-/http:localhost:{}/", origin.address.port());
    // The resolver says what it lacks only when it has opened its files before.
    for looked_up_before in [false, true] {
        let depot = with_few_descriptors("upstreams = [\"localhost:*\"]\nlocal = true");
        let idle = Idle::now([&depot]);
        if looked_up_before {
            let (head, ..) = get(depot.address, &route);
            assert_eq!(status(&head), 200, "{head}");
            idle.again();
        }
        let (head, text) = asked_without_descriptors(&depot, &route);
        assert_eq!(status(&head), 503, "{looked_up_before}: {head}{text}");
        assert!(head.contains("error=proxy_internal_error"), "{head}");
        assert!(
            head.contains("Retry-After: ") && text.contains("cannot look up the name"),
            "{head}{text}"
        );
        idle.again();
        // Connections that wait in the backlog may take the descriptors once more.
        until("it recovers", || status(&get(depot.address, &route).0) == 200);
    }
}

#[test]
fn exhausted_pipe_pages_fall_back_to_copying() {
    const PIPE: usize = 1 << 20;
    // SAFETY: asks a number of the C library.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let pages = fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").unwrap();
    let pages: usize = pages.trim().parse().unwrap();
    let number = pages * page / PIPE;
    assert!(
        (3..200).contains(&number),
        "fs.pipe-user-pages-soft is {pages}, so that no user reaches it; set the kernel's 16384"
    );
    // Clients that wait for their turn are slow ones to the depot.
    let limits = "[limits]\npipe = \"1MB\"\nleast_rate = \"off\"";
    let depot = Daemon::depot_of_a_user(&format!("id = \"d1\"\n{limits}"));
    let idle = Idle::now([&depot]);
    // More than sockets and pipe of a transfer hold: with a client that waits, its pipe is never empty.
    let body = Arc::new(noise(112, 8 << 20));
    let origin = Scripted::new({
        let body = Arc::clone(&body);
        move |mut stream, _| {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
            let _ = stream.write_all(&body);
        }
    });
    let route = origin.route("-", "/");
    let mut waiting: Vec<_> = (0..number).map(|_| ask(&depot, &route)).collect();
    // The user may have had some before.
    until("nearly all that the user may have is in pipes", || {
        Held::by(depot.pid()).pipes >= (number - 2) * PIPE
    });
    waiting.extend((0..6).map(|_| ask(&depot, &route)));
    // Before pipes are given back, so that these find none.
    for client in &waiting[number..] {
        until("their bodies come", || client.peek(&mut [0; 4096]).is_ok_and(|count| count == 4096));
    }
    for client in waiting {
        let (_, got, end) = read_answer(client);
        assert!(end.is_ok() && got == *body, "{} bytes, {end:?}", got.len());
    }
    for relay in ["splice", "copy"] {
        depot.await_log(&["INFO", "complete", "bytes=8388608", &format!("copy=\"{relay}\"")]);
    }
    idle.again();
}

#[test]
fn full_disk_loses_and_counts_log_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display();
    // A file system of two pages in the depot's view alone; it goes with the depot.
    let line = format!(
        "exec unshare --mount --propagation private sh -c \
         'mount -t tmpfs -o size=64k tmpfs {path} && head -c 57344 /dev/zero >{path}/filler && \
         exec \"$0\" \"$@\"' \"$0\" \"$@\""
    );
    let depot = Daemon::depot_by(
        &line,
        &format!(
            "id = \"d1\"\nadmin.listen = \"127.0.0.1:0\"\n[log]\naccess = \"{path}/access.log\"\n\
             format = \"json\""
        ),
    );
    let idle = Idle::now([&depot]);
    let seen = format!("/proc/{}/root{path}", depot.pid());
    let origin = Scripted::answering(SERVED);
    let route = origin.route("-", "/");
    let dropped = || fetch_status(&depot.admin().to_string()).unwrap().0.access_log.dropped_lines;
    let mut asked = 0;
    let mut ask = || {
        let (head, body, end) = get(depot.address, &route);
        assert!(status(&head) == 200 && body == b"served" && end.is_ok(), "{head}");
        asked += 1;
    };
    until("the disk is full", || {
        ask();
        dropped() > 0
    });
    depot.await_log(&["WARN", "cannot write the access log", "No space left on device"]);
    ask();
    fs::remove_file(format!("{seen}/filler")).unwrap();
    until("the log is written again", || {
        ask();
        depot.log_text().contains(" is written again; ")
    });
    // All lines but those counted, and none of them spoiled.
    let mut whole = 0;
    until("each line is there or counted", || {
        let text = fs::read_to_string(format!("{seen}/access.log")).unwrap();
        let lines = text.lines().map(serde_json::from_str::<serde_json::Value>);
        let (good, bad): (Vec<_>, Vec<_>) = lines.partition(Result::is_ok);
        assert!(bad.len() <= 1, "only the line that met the end of the disk is torn: {text}");
        whole = good.len() as u64;
        whole + dropped() == asked
    });
    assert!(whole > 0 && dropped() > 0);
    idle.again();
}

#[test]
fn descriptor_exhaustion_gives_503_and_admin_works() {
    for limit in [24, 40, 64] {
        let settings = "id = \"d1\"\nadmin.listen = \"127.0.0.1:0\"";
        let depot = Daemon::depot_by(&format!("ulimit -n {limit}; exec \"$0\" \"$@\""), settings);
        // It says at the start what it would need.
        depot.await_log(&["WARN", "too low for limits.connections = 1024", "ulimit -n 4162"]);
        let idle = Idle::now([&depot]);
        let held = [(); 64].map(|()| connect(depot.address));
        depot.await_log(&["WARN", "cannot accept a connection"]);
        for _ in 0..10 {
            let status = depot.status();
            assert!(status.accept_failures > 0, "{status:?}");
            assert_eq!(status.memory.open_files_limit, limit);
            // As the alert sees it.
            assert!(status.memory.open_files as u64 * 10 > limit * 9, "{:?}", status.memory);
        }
        // Those that are let in ask for nothing, and hold what there is; one that is not is told so.
        let told = held.iter().any(|mut client| {
            client.set_read_timeout(Some(std::time::Duration::from_millis(100))).unwrap();
            let mut text = [0; 12];
            client.read_exact(&mut text).is_ok() && &text == b"HTTP/1.1 503"
        });
        assert!(told, "ulimit -n {limit}: no client gets an answer");
        drop(held);
        let origin = Scripted::answering(SERVED);
        until("it recovers", || status(&get(depot.address, &origin.route("-", "/")).0) == 200);
        idle.again();
    }
}
