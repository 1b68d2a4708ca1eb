// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions around depots that cannot be connected to.

use super::peers::{Acceptor, answer, asked, echoes, hop, id, open, opened, refused};
use crate::common::{process::Daemon, refusing_address};
use http::StatusCode;
use protocol::session::{Open, Role, Target};
use std::net::SocketAddr;

/// A depot with a way around another one.
fn depot(around: SocketAddr, more: &str) -> Daemon {
    Daemon::depot(&format!(
        "id = \"d1\"\nadmin.listen = \"127.0.0.1:0\"\n[[detour]]\naround = \"{around}\"\n{more}"
    ))
}

#[test]
fn session_goes_around_a_depot_that_is_gone() {
    let (gone, other) = (refusing_address(), Daemon::depot("id = \"other\""));
    let acceptor = Acceptor::echo();
    let through = format!("through = [\"{}\", \"{}\"]", refusing_address(), other.address);
    for (more, passed) in [(through.as_str(), &["d1", "other"][..]), ("straight = true", &["d1"])] {
        // Only sessions find out.
        let depot = depot(gone, &format!("check = \"off\"\n{more}"));
        for _ in 0..2 {
            let (client, answer) = opened(&depot, &open(&[gone, acceptor.address]));
            let reports: Vec<_> = answer.hops.iter().map(|hop| hop.depot.to_string()).collect();
            assert_eq!(reports, passed);
            echoes(&client);
        }
        depot.await_log(&["WARN", "another route upstream=", &gone.to_string()]);
        // The second session has not tried it again.
        let tried = format!("another route upstream={gone}");
        assert_eq!(depot.log_text().matches(&tried).count(), 1, "{}", depot.log_text());
    }
}

#[test]
fn session_skips_depots_that_are_down() {
    let (gone, other) = (refusing_address(), Daemon::depot("id = \"other\""));
    let acceptor = Acceptor::echo();
    let depot = depot(gone, &format!("check = \"300ms\"\nthrough = [\"{}\"]", other.address));
    depot.await_detours(&[(gone, false), (other.address, true)]);
    let (client, answer) = opened(&depot, &open(&[gone, acceptor.address]));
    let reports: Vec<_> = answer.hops.iter().map(|hop| hop.depot.to_string()).collect();
    assert_eq!(reports, ["d1", "other"]);
    echoes(&client);
    assert!(!depot.log_text().contains("another route"), "{}", depot.log_text());
}

#[test]
fn session_to_a_server_goes_through_another_last_depot() {
    let server = Acceptor::raw(super::peers::echo);
    let servers = format!(
        "id = \"other\"\n[allow]\nclients = [\"127.0.0.0/8\"]\nlocal = true\n\
                           servers = [\"{}\"]",
        server.address
    );
    let (gone, other) = (refusing_address(), Daemon::depot(&servers));
    let depot = depot(gone, &format!("through = [\"{}\"]", other.address));
    let target = Target::Tcp { server: server.address.into(), proxy_protocol: false };
    let (client, answer) = opened(&depot, &Open::new(id(1), vec![hop(gone)], target));
    assert_eq!(answer.by.as_str(), "other");
    echoes(&client);
}

#[test]
fn meeting_depot_is_never_replaced() {
    let (gone, other) = (refusing_address(), Daemon::depot("id = \"other\""));
    let depot = depot(gone, &format!("through = [\"{}\"]\nstraight = true", other.address));
    let open = Open::new(id(1), vec![hop(gone)], Target::Meeting(Role::Initiator));
    let answer_to = refused(&depot, &open.to_bytes().unwrap());
    assert_eq!(answer_to.status, StatusCode::BAD_GATEWAY, "{answer_to:?}");
    // Nor does an acceptor.
    let mut client = asked(&depot, &super::peers::open(&[gone]));
    assert_eq!(answer(&mut client).status, StatusCode::BAD_GATEWAY);
}
