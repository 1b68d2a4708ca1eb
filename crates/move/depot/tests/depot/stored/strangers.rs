// SPDX-License-Identifier: GPL-2.0-or-later
//! What those can do who have no key of a session, or a recording of somebody's request.

use super::*;
use crate::{
    common::{PATIENCE, noise},
    sessions::peers::{answer, asked},
};
use protocol::session::{
    KeyPair, Open, Target,
    handshake::{Greeting, Terms},
    record::{End, RecordKind, record},
    split_record,
};
use std::{
    io::{Read, Write},
    net::TcpStream,
};

fn to_store(name: SessionId) -> Open {
    Open::new(name, Vec::new(), Target::Store)
}

/// A HELLO with this note, and the first record that answers it.
fn hello(
    depot: &Daemon,
    name: SessionId,
    note: Vec<u8>,
    random: [u8; 32],
) -> (RecordKind, Vec<u8>, TcpStream) {
    let mut stream = asked(depot, &to_store(name));
    let terms = Terms { limit: 1 << 20, note };
    let greeting = Greeting::new(name, random, b"", &terms, None);
    stream.write_all(&record(RecordKind::Hello, greeting.hello())).unwrap();
    assert_eq!(answer(&mut stream).status, 200);
    let mut bytes = ::bytes::BytesMut::new();
    loop {
        if let Some((Some(kind), payload)) = split_record(&mut bytes).unwrap() {
            return (kind, payload.to_vec(), stream);
        }
        let mut some = [0; 4096];
        let got = stream.read(&mut some).unwrap();
        assert!(got > 0, "it says nothing");
        bytes.extend_from_slice(&some[..got]);
    }
}

