// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions over connections that were open before.

use super::peers::{Acceptor, answer, asked, echo, echoes, hop, open, open_tcp, opened, to_end};
use crate::common::{
    client::{get, status},
    process::Daemon,
    scripted::Scripted,
    wire::{Wire, wires},
};
use http::StatusCode;
use protocol::session::Open;
use std::{io::Write, net::Shutdown};
use testkit::until;

const TRUST: &str = "admin.listen = \"127.0.0.1:0\"\ntrust.depots = [\"127.0.0.0/8\"]";
const SERVED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved";

fn near() -> Daemon {
    Daemon::depot(&format!("id = \"near\"\n{TRUST}\n[[hop]]\npeer = \"127.0.0.0/8\"\nwarm = 3"))
}

fn far() -> Daemon {
    Daemon::depot(&format!("id = \"far\"\n{TRUST}"))
}

fn idle(depot: &Daemon) -> usize {
    depot.status().connections.idle_upstream
}

/// How many connections were opened for requests and sessions.
fn connects(depot: &Daemon) -> u64 {
    depot.status().times.connect.counts.iter().sum()
}

#[test]
fn session_takes_a_warm_connection_which_is_replaced() {
    let (near, far) = (near(), far());
    let acceptor = Acceptor::echo();
    let request = open(&[far.address, acceptor.address]);
    // The first one makes the next depot known.
    echoes(&opened(&near, &request).0);
    until("connections wait", || idle(&near) == 3);
    let before = connects(&near);
    let (client, _) = opened(&near, &request);
    echoes(&client);
    assert_eq!(connects(&near), before, "a connection that waited is used");
    until("it is replaced", || idle(&near) == 3);
    drop(client);
    until("it is closed, not kept", || far.status().connections.held == 3);
    assert_eq!(idle(&near), 3);
}

#[test]
fn session_retries_a_closed_kept_connection() {
    // A way to the next depot that closes each connection once an answer has come back.
    let near = Daemon::depot("id = \"near\"");
    let far = Daemon::depot("id = \"far\"\ntimeouts.keep_alive = \"24h\"");
    let origin = Scripted::answering(SERVED);
    let acceptor = Acceptor::echo();
    let server = Acceptor::raw(echo);
    let way = wires(far.address, |n| if n % 2 == 0 { Wire::Cut(400) } else { Wire::Good });
    let routed = |request: Open| Open { hops: [vec![hop(way)], request.hops].concat(), ..request };
    for (request, bytes) in [
        (routed(open(&[acceptor.address])), &b"early"[..]),
        (routed(open_tcp(server.address)), b"early"),
    ] {
        let (head, body, _) = get(near.address, &origin.route(&way.to_string(), "/"));
        assert_eq!((status(&head), &body[..]), (200, &b"served"[..]), "{head}");
        let mut client = asked(&near, &request);
        client.write_all(bytes).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(answer(&mut client).status, StatusCode::OK);
        assert_eq!(to_end(&client), bytes);
    }
}
