// SPDX-License-Identifier: GPL-2.0-or-later
//! Each hop with a transport of its own, as it was set and as the kernel says it back.

use crate::common::{
    client::{body, connect_from, curl, get, read_answer, run, status},
    network::{ip, own_network},
    noise,
    process::{Daemon, PACED},
    scripted::Scripted,
    sha256,
};
use rustix::net::sockopt;
use std::{fs, io::Write, net::TcpListener, time::Duration};
use testkit::until;

/// An origin with a body.
fn origin(body: &[u8]) -> Scripted {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    Scripted::answering(answer)
}

const HOP: &str = "[[hop]]\npeer = \"127.0.0.0/8\"\n";

#[test]
fn depots_use_mptcp_among_themselves_only() {
    let body = noise(91, 3_000_017);
    let (near, far) = (
        Daemon::depot(&format!("id = \"near\"\n{HOP}mptcp = true")),
        Daemon::depot(&format!("id = \"far\"\n{HOP}mptcp = true")),
    );
    let origin = origin(&body);
    let got = self::body(&near.url(&origin.route(&far.authority(), "/")));
    assert_eq!(sha256(&got), sha256(&body));
    // curl and the origin know nothing of it; the depots do.
    let near = near.await_log(&["complete"]);
    assert!(near.contains("upstream_mptcp=true") && !near.contains("client_mptcp"), "{near}");
    let far = far.await_log(&["complete"]);
    assert!(far.contains("client_mptcp=true") && !far.contains("upstream_mptcp"), "{far}");
}

