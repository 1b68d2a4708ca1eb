// SPDX-License-Identifier: GPL-2.0-or-later
//! What those can do who are not an end of the session.

use super::{bytes, listener, options, read_all, route};
use longhaul_session::{ListenOptions, Listener, Options, Session};
use protocol::session::{
    Open, Position, SessionId, SessionKey, Target,
    handshake::Attaching,
    record::{RecordKind, record},
};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

pub async fn say(address: SocketAddr, what: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(what).await.unwrap();
    let mut heard = Vec::new();
    let _ = timeout(Duration::from_secs(5), stream.read_to_end(&mut heard)).await.unwrap();
    heard
}

pub fn open(session: SessionId) -> Vec<u8> {
    Open::new(session, Vec::new(), Target::End).to_bytes().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn name_of_a_session_neither_attaches_nor_ends_it() {
    let listener = listener().await;
    let address = listener.local_addr();
    let session = Session::connect(vec![route(address)], options());
    let accepted = listener.accept().await.accept(options()).await.unwrap();
    session.greeted().await.unwrap();
    let id = session.id();
    let key = SessionKey::from_bytes([0; 32]);
    let attaching = Attaching::new(&key, id, [1; 32], 1 << 20, &Position::default());
    let attach = record(RecordKind::Attach, attaching.attach());
    let heard = say(address, &[open(id), attach.clone()].concat()).await;
    assert!(String::from_utf8_lossy(&heard).contains("cannot prove"), "{heard:?}");
    for what in [
        record(RecordKind::End, &[0; 34]),
        record(RecordKind::Fin, &[0; 72]),
        record(RecordKind::Data, &[0; 100]),
        record(RecordKind::Confirm, &[255; 35]),
        attach[..attach.len() - 1].to_vec(),
        vec![0; 100],
        Vec::new(),
    ] {
        say_and_leave(address, &[open(id), what].concat()).await;
    }
    let content = bytes(1_000_000, 1);
    session.write(&content).await.unwrap();
    session.end();
    assert!(read_all(&accepted).await.unwrap() == content);
    assert_eq!(session.statistics().connections, 1);
}

async fn say_and_leave(address: SocketAddr, what: &[u8]) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(what).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_sessions_are_refused_and_others_served() {
    let listener = listener().await;
    let address = listener.local_addr();
    for what in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\xb1LSL\x01\x01\xff\xff", b"\xb1LSM"] {
        let heard = say(address, what).await;
        assert!(heard.starts_with(b"\xb1LSL\x01\x02"), "{heard:?}");
    }
    let unknown = SessionId([9; 16]);
    let key = SessionKey::from_bytes([0; 32]);
    let attaching = Attaching::new(&key, unknown, [1; 32], 0, &Position::default());
    let attach = record(RecordKind::Attach, attaching.attach());
    let heard = say(address, &[open(unknown), attach].concat()).await;
    let end = heard.len() - 34;
    assert_eq!(heard[end..end + 2], [0, 1], "unknown session");
    let session = Session::connect(vec![route(address)], options());
    let _accepted = listener.accept().await.accept(options()).await.unwrap();
    session.greeted().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_strangers_hold_no_place_for_long() {
    let few = ListenOptions {
        handshakes: 4,
        handshake_time: Duration::from_millis(300),
        ..ListenOptions::default()
    };
    let listener = Listener::bind("127.0.0.1:0", few).await.unwrap();
    let address = listener.local_addr();
    let mut idle = Vec::new();
    for _ in 0..4 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let session = Session::connect(vec![route(address)], options());
    let incoming = timeout(Duration::from_secs(20), listener.accept()).await.expect("a place");
    let _accepted = incoming.accept(options()).await.unwrap();
    session.greeted().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_secret_opens_nothing() {
    let listener = listener().await;
    let address = listener.local_addr();
    let with = |secret: &[u8]| Options { secret: secret.into(), encrypt: false, ..options() };
    let accept = tokio::spawn(async move {
        let mut results = Vec::new();
        for _ in 0..3 {
            let accepted = listener.accept().await.accept(with(b"right")).await;
            results.push(match accepted {
                Ok(session) => {
                    session.end();
                    read_all(&session).await
                }
                Err(error) => Err(error),
            });
        }
        results
    });
    for (secret, works) in [(&b"wrong"[..], false), (b"", false), (b"right", true)] {
        let session = Session::connect(vec![route(address)], with(secret));
        // The other end may have ended the session before this writes.
        let written = session.write(b"hidden").await;
        session.end();
        let sent = timeout(Duration::from_secs(20), session.sent()).await.unwrap();
        assert_eq!(written.and(sent).is_ok(), works, "{secret:?}");
    }
    let results = accept.await.unwrap();
    assert!(results[0].is_err() && results[1].is_err(), "{results:?}");
    assert_eq!(results[2].as_deref().unwrap(), b"hidden");
}
