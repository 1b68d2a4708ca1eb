// SPDX-License-Identifier: GPL-2.0-or-later
//! The further digest of the whole: it covers every byte however the session came to its end, and nothing is confirmed
//! without it.

use super::{
    bytes, listener, options, read_all, route,
    strangers::{open, say},
    wire::{Mishap, Wire, number},
};
use longhaul_session::{
    Beginning, Error, ListenOptions, Listener, Options, Outgoing, Session, State, Stored,
    WholeDigest, Window,
};
use protocol::session::{
    GROUP, Prefix, SessionId,
    handshake::{Greeting, Terms},
    record::{EndCode, RecordKind, record},
};
use sha2::{Digest, Sha256};
use std::{
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::timeout;

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), what).await.expect("it comes to an end")
}

fn with(digest: WholeDigest) -> Options {
    let longest_wait = Duration::from_millis(30);
    Options { digest: Some(digest), longest_wait, ..options() }
}

/// Made at once, of bytes that did not pass through a session.
fn digest_of(kind: WholeDigest, content: &[u8]) -> Vec<u8> {
    match kind {
        WholeDigest::Sha256 => Sha256::digest(content).to_vec(),
        WholeDigest::Md5 => md5::Md5::digest(content).to_vec(),
    }
}

fn nothing() -> Outgoing {
    Outgoing::Window(Window::default())
}

/// Bytes that can be read again, some of them slowly.
#[derive(Debug)]
struct Memory {
    bytes: Vec<u8>,
    /// The first read from here takes a while.
    slow_at: Option<u64>,
    slow_reads: AtomicU32,
}

impl Memory {
    fn outgoing(bytes: &[u8], slow_at: Option<u64>) -> Outgoing {
        let (bytes, slow_reads) = (bytes.to_vec(), AtomicU32::new(0));
        Outgoing::Stored(Arc::new(Self { bytes, slow_at, slow_reads }))
    }
}

