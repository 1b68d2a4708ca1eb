// SPDX-License-Identifier: GPL-2.0-or-later
//! `[[tcp]]`: plain connections that are relayed to one server.

use super::peers::{Acceptor, await_reset, echo, echoes, sending, to_end};
use crate::common::{
    PATIENCE,
    client::{connect, connect_from},
    noise,
    process::Daemon,
    refusing_address, sha256,
};
use std::{
    io::Read,
    net::{SocketAddr, TcpListener},
};
use testkit::until;

/// Where a depot listens for plain clients.
fn port(depot: &Daemon) -> SocketAddr {
    let ready = depot.await_log(&[" ready "]);
    let port = ready.split("ports=\"").nth(1).and_then(|rest| rest.split('"').next());
    port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{ready}"))
}

const CLIENTS: &str = "[allow]\nclients = [\"127.0.0.1/32\"]\n";

#[test]
fn plain_client_reaches_a_server_through_depots() {
    let server = Acceptor::raw(echo);
    let last = Daemon::depot("id = \"last\"");
    for via in [String::new(), format!("via = [\"{}\"]", last.address)] {
        // Nothing is listed in `allow.upstreams`.
        let first = Daemon::depot(&format!(
            "id = \"first\"\n{CLIENTS}[[tcp]]\nlisten = \"127.0.0.1:0\"\nupstream = \"{}\"\n{via}",
            server.address
        ));
        let data = noise(1, 3 << 20);
        let client = connect(port(&first));
        echoes(&client);
        let sends = sending(&client, data.clone());
        assert_eq!(sha256(&to_end(&client)), sha256(&data));
        sends.join().unwrap();
        let target = format!("target=\"tcp:{}\"", server.address);
        first.await_log(&["ended", "method=\"SESSION\"", &target]);
    }
    last.await_log(&["ended", "method=\"SESSION\"", "session="]);
}

#[test]
fn plain_client_not_listed_or_without_a_server_is_reset() {
    let gone = refusing_address();
    let depot = Daemon::depot(&format!(
        "{CLIENTS}[[tcp]]\nlisten = \"127.0.0.1:0\"\nupstream = \"{gone}\""
    ));
    await_reset(&connect_from("127.0.0.2", port(&depot)));
    depot.await_log(&["refused", "status=403"]);
    await_reset(&connect(port(&depot)));
    depot.await_log(&["refused", "status=502", &gone.to_string()]);
}

#[test]
fn server_learns_port_client_through_trusted_depots() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for (trust, client) in
        [("trust.depots = [\"127.0.0.0/8\"]\n", [127, 0, 0, 3]), ("", [127, 0, 0, 1])]
    {
        let last = Daemon::depot(&format!("id = \"last\"\n{trust}"));
        let first = Daemon::depot(&format!(
            "id = \"first\"\n{trust}[allow]\nclients = [\"127.0.0.0/8\"]\n\
             [[tcp]]\nlisten = \"127.0.0.1:0\"\nupstream = \"{}\"\nvia = [\"{}\"]\nproxy_protocol = true",
            listener.local_addr().unwrap(),
            last.address
        ));
        let _client = connect_from("127.0.0.3", port(&first));
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut header = [0; 28];
        stream.read_exact(&mut header).unwrap();
        assert_eq!((&header[12..16], &header[16..20]), (&[0x21, 0x11, 0, 12][..], &client[..]));
    }
}

#[test]
fn port_keeps_its_server_until_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("depot.toml");
    let server = Acceptor::raw(echo);
    let plain = format!("listen = [\"127.0.0.1:0\"]\n{CLIENTS}");
    let table = format!("[[tcp]]\nlisten = \"127.0.0.1:0\"\nupstream = \"{}\"", server.address);
    let depot = Daemon::of_file(&file, &format!("{plain}{table}"));
    depot.read_again(&file, &plain);
    depot.await_log(&["configuration read again", "waiting=\"tcp\""]);
    echoes(&connect(port(&depot)));
}

#[test]
fn ports_and_sessions_survive_a_takeover() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("handover").display().to_string();
    let server = Acceptor::raw(echo);
    let settings = |id: &str, listen: &str, port: &str| {
        format!(
            "id = \"{id}\"\nlisten = [\"{listen}\"]\nhandover = \"{socket}\"\n{CLIENTS}\
             [[tcp]]\nlisten = \"{port}\"\nupstream = \"{}\"",
            server.address
        )
    };
    let mut first = Daemon::depot_with(&settings("first", "127.0.0.1:0", "127.0.0.1:0"));
    let under_way = connect(port(&first));
    echoes(&under_way);
    let (listen, at) = (first.authority(), port(&first).to_string());
    let second = Daemon::depot_with(&settings("second", &listen, &at));
    first.await_log(&["another depot has taken over"]);
    assert_eq!(port(&second), port(&first));
    echoes(&under_way);
    until("the second one serves the port", || {
        echoes(&connect(port(&second)));
        second.log_text().contains("method=\"SESSION\"")
    });
    drop(under_way);
    assert!(first.wait().success());
}
