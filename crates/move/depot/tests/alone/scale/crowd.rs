// SPDX-License-Identifier: GPL-2.0-or-later
//! Very many clients and their origin, a task each and no thread of their own.

use crate::common::PATIENCE;
use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::Runtime,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};

/// How long one of very many may wait for its turn.
const TURN: Duration = Duration::from_secs(PATIENCE.as_secs() * 3);
/// How many of very many do something at a time.
const AT_A_TIME: usize = 500;

/// An origin: `/N` is a body of N bytes, `/held/N` one that is sent as far as its valve is open.
pub struct Origin {
    pub address: SocketAddr,
    valve: watch::Sender<usize>,
}

impl Origin {
    pub fn new(runtime: &Runtime) -> Self {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (valve, open) = watch::channel(0);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let open = open.clone();
                tokio::spawn(async move {
                    // Clients that go away are part of the test.
                    let _ = serve(link(stream), open).await;
                });
            }
        });
        Self { address, valve }
    }

    pub fn open_to(&self, bytes: usize) {
        self.valve.send_replace(bytes);
    }

    /// The request's target at a depot.
    pub fn route(&self, path: &str) -> Arc<str> {
        self.route_by("-", path)
    }

    /// The same through further depots.
    pub fn route_by(&self, chain: &str, path: &str) -> Arc<str> {
        format!("/lh1/fetch/{chain}/http:{}{path}", self.address).into()
    }
}

async fn serve(mut stream: Link<TcpStream>, mut open: watch::Receiver<usize>) -> io::Result<()> {
    let zeros = vec![0; 64 << 10];
    while let Some(head) = read_head(&mut stream).await? {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let length: usize = path.rsplit('/').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(answer.as_bytes()).await?;
        let mut sent = 0;
        while sent < length {
            let until = if path.starts_with("/held/") {
                let open = open.wait_for(|open| *open > sent).await;
                *open.map_err(|_| ErrorKind::BrokenPipe)?
            } else {
                length
            };
            let now = until.min(length).min(sent + zeros.len());
            stream.write_all(&zeros[..now - sent]).await?;
            sent = now;
        }
    }
    Ok(())
}

/// An address of its own for each client.
pub fn address(n: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + n as u32)
}

/// Lets a crowd come, some at a time.
pub fn come<T, F>(runtime: &Runtime, count: usize, connect: impl Fn(usize) -> F) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let turns = Arc::new(Semaphore::new(AT_A_TIME));
    let comers = (0..count).map(|n| {
        let (turns, coming) = (Arc::clone(&turns), connect(n));
        async move {
            let _turn = turns.acquire().await.unwrap();
            coming.await
        }
    });
    runtime.block_on(async { comers.collect::<JoinSet<_>>().join_all().await })
}

/// A connection from an address of choice, so that very many find a port.
pub async fn connect(from: Ipv4Addr, to: SocketAddr) -> Link<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    link(timeout(TURN, socket.connect(to)).await.expect("a connection in time").unwrap())
}

/// A connection that heads can be read from.
pub type Link<S> = BufReader<S>;

pub fn link<S: AsyncRead>(stream: S) -> Link<S> {
    BufReader::with_capacity(1 << 10, stream)
}

/// Asks for a target and reads the answer's head: the length of its body.
pub async fn ask<S>(stream: &mut Link<S>, target: &str, connection: &str) -> usize
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let head = ask_for_head(stream, target, connection).await.expect("an answer");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let length = head.split("\r\n").find_map(|line| line.strip_prefix("Content-Length: "));
    length.expect("a length").parse().unwrap()
}

/// Asks for a target and reads the answer's head, if there is one.
pub async fn ask_for_head<S>(
    stream: &mut Link<S>,
    target: &str,
    connection: &str,
) -> io::Result<String>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = format!("GET {target} HTTP/1.1\r\nHost: d\r\nConnection: {connection}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let head = timeout(TURN, read_head(stream)).await.expect("an answer in time, or none")?;
    head.ok_or_else(|| ErrorKind::UnexpectedEof.into())
}

/// Reads `length` bytes of a body and discards them.
pub async fn take<S: AsyncRead + Unpin>(stream: &mut Link<S>, length: usize) {
    let mut buffer = [0; 8 << 10];
    let mut left = length;
    while left > 0 {
        let part = left.min(buffer.len());
        let read = timeout(TURN, stream.read(&mut buffer[..part])).await;
        let read = read.expect("more of the body in time").unwrap();
        assert!(read > 0, "{left} of {length} bytes are missing");
        left -= read;
    }
}

/// Asks for a target and takes the answer.
pub async fn fetch<S>(stream: &mut Link<S>, target: &str, connection: &str)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let length = ask(stream, target, connection).await;
    take(stream, length).await;
}

/// Reads up to the empty line; none where the peer has closed before the first byte.
async fn read_head<S: AsyncRead + Unpin>(link: &mut Link<S>) -> io::Result<Option<String>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if link.read_line(&mut head).await? == 0 {
            return if head.is_empty() { Ok(None) } else { Err(ErrorKind::UnexpectedEof.into()) };
        }
    }
    Ok(Some(head))
}
