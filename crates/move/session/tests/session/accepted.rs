// SPDX-License-Identifier: GPL-2.0-or-later
//! Sessions on connections that the program has accepted itself, with requests that are signed for one HELLO.

use super::{bytes, options, read_all, route};
use ::bytes::BytesMut;
use longhaul_session::{
    Accepted, Acceptor, Error, Greeted, Incoming, ListenOptions, NoSession, Options, Outgoing,
    Session, Window,
};
use protocol::session::{
    Answer, Header, Open, SessionId, Target,
    handshake::{Greeting, Terms},
    record::{EndCode, RecordKind, record},
    request::{Request, RequestError, SigningKey},
    split_record,
};
use relay::tcp::Stream;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::timeout,
};

const SESSION: SessionId = SessionId([3; 16]);

fn acceptor() -> Acceptor {
    Acceptor::new(ListenOptions { each_hello_begins: true, ..ListenOptions::default() })
}

fn signer() -> Arc<SigningKey> {
    Arc::new(SigningKey::from_seed(&[7; 32]))
}

fn list() -> Request {
    Request::List { after: None }
}

/// Accepts a connection, reads its OPEN and answers, as a depot does; with what is told when the connection is over.
async fn accepted(listener: &TcpListener) -> (Accepted, oneshot::Receiver<()>) {
    let (mut tcp, peer) = listener.accept().await.unwrap();
    let mut ahead = BytesMut::new();
    let (open, length) = loop {
        tcp.read_buf(&mut ahead).await.unwrap();
        if let Some(found) = Header::parse_open(&ahead).unwrap() {
            break found;
        }
    };
    drop(ahead.split_to(length));
    let answer = Answer::of(http::StatusCode::OK, "d1".parse().unwrap());
    tcp.write_all(&answer.to_bytes().unwrap()).await.unwrap();
    let (over, is_over) = oneshot::channel::<()>();
    let stream = Stream::new(tcp, peer);
    let session = open.session;
    (Accepted { stream, ahead, session, guard: Box::new(over) }, is_over)
}

async fn greeted(
    acceptor: &Acceptor,
    listener: &TcpListener,
) -> (Result<Greeted, NoSession>, oneshot::Receiver<()>) {
    let (accepted, over) = accepted(listener).await;
    (acceptor.greet(accepted).await, over)
}

async fn incoming(acceptor: &Acceptor, listener: &TcpListener) -> Incoming {
    match greeted(acceptor, listener).await.0 {
        Ok(Greeted::New(incoming)) => *incoming,
        other => panic!("no HELLO: {other:?}"),
    }
}

