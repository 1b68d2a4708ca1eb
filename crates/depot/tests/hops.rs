// SPDX-License-Identifier: GPL-2.0-or-later
//! Each hop with a transport of its own, as it was set and as the kernel says it back.

mod common;

use common::{
    client::{body, connect_from, get, read_answer, run, status},
    noise,
    process::Daemon,
    scripted::Scripted,
    sha256,
};
use rustix::net::sockopt;
use std::{fs, io::Write, net::TcpListener};

/// An origin with a body.
fn origin(body: &[u8]) -> Scripted {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    Scripted::answering(answer)
}

const HOP: &str = "[[hop]]\npeer = \"127.0.0.0/8\"\n";

#[test]
fn depots_speak_multipath_tcp_to_each_other_and_tcp_to_others() {
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
fn what_is_set_is_what_the_kernel_says() {
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
fn clients_have_the_congestion_control_of_their_hop_whatever_the_listener_has() {
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
    // What is said of the network and of one client in it; what the listener has, then, and a
    // connection from elsewhere, and from that client.
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
