// SPDX-License-Identifier: GPL-2.0-or-later
//! Both ends of a session, as the tests play them.

use crate::common::{PATIENCE, client::connect, process::Daemon};
use http::StatusCode;
use protocol::{
    DepotAddress,
    session::{Answer, Header, Hop, Open, SessionId, Target},
};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread::JoinHandle,
};

/// A session's name, which tests tell apart by one byte.
pub fn id(byte: u8) -> SessionId {
    SessionId([byte; 16])
}

pub fn hop(address: SocketAddr) -> Hop {
    DepotAddress::from(protocol::Authority::from(address)).into()
}

/// OPEN of a session to an acceptor, through these hops behind the first depot.
pub fn open(hops: &[SocketAddr]) -> Open {
    Open::new(id(7), hops.iter().copied().map(hop).collect(), Target::End)
}

/// OPEN of a session to a server that the first depot connects to.
pub fn open_tcp(server: SocketAddr) -> Open {
    Open::new(id(8), Vec::new(), Target::Tcp { server: server.into(), proxy_protocol: false })
}

/// Sends OPEN to a depot.
pub fn asked(depot: &Daemon, open: &Open) -> TcpStream {
    let mut stream = connect(depot.address);
    stream.write_all(&open.to_bytes().unwrap()).unwrap();
    stream
}

/// Opens a session.
pub fn opened(depot: &Daemon, open: &Open) -> (TcpStream, Answer) {
    let mut stream = asked(depot, open);
    let answer = answer(&mut stream);
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    (stream, answer)
}

/// What a depot answers to these bytes, before it closes.
pub fn refused(depot: &Daemon, bytes: &[u8]) -> Answer {
    let mut stream = connect(depot.address);
    stream.write_all(bytes).unwrap();
    let answer = answer(&mut stream);
    assert!(!answer.status.is_success(), "{answer:?}");
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the connection is closed");
    answer
}

/// Reads a header, and nothing behind it.
pub fn header(stream: &mut impl Read) -> io::Result<Header> {
    let mut bytes = vec![0; 8];
    stream.read_exact(&mut bytes)?;
    bytes.resize(8 + usize::from(u16::from_be_bytes([bytes[6], bytes[7]])), 0);
    stream.read_exact(&mut bytes[8..])?;
    let (header, length) = Header::parse(&bytes).map_err(io::Error::other)?.expect("it is whole");
    assert_eq!(length, bytes.len());
    Ok(header)
}

pub fn answer(stream: &mut impl Read) -> Answer {
    match header(stream).expect("an ANSWER") {
        Header::Answer(answer) => answer,
        other => panic!("no ANSWER: {other:?}"),
    }
}

/// An acceptor whose connections are each handed to a script, with their OPEN.
pub struct Acceptor {
    pub address: SocketAddr,
}

impl Acceptor {
    /// One that opens each session.
    pub fn new(script: impl Fn(TcpStream, Open) + Send + Clone + 'static) -> Self {
        Self::raw(move |mut stream| {
            let Ok(Header::Open(open)) = header(&mut stream) else { return };
            let answer = Answer::of(StatusCode::OK, "end".parse().unwrap());
            if stream.write_all(&answer.to_bytes().unwrap()).is_ok() {
                script(stream, open);
            }
        })
    }

    /// One that does with each connection what it likes.
    pub fn raw(script: impl Fn(TcpStream) + Send + Clone + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let script = script.clone();
                std::thread::spawn(move || {
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    stream.set_write_timeout(Some(PATIENCE)).unwrap();
                    script(stream);
                });
            }
        });
        Self { address }
    }

    /// One that sends back what it reads, to the end.
    pub fn echo() -> Self {
        Self::new(|stream, _| echo(stream))
    }
}

/// Sends back what it reads, to the end.
pub fn echo(mut stream: TcpStream) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
}

/// Sends bytes and the end, at the same time as the caller reads.
pub fn sending(stream: &TcpStream, bytes: Vec<u8>) -> JoinHandle<()> {
    let mut stream = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    })
}

/// All that comes.
pub fn to_end(mut stream: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an end in good order");
    bytes
}

/// Sends a word and reads it back.
pub fn echoes(mut stream: &TcpStream) {
    stream.write_all(b"hello").unwrap();
    let mut word = [0; 5];
    stream.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"hello");
}

/// Reads until the connection is reset.
pub fn await_reset(mut stream: &TcpStream) {
    let mut buffer = vec![0; 65_536];
    let end = loop {
        match stream.read(&mut buffer) {
            Ok(1..) => {}
            end => break end,
        }
    };
    assert!(end.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset), "{end:?}");
}

/// Closes a connection by a reset.
pub fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(stream);
}
