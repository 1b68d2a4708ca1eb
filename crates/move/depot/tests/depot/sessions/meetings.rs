// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions whose two ends both connect to a depot.

use super::peers::{answer, asked, hop, id, refused, reset, sending, to_end};
use crate::common::{client::connect_from, noise, process::Daemon, sha256};
use http::StatusCode;
use protocol::session::{Open, Role, Target};
use std::{io::Write, net::TcpStream};
use testkit::until;

fn meet(session: u8, role: Role) -> Open {
    Open::new(id(session), Vec::new(), Target::Meeting(role))
}

/// A connection that waits.
fn waiting(depot: &Daemon, open: &Open) -> TcpStream {
    let mut stream = asked(depot, open);
    assert_eq!(answer(&mut stream).status, StatusCode::CONTINUE);
    stream
}

#[test]
fn two_ends_meet_at_a_depot() {
    let depots = ["d1", "d2"].map(|id| Daemon::depot(&format!("id = \"{id}\"")));
    for (first, second) in [(Role::Initiator, Role::Acceptor), (Role::Acceptor, Role::Initiator)] {
        // One comes through another depot.
        let through = Open { hops: vec![hop(depots[1].address)], ..meet(1, first) };
        let mut one = waiting(&depots[0], &through);
        one.write_all(b"early").unwrap();
        let mut other = asked(&depots[1], &meet(1, second));
        assert_eq!(answer(&mut other).status, StatusCode::OK);
        let open = answer(&mut one);
        assert_eq!((open.status, open.by.as_str(), open.hops.len()), (StatusCode::OK, "d2", 1));
        let (forth, back) = (noise(1, 3 << 20), noise(2, 3 << 20));
        let sends = [sending(&one, forth.clone()), sending(&other, back.clone())];
        let came = std::thread::spawn(move || to_end(&other));
        assert_eq!(sha256(&to_end(&one)), sha256(&back));
        assert_eq!(sha256(&came.join().unwrap()), sha256(&[b"early", &forth[..]].concat()));
        for sends in sends {
            sends.join().unwrap();
        }
    }
    depots[1].await_log(&["ended", "target=\"meet\"", "session=\"0101"]);
}

#[test]
fn second_end_in_the_same_role_is_refused() {
    let depot = Daemon::depot("");
    let mut one = waiting(&depot, &meet(1, Role::Initiator));
    let answer_to = refused(&depot, &meet(1, Role::Initiator).to_bytes().unwrap());
    assert_eq!(answer_to.status, StatusCode::CONFLICT, "{answer_to:?}");
    // The first one has kept its place; another session is another meeting.
    let _other = waiting(&depot, &meet(2, Role::Acceptor));
    let mut far = asked(&depot, &meet(1, Role::Acceptor));
    assert_eq!(answer(&mut far).status, StatusCode::OK);
    assert_eq!(answer(&mut one).status, StatusCode::OK);
}

#[test]
fn waiting_end_that_leaves_frees_its_slot() {
    let depot = Daemon::depot("session.meetings = 1");
    for (n, leave) in [drop, reset].into_iter().enumerate() {
        let session = 10 * u8::try_from(n).unwrap();
        // The one before may not have left yet.
        let mut one = None;
        until("there is a place", || {
            let mut stream = asked(&depot, &meet(session, Role::Initiator));
            let waits = answer(&mut stream).status == StatusCode::CONTINUE;
            one = Some(stream);
            waits
        });
        let full = refused(&depot, &meet(session + 1, Role::Initiator).to_bytes().unwrap());
        assert_eq!(full.status, StatusCode::SERVICE_UNAVAILABLE, "{full:?}");
        leave(one.unwrap());
        until("the place is free", || {
            let mut next = asked(&depot, &meet(session + 2, Role::Initiator));
            answer(&mut next).status == StatusCode::CONTINUE
        });
    }
}

#[test]
fn one_client_cannot_take_all_meeting_slots() {
    let depot = Daemon::depot("");
    let held: Vec<_> = (0..16).map(|n| waiting(&depot, &meet(n, Role::Initiator))).collect();
    let full = refused(&depot, &meet(99, Role::Initiator).to_bytes().unwrap());
    assert_eq!(full.status, StatusCode::SERVICE_UNAVAILABLE, "{full:?}");
    let mut other = connect_from("127.0.0.2", depot.address);
    other.write_all(&meet(99, Role::Initiator).to_bytes().unwrap()).unwrap();
    assert_eq!(answer(&mut other).status, StatusCode::CONTINUE);
    // Those that wait can still be met.
    let mut far = asked(&depot, &meet(3, Role::Acceptor));
    assert_eq!(answer(&mut far).status, StatusCode::OK);
    drop(held);
}

#[test]
fn meeting_without_second_end_times_out() {
    let depot = Daemon::depot("session.meeting_time = \"100ms\"");
    let mut one = waiting(&depot, &meet(1, Role::Initiator));
    assert_eq!(answer(&mut one).status, StatusCode::GATEWAY_TIMEOUT);
    let mut depot = Daemon::depot("");
    let mut one = waiting(&depot, &meet(1, Role::Initiator));
    depot.signal(rustix::process::Signal::TERM);
    assert_eq!(answer(&mut one).status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(depot.wait().success());
}
