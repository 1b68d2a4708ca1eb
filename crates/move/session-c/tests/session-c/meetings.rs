// SPDX-License-Identifier: GPL-2.0-or-later
//! Two ends that meet at a depot. The depot is written from `docs/lsl.md`, sections 1 to 4, alone.

use super::{checks, run, with_library};
use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// By the session's name: the role of an end that waits, and its connection.
type Waiting = Mutex<HashMap<[u8; 16], (u8, TcpStream)>>;

fn depot() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let waiting: Arc<Waiting> = Arc::default();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let waiting = Arc::clone(&waiting);
            thread::spawn(move || meet(stream, &waiting));
        }
    });
    address
}

/// An ANSWER of depot `d` with this status.
fn answer(status: u16) -> Vec<u8> {
    let [high, low] = status.to_be_bytes();
    [&b"\xb1LSL\x01\x02\x00\x09"[..], &[1, 0, 2, high, low, 3, 0, 1, b'd']].concat()
}

fn meet(mut stream: TcpStream, waiting: &Waiting) -> io::Result<()> {
    let mut head = [0; 8];
    stream.read_exact(&mut head)?;
    assert_eq!(&head[..6], b"\xb1LSL\x01\x01");
    let mut fields = vec![0; u16::from_be_bytes([head[6], head[7]]).into()];
    stream.read_exact(&mut fields)?;
    let (mut session, mut role, mut rest) = ([0; 16], None, &fields[..]);
    while let [kind, high, low, more @ ..] = rest {
        let (value, more) = more.split_at(u16::from_be_bytes([*high, *low]).into());
        match (kind, value) {
            (1, value) => session = value.try_into().unwrap(),
            (3, [2, end]) => role = Some(*end),
            _ => {}
        }
        rest = more;
    }
    let role = role.expect("the target is a meeting");
    let mut all = waiting.lock().unwrap();
    match all.remove(&session) {
        Some((before, mut other)) if before != role => {
            drop(all);
            stream.write_all(&answer(200))?;
            other.write_all(&answer(200))?;
            let (from, to) = (stream.try_clone()?, other.try_clone()?);
            thread::spawn(move || pass(from, to));
            pass(other, stream);
        }
        _ => {
            stream.write_all(&answer(100))?;
            all.insert(session, (role, stream));
        }
    }
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn two_ends_meet_at_a_depot() {
    run(with_library(checks()).args(["meeting", &depot().to_string()]), "gcc");
}
