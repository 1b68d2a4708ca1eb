// SPDX-License-Identifier: GPL-2.0-or-later
//! Buffers raised and given back on real sockets, within the memory there is.

use super::*;
use crate::tcp::{Stream, socket_options::most_of};
use std::net::TcpListener;

/// A connection to nobody in particular.
async fn stream() -> (Stream, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (Stream::new(TcpStream::connect(address).await.unwrap(), address), listener)
}

fn sndbuf(stream: &Stream) -> usize {
    sockopt::socket_send_buffer_size(stream.tcp()).unwrap()
}

fn mebibytes(n: u64) -> Bytes {
    Bytes::new(n << 20)
}

#[tokio::test]
async fn a_send_buffer_is_raised_and_given_back() {
    let (stream, _listener) = stream().await;
    let memory = Pipes::new(1 << 20, 16 << 20);
    let (seen, _) = see(stream.tcp(), Duration::ZERO).unwrap();
    let mut connection = Connection::new(&stream.watch());
    // The kernel lets everybody have so much.
    let size = Bytes::new(2 * most_of("wmem_max").unwrap() as u64).min(mebibytes(8));
    assert!(connection.raise_sndbuf(stream.wire(), &seen, size, &memory));
    assert_eq!((sndbuf(&stream) as u64, memory.shared() as u64), (size.get(), size.get()));
    assert!(is_sndbuf_fixed(stream.tcp()).unwrap());
    assert!(!connection.rests(), "nothing is left to remember");
    assert_eq!((sndbuf(&stream) as u64, memory.shared()), (seen.sndbuf.get(), 0));
    assert!(!is_sndbuf_fixed(stream.tcp()).unwrap(), "the kernel's to tune");
}

#[tokio::test]
async fn a_receive_buffer_counts_until_its_connection_closes() {
    let (stream, _listener) = stream().await;
    let memory = Pipes::new(1 << 20, 64 << 20);
    let mut connection = Connection::new(&stream.watch());
    let size = Bytes::new(2 * most_of("rmem_max").unwrap() as u64).min(mebibytes(8));
    assert!(connection.raise_rcvbuf(stream.wire(), size, &memory));
    assert_eq!(memory.shared() as u64, size.get());
    assert_eq!(sockopt::socket_recv_buffer_size(stream.tcp()).unwrap() as u64, size.get());
    assert!(connection.rests(), "it is still open");
    let mut all = BufferTuner::default();
    all.connections.insert(connection.socket.as_ptr().addr(), connection);
    drop(stream);
    all.look(&[], Duration::ZERO, |_| HopOptions::default(), mebibytes(1), &memory);
    assert_eq!(memory.shared(), 0);
}

#[tokio::test]
async fn nothing_is_raised_beyond_the_memory_there_is() {
    let (stream, _listener) = stream().await;
    let memory = Pipes::new(1 << 20, 2 << 20);
    let _pipe = memory.take().expect("half of it");
    let (seen, window) = see(stream.tcp(), Duration::ZERO).unwrap();
    let mut connection = Connection::new(&stream.watch());
    let before = sndbuf(&stream);
    assert!(connection.raise_sndbuf(stream.wire(), &seen, mebibytes(2), &memory));
    assert_eq!((sndbuf(&stream), memory.shared()), (before, 0));
    assert!(connection.sending.is_none());
    let of = Governed::by(stream.wire(), &HopOptions::default()).unwrap();
    let system = Limits::read();
    let look = Look { of, at: Duration::ZERO, unsent: mebibytes(1), memory: &memory, system };
    assert_eq!(
        connection.bounds(&seen, window, &look).sndbuf,
        mebibytes(1),
        "what the pipe leaves"
    );
}

#[tokio::test]
async fn what_is_set_by_hand_stays() {
    let (stream, _listener) = stream().await;
    let governed = |options: HopOptions<'_>| {
        Governed::by(stream.wire(), &options).map(|of| (of.sndbuf, of.rcvbuf, of.unsent))
    };
    let (none, size) = (HopOptions::default(), Some(mebibytes(1)));
    assert_eq!(governed(none), Some((true, true, true)));
    assert_eq!(governed(HopOptions { sndbuf: size, ..none }), Some((false, true, true)));
    let both = HopOptions { rcvbuf: size, notsent_lowat: size, ..none };
    assert_eq!(governed(both), Some((true, false, false)));
    assert_eq!(governed(HopOptions { raise_buffers: false, ..none }), None);
}
