// SPDX-License-Identifier: GPL-2.0-or-later
//! Clients with more addresses than anybody needs.

use crate::common::{
    client::{connect_from, read_answer, status},
    network::{ip, own_network},
    process::Daemon,
};
use testkit::until;

#[test]
fn ipv6_site_holds_only_slots_of_a_few_clients() {
    // A thread of its own: this one is to stay where it is.
    let ended = std::thread::spawn(from_many_networks).join();
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn from_many_networks() {
    own_network();
    let network = |site: u16, network: u16| format!("2001:db8:{site:x}:{network:x}::1");
    for (site, networks) in [(1, 10), (2, 1)] {
        for n in 0..networks {
            // Else it cannot be used before the kernel has come to look for a duplicate.
            ip(&format!("address add {}/128 dev lo nodad", network(site, n)));
        }
    }
    let depot = Daemon::depot_with(
        "id = \"d1\"\nlisten = [\"[::1]:0\"]\nadmin.listen = \"[::1]:0\"\n\
         limits.connections = 100\nlimits.per_client = 2\n\
         [allow]\nclients = [\"2001:db8::/32\"]\nupstreams = [\"[::1]:*\"]\nlocal = true",
    );
    // One from each /64, then one more.
    let held: Vec<_> = (0..8).map(|n| connect_from(&network(1, n), depot.address)).collect();
    until("they are in", || depot.status().connections.open == 8);
    for n in [8, 9, 0] {
        let (head, body, _) = read_answer(connect_from(&network(1, n), depot.address));
        let text = String::from_utf8(body).unwrap();
        assert_eq!(status(&head), 503, "{head}");
        assert!(text.contains("8 connections from 2001:db8:1:: are open"), "{text}");
    }
    let _other = connect_from(&network(2, 0), depot.address);
    until("another site has its own", || depot.status().connections.open == 9);
    drop(held);
    until("places are given back", || depot.status().connections.open == 1);
    let _again = connect_from(&network(1, 9), depot.address);
    until("a place is used again", || depot.status().connections.open == 2);
}
