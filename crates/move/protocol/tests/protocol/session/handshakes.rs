// SPDX-License-Identifier: GPL-2.0-or-later
//! Who can begin a session, and who can continue it.

use longhaul_protocol::session::{
    GROUP, Position, Prefix, SessionId, SessionKey,
    handshake::{
        Attach, AttachPurpose, Attaching, Greeting, HandshakeError, Hello, Terms, WholeDigest,
        granted_connections,
    },
    record::EndCode,
};

const SESSION: SessionId = SessionId([5; 16]);

fn terms() -> Terms {
    Terms { limit: 1 << 20, note: Vec::new() }
}

fn prefix(length: u64) -> Prefix {
    let mut prefix = Prefix::default();
    prefix.extend(&vec![3; length as usize]);
    prefix
}

#[test]
fn a_changed_byte_in_any_handshake_is_refused() {
    let position = prefix(3 * GROUP + 5).position();
    let greeting = Greeting::new(SESSION, [1; 32], b"code", &terms(), Some(WholeDigest::Sha256));
    let welcoming = |hello: &[u8]| {
        Hello::parse(hello).and_then(|hello| hello.welcome([2; 32], b"code", &terms(), &position))
    };
    let whole = welcoming(greeting.hello()).unwrap();
    let (agreed, confirm) = greeting.welcomed(&whole.payload).unwrap();
    assert_eq!(agreed.position, position);
    whole.confirmed(&confirm).unwrap();
    let changed = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    for at in 0..greeting.hello().len() {
        let Ok(other) = welcoming(&changed(greeting.hello(), at)) else { continue };
        assert!(greeting.welcomed(&other.payload).is_err(), "byte {at} of HELLO");
    }
    for at in 0..whole.payload.len() {
        assert!(greeting.welcomed(&changed(&whole.payload, at)).is_err(), "byte {at} of WELCOME");
    }
    for at in 0..confirm.len() {
        assert!(whole.confirmed(&changed(&confirm, at)).is_err(), "byte {at} of CONFIRM");
    }
    let attaching = Attaching::new(&agreed.key, SESSION, [3; 32], 7, &position);
    let attached = |attach: &[u8]| {
        Attach::parse(attach).and_then(|attach| attach.attached(&agreed.key, [4; 32], 8, &position))
    };
    for at in 0..attaching.attach().len() {
        assert!(attached(&changed(attaching.attach(), at)).is_err(), "byte {at} of ATTACH");
    }
    let answer = attached(attaching.attach()).unwrap();
    for at in 0..answer.payload.len() {
        assert!(
            attaching.attached(&changed(&answer.payload, at)).is_err(),
            "byte {at} of ATTACHED"
        );
    }
}

#[test]
fn digest_request_round_trips_and_unknown_digest_is_refused() {
    for digest in [None, Some(WholeDigest::Sha256), Some(WholeDigest::Md5)] {
        let greeting = Greeting::new(SESSION, [1; 32], b"", &terms(), digest);
        let hello = greeting.hello();
        assert_eq!(Hello::parse(hello).unwrap().digest, digest);
        if let Some(digest) = digest {
            assert_eq!(digest.name().parse(), Ok(digest));
            let field = [7, 0, 1, digest.number()];
            let at = hello.windows(4).rposition(|window| window == field).expect("it is there");
            for unknown in [0, 3, 255] {
                let mut hello = hello.to_vec();
                hello[at + 3] = unknown;
                let error = Hello::parse(&hello).unwrap_err();
                assert_eq!(error.code(), EndCode::Malformed, "digest {unknown}");
            }
        }
    }
    assert!("sha-256".parse::<WholeDigest>().is_err());
}

