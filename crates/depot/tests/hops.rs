// SPDX-License-Identifier: GPL-2.0-or-later
//! Each hop with a transport of its own, as it was set and as the kernel says it back.

mod common;

use common::{
    client::{body, get, status},
    noise,
    process::Daemon,
    scripted::Scripted,
    sha256,
};

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