#[test]
fn hop_with_a_tiny_window_is_seen_to_creep() {
    let body = noise(94, 600_000);
    let sent = body.clone();
    // Slow enough to be looked at, and still more than the window each time.
    let origin = Scripted::new(move |mut stream, _| {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", sent.len()).unwrap();
        for part in sent.chunks(20_000) {
            stream.write_all(part).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let depot = Daemon::depot(&format!("admin.listen = \"127.0.0.1:0\"\n{HOP}rcvbuf = \"4KB\""));
    let (head, got, _) = get(depot.address, &origin.route("-", "/"));
    assert_eq!((status(&head), sha256(&got)), (200, sha256(&body)));
    let line = depot.await_log(&["complete", "upstream_crept_us="]);
    assert!(!line.contains("client_crept_us"), "the client sends next to nothing: {line}");
    depot.await_log(&["a few segments at a time", "peer=127.0.0.1:"]);
    let name = "longhaul_depot_hop_crept_seconds_total{side=\"upstream\"";
    let metrics = self::body(&format!("http://{}/metrics", depot.admin()));
    let metrics = String::from_utf8(metrics).unwrap();
    let value = metrics.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(value.rsplit(' ').next().unwrap().parse::<f64>().unwrap() > 0.0, "{value}");
}

#[test]
fn hop_settings_match_the_kernel() {
    let body = noise(92, 1_000_000);
    let set =
        "congestion = \"reno\"\npacing = \"80mbit\"\nnotsent_lowat = \"64KB\"\nsndbuf = \"256KB\"";
    let depot = Daemon::depot(&format!("{HOP}{set}"));
    let (head, got, _) = get(depot.address, &origin(&body).route("-", "/"));
    assert_eq!(status(&head), 200);
    assert_eq!(sha256(&got), sha256(&body));
    let line = depot.await_log(&["complete"]);
    for said in [
        "client_cc=\"reno\"",
        "client_pacing_bps=80000000",
        "client_notsent_lowat_bytes=65536",
        "client_sndbuf_bytes=524288",
        "upstream_cc=\"reno\"",
        "upstream_pacing_bps=80000000",
    ] {
        assert!(line.contains(said), "{said}: {line}");
    }
}

/// The settings of a depot that is open for loopback, with these hops.
fn open(hops: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\nadmin.listen = \"127.0.0.1:0\"\n[allow]\n\
         clients = [\"127.0.0.0/8\"]\nupstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n{hops}"
    )
}

#[test]
fn tcp_pacing_applies_unless_a_rate_is_set() {
    let body = noise(93, 100_000);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("depot.toml");
    let paced = |more: &str| open(&format!("{HOP}pacing = \"tcp\"\n{more}"));
    let depot = Daemon::of_file(&file, &paced(""));
    let route = origin(&body).route("-", "/");
    let fetch = || {
        let before = depot.log_text().matches("complete").count();
        let (_, got, _) = get(depot.address, &route);
        assert_eq!(sha256(&got), sha256(&body));
        until("its line", || depot.log_text().matches("complete").count() > before);
        depot.log_text().lines().rfind(|line| line.contains("complete")).unwrap().to_owned()
    };
    let line = fetch();
    for said in ["client_pacing=\"tcp\"", "upstream_pacing=\"tcp\""] {
        assert!(line.contains(said), "{said}: {line}");
    }
    assert!(!line.contains("pacing_bps"), "no rate is set: {line}");
    depot.read_again(&file, &paced("[limits]\nclient_rate = \"80mbit\""));
    let line = fetch();
    let said = "client_pacing=\"tcp\" client_pacing_bps=80000000";
    assert!(line.contains(said), "{line}");
    // Both connections are new: nothing paces them.
    depot.read_again(&file, &open(&format!("{HOP}pacing = \"none\"")));
    let line = fetch();
    assert!(!line.contains("pacing"), "{line}");
}

#[test]
fn missing_packet_pacing_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let (file, kernel) = (dir.path().join("depot.toml"), dir.path().join("paced"));
    let text = open(&format!("{HOP}pacing = \"gap\""));
    fs::write(&file, &text).unwrap();
    let start = || {
        let settings = format!("file:{}", file.display());
        let mut command = Daemon::command("exec \"$0\" \"$@\"", "depot", &settings);
        Daemon::launched(command.env(PACED, &kernel))
    };
    let said = start().err().expect("nothing is paced");
    let expected = "[[hop]] peer = \"127.0.0.0/8\", pacing = \"gap\": nothing is paced by gap";
    assert!(said.contains(expected), "{said}");
    fs::write(&kernel, "").unwrap();
    let depot = start().unwrap_or_else(|log| panic!("{log}"));
    let body = noise(94, 100_000);
    let route = origin(&body).route("-", "/");
    assert_eq!(sha256(&get(depot.address, &route).1), sha256(&body));
    let line = depot.await_log(&["complete"]);
    for said in ["client_pacing=\"gap\"", "upstream_pacing=\"gap\""] {
        assert!(line.contains(said), "{said}: {line}");
    }
    let paced = || {
        let status = depot.status();
        let [one] = &status.paced[..] else { panic!("{status:?}") };
        assert_eq!((one.peer.as_str(), one.pacing.as_str()), ("127.0.0.0/8", "gap"));
        one.in_force
    };
    assert!(paced());

    // Pacing is removed, and comes back.
    fs::remove_file(&kernel).unwrap();
    depot.await_log(&["WARN", "not paced any more", "peer=\"127.0.0.0/8\"", "nothing is paced"]);
    assert!(!paced());
    let metrics = curl(&[&format!("http://{}/metrics", depot.admin())]);
    let metrics = String::from_utf8(metrics.stdout).unwrap();
    let expected = "longhaul_depot_paced{peer=\"127.0.0.0/8\",pacing=\"gap\"} 0";
    assert!(metrics.contains(expected), "{metrics}");
    fs::write(&file, format!("{text}\nnotsent_lowat = \"64KB\"")).unwrap();
    depot.signal(rustix::process::Signal::HUP);
    depot.await_log(&["the configuration stays as it was", "nothing is paced by gap"]);
    fs::write(&kernel, "").unwrap();
    depot.await_log(&["INFO", "paced again"]);
    assert!(paced());
    depot.read_again(&file, &open(&format!("{HOP}pacing = \"none\"")));
    assert!(depot.status().paced.is_empty());
}

/// The congestion control that a depot's connection from this address has, by the line of its request.
fn accepted(depot: &Daemon, origin: &Scripted, from: &str, name: &str) -> String {
    let mut client = connect_from(from, depot.address);
    let route = origin.route("-", name);
    write!(client, "GET {route} HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(status(&read_answer(client).0), 200);
    let line = depot.await_log(&["complete", &format!("{name}\"")]);
    let said = line.split("client_cc=\"").nth(1).and_then(|rest| rest.split('"').next());
    said.unwrap_or_else(|| panic!("{line}")).to_owned()
}

/// The congestion control of a depot's listener, which it hands on to what it accepts.
fn listening(depot: &Daemon) -> String {
    let port = format!("sport = :{}", depot.address.port());
    let output = run("ss", "iproute2", &["-H", "-t", "-l", "-n", "-i", &port]);
    let text = String::from_utf8(output.stdout).unwrap();
    let said = text.lines().nth(1).and_then(|line| line.split_whitespace().next());
    said.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn client_congestion_control_is_of_its_hop() {
    let system = TcpListener::bind("127.0.0.1:0").unwrap();
    let system = sockopt::tcp_congestion(&system).unwrap();
    let all = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let mut others = all.split_whitespace().filter(|name| *name != system);
    let one = others.next().unwrap_or_else(|| panic!("one besides {system}: {all}"));
    // Many kernels have two in all.
    let other = others.next().unwrap_or(&system);
    let hop = |net: &str, congestion: &str| {
        let set = match congestion {
            "" => String::new(),
            name => format!("congestion = \"{name}\"\n"),
        };
        format!("[[hop]]\npeer = \"{net}\"\n{set}")
    };
    let (wide, host) = (|cc| hop("127.0.0.0/8", cc), |cc| hop("127.0.0.2/32", cc));
    // The hop settings of the network and of one client in it; then the settings of the listener, of a
    // connection from elsewhere, and of one from that client.
    let cases = [
        (wide(one), [one, one, one]),
        (String::new(), [&system, &system, &system]),
        (wide(one) + &host(other), [one, one, other]),
        (host(other), [&system, &system, other]),
        (wide(other) + &host(&system), [other, other, &system]),
        (wide(one) + &host(""), [&system, one, &system]),
        (wide(other), [other, other, other]),
        (wide(""), [&system, &system, &system]),
    ];
    let text = |hops: &str| {
        format!(
            "listen = [\"127.0.0.1:0\"]\n[allow]\nclients = [\"127.0.0.0/8\"]\n\
             upstreams = [\"127.0.0.0/8:*\"]\nlocal = true\n{hops}"
        )
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("depot.toml");
    let depot = Daemon::of_file(&file, &text(&cases[0].0));
    let origin = origin(b"served");
    for (n, (hops, wanted)) in cases.iter().enumerate() {
        if n > 0 {
            depot.read_again(&file, &text(hops));
        }
        let got = [
            listening(&depot),
            accepted(&depot, &origin, "127.0.0.1", &format!("/{n}/elsewhere")),
            accepted(&depot, &origin, "127.0.0.2", &format!("/{n}/there")),
        ];
        assert_eq!(got, *wanted, "{hops}");
    }
}

/// Has this thread, and whatever it starts, see a network of its own, of which the route to all peers
/// carries this.
fn network_with(route: &str) {
    own_network();
    set_route(route);
}

fn set_route(route: &str) {
    let local = "route replace table local local 127.0.0.1 dev lo proto kernel scope host";
    ip(&format!("{local} src 127.0.0.1 {route}"));
}

#[test]
fn route_congestion_control_is_overridden_or_warned() {
    let system = TcpListener::bind("127.0.0.1:0").unwrap();
    let all = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let system = sockopt::tcp_congestion(&system).unwrap();
    // The routes' is neither the hop's nor what connections have by themselves.
    let mut others = all.split_whitespace().filter(|name| *name != system);
    let routes = others.next().unwrap_or_else(|| panic!("one besides {system}: {all}"));
    let wanted = others.next().unwrap_or(&system);
    network_with(&format!("congctl {routes}"));
    let hop = format!("{HOP}congestion = \"{wanted}\"");
    let (near, far) = (
        Daemon::depot(&format!("id = \"near\"\nidle_connections.per_hop = 0\n{hop}")),
        Daemon::depot(&format!("id = \"far\"\n{hop}")),
    );
    let origin = origin(b"served");
    let route = origin.route(&far.authority(), "/");
    assert_eq!(status(&get(near.address, &route).0), 200);
    for depot in [&near, &far] {
        let line = depot.await_log(&["complete"]);
        for said in [format!("upstream_cc=\"{wanted}\""), format!("client_cc=\"{wanted}\"")] {
            assert!(line.contains(&said), "{said}: {line}");
        }
        assert!(!depot.log_text().contains("another congestion control"), "{}", depot.log_text());
    }

    // If the route overrules the setting, requests are served, and the depot warns once.
    let warnings = || near.log_text().matches("another congestion control than").count();
    for round in 1..=2 {
        set_route(&format!("congctl lock {routes}"));
        for _ in 0..3 {
            assert_eq!(status(&get(near.address, &route).0), 200);
        }
        near.await_log(&[
            "WARN",
            "another congestion control than [[hop]] asks for",
            "peer=127.0.0.0/8",
            &format!("wanted=\"{wanted}\" in_force=\"{routes}\""),
        ]);
        // Now and then it is as asked, as it may be with other peers of the hop.
        set_route(&format!("congctl {routes}"));
        assert_eq!(status(&get(near.address, &route).0), 200);
        set_route(&format!("congctl lock {routes}"));
        assert_eq!(status(&get(near.address, &route).0), 200);
        // Of clients, and of next hops.
        until("the depot warns", || warnings() == 2 * round);
        set_route(&format!("congctl {routes}"));
        let again = || near.log_text().matches("congestion control as asked again").count();
        until("it is right again", || {
            assert_eq!(status(&get(near.address, &route).0), 200);
            again() == 2 * round
        });
        assert_eq!(warnings(), 2 * round);
    }
}
