// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul session`: the sessions of a depot that runs.

use crate::{
    common::{done, json, refused, refusing_address},
    depot::Depot,
};
use protocol::session::{Header, Open, Role, SessionId, Target};
use std::{
    io::{Read, Write},
    net::TcpStream,
};

/// One end of a session that both ends open at the depot.
fn meet(depot: &Depot, role: Role) -> TcpStream {
    let open = Open::new(SessionId([7; 16]), Vec::new(), Target::Meeting(role));
    let mut stream = TcpStream::connect(&depot.listen).unwrap();
    stream.write_all(&open.to_bytes().unwrap()).unwrap();
    stream
}

/// The status of the next ANSWER.
fn answer(stream: &mut TcpStream) -> u16 {
    let mut bytes = Vec::new();
    loop {
        if let Some((answer, _)) = Header::parse_answer(&bytes).unwrap() {
            return answer.status.as_u16();
        }
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        bytes.extend(byte);
    }
}

#[test]
fn session_status_lists_sessions_and_meetings() {
    let depot = Depot::start(&["--allow-client", "127.0.0.0/8"]);
    let status = |more: &[&str]| done(&[&["session", "status", &depot.admin][..], more].concat());
    assert!(status(&[]).contains("no open sessions"));
    let mut one = meet(&depot, Role::Initiator);
    assert_eq!(answer(&mut one), 100);
    let text = status(&[]);
    assert!(text.contains("d1: 0 sessions open, 1 connections wait for their other end"), "{text}");

    let mut other = meet(&depot, Role::Acceptor);
    assert_eq!((answer(&mut other), answer(&mut one)), (200, 200));
    one.write_all(b"hello").unwrap();
    other.read_exact(&mut [0; 5]).unwrap();
    let text = status(&[]);
    let name = "07".repeat(16);
    let line =
        text.lines().find(|line| line.starts_with(&name)).unwrap_or_else(|| panic!("{text}"));
    let client = one.local_addr().unwrap().to_string();
    for part in [client.as_str(), " meet ", " 5 B ", " us"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    let listing = json(&["session", "status", &format!("http://{}", depot.admin), "--json"]);
    assert_eq!((&listing["id"], &listing["sessions"]["open"]), (&"d1".into(), &1.into()));
    let session = &listing["under_way"][0];
    assert_eq!((&session["session"], &session["up_bytes"]), (&name.into(), &5.into()));
    assert!(session["client_tcp"]["rtt_us"].is_u64(), "{session}");
}

#[test]
fn session_status_of_nothing_is_an_error() {
    let free = refusing_address();
    let (code, said) = refused(&["session", "status", &free.to_string()]);
    assert!(code == 1 && said.contains("cannot reach"), "{code}: {said}");
}