#[test]
fn join_without_secret_is_refused() {
    let welcome = |initiator: &[u8], acceptor: &[u8]| {
        let greeting = Greeting::new(SESSION, [1; 32], initiator, &terms(), None);
        let hello = Hello::parse(greeting.hello()).unwrap();
        let welcoming = hello.welcome([2; 32], acceptor, &terms(), &Position::default())?;
        greeting.welcomed(&welcoming.payload).map(drop)
    };
    assert_eq!(welcome(b"7-seven", b"7-seven"), Ok(()));
    assert_eq!(welcome(b"", b""), Ok(()));
    assert_eq!(welcome(b"7-eleven", b"7-seven"), Err(HandshakeError::Proof));
    assert_eq!(welcome(b"", b"7-seven"), Err(HandshakeError::NoSecret));
    assert_eq!(welcome(b"7-seven", b""), Err(HandshakeError::NoSecret));
}

#[test]
fn name_of_a_session_does_not_open_it() {
    let key = SessionKey::from_bytes([1; 32]);
    let other = SessionKey::from_bytes([2; 32]);
    let stranger = Attaching::new(&other, SESSION, [3; 32], 0, &Position::default());
    let attach = Attach::parse(stranger.attach()).unwrap();
    let refused = attach.attached(&key, [4; 32], 0, &Position::default());
    assert_eq!(refused.map(drop), Err(HandshakeError::Proof));
}

#[test]
fn replayed_attach_does_not_take_a_session_over() {
    let key = SessionKey::from_bytes([1; 32]);
    let attaching = Attaching::new(&key, SESSION, [3; 32], 0, &Position::default());
    let answer = |nonce| {
        let attach = Attach::parse(attaching.attach()).unwrap();
        attach.attached(&key, nonce, 0, &Position::default()).unwrap()
    };
    let first = answer([4; 32]);
    let (_, _, confirm) = attaching.attached(&first.payload).unwrap();
    first.confirmed(&confirm).unwrap();
    // A recorded handshake is replayed: the acceptor uses another nonce by then.
    assert_eq!(answer([5; 32]).confirmed(&confirm), Err(HandshakeError::Proof));
}

#[test]
fn positions_are_under_1_kb_and_have_one_form() {
    for length in [0, 1, GROUP, GROUP + 1, 7 * GROUP] {
        let bytes = prefix(length).position().to_bytes();
        assert!(bytes.len() < 1024);
        assert_eq!(Position::parse(&bytes).unwrap().to_bytes(), bytes);
        let longer = [&bytes[..], &[0; 32]].concat();
        assert!(Position::parse(&longer).is_err());
        assert!(Position::parse(&bytes[..bytes.len() - 1]).is_err());
    }
}

#[test]
fn connections_at_once_are_granted_only_if_both_ends_agree() {
    for (asked, most, granted) in [(1, 16, 1), (4, 16, 4), (16, 3, 3), (4, 1, 1)] {
        let greeting = Greeting::new(SESSION, [1; 32], b"", &terms(), None).with_connections(asked);
        let hello = Hello::parse(greeting.hello()).unwrap().granting(most);
        let welcoming = hello.welcome([2; 32], b"", &terms(), &Position::default()).unwrap();
        assert_eq!(welcoming.connections, granted);
        let (agreed, confirm) = greeting.welcomed(&welcoming.payload).unwrap();
        assert_eq!(agreed.connections, granted);
        welcoming.confirmed(&confirm).unwrap();
        let (key, nothing) = (agreed.key, Position::default());
        let purpose = AttachPurpose::Continue(asked);
        let attaching = Attaching::to(purpose, &key, SESSION, [3; 32], 7, &nothing);
        let attach = Attach::parse(attaching.attach()).unwrap().granting(most);
        assert_eq!(attach.purpose, AttachPurpose::Continue(granted));
        let answer = attach.attached(&key, [4; 32], 8, &nothing).unwrap();
        attaching.attached(&answer.payload).unwrap();
        assert_eq!(granted_connections(&answer.payload), granted);
        let joining = Attaching::to(AttachPurpose::Join, &key, SESSION, [5; 32], 7, &nothing);
        let join = Attach::parse(joining.attach()).unwrap();
        assert_eq!((join.purpose, join.is_by(&key)), (AttachPurpose::Join, true));
        for at in 0..joining.attach().len() {
            let mut changed = joining.attach().to_vec();
            changed[at] ^= 1;
            assert!(Attach::parse(&changed).map_or(true, |attach| !attach.is_by(&key)), "{at}");
        }
    }
}
