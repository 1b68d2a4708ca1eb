// SPDX-License-Identifier: GPL-2.0-or-later
//! What each client may have of a depot's places for sessions, through other depots too.

use super::peers::{Acceptor, answer, echoes, hop, id, open};
use crate::common::{client::connect_from, process::Daemon};
use http::StatusCode;
use protocol::session::{Answer, Open, Role, Target};
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
};

const TRUST: &str = "trust.depots = [\"127.0.0.1/32\"]\nadmin.listen = \"127.0.0.1:0\"";

fn depot(id: &str, settings: &str) -> Daemon {
    Daemon::depot(&format!("id = \"{id}\"\n{TRUST}\n{settings}"))
}

fn asked(from: &str, depot: &Daemon, open: &Open) -> (TcpStream, Answer) {
    let mut stream = connect_from(from, depot.address);
    stream.write_all(&open.to_bytes().unwrap()).unwrap();
    let answer = answer(&mut stream);
    (stream, answer)
}

fn opened(from: &str, depot: &Daemon, open: &Open) -> TcpStream {
    let (stream, answer) = asked(from, depot, open);
    assert_eq!(answer.status, StatusCode::OK, "{from}: {answer:?}");
    stream
}

#[test]
fn session_through_a_trusted_depot_counts_for_its_client() {
    let (near, far) = (depot("near", ""), depot("far", "limits.per_client = 2"));
    let acceptor = Acceptor::echo();
    let request = open(&[far.address, acceptor.address]);
    let mut sessions = Vec::new();
    for from in ["127.0.0.9", "127.0.0.10", "127.0.0.11"] {
        sessions.extend([0, 1].map(|_| opened(from, &near, &request)));
    }
    let (_, answer) = asked("127.0.0.9", &near, &request);
    assert_eq!((answer.status.as_u16(), answer.by.as_str()), (503, "far"));
    assert_eq!(answer.error.as_deref(), Some("connection_limit_reached"));
    let why =
        "2 connections from 127.0.0.9 are open at depot far, the most that its limits.per_client";
    assert!(answer.text.contains(why), "{answer:?}");
    near.await_log(&["upstream refused", "method=\"SESSION\"", "status=503", "far says: 2"]);
    far.await_log(&["refused", "method=\"SESSION\"", "for=\"127.0.0.9\""]);
    let count = |outcome: &str| near.status().totals.requests[outcome];
    assert_eq!((count("upstream_refused"), count("refused")), (1, 0));
    assert!(near.status().refusals.is_empty(), "the depot itself has refused nothing");
    // A client that names another one is not believed.
    let forged = Open { client: Some("127.0.0.77".parse().unwrap()), ..open(&[acceptor.address]) };
    let (_, answer) = asked("127.0.0.10", &far, &forged);
    assert!(answer.text.contains("connections from 127.0.0.10 are open"), "{answer:?}");
    sessions.iter().for_each(echoes);
    sessions.truncate(4);
    testkit::until("places are given back", || {
        asked("127.0.0.11", &near, &request).1.status == StatusCode::OK
    });
}

#[test]
fn far_end_refusal_is_not_the_depots() {
    let (near, far) = (depot("near", ""), depot("far", ""));
    let busy = |by: &'static str| {
        Acceptor::raw(move |mut stream| {
            let _ = super::peers::header(&mut stream);
            let busy = Answer {
                text: "busy".to_owned(),
                ..Answer::of(StatusCode::SERVICE_UNAVAILABLE, by.parse().unwrap())
            };
            let _ = stream.write_all(&busy.to_bytes().unwrap());
        })
    };
    let route = open(&[far.address, busy("end").address]);
    let (_, answer) = asked("127.0.0.9", &near, &route);
    assert_eq!((answer.status.as_u16(), answer.by.as_str()), (503, "end"));
    near.await_log(&["refused", "method=\"SESSION\"", "end says: busy"]);
    // The depot before it knows that it asks no depot, whatever that one calls itself.
    let (_, answer) = asked("127.0.0.9", &far, &open(&[busy("d9").address]));
    assert_eq!((answer.status.as_u16(), answer.by.as_str()), (503, "d9"));
    far.await_log(&["refused", "method=\"SESSION\"", "d9 says: busy"]);
    for depot in [near, far] {
        assert_eq!(depot.status().totals.requests["upstream_refused"], 0);
    }
}

#[test]
fn connections_that_join_a_session_count_for_its_client() {
    let near = depot("near", "[[hop]]\npeer = \"127.0.0.0/8\"\nstreams = 3");
    let far = depot("far", "limits.per_client = 2");
    let acceptor = Acceptor::echo();
    let stream = opened("127.0.0.9", &near, &open(&[far.address, acceptor.address]));
    // Four would join. They come when there is enough to move, and the session does not end before they were answered.
    let content = vec![7; 6_000_000];
    std::thread::scope(|scope| {
        scope.spawn(|| (&stream).write_all(&content).unwrap());
        (&stream).read_exact(&mut vec![0; content.len()]).unwrap();
    });
    far.await_log(&["refused", "2 connections from 127.0.0.9 are open at depot far"]);
    near.await_log(&["could not join", "503"]);
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(super::peers::to_end(&stream).is_empty());
}

#[test]
fn meeting_slots_count_by_client_behind_depot() {
    let (near, far) = (depot("near", ""), depot("far", ""));
    let meet = |session: u8| Open {
        hops: vec![hop(far.address)],
        ..Open::new(id(session), Vec::new(), Target::Meeting(Role::Initiator))
    };
    let waits = |from: &str, session: u8| asked(from, &near, &meet(session));
    let held: Vec<_> = (0..16).map(|n| waits("127.0.0.9", n)).collect();
    assert!(held.iter().all(|(_, answer)| answer.status == StatusCode::CONTINUE));
    assert_eq!(waits("127.0.0.9", 99).1.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(waits("127.0.0.10", 99).1.status, StatusCode::CONTINUE, "another client");
}
