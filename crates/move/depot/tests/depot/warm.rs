// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections between depots that are open before they are needed, and who may hold them.

use crate::common::{
    client::{connect_from, get, run, status},
    network::{ip, own_network},
    process::Daemon,
    scripted::{Gate, Scripted, halting, read_head},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    thread::sleep,
    time::{Duration, Instant},
};
use testkit::until;

const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";
const TRUST: &str = "admin.listen = \"127.0.0.1:0\"\ntrust.depots = [\"127.0.0.0/8\"]";

/// A depot that keeps three connections open to the next one.
fn near(hop: &str) -> Daemon {
    Daemon::depot(&format!("id = \"near\"\n{TRUST}\n{}", warm(hop)))
}

fn warm(hop: &str) -> String {
    format!("[[hop]]\npeer = \"127.0.0.0/8\"\nwarm = 3\n{hop}")
}

/// The next depot, where connections that are not held last three seconds: the near one looks at them each
/// second.
fn far() -> Daemon {
    Daemon::depot(&format!("id = \"far\"\n{TRUST}\ntimeouts.keep_alive = \"3s\""))
}

/// How many connections were opened for requests.
fn connects(depot: &Daemon) -> u64 {
    depot.status().times.connect.counts.iter().sum()
}

fn idle(depot: &Daemon) -> usize {
    depot.status().connections.idle_upstream
}

fn held(depot: &Daemon) -> usize {
    depot.status().connections.held
}

fn served(depot: &Daemon, route: &str) {
    let (head, body, _) = get(depot.address, route);
    assert_eq!((status(&head), &body[..]), (200, &b"served"[..]), "{head}");
}

/// Has a request open a connection, and waits until it and the three ahead of need are idle, and held.
fn warm_up(near: &Daemon, far: &Daemon) {
    let gate = Gate::default();
    let origin = halting(b"served", &gate);
    let route = origin.route(&far.authority(), "/");
    std::thread::scope(|scope| {
        scope.spawn(|| served(near, &route));
        // As long as the request has its own: otherwise that one might be the first of the three.
        until("three are ready", || idle(near) == 3);
        gate.open();
    });
    until("all are idle", || idle(near) == 4 && held(far) == 4);
}

/// Asks to hold a connection; the answer's status, and for how long.
fn ask_to_hold(mut client: &TcpStream, fields: &str) -> (u16, Option<u32>) {
    write!(client, "GET /lh1/hold HTTP/1.1\r\nHost: d\r\n{fields}\r\n").unwrap();
    let head = read_head(client).expect("an answer");
    let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next());
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    client.read_exact(&mut body).unwrap();
    let hold: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    let idle_s = hold.and_then(|hold| u32::try_from(hold["idle_s"].as_u64()?).ok());
    (status(&head), idle_s)
}

#[test]
fn held_connections_serve_requests() {
    let (near, far) = (near(""), far());
    let route = Scripted::answering(SERVED).route(&far.authority(), "/");
    warm_up(&near, &far);
    let opened = connects(&near);
    // Longer than either side keeps those that are not held.
    sleep(Duration::from_secs(5));
    assert_eq!((idle(&near), held(&far)), (4, 4));
    for _ in 0..5 {
        served(&near, &route);
    }
    assert_eq!(connects(&near), opened, "each request found one");
    assert_eq!(far.status().connections.open, 0, "they are not among other clients");
}

#[test]
fn warm_pool_follows_demand() {
    let (near, far, gate) = (near("idle = \"3s\""), far(), Gate::default());
    let route = halting(b"served", &gate).route(&far.authority(), "/");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| served(&near, &route));
        }
        until("all are under way", || near.status().live_transfers == 8);
        until("and others ready", || idle(&near) >= 3);
        gate.open();
    });
    until("those that were needed wait, too", || idle(&near) >= 8 && held(&far) >= 8);
    until("unused connections are closed", || idle(&near) == 0 && held(&far) == 0);
}

#[test]
fn restarted_next_depot_causes_no_client_error() {
    let near = near("");
    let far = far();
    let settings = format!("id = \"far\"\nlisten = [\"{}\"]\n{TRUST}", far.address);
    let route = Scripted::answering(SERVED).route(&far.authority(), "/");
    warm_up(&near, &far);
    drop(far);
    let far = Daemon::depot_with(&settings);
    for _ in 0..8 {
        served(&near, &route);
    }
    until("others are open in their place", || idle(&near) >= 3 && held(&far) >= 3);
}