impl Stored for Memory {
    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.slow_at == Some(offset) && self.slow_reads.fetch_add(1, Relaxed) == 0 {
            std::thread::sleep(Duration::from_secs(1));
        }
        let from = offset as usize;
        buffer.copy_from_slice(&self.bytes[from..from + buffer.len()]);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_of_both_streams_are_right_after_interruptions() {
    for (round, kind) in (0..8).flat_map(|round| WholeDigest::ALL.map(|kind| (round, kind))) {
        let (up, down) = (bytes(2_000_000, round), bytes(700_001, round + 100));
        let listener = listener().await;
        let mishap = move |n| {
            let most = if number(round ^ n << 8, 3) == 0 { 800 } else { 500_000 };
            if n < 8 { Mishap::Cut(number(round ^ n << 16, most)) } else { Mishap::None }
        };
        let wire = Wire::to(listener.local_addr(), mishap).await;
        let session = Session::connect(vec![route(wire.address)], with(kind));
        let send = async {
            session.write(&up).await.unwrap();
            session.end();
            assert!(read_all(&session).await.unwrap() == down);
            session.sent().await.unwrap();
        };
        let accept = async {
            // The acceptor does what HELLO says, whatever it has been set to.
            let accepted = listener.accept().await.accept(options()).await.unwrap();
            assert_eq!(accepted.sent_digest(), None, "not the whole yet");
            accepted.write(&down).await.unwrap();
            accepted.end();
            assert!(read_all(&accepted).await.unwrap() == up);
            accepted.sent().await.unwrap();
            accepted
        };
        let (accepted, ()) = within(async { tokio::join!(accept, send) }).await;
        assert!(wire.connections.load(Relaxed) > 1);
        for (end, sent, received) in [(&session, &up, &down), (&accepted, &down, &up)] {
            assert_eq!(end.digest(), Some(kind));
            assert_eq!(end.sent_digest(), Some(digest_of(kind, sent)), "round {round}");
            assert_eq!(end.received_digest(), Some(digest_of(kind, received)), "round {round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_without_a_digest_has_none() {
    let listener = listener().await;
    let session = Session::connect(vec![route(listener.local_addr())], options());
    session.write(b"content").await.unwrap();
    session.end();
    let accepted = within(listener.accept()).await;
    assert_eq!(accepted.digest(), None);
    // What an acceptor would like is not asked.
    let accepted = accepted.accept(with(WholeDigest::Sha256)).await.unwrap();
    assert_eq!(within(read_all(&accepted)).await.unwrap(), b"content");
    within(session.sent()).await.unwrap();
    for end in [&session, &accepted] {
        assert_eq!((end.digest(), end.sent_digest(), end.received_digest()), (None, None, None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn digest_covers_the_beginning_that_the_receiver_has() {
    let content = bytes(6 << 20, 3);
    for (kind, length) in WholeDigest::ALL.into_iter().zip([1_000_000, 5 << 20]) {
        for outgoing in [Memory::outgoing(&content, None), nothing()] {
            let listener = listener().await;
            let routes = vec![route(listener.local_addr())];
            let is_written = matches!(outgoing, Outgoing::Window(_));
            let session = Session::send(routes, outgoing, with(kind));
            if is_written {
                session.write(&content).await.unwrap();
                session.end();
            }
            let incoming = within(listener.accept()).await;
            let mut beginning = Beginning::new(incoming.digest());
            content[..length].chunks(77_777).for_each(|piece| beginning.extend(piece));
            let accepted = incoming.accept_from(beginning, nothing(), options()).await.unwrap();
            accepted.end();
            let rest = within(read_all(&accepted)).await.unwrap();
            assert!(rest == content[length..]);
            within(session.sent()).await.unwrap();
            assert_eq!(session.statistics().resumed_bytes, length as u64);
            assert_eq!(session.sent_digest(), Some(digest_of(kind, &content)));
            assert_eq!(accepted.received_digest(), Some(digest_of(kind, &content)));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beginning_without_its_digest_is_refused() {
    let content = bytes(1 << 20, 4);
    let mut prefix = Prefix::default();
    prefix.extend(&content[..1000]);
    let listener = listener().await;
    let outgoing = Memory::outgoing(&content, None);
    let routes = vec![route(listener.local_addr())];
    let session = Session::send(routes.clone(), outgoing, with(WholeDigest::Sha256));
    let incoming = within(listener.accept()).await;
    let refused = incoming.accept_from(prefix.clone(), nothing(), options()).await.unwrap_err();
    assert!(matches!(refused, Error::NoDigest(WholeDigest::Sha256)), "{refused}");
    let told = within(session.sent()).await.unwrap_err().to_string();
    assert!(told.contains("not its sha256"), "{told}");
    // Neither end can continue from its state alone.
    let mut received = Prefix::default();
    received.extend(&content);
    let state = State {
        session: SessionId([3; 16]),
        key: protocol::session::SessionKey::from_bytes([4; 32]),
        digest: Some(WholeDigest::Md5),
        received: received.position(),
    };
    let state = State::from_bytes(&state.to_bytes()).unwrap();
    let refused = listener.restore(&state, received.clone(), nothing(), options()).unwrap_err();
    assert!(matches!(refused, Error::NoDigest(WholeDigest::Md5)), "{refused}");
    let refused = Session::resume(&state, routes, nothing(), received, options()).unwrap_err();
    assert!(matches!(refused, Error::NoDigest(WholeDigest::Md5)), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn digest_continues_in_other_processes() {
    let content = bytes(3 << 20, 5);
    let first = listener().await;
    let wire = Wire::to(first.local_addr(), |_| Mishap::Cut(1 << 20)).await;
    let outgoing = || Memory::outgoing(&content, None);
    let session = Session::send(vec![route(wire.address)], outgoing(), with(WholeDigest::Sha256));
    let accepted = within(first.accept()).await.accept(options()).await.unwrap();
    within(session.greeted()).await.unwrap();
    let mut file = Vec::new();
    while file.len() < 500_000 {
        let chunk = within(accepted.chunk()).await.unwrap().expect("more is to come");
        file.extend_from_slice(&chunk);
    }
    let kept = accepted.state().unwrap().to_bytes();
    let sender = State::from_bytes(&session.state().unwrap().to_bytes()).unwrap();
    assert_eq!(sender.digest, Some(WholeDigest::Sha256));
    drop(wire);
    // Killed: neither says goodbye to the other.
    std::mem::forget((session, accepted));
    drop(first);

    let state = State::from_bytes(&kept).unwrap();
    let mut beginning = Beginning::new(state.digest);
    beginning.extend(&file);
    let second = Listener::bind("127.0.0.1:0", ListenOptions::default()).await.unwrap();
    let accepted = second.restore(&state, beginning, nothing(), options()).unwrap().unwrap();
    accepted.end();
    let routes = vec![route(second.local_addr())];
    let session = Session::resume(&sender, routes, outgoing(), Prefix::default(), options());
    let session = session.unwrap();
    file.extend(within(read_all(&accepted)).await.unwrap());
    assert!(file == content);
    within(session.sent()).await.unwrap();
    assert_eq!(session.sent_digest(), Some(digest_of(WholeDigest::Sha256, &content)));
    assert_eq!(accepted.received_digest(), Some(digest_of(WholeDigest::Sha256, &content)));
}

/// HELLO of a session, of which the connection carries as much as of any other one with these options.
fn hello(session: SessionId, digest: Option<WholeDigest>) -> Vec<u8> {
    let terms = Terms { limit: 16 << 20, note: Vec::new() };
    let greeting = Greeting::new(session, [1; 32], b"", &terms, digest);
    record(RecordKind::Hello, greeting.hello())
}

#[tokio::test(flavor = "multi_thread")]
async fn digest_that_is_damaged_on_the_way_is_sent_again() {
    for kind in WholeDigest::ALL {
        let listener = listener().await;
        let id = SessionId([6; 16]);
        // OPEN, HELLO, DATA, CONFIRM, and FIN up to its digest.
        let before = open(id).len() + hello(id, Some(kind)).len() + (44 + 7) + (4 + 35) + (4 + 72);
        let flip = move |n| if n == 0 { Mishap::Flip(before as u64 + 3) } else { Mishap::None };
        let wire = Wire::to(listener.local_addr(), flip).await;
        let routes = vec![route(wire.address)];
        let content = Memory::outgoing(b"content", None);
        let session = Session::begin(id, routes, content, with(kind));
        let accepted = within(listener.accept()).await.accept(options()).await.unwrap();
        accepted.end();
        assert_eq!(within(read_all(&accepted)).await.unwrap(), b"content");
        within(session.sent()).await.unwrap();
        assert_eq!(session.statistics().connections, 2, "the first FIN had a wrong proof");
        assert_eq!(accepted.received_digest(), Some(digest_of(kind, b"content")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_or_changed_digest_in_hello_is_refused() {
    let listener = listener().await;
    let address = listener.local_addr();
    let id = SessionId([7; 16]);
    let code_of = |heard: &[u8]| {
        let head = heard.windows(4).rposition(|head| head[0] == 23 && head[1] == 0);
        let at = head.expect("END comes last") + 4;
        u16::from_be_bytes([heard[at], heard[at + 1]])
    };
    let mut unknown = hello(id, Some(WholeDigest::Md5));
    *unknown.last_mut().unwrap() = 3;
    let heard = say(address, &[open(id), unknown].concat()).await;
    assert_eq!(code_of(&heard), EndCode::Malformed as u16);
    // One that has not proved itself may begin again, but not with another digest: its bytes were hashed already.
    let first = tokio::spawn(async move {
        say(address, &[open(id), hello(id, Some(WholeDigest::Md5))].concat()).await
    });
    let accepted = within(listener.accept()).await.accept(options()).await.unwrap();
    let heard = say(address, &[open(id), hello(id, Some(WholeDigest::Sha256))].concat()).await;
    assert_eq!(code_of(&heard), EndCode::NoRoom as u16);
    drop(accepted);
    first.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn welcome_while_a_file_is_read_does_not_misplace_its_bytes() {
    let content = bytes(3 << 20, 8);
    let held = 2 * GROUP as usize;
    for digest in [None, Some(WholeDigest::Sha256)] {
        let listener = listener().await;
        let routes = vec![route(listener.local_addr())];
        // The second group is still being read to be sent when the acceptor says that it has it.
        let outgoing = Memory::outgoing(&content, Some(GROUP));
        let session = Session::send(routes, outgoing, Options { digest, ..options() });
        let incoming = within(listener.accept()).await;
        let mut beginning = Beginning::new(incoming.digest());
        beginning.extend(&content[..held]);
        let accepted = incoming.accept_from(beginning, nothing(), options()).await.unwrap();
        accepted.end();
        let rest = within(read_all(&accepted)).await.unwrap();
        assert!(rest == content[held..], "{} bytes", rest.len());
        within(session.sent()).await.unwrap();
    }
}