async fn local() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn asking(address: SocketAddr, request: Request) -> Session {
    let asked = Options { request: Some((request, signer())), ..options() };
    let nothing = Outgoing::Window(Window::default());
    Session::begin(SESSION, vec![route(address)], nothing, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_request_arrives_and_the_session_continues() {
    let ((listener, address), acceptor) = (local().await, acceptor());
    let session = asking(address, list());
    let (first, over) = greeted(&acceptor, &listener).await;
    let Ok(Greeted::New(first)) = first else { panic!("no HELLO") };
    let signed = first.request().unwrap();
    assert_eq!((signed.request, signed.signer), (list(), signer().public()));
    let note = Options { note: b"known".to_vec(), ..options() };
    let served = first.accept(note).await.unwrap();
    served.proved().await.unwrap();
    assert_eq!(session.greeted().await.unwrap(), b"known");
    let content = bytes(1_000_000, 1);
    session.write(&content).await.unwrap();
    session.end();
    served.end();
    assert!(read_all(&served).await.unwrap() == content);
    assert_eq!(read_all(&session).await.unwrap(), b"");
    session.closed().await.unwrap();
    served.closed().await.unwrap();
    assert!(over.await.is_err(), "the guard is dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_connection_is_told_and_replaced() {
    let ((listener, address), acceptor) = (local().await, acceptor());
    let session = asking(address, list());
    let (accepted, over) = accepted(&listener).await;
    let socket = accepted.stream.watch();
    let Ok(Greeted::New(first)) = acceptor.greet(accepted).await else { panic!("no HELLO") };
    let served = first.accept(options()).await.unwrap();
    served.proved().await.unwrap();
    let wire = socket.upgrade().expect("the session has the connection");
    rustix::net::shutdown(wire.socket(), rustix::net::Shutdown::Both).unwrap();
    drop(wire);
    let second = greeted(&acceptor, &listener);
    let ((second, _), ended) = tokio::join!(second, timeout(Duration::from_secs(60), over));
    assert!(matches!(second, Ok(Greeted::Continued)), "{second:?}");
    assert!(ended.expect("the guard is dropped").is_err());
    session.write(b"more").await.unwrap();
    session.end();
    served.end();
    assert_eq!(read_all(&served).await.unwrap(), b"more");
    assert_eq!(session.statistics().connections, 2);
}

/// A recorded HELLO is answered, and whoever sends it can neither confirm nor have another HELLO take its place.
#[tokio::test(flavor = "multi_thread")]
async fn recorded_hello_never_proves_anything() {
    let ((listener, address), acceptor) = (local().await, acceptor());
    let _session = asking(address, list());
    let (first, _) = accepted(&listener).await;
    let Ok(Greeted::New(first)) = acceptor.greet(first).await else { panic!("no HELLO") };
    let note = first.note().to_vec();
    assert!(first.request().is_ok());
    let open = Open::new(SESSION, Vec::new(), Target::End).to_bytes().unwrap();
    let say = |what: Vec<u8>| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&what).await.unwrap();
        stream
    };
    // The same note with another key.
    let terms = Terms { limit: 1 << 20, note };
    let stolen = Greeting::new(SESSION, [5; 32], b"", &terms, None);
    let hello = record(RecordKind::Hello, stolen.hello());
    let _stranger = say([open.clone(), hello].concat()).await;
    let second = incoming(&acceptor, &listener).await;
    assert_eq!(second.request(), Err(RequestError::Signature));
    second.refuse_with(EndCode::WrongProof, "no").await;
    // The stranger's own HELLO is a session of its own, not the first one's.
    let served = first.accept(options()).await.unwrap();
    let own = Greeting::new(SESSION, [6; 32], b"", &Terms::default(), None);
    let mut stranger = say([open, record(RecordKind::Hello, own.hello())].concat()).await;
    let third = incoming(&acceptor, &listener).await;
    assert_eq!(third.request(), Err(RequestError::Unsigned));
    let other = third.accept(options()).await.unwrap();
    let mut heard = BytesMut::new();
    let welcome = loop {
        stranger.read_buf(&mut heard).await.unwrap();
        if let Some((_, length)) = Header::parse(&heard).unwrap() {
            let mut records = heard.clone().split_off(length);
            if let Some((Some(RecordKind::Welcome), payload)) = split_record(&mut records).unwrap()
            {
                break payload;
            }
        }
    };
    let (_, confirm) = own.welcomed(&welcome).unwrap();
    stranger.write_all(&record(RecordKind::Confirm, &confirm)).await.unwrap();
    other.proved().await.unwrap();
    served.proved().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_reach_the_initiator_before_and_after_the_proof() {
    let ((listener, address), acceptor) = (local().await, acceptor());
    let session = asking(address, list());
    let refused = incoming(&acceptor, &listener).await;
    refused.refuse_with(EndCode::NoSpace, "no space left").await;
    let error = session.greeted().await.unwrap_err();
    assert!(error.is_no_space(), "{error}");
    assert!(error.to_string().contains("no space left"), "{error}");
    let session = asking(address, list());
    let served = incoming(&acceptor, &listener).await.accept(options()).await.unwrap();
    served.proved().await.unwrap();
    served.end_with(EndCode::NoSpace, "it is full now");
    let error = session.sent().await.unwrap_err();
    assert!(error.is_no_space() && error.to_string().contains("it is full now"), "{error}");
    assert!(matches!(served.closed().await, Err(Error::EndedHere { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_one_name_are_bounded() {
    let ((listener, address), acceptor) = (local().await, acceptor());
    let open = Open::new(SESSION, Vec::new(), Target::End).to_bytes().unwrap();
    let (mut streams, mut taken) = (Vec::new(), Vec::new());
    for n in 0..17 {
        let greeting = Greeting::new(SESSION, [n; 32], b"", &Terms::default(), None);
        let hello = record(RecordKind::Hello, greeting.hello());
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&[open.clone(), hello].concat()).await.unwrap();
        stream.shutdown().await.unwrap();
        streams.push(stream);
        match greeted(&acceptor, &listener).await.0 {
            Ok(Greeted::New(incoming)) => taken.push(incoming),
            refused => assert!(refused.is_err()),
        }
    }
    assert_eq!(taken.len(), 16);
    taken.pop();
    let _next = asking(address, list());
    assert!(greeted(&acceptor, &listener).await.0.is_ok(), "a place is free again");
}
