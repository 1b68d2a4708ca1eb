// SPDX-License-Identifier: GPL-2.0-or-later
//! Records and handshakes of an untrusted other end.

use bytes::{Bytes, BytesMut};
use longhaul_protocol::session::{
    Direction, Duplex, Event, LaneId, Next, Output, Position, Prefix, Receiving, Sending,
    SessionId, SessionKey,
    handshake::{Attach, Hello, Terms},
    record::MAX_HANDSHAKE,
    sealed::{PreSharedKey, SealedCall, SealedStart, Sealing},
    split_record,
};
use std::time::Duration;

/// What an end has to send.
const AVAILABLE: u64 = 1000;

/// Plays what was read as the records of an initiator, on its one connection and on one of several.
pub fn lsl_records(input: &[u8]) -> bool {
    let of_several = played(input, true);
    played(input, false) || of_several
}

fn played(input: &[u8], has_several: bool) -> bool {
    let (lane, now) = (LaneId(1), Duration::ZERO);
    let key = SessionKey::from_bytes([7; 32]);
    let sending = Sending::new(Direction::FromAcceptor, 600);
    let receiving = Receiving::new(Direction::FromInitiator, Prefix::default(), 1 << 20);
    let mut duplex = Duplex::new(Direction::FromAcceptor, key, sending, receiving);
    if has_several {
        duplex.spread(lane, now);
        assert!(duplex.join(LaneId(2), None, now));
    }
    while let Some(output) = duplex.next_on(lane, AVAILABLE, now) {
        if let Output::Data(Next::New(range)) = output {
            duplex.seal(&vec![1; (range.end - range.start) as usize]);
            duplex.sent_on(lane, &range, now);
        }
    }
    let mut buffer = BytesMut::from(input);
    let mut records = 0;
    loop {
        let received = match split_record(&mut buffer) {
            Ok(Some((kind, payload))) => duplex.receive_on(lane, kind, payload, now),
            // What is cut off is not wrong yet.
            Ok(None) => return records > 0,
            Err(_) => return false,
        };
        records += 1;
        match received {
            Ok(Event::Deliver(pieces) | Event::Whole(pieces)) => {
                let length: usize = pieces.iter().map(Bytes::len).sum();
                assert!(length <= input.len());
                duplex.delivered(length as u64, true);
            }
            Ok(_) => {}
            Err(_) => return false,
        }
        // It answers each, and does not begin to send without end.
        for _ in 0..8 {
            match duplex.next_on(lane, AVAILABLE, now) {
                Some(Output::Data(Next::Again { range, .. })) => {
                    duplex.sent_again();
                    duplex.sent_on(lane, &range, now);
                }
                Some(_) => {}
                None => break,
            }
        }
        assert!(duplex.receiving().received() <= input.len() as u64);
    }
}

/// Reads it as HELLO, ATTACH and a position, and answers what can be answered.
pub fn lsl_handshakes(input: &[u8]) -> bool {
    let nothing = Position::default();
    if let Ok(hello) = Hello::parse(input) {
        let secret: &[u8] = if hello.has_secret() { b"code" } else { b"" };
        // A public key of small order is refused here.
        let _ = hello.welcome([1; 32], secret, &Terms::default(), &nothing);
        return true;
    }
    if let Ok(attach) = Attach::parse(input) {
        let key = SessionKey::from_bytes([7; 32]);
        let answered = attach.attached(&key, [2; 32], 0, &nothing).is_ok();
        assert!(!answered || attach.session.0 == [5; 16], "no other session has the key");
        return true;
    }
    match Position::parse(input) {
        Ok(position) => {
            assert_eq!(position.to_bytes(), input, "a position has one form");
            let _ = Prefix::reopen(&position, b"last group");
            true
        }
        Err(_) => false,
    }
}

/// Reads it as an acceptor does that expects sealed records: the first one of an initiator, and those behind it.
pub fn lsl_sealed(input: &[u8]) -> bool {
    let (session, key) = (SessionId([5; 16]), PreSharedKey::of_secret(b"code"));
    let mut buffer = BytesMut::from(input);
    let Ok(Some((_, payload))) = split_record(&mut buffer) else { return false };
    if SealedCall::start(&payload).is_err() || payload.len() > MAX_HANDSHAKE {
        return false;
    }
    // A stranger does not get further; what an initiator could send is read here as well.
    assert!(SealedCall::read(session, &key, [2; 32], &payload).is_err());
    let (_, first) = Sealing::begin(session, SealedStart::Hello, &key, [1; 32], &payload);
    let Ok(Some((_, first))) = split_record(&mut BytesMut::from(&first[..])) else { return true };
    let (call, read) = SealedCall::read(session, &key, [2; 32], &first).expect("it has the key");
    assert_eq!(read, payload);
    let (_, mut opener, _) = call.answer(b"");
    let mut plain = BytesMut::new();
    let opened = opener.open(&mut buffer, &mut plain);
    assert!(plain.is_empty(), "these bytes were never sealed");
    opened.is_ok()
}