#[test]
fn dead_warm_connection_causes_no_client_error() {
    own_network();
    let (near, far) = (near(""), far());
    let route = Scripted::answering(SERVED).route(&far.authority(), "/");
    warm_up(&near, &far);
    let list = run("ss", "iproute2", &["-Htn", "state", "established"]);
    let list = String::from_utf8(list.stdout).unwrap();
    let far_port = far.address.port();
    let ports = list.lines().filter_map(|line| {
        let (own, peer) = line.split_once("127.0.0.1:")?.1.split_once("127.0.0.1:")?;
        let (own, peer) = (own.trim(), peer.trim());
        (peer.parse() == Ok(far_port)).then(|| own.to_owned())
    });
    let ports: Vec<_> = ports.collect();
    assert_eq!(ports.len(), 4, "{list}");
    // As a middlebox does that has forgotten them: nothing of theirs comes back.
    ip("rule add pref 10 lookup local");
    ip("rule del pref 0");
    for port in &ports {
        ip(&format!("rule add pref 1 ipproto tcp sport {far_port} dport {port} blackhole"));
    }
    let opened = connects(&near);
    served(&near, &route);
    assert_eq!(connects(&near), opened + 1, "a new one at once, not one dead one after the other");
    until("others are open in their place", || idle(&near) >= 3);
    served(&near, &route);
    assert_eq!(connects(&near), opened + 1);
}

#[test]
fn reload_keeps_warm_connections() {
    let (dir, far) = (tempfile::tempdir().unwrap(), far());
    let file = dir.path().join("depot.toml");
    let text = |idle: &str| {
        format!(
            "listen = [\"127.0.0.1:0\"]\n{TRUST}\n[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\n\
             upstreams = [\"127.0.0.0/8:*\"]\n[idle_connections]\nidle = \"{idle}\"\n{}",
            warm("")
        )
    };
    let near = Daemon::of_file(&file, &text("4s"));
    let route = Scripted::answering(SERVED).route(&far.authority(), "/");
    warm_up(&near, &far);
    let opened = connects(&near);
    near.read_again(&file, &text("2s"));
    assert_eq!((idle(&near), held(&far)), (4, 4));
    served(&near, &route);
    assert_eq!(connects(&near), opened);
}

#[test]
fn invented_names_are_not_kept_warm() {
    let (near, far) = (near(""), far());
    let origin = Scripted::answering(SERVED);
    // The rules list its address and not its name.
    served(&near, &origin.route(&format!("localhost:{}", far.address.port()), "/"));
    sleep(Duration::from_secs(2));
    assert_eq!(held(&far), 0);
    assert!(idle(&near) <= 1, "the one that the request needed");
}

#[test]
fn held_connections_need_trust_and_are_bounded() {
    let depot = Daemon::depot(
        "admin.listen = \"127.0.0.1:0\"\ntrust.depots = [\"127.0.0.2/32\"]\nlimits.held = 1\n\
         [[hop]]\npeer = \"127.0.0.2/32\"\nidle = \"1h\"",
    );
    let stranger = connect_from("127.0.0.3", depot.address);
    assert_eq!(ask_to_hold(&stranger, "Keep-Alive: timeout=5\r\n"), (403, None));
    assert_eq!((&stranger).read(&mut [0]).unwrap(), 0, "and is let go");
    depot.await_log(&["403", "/lh1/hold"]);
    let trusted = connect_from("127.0.0.2", depot.address);
    for (asked, got) in [
        ("", 3600),
        ("Keep-Alive: timeout=99999999999\r\n", 3600),
        ("Keep-Alive: timeout=soon\r\n", 3600),
        ("Keep-Alive: max=1, timeout=90\r\n", 90),
    ] {
        assert_eq!(ask_to_hold(&trusted, asked), (200, Some(got)), "{asked}");
        assert_eq!(held(&depot), 1, "however often it asks");
    }
    let other = connect_from("127.0.0.2", depot.address);
    assert_eq!(ask_to_hold(&other, "Keep-Alive: timeout=5\r\n"), (503, None));
    drop(trusted);
    until("its place is free", || held(&depot) == 0);
    let other = connect_from("127.0.0.2", depot.address);
    assert_eq!(ask_to_hold(&other, "Keep-Alive: timeout=1\r\n"), (200, Some(1)));
    let begun = Instant::now();
    assert_eq!((&other).read(&mut [0]).unwrap(), 0);
    // The depot counts from before the answer was read.
    let lasted = begun.elapsed();
    assert!(lasted >= Duration::from_millis(900), "{lasted:?}, not as long as was agreed");
    until("and no longer", || held(&depot) == 0);
}