fn end_of((kind, payload, _): (RecordKind, Vec<u8>, TcpStream)) -> End {
    assert_eq!(kind, RecordKind::End);
    End::parse(&payload, protocol::session::Direction::FromAcceptor, None).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn stranger_can_neither_read_nor_change_a_session_nor_tell_whether_it_exists() {
    let place = Place::new();
    let depot = place.depot("");
    leave(&depot, id(1), b"secret").await.unwrap();
    let mut answers = Vec::new();
    for session in [id(1), id(7)] {
        let extend = Request::Extend { session, life_s: DAY_S };
        answers.push([
            ended(collect(&depot, session, 3, 0).await),
            ended(ask(&depot, 3, extend).await),
            ended(ask(&depot, 3, Request::Drop { session }).await),
        ]);
    }
    assert_eq!(answers[0], answers[1], "the same for one that exists and one that does not");
    for (code, text) in &answers[0] {
        assert_eq!((*code, text.as_str()), (EndCode::Application, "no such session for this key"));
    }
    // The collector reads, and nothing else.
    let drop = Request::Drop { session: id(1) };
    assert!(ended(ask(&depot, 2, drop).await).1.contains("no such session"));
    let extend = Request::Extend { session: id(1), life_s: DAY_S };
    assert!(ended(ask(&depot, 2, extend).await).1.contains("no such session"));
    // Somebody else's name is not free.
    let taken = Session::begin(
        id(1),
        route(depot.address),
        Outgoing::Stored(Arc::new(Content(b"mine".to_vec()))),
        options(to_leave(None), 3),
    );
    assert_eq!(ended(taken.sent().await).0, EndCode::Application);
    assert_eq!(collect(&depot, id(1), 2, 0).await.unwrap().1, b"secret");
}

/// It is answered, since nobody can tell who has sent it, but without the private key there is no CONFIRM.
#[tokio::test(flavor = "multi_thread")]
async fn recorded_requests_change_nothing() {
    let place = Place::new();
    let depot = place.depot("");
    leave(&depot, id(1), b"kept").await.unwrap();
    let random = [5; 32];
    let public = KeyPair::from_random(random).public;
    for (name, request) in [
        (id(20), Request::Drop { session: id(1) }),
        (id(21), Request::Extend { session: id(1), life_s: 2 * DAY_S }),
        (id(22), Request::Collect { session: id(1), from: 0 }),
        (id(23), to_leave(Some(100 << 20))),
    ] {
        let note = request.note(&key(1), name, &public);
        let (kind, _, mut stream) = hello(&depot, name, note, random);
        assert_eq!(kind, RecordKind::Welcome, "{request:?}");
        // Who has the recording alone makes up a proof, and is let go.
        stream
            .write_all(&record(
                RecordKind::Confirm,
                &[255, 0, 32].iter().chain(&[7; 32]).copied().collect::<Vec<u8>>(),
            ))
            .unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!rest.windows(4).any(|part| part == b"kept"));
    }
    let sessions = list(&depot, 1).await;
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert!(sessions[0].expires_s <= now_s() + DAY_S);
    assert_eq!(collect(&depot, id(1), 2, 0).await.unwrap().1, b"kept");
    assert!(depot.status().store.unwrap().used_bytes < 1 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn signature_is_for_its_session_and_hello_alone() {
    let place = Place::new();
    let depot = place.depot("");
    leave(&depot, id(1), b"kept").await.unwrap();
    let random = [5; 32];
    let public = KeyPair::from_random(random).public;
    let note = Request::Drop { session: id(1) }.note(&key(1), id(20), &public);
    for (name, random, note, code) in [
        // Of another session, of another HELLO, changed, none, and no request at all.
        (id(21), random, note.clone(), EndCode::WrongProof),
        (id(20), [6; 32], note.clone(), EndCode::WrongProof),
        (id(20), random, [&note[..], b" "].concat(), EndCode::WrongProof),
        (id(20), random, Vec::new(), EndCode::WrongProof),
    ] {
        let end = end_of(hello(&depot, name, note, random));
        assert_eq!(end.code, code as u16, "{}", end.text);
    }
    depot.await_log(&["refused", "status=403", "signature"]);
    assert_eq!(list(&depot, 1).await.len(), 1);
    assert_eq!(depot.status().store.unwrap().refused, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_begun_sessions_of_one_client_are_bounded() {
    let place = Place::new();
    let depot = place.depot("");
    let mut half: Vec<TcpStream> = Vec::new();
    let refused = loop {
        assert!(half.len() < 200, "all are let in");
        let mut stream = asked(&depot, &to_store(id(half.len() as u8)));
        let answer = answer(&mut stream);
        if answer.status != 200 {
            break answer;
        }
        half.push(stream);
    };
    assert_eq!((refused.status.as_u16(), half.len()), (503, 96));
    assert!(refused.text.contains("too many sessions"), "{refused:?}");
    drop(half);
    leave(&depot, id(1), b"a place is free again").await.unwrap();
}

/// Names come from the network, and files have names of 32 digits all the same.
#[tokio::test(flavor = "multi_thread")]
async fn names_from_the_network_never_reach_a_path() {
    let place = Place::new();
    let depot = place.depot("");
    for hostile in [*b"../../etc/passwd", *b"/etc/shadow\0\0\0\0\0", [0; 16], [b'.'; 16]] {
        leave(&depot, SessionId(hostile), b"x").await.unwrap();
    }
    for folder in ["data", "headers"] {
        let names: Vec<_> = std::fs::read_dir(place.path().join(folder)).unwrap().collect();
        assert_eq!(names.len(), 4);
        for name in names {
            let name = name.unwrap().file_name().into_string().unwrap();
            assert!(
                name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{name}"
            );
        }
    }
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn collected_session_takes_no_bytes() {
    let place = Place::new();
    let depot = place.depot("");
    leave(&depot, id(1), &noise(1, 100)).await.unwrap();
    let collecting = begin(depot.address, fresh(), 2, Request::Collect { session: id(1), from: 0 });
    let _ = collecting.write(b"more").await;
    collecting.end();
    let outcome = collecting.closed().await;
    let (code, text) = ended(outcome);
    assert!(code == EndCode::Application && text.contains("only `leave`"), "{text}");
}
