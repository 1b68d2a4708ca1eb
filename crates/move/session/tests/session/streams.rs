// SPDX-License-Identifier: GPL-2.0-or-later
//! What programs do with sessions where nothing goes wrong.

use super::{bytes, listener, options, read_all, route};
use longhaul_session::{Options, Outgoing, Session, StoredFile};
use std::{
    fs,
    sync::Arc,
    task::{Context, Poll, Waker},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use units::Bytes;

#[tokio::test(flavor = "multi_thread")]
async fn streams_pass_in_both_directions_and_are_proved() {
    let listener = listener().await;
    let address = listener.local_addr();
    let (up, down) = (bytes(9_000_001, 1), bytes(5_000_003, 2));
    let (to_acceptor, to_initiator) = (up.clone(), down.clone());
    let accept = tokio::spawn(async move {
        let incoming = listener.accept().await;
        assert_eq!(incoming.note(), b"from here");
        let session = incoming.accept(Options { note: b"and back".into(), ..options() }).await;
        let session = session.unwrap();
        let (write, read) = tokio::join!(session.write(&to_initiator), read_all(&session));
        write.unwrap();
        session.end();
        session.sent().await.unwrap();
        assert!(read.unwrap() == to_acceptor);
    });
    let with_note = Options { note: b"from here".into(), ..options() };
    let session = Session::connect(vec![route(address)], with_note);
    let both = tokio::join!(
        async {
            session.write(&up).await.unwrap();
            session.end();
            session.sent().await
        },
        read_all(&session)
    );
    both.0.unwrap();
    assert!(both.1.unwrap() == down);
    assert_eq!(session.greeted().await.unwrap(), b"and back");
    accept.await.unwrap();
}

/// Between the key and the note the initiator does some work, so this looks at every moment.
#[tokio::test(flavor = "multi_thread")]
async fn note_is_there_as_soon_as_both_ends_have_greeted() {
    let listener = listener().await;
    for _ in 0..20 {
        let session = Session::connect(vec![route(listener.local_addr())], options());
        let watch = tokio::task::spawn_blocking(move || {
            let mut greeted = std::pin::pin!(session.greeted());
            let mut context = Context::from_waker(Waker::noop());
            loop {
                if let Poll::Ready(note) = greeted.as_mut().poll(&mut context) {
                    return note.unwrap();
                }
            }
        });
        let welcome = Options { note: b"welcome".into(), ..options() };
        let _accepted = listener.accept().await.accept(welcome).await.unwrap();
        assert_eq!(watch.await.unwrap(), b"welcome");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn short_request_is_answered_before_either_end_finishes() {
    let listener = listener().await;
    let mut session = Session::connect(vec![route(listener.local_addr())], options());
    session.write_all(b"ping").await.unwrap();
    let mut accepted = listener.accept().await.accept(options()).await.unwrap();
    for _ in 0..100 {
        let mut question = [0; 4];
        accepted.read_exact(&mut question).await.unwrap();
        assert_eq!(&question, b"ping");
        accepted.write_all(b"pong!").await.unwrap();
        let mut answer = [0; 5];
        session.read_exact(&mut answer).await.unwrap();
        session.write_all(b"ping").await.unwrap();
    }
    session.shutdown().await.unwrap();
    let mut rest = Vec::new();
    accepted.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"ping");
    // Half closed: the other direction goes on.
    accepted.write_all(b"and more").await.unwrap();
    accepted.shutdown().await.unwrap();
    rest.clear();
    session.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"and more");
    session.sent().await.unwrap();
    accepted.sent().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn file_is_sent_as_it_is() {
    let content = bytes(3_000_000, 3);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), &content).unwrap();
    let file = fs::File::open(directory.path().join("file")).unwrap();
    let listener = listener().await;
    let outgoing = Outgoing::Stored(Arc::new(StoredFile::new(file).unwrap()));
    let session = Session::send(vec![route(listener.local_addr())], outgoing, options());
    let by_hand = Options { confirm_by_hand: true, ..options() };
    let accepted = listener.accept().await.accept(by_hand).await.unwrap();
    accepted.end();
    assert!(read_all(&accepted).await.unwrap() == content);
    assert_eq!(accepted.position(content.len() as u64).unwrap().offset, content.len() as u64);
    let early = tokio::time::timeout(std::time::Duration::from_millis(50), session.sent()).await;
    assert!(early.is_err(), "the acceptor has not said that the file is safe");
    accepted.confirm().unwrap();
    session.sent().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_that_does_not_read_holds_the_writer() {
    let listener = listener().await;
    let small = Options { send_window: Bytes::new(1 << 20), ..options() };
    let session = Arc::new(Session::connect(vec![route(listener.local_addr())], small));
    let accepted = listener.accept().await.accept(options()).await.unwrap();
    let (writer, content) = (Arc::clone(&session), bytes(40 << 20, 4));
    let expected = content.clone();
    let write = tokio::spawn(async move { writer.write(&content).await });
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let held = session.statistics();
    assert!(held.sent_bytes <= 17 << 20, "{held:?}");
    assert!(!write.is_finished());
    let read = tokio::spawn(async move { read_all(&accepted).await });
    write.await.unwrap().unwrap();
    session.end();
    assert!(read.await.unwrap().unwrap() == expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_that_is_dropped_ends_at_the_other_end() {
    let listener = listener().await;
    let session = Session::connect(vec![route(listener.local_addr())], options());
    let accepted = listener.accept().await.accept(options()).await.unwrap();
    session.greeted().await.unwrap();
    drop(session);
    let error = read_all(&accepted).await.unwrap_err().to_string();
    assert!(error.contains("ended the session"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_listener_refuses_others_and_keeps_its_sessions() {
    let listener = listener().await;
    let session = Session::connect(vec![route(listener.local_addr())], options());
    let accepted = listener.accept().await.accept(options()).await.unwrap();
    let waiting = Session::connect(vec![route(listener.local_addr())], options());
    waiting.write(b"anybody there?").await.unwrap();
    listener.close().await;
    let late = Session::connect(vec![route(listener.local_addr())], options());
    assert!(waiting.greeted().await.is_err());
    assert!(late.greeted().await.is_err());
    session.write(b"still here").await.unwrap();
    session.end();
    assert_eq!(read_all(&accepted).await.unwrap(), b"still here");
    session.sent().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn small_windows_hold_the_writer_and_lose_nothing() {
    let listener = listener().await;
    let small = Options {
        send_window: Bytes::new(64 << 10),
        receive_window: Bytes::new(64 << 10),
        ..options()
    };
    let session = Session::connect(vec![route(listener.local_addr())], small.clone());
    let accepted = listener.accept().await.accept(small).await.unwrap();
    // Some 16 MiB are received ahead of the application, whatever it asks for.
    let up = bytes(30_000_001, 9);
    let copy = up.clone();
    let write = tokio::spawn(async move {
        session.write(&copy).await.unwrap();
        session.end();
        session.sent().await.unwrap();
    });
    // Until the writer is held.
    let mut before = 0;
    loop {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let now = accepted.statistics().received_bytes;
        if now == before && now > 0 {
            break;
        }
        before = now;
    }
    assert!(before < up.len() as u64, "{before}");
    assert!(read_all(&accepted).await.unwrap() == up);
    write.await.unwrap();
}