#[test]
fn warm_connection_is_primed_once() {
    let depot = Daemon::depot(
        "trust.depots = [\"127.0.0.2/32\"]\n[[hop]]\npeer = \"127.0.0.2/32\"\nprime = \"30KB\"",
    );
    let length = |client: &mut TcpStream, fields: &str| {
        write!(client, "GET /lh1/hold HTTP/1.1\r\nHost: d\r\n{fields}\r\n").unwrap();
        let head = read_head(client).expect("an answer");
        let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next());
        let mut body = vec![0; length.expect("it has a length").parse().unwrap()];
        client.read_exact(&mut body).unwrap();
        let hold: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(hold["idle_s"], 600);
        body.len()
    };
    for (asked, expected) in [
        ("Longhaul-Prime: 20000\r\n", 20_000),
        ("Longhaul-Prime: 99999999\r\n", 30 << 10),
        ("Longhaul-Prime: 18446744073709551616\r\n", 15),
        ("Longhaul-Prime: -1\r\n", 15),
        ("Longhaul-Prime: 3\r\n", 25),
        ("", 15),
    ] {
        let mut client = connect_from("127.0.0.2", depot.address);
        assert_eq!(length(&mut client, asked), expected, "{asked}");
        // Only the first answer: a hold request cannot serve as a download.
        assert_eq!(length(&mut client, asked), 15, "{asked}, again");
    }
}

/// Sends a depot this many bytes to grow the window towards it; the answer's status and body.
fn prime(mut client: &TcpStream, bytes: usize) -> (u16, String) {
    write!(client, "PUT /lh1/hold HTTP/1.1\r\nHost: d\r\nKeep-Alive: timeout=60\r\n").unwrap();
    write!(client, "Content-Length: {bytes}\r\n\r\n").unwrap();
    // A depot that refuses does not read it all.
    let _ = client.write_all(&vec![b' '; bytes]);
    let head = read_head(client).expect("an answer");
    let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next());
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    client.read_exact(&mut body).unwrap();
    (status(&head), String::from_utf8(body).unwrap())
}

#[test]
fn own_window_is_primed_once_and_as_allowed() {
    let depot = Daemon::depot(
        "admin.listen = \"127.0.0.1:0\"\ntrust.depots = [\"127.0.0.2/32\"]\n\
         [[hop]]\npeer = \"127.0.0.2/32\"\nprime = \"30KB\"",
    );
    let ask = |client: &TcpStream, fields: &str| {
        let mut client = client;
        write!(client, "GET /lh1/hold HTTP/1.1\r\nHost: d\r\n{fields}\r\n").unwrap();
        let head = read_head(client).expect("an answer");
        let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next());
        let mut body = vec![0; length.expect("it has a length").parse().unwrap()];
        client.read_exact(&mut body).unwrap();
        serde_json::from_slice::<serde_json::Value>(&body).unwrap()["takes"].as_u64()
    };
    // What it would send is what it takes.
    for (asked, takes) in [("99999999", Some(30 << 10)), ("20000", Some(20_000)), ("0", None)] {
        let client = connect_from("127.0.0.2", depot.address);
        assert_eq!(ask(&client, &format!("Longhaul-Prime: {asked}\r\n")), takes, "{asked}");
        let Some(takes) = takes else {
            assert_eq!(prime(&client, 1).0, 413, "it was not told that it may");
            continue;
        };
        let (code, body) = prime(&client, takes as usize);
        assert_eq!((code, body.trim()), (200, "{\"idle_s\":60}"));
        // The connection serves the next request, and is held for the time that was asked for last.
        assert_eq!(ask(&client, ""), None);
        assert_eq!(prime(&client, 1).0, 413, "a second time");
        assert_eq!((&client).read(&mut [0]).unwrap_or(0), 0, "and it is closed");
    }
    let greedy = connect_from("127.0.0.2", depot.address);
    assert_eq!(ask(&greedy, "Longhaul-Prime: 1000\r\n"), Some(1000));
    assert_eq!(prime(&greedy, 1001).0, 413);
    let stranger = connect_from("127.0.0.3", depot.address);
    assert_eq!(prime(&stranger, 1).0, 403);
    depot.await_log(&["403", "/lh1/hold"]);
    until("nothing is held", || held(&depot) == 0);
}

