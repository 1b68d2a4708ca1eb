// SPDX-License-Identifier: GPL-2.0-or-later
//! Records that no depot on the path can read, change, leave out or repeat.

use bytes::{Buf, BytesMut};
use longhaul_protocol::session::{
    SessionId, SessionKey,
    record::{MAX_SEALED, RECORD_HEAD},
    sealed::{Opener, PreSharedKey, SealedCall, SealedStart, Sealer, Sealing},
};

use super::headers::block;

const SESSION: SessionId = SessionId([5; 16]);

fn key() -> PreSharedKey {
    PreSharedKey::of_secret(b"code")
}

/// The payload of the one record in these bytes.
fn payload(record: &[u8]) -> &[u8] {
    let length = u32::from_be_bytes([0, record[1], record[2], record[3]]) as usize;
    assert_eq!((record[0], record.len()), (24, RECORD_HEAD + length));
    &record[RECORD_HEAD..]
}

fn call() -> (Sealing, Vec<u8>) {
    Sealing::begin(SESSION, SealedStart::Hello, &key(), [1; 32], b"hello")
}

fn read(session: SessionId, key: &PreSharedKey, payload: &[u8]) -> Option<(SealedCall, Vec<u8>)> {
    SealedCall::read(session, key, [2; 32], payload).ok()
}

/// The two halves at either end.
fn connected() -> [(Sealer, Opener); 2] {
    let (sealing, record) = call();
    let (answering, hello) = read(SESSION, &key(), payload(&record)).unwrap();
    assert_eq!(hello, b"hello");
    let (to_initiator, from_initiator, record) = answering.answer(b"welcome");
    let (to_acceptor, from_acceptor, welcome) = sealing.answered(payload(&record)).unwrap();
    assert_eq!(welcome, b"welcome");
    [(to_acceptor, from_acceptor), (to_initiator, from_initiator)]
}

fn changed(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

#[test]
fn handshake_fails_for_other_sessions_and_keys() {
    let (_, record) = call();
    let first = payload(&record);
    assert_eq!(SealedCall::start(first), Ok(SealedStart::Hello));
    assert!(SealedCall::start(&[]).is_err() && SealedCall::start(&[0]).is_err());
    assert!(read(SessionId([6; 16]), &key(), first).is_none());
    assert!(read(SESSION, &PreSharedKey::of_secret(b"node"), first).is_none());
    assert!(
        read(SESSION, &PreSharedKey::of_key(&SessionKey::from_bytes([7; 32])), first).is_none()
    );
    for at in 1..first.len() {
        assert!(read(SESSION, &key(), &changed(first, at)).is_none(), "byte {at} of message 1");
        assert!(read(SESSION, &key(), &first[..at]).is_none(), "{at} bytes of message 1");
    }
    let (_, _, record) = read(SESSION, &key(), first).unwrap().0.answer(b"welcome");
    let second = payload(&record);
    for at in 0..second.len() {
        assert!(call().0.answered(&changed(second, at)).is_err(), "byte {at} of message 2");
        assert!(call().0.answered(&second[..at]).is_err(), "{at} bytes of message 2");
    }
}

#[test]
fn documented_sealed_messages_match_the_code() {
    let session = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
    let (key, ping) = (PreSharedKey::of_secret(b"secret"), [21, 0, 0, 4, 1, 2, 3, 4]);
    let (sealing, first) = Sealing::begin(session, SealedStart::Hello, &key, [0x11; 32], &ping);
    let call = SealedCall::read(session, &key, [0x22; 32], payload(&first)).unwrap();
    let (_, _, second) = call.0.answer(&ping);
    let (mut sealer, _, _) = sealing.answered(payload(&second)).unwrap();
    let mut third = Vec::new();
    sealer.seal(&ping, &mut third);
    for (kind, printed) in
        [("hex sealed-first", first), ("hex sealed-second", second), ("hex sealed-third", third)]
    {
        let hex: Vec<_> = printed.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(block(kind), printed, "{kind}: the code prints {}", hex.concat());
    }
}

#[test]
fn sealed_bytes_of_any_length_round_trip() {
    let [(mut sealer, _), (_, mut opener)] = connected();
    let (mut sealed, mut plain, mut sent) = (BytesMut::new(), BytesMut::new(), Vec::new());
    for (round, length) in [0, 1, 65_518, 65_519, 65_520, 300_000, 7].into_iter().enumerate() {
        let bytes = vec![round as u8; length];
        let mut records = Vec::new();
        sealer.seal(&bytes, &mut records);
        sent.extend(bytes);
        // They arrive in pieces of any length.
        for piece in records.chunks(1 + 4099 * round) {
            sealed.extend_from_slice(piece);
            opener.open(&mut sealed, &mut plain).unwrap();
            assert!(sealed.len() < RECORD_HEAD + MAX_SEALED);
        }
    }
    assert!(sealed.is_empty() && plain == sent);
}

#[test]
fn changed_repeated_reordered_and_foreign_records_are_refused() {
    let [(mut sealer, _), (mut acceptor, _)] = connected();
    let mut record = |text: &[u8]| {
        let mut out = Vec::new();
        sealer.seal(text, &mut out);
        out
    };
    let (one, two) = (record(b"one"), record(b"two"));
    let mut of_acceptor = Vec::new();
    acceptor.seal(b"one", &mut of_acceptor);
    let plain = [21, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
    let opened = |records: &[&[u8]]| {
        let [_, (_, mut opener)] = connected();
        let (mut sealed, mut plain) = (BytesMut::from(&records.concat()[..]), BytesMut::new());
        opener.open(&mut sealed, &mut plain).map(|()| plain)
    };
    assert_eq!(opened(&[&one, &two]).unwrap(), &b"onetwo"[..]);
    for wrong in
        [&[&two[..]][..], &[&one, &one], &[&two, &one], &[&of_acceptor], &[&plain], &[&one, &plain]]
    {
        assert!(opened(wrong).is_err(), "{wrong:?}");
    }
    for at in 0..one.len() {
        // A longer length waits for the rest.
        let result = opened(&[&changed(&one, at)]);
        assert!(result.as_ref().is_ok_and(|plain| !plain.has_remaining()) || result.is_err());
        assert!(at < RECORD_HEAD || result.is_err(), "byte {at}");
    }
}
