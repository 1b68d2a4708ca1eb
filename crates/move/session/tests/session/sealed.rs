// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions that no depot on the path can read.

use super::{
    bytes, options, read_all, route,
    wire::{Mishap, Wire, number},
};
use http::StatusCode;
use longhaul_session::{Error, ListenOptions, Listener, Options, Session};
use protocol::session::{
    Answer, Direction, Header, Open, SessionId, Target,
    handshake::{Greeting, Terms},
    record::{End, EndCode, RecordKind, record},
    sealed::{PreSharedKey, SealedStart, Sealing},
};
use std::{sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

const LIMIT: Duration = Duration::from_secs(60);

async fn listener(secret: &[u8]) -> Listener {
    let options = ListenOptions { secret: secret.to_vec(), ..ListenOptions::default() };
    Listener::bind("127.0.0.1:0", options).await.unwrap()
}

fn with(secret: &[u8], encrypt: bool) -> Options {
    let longest_wait = Duration::from_millis(30);
    Options { secret: secret.to_vec(), encrypt, longest_wait, ..options() }
}

/// Sends `content` over a wire with a note, and `answer` back.
async fn exchange(
    wire: &Wire,
    listener: &Listener,
    (content, answer): (&[u8], &[u8]),
    encrypt: bool,
) {
    let accept = async {
        let incoming = listener.accept().await;
        assert_eq!(incoming.note(), b"name of a hidden file");
        let note = b"name of the receiver".to_vec();
        let accepted = incoming.accept(Options { note, ..options() }).await.unwrap();
        accepted.write(answer).await.unwrap();
        accepted.end();
        assert!(read_all(&accepted).await.unwrap() == content);
        accepted.sent().await.unwrap();
        assert_eq!(accepted.statistics().is_encrypted, encrypt);
    };
    let note = b"name of a hidden file".to_vec();
    let options = Options { note, ..with(b"a code", encrypt) };
    let session = Session::connect(vec![route(wire.address)], options);
    let send = async {
        session.write(content).await.unwrap();
        session.end();
        assert!(read_all(&session).await.unwrap() == answer);
        session.sent().await.unwrap();
        assert_eq!(session.statistics().is_encrypted, encrypt);
    };
    timeout(LIMIT, async { tokio::join!(accept, send) }).await.expect("it comes to an end");
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test(flavor = "multi_thread")]
async fn depots_cannot_read_data_or_notes() {
    let listener = listener(b"a code").await;
    let content = b"what only both ends know; ".repeat(40_000);
    let answer = b"neither this".repeat(1000);
    for encrypt in [true, false] {
        let wire = Wire::to(listener.local_addr(), |_| Mishap::None).await;
        exchange(&wire, &listener, (&content, &answer), encrypt).await;
        let seen = wire.seen.lock().unwrap();
        let [up, down] = &seen[0];
        assert!(up.len() > content.len() && down.len() > answer.len());
        for (bytes, hidden) in [
            (up, &b"both ends"[..]),
            (up, b"hidden file"),
            (down, b"neither this"),
            (down, b"the receiver"),
        ] {
            assert_eq!(contains(bytes, hidden), !encrypt, "{}", hidden.escape_ascii());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_or_changed_data_is_resent_on_another_connection() {
    let seed = std::env::var("LONGHAUL_SEED").map_or(1, |text| text.parse().unwrap());
    println!("LONGHAUL_SEED={seed}");
    for round in 0..30 {
        let seed: u64 = seed << 32 | round;
        let listener = listener(b"a code").await;
        let content = bytes(1_000_000 + number(seed, 1_000_000) as usize, seed);
        let mishap = move |n| {
            let at = 1000 + number(seed ^ n << 16, 400_000);
            match number(seed ^ n << 8, 3) {
                _ if n >= 4 => Mishap::None,
                0 => Mishap::Flip(at),
                _ => Mishap::Cut(at),
            }
        };
        let wire = Wire::to(listener.local_addr(), mishap).await;
        exchange(&wire, &listener, (&content, b"answer"), true).await;
        assert!(wire.connections.load(Relaxed) > 1, "LONGHAUL_SEED={seed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_code_no_session_reaches_the_application() {
    let guarded = listener(b"right").await;
    for secret in [&b"wrong"[..], b"r"] {
        let stranger = Session::connect(vec![route(guarded.local_addr())], with(secret, true));
        let error = timeout(LIMIT, stranger.greeted()).await.unwrap().unwrap_err();
        assert!(matches!(&error, Error::Ended { code: 2, .. }), "{error}");
    }
    assert!(timeout(Duration::from_millis(100), guarded.accept()).await.is_err());
    let known = Session::connect(vec![route(guarded.local_addr())], with(b"right", true));
    let accepted = guarded.accept().await.accept(options()).await.unwrap();
    known.greeted().await.unwrap();
    assert_eq!(accepted.id(), known.id());

    let open = listener(b"").await;
    let session = Session::connect(vec![route(open.local_addr())], with(b"right", true));
    let error = timeout(LIMIT, session.greeted()).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("no code"), "{error}");
}

/// An observer on the path can record what was sent, and replay it.
#[tokio::test(flavor = "multi_thread")]
async fn replayed_records_neither_open_nor_end_sessions() {
    let listener = listener(b"a code").await;
    let wire = Wire::to(listener.local_addr(), |n| {
        // HELLO on the first connection, ATTACH on the second.
        if n == 0 { Mishap::Cut(5000) } else { Mishap::None }
    });
    let wire = wire.await;
    let session = Session::connect(vec![route(wire.address)], with(b"a code", true));
    let content = bytes(3_000_000, 1);
    let accepted = listener.accept().await.accept(options()).await.unwrap();
    session.write(&content[..2_000_000]).await.unwrap();
    let mut received = Vec::new();
    while received.len() < 2_000_000 {
        received.extend(accepted.chunk().await.unwrap().expect("more is to come"));
    }
    let recorded: Vec<_> = wire.seen.lock().unwrap().iter().map(|[up, _]| up.clone()).collect();
    assert!(recorded.len() > 1);
    for bytes in recorded {
        let mut replay = TcpStream::connect(listener.local_addr()).await.unwrap();
        let _ = replay.write_all(&bytes).await;
        let _ = replay.shutdown().await;
        let mut answer = Vec::new();
        let _ = timeout(Duration::from_secs(5), replay.read_to_end(&mut answer)).await;
    }
    let connections = session.statistics().connections;
    session.write(&content[2_000_000..]).await.unwrap();
    session.end();
    let rest = timeout(LIMIT, read_all(&accepted)).await.unwrap().unwrap();
    received.extend(rest);
    assert!(received == content);
    assert_eq!(session.statistics().connections, connections, "the session was disturbed");
}

/// Bytes before the first sealed message in each direction: OPEN and ANSWER.
fn before_sealed() -> [u64; 2] {
    let open = Open::new(SessionId([9; 16]), Vec::new(), Target::End).to_bytes().unwrap();
    let answer = Answer::of(StatusCode::OK, "end".parse().unwrap()).to_bytes().unwrap();
    [open.len() as u64, answer.len() as u64]
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_bit_in_a_first_sealed_message_is_tried_again() {
    let [open, answer] = before_sealed();
    // The record's type, how it begins, the ephemeral key, the encrypted record.
    for at in [0, 4, 9, 50, 90] {
        for mishap in [Mishap::Flip(open + at), Mishap::FlipBack(answer + at)] {
            let listener = listener(b"a code").await;
            let first = move |n| if n == 0 { mishap } else { Mishap::None };
            let wire = Wire::to(listener.local_addr(), first).await;
            exchange(&wire, &listener, (b"content", b"answer"), true).await;
            assert!(wire.connections.load(Relaxed) > 1, "{mishap:?} changes nothing");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bits_that_always_change_end_the_session_with_the_cause() {
    let [open, answer] = before_sealed();
    for (mishap, most) in [(Mishap::Flip(open + 50), 5), (Mishap::FlipBack(answer + 50), 1000)] {
        let listener = listener(b"a code").await;
        let wire = Wire::to(listener.local_addr(), move |_| mishap).await;
        let impatient = Options { patience: Duration::from_secs(1), ..with(b"a code", true) };
        let session = Session::connect(vec![route(wire.address)], impatient);
        let accepting = tokio::spawn(async move {
            let accepted = listener.accept().await.accept(options()).await.unwrap();
            let _ = read_all(&accepted).await;
        });
        let error = timeout(LIMIT, session.greeted()).await.unwrap().unwrap_err();
        accepting.abort();
        let text = error.to_string();
        assert!(text.contains("path") || text.contains("on the way"), "{mishap:?}: {text}");
        let connections = wire.connections.load(Relaxed);
        assert!((2..=most).contains(&connections), "{mishap:?}: {connections} connections");
    }
}

/// What an acceptor answers to a first message that holds these bytes, behind ANSWER.
async fn answer_to(listener: &Listener, start: SealedStart, first: &[u8]) -> Vec<u8> {
    let session = SessionId([9; 16]);
    let mut bytes = Open::new(session, Vec::new(), Target::End).to_bytes().unwrap();
    bytes.extend(
        Sealing::begin(session, start, &PreSharedKey::of_secret(b"a code"), [1; 32], first).1,
    );
    let mut stream = TcpStream::connect(listener.local_addr()).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    timeout(LIMIT, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    let (_, length) = Header::parse_answer(&answer).unwrap().expect("a whole ANSWER");
    answer.split_off(length)
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_sealed_handshake_is_closed_silently() {
    let listener = listener(b"a code").await;
    let terms = Terms::default();
    let hello = Greeting::new(SessionId([9; 16]), [1; 32], b"a code", &terms, None);
    let hello = record(RecordKind::Hello, hello.hello());
    let ping = record(RecordKind::Ping, &[0; 8]);
    let two = [&hello[..], &ping].concat();
    for first in [&two[..], &hello[..hello.len() - 1], &ping, b""] {
        assert_eq!(answer_to(&listener, SealedStart::Hello, first).await, b"");
    }
    // The acceptor does not know that session.
    let end = answer_to(&listener, SealedStart::Attach, &hello).await;
    assert_eq!((end[0], &end[4..6]), (RecordKind::End as u8, &[0, 1][..]));
    assert!(timeout(Duration::from_millis(100), listener.accept()).await.is_err());
}

/// An attacker on the path can answer without sealing. The initiator believes only "the code is wrong".
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_not_sealed_do_not_end_the_session() {
    let stranger = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let routes = vec![route(stranger.local_addr().unwrap())];
    let session = Session::connect(routes, with(b"a code", true));
    let answers = async {
        let ended = |code| End::to_record(code, "enough", Direction::FromAcceptor, None);
        for answer in [
            ended(EndCode::Application),
            ended(EndCode::Malformed),
            record(RecordKind::Welcome, &[0; 40]),
            record(RecordKind::Sealed, &[0; 80]),
            ended(EndCode::UnknownSession),
        ]
        .into_iter()
        // One could come from a changed byte.
        .chain(std::iter::repeat_n(ended(EndCode::WrongProof), 5))
        {
            let (mut stream, _) = stranger.accept().await.unwrap();
            let mut head = [0; 64];
            stream.read_exact(&mut head).await.unwrap();
            let accepted = Answer::of(StatusCode::OK, "end".parse().unwrap()).to_bytes().unwrap();
            stream.write_all(&[accepted, answer].concat()).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        }
    };
    let (greeted, ()) =
        timeout(LIMIT, async { tokio::join!(session.greeted(), answers) }).await.unwrap();
    assert!(matches!(&greeted, Err(Error::Ended { code: 2, .. })), "{greeted:?}");
}