#[test]
fn depot_that_takes_no_prime_is_sent_none() {
    // As versions before this one answer.
    let old = Scripted::new(|mut stream, head| {
        let mut head = Some(head.to_owned());
        while let Some(request) = head {
            assert!(request.starts_with("GET "), "{request}");
            let hold = "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"idle_s\":600}\n";
            let answer = if request.contains("/lh1/hold ") { hold } else { SERVED };
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
            head = read_head(&stream);
        }
    });
    let near = near("");
    let origin = Scripted::answering(SERVED);
    served(&near, &origin.route(&old.address.to_string(), "/"));
    until("three are ready", || idle(&near) >= 3);
    while let Some(head) = old.try_next_head() {
        assert!(head.starts_with("GET "), "{head}");
    }
}

#[test]
fn warm_connections_have_grown_windows() {
    let (near, far) = (near("prime = \"300KB\""), far());
    let origin = Scripted::answering(SERVED);
    served(&near, &origin.route(&far.authority(), "/f"));
    until("three wait", || idle(&near) >= 3);
    // Of 10 segments of 64 KB at most at first, on loopback.
    let grown = || sockets_that_sent("sport", far.address.port(), 300 << 10);
    until("two of them carried what was asked for", || grown() >= 2);
    let grown = || sockets_that_sent("dport", far.address.port(), 300 << 10);
    until("and as much in the other direction", || grown() >= 2);
}

#[test]
fn grown_connection_serves_the_next_request() {
    let (near, far) = (near("prime = \"300KB\""), far());
    let route = Scripted::answering(SERVED).route(&far.authority(), "/f");
    warm_up(&near, &far);
    let carried = || bytes_sent_by_sockets("sport", far.address.port());
    let before = carried();
    let opened = before.iter().filter(|bytes| **bytes < 300 << 10).collect::<Vec<_>>();
    assert_eq!(
        (before.len(), opened.len()),
        (4, 1),
        "that of the request is not primed: {before:?}"
    );
    for _ in 0..3 {
        // One that has not come back yet would be replaced by another.
        until("all of them wait", || idle(&near) >= 4);
        served(&near, &route);
    }
    let after = carried();
    assert_eq!((after.len(), after[0]), (4, before[0]), "{before:?}, then {after:?}");
    assert!(after.iter().sum::<u64>() > before.iter().sum(), "{before:?}, then {after:?}");
}

/// How many loopback connections of a port have sent this many bytes that were acknowledged: from it (`sport`) or to it
/// (`dport`).
fn sockets_that_sent(end: &str, port: u16, bytes: u64) -> usize {
    bytes_sent_by_sockets(end, port).into_iter().filter(|sent| *sent >= bytes).count()
}

/// The acknowledged bytes of each loopback connection of a port, the fewest first.
fn bytes_sent_by_sockets(end: &str, port: u16) -> Vec<u64> {
    let listed = run("ss", "iproute2", &["-tinHO", &format!("{end} = :{port}")]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let acked = |line: &str| line.split("bytes_acked:").nth(1)?.split(' ').next()?.parse().ok();
    let mut all: Vec<u64> = text.lines().filter_map(acked).collect();
    all.sort_unstable();
    all
}

#[test]
fn held_connection_has_the_usual_head_timeout() {
    let depot = Daemon::depot(&format!("{TRUST}\ntimeouts.request_head = \"500ms\""));
    let mut client = connect_from("127.0.0.2", depot.address);
    assert_eq!(ask_to_hold(&client, "Keep-Alive: timeout=600\r\n").0, 200);
    client.write_all(b"GET /lh1/ho").unwrap();
    assert_eq!(status(&read_head(&client).expect("an answer")), 408);
}

#[test]
fn refusing_depot_is_asked_with_backoff() {
    let near = near("");
    let far = Daemon::depot("id = \"far\"\nadmin.listen = \"127.0.0.1:0\"");
    let route = Scripted::answering(SERVED).route(&far.authority(), "/");
    served(&near, &route);
    near.await_log(&["no warm connections", "answers 403"]);
    sleep(Duration::from_secs(3));
    served(&near, &route);
    let asked = far.log_text().matches("/lh1/hold").count();
    assert!((1..=2 * 8).contains(&asked), "{asked} times, of which 8 are at the same time");
}
