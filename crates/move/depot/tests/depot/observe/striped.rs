// SPDX-License-Identifier: GPL-2.0-or-later
//! What the page shows of a transfer that comes over several connections.

use super::{attribute, browse, photographed};
use crate::common::{
    client::{get, status},
    noise,
    process::Daemon,
    scripted::{Gate, halting},
    sha256,
};
use longhaul_depot::status::Tcp;
use std::thread;
use testkit::until;

const STREAMS: u32 = 4;

/// A depot, which wants several connections from each next one.
fn depot(id: &str) -> Daemon {
    let hop = format!("[[hop]]\npeer = \"127.0.0.0/8\"\nstreams = {STREAMS}");
    Daemon::depot(&format!("id = \"{id}\"\nadmin.listen = \"127.0.0.1:0\"\n{hop}"))
}

/// Over how many connections its only transfer goes, towards the client and towards the next hop.
fn streams(depot: &Daemon) -> [u32; 2] {
    let status = depot.status();
    let Some(transfer) = status.transfers.first() else { return [0; 2] };
    let streams = |tcp: &Option<Tcp>| tcp.as_ref().map_or(0, |tcp| tcp.streams);
    [streams(&transfer.client_tcp), streams(&transfer.upstream_tcp)]
}

/// Looks at the pages of both depots while the transfer waits in its middle.
fn half_way(near: &Daemon, far: &Daemon) {
    until("connections join", || streams(near) == [1, STREAMS]);
    assert_eq!(streams(far), [STREAMS, 1]);
    for depot in [near, far] {
        let dom = browse(&format!("http://{}/status", depot.admin()), &["--dump-dom"]);
        // Without the script, which has these words too.
        let dom = dom.split("<script>").next().unwrap();
        assert_eq!(attribute(dom, "data-errors"), None, "{dom}");
        // Next to the transfer, only on the side with several connections, and at the hop.
        assert_eq!(dom.matches("<small>4 streams</small>").count(), 1, "{dom}");
        assert_eq!(dom.matches("title=\"first connection: ").count(), 1, "{dom}");
        assert_eq!(dom.matches(", 4 streams</span>").count(), 1, "{dom}");
    }
    photographed(near, "status-striped-near");
    photographed(far, "status-striped-far");
}

#[test]
fn page_shows_connections_of_a_transfer() {
    let body = noise(121, 20_000_003);
    let (near, far, gate) = (depot("near"), depot("far"), Gate::default());
    let origin = halting(&body, &gate);
    let route = origin.route(&far.authority(), "/archive/2026/observation.tar.zst");
    thread::scope(|scope| {
        let client = scope.spawn(|| get(near.address, &route));
        half_way(&near, &far);
        gate.open();
        let (head, got, _) = client.join().unwrap();
        assert_eq!((status(&head), sha256(&got)), (200, sha256(&body)));
    });
}
