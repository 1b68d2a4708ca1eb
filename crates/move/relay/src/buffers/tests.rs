// SPDX-License-Identifier: GPL-2.0-or-later
//! Buffers raised and given back on real sockets, within the memory there is.

use super::*;
use crate::tcp::{Stream, socket_options::most_of};
use rustix::net::sockopt;
use std::net::TcpListener;

/// A connection to a listener that does not read.
async fn stream() -> (Stream, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (Stream::new(TcpStream::connect(address).await.unwrap(), address), listener)
}

fn sndbuf(stream: &Stream) -> usize {
    sockopt::socket_send_buffer_size(stream.tcp()).unwrap()
}

fn seen(stream: &Stream) -> (Seen, Bytes) {
    let memory = info::memory(stream.tcp()).unwrap();
    see(stream.tcp(), memory, Duration::ZERO).unwrap()
}

fn mebibytes(n: u64) -> Bytes {
    Bytes::new(n << 20)
}

#[tokio::test]
async fn send_buffer_is_raised_and_returned() {
    let (stream, _listener) = stream().await;
    let memory = Pipes::new(1 << 20, 16 << 20);
    let (seen, _) = seen(&stream);
    let mut connection = Connection::new(&stream.watch().upgrade().unwrap(), stream.peer().ip());
    // The kernel grants this size without privileges.
    let size = Bytes::new(2 * most_of("wmem_max").unwrap() as u64).min(mebibytes(8));
    assert!(connection.raise_sndbuf(stream.wire(), &seen, size, &memory));
    assert_eq!((sndbuf(&stream) as u64, memory.shared() as u64), (size.get(), size.get()));
    assert!(is_sndbuf_fixed(stream.tcp()).unwrap());
    assert!(!connection.rests(), "nothing is left to remember");
    assert_eq!((sndbuf(&stream) as u64, memory.shared()), (seen.sndbuf.get(), 0));
    assert!(!is_sndbuf_fixed(stream.tcp()).unwrap(), "the kernel's to tune");
}

#[tokio::test]
async fn receive_buffer_is_charged_until_close() {
    let (stream, _listener) = stream().await;
    let memory = Pipes::new(1 << 20, 64 << 20);
    let mut connection = Connection::new(&stream.watch().upgrade().unwrap(), stream.peer().ip());
    let size = Bytes::new(2 * most_of("rmem_max").unwrap() as u64).min(mebibytes(8));
    assert!(connection.raise_rcvbuf(stream.wire(), size, &memory));
    assert_eq!(memory.shared() as u64, size.get());
    assert_eq!(sockopt::socket_recv_buffer_size(stream.tcp()).unwrap() as u64, size.get());
    assert!(connection.rests(), "it is still open");
    let mut all = BufferTuner::default();
    all.connections.insert(connection.socket.as_ptr().addr(), connection);
    drop(stream);
    let kernel_memory = KernelMemory::new(64 << 20, Arc::clone(&memory));
    all.look(
        &[],
        Duration::ZERO,
        |_| HopOptions::default(),
        mebibytes(1),
        (&kernel_memory, 64 << 20),
    );
    assert_eq!(memory.shared(), 0);
}

#[tokio::test]
async fn no_buffer_is_raised_beyond_memory() {
    let (stream, _listener) = stream().await;
    let memory = Pipes::new(1 << 18, 5 << 18);
    let _pipe = memory.take().expect("a fifth of it");
    let (seen, window) = seen(&stream);
    let mut connection = Connection::new(&stream.watch().upgrade().unwrap(), stream.peer().ip());
    let before = sndbuf(&stream);
    assert!(connection.raise_sndbuf(stream.wire(), &seen, mebibytes(2), &memory));
    assert_eq!((sndbuf(&stream), memory.shared()), (before, 0));
    assert!(connection.sending.is_none());
    let of = Governed::by(stream.wire(), &HopOptions::default()).unwrap();
    let system = Limits::read();
    let room = memory.room();
    let look = Look { of, unsent: mebibytes(1), memory: &memory, room, system };
    assert_eq!(
        connection.bounds(&seen, window, &look).sndbuf,
        mebibytes(1),
        "what the pipe leaves"
    );
}

#[tokio::test]
async fn configured_buffer_sizes_are_kept() {
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

#[tokio::test]
async fn restricted_socket_regains_its_buffers() {
    let (stream, _listener) = stream().await;
    let wire = stream.wire();
    wire.keep_unsent(mebibytes(1)).unwrap();
    let read = || {
        let memory = info::memory(wire).unwrap();
        let (unsent, window) = (info::notsent_lowat(wire), info::window_clamp(wire));
        (memory.rcvbuf, unsent.unwrap(), window.unwrap(), info::buffer_locks(wire).unwrap())
    };
    let before = read();
    let both = info::SNDBUF_LOCK | info::RCVBUF_LOCK;
    wire.set_memory_level(MemoryLevel::Fixed).unwrap();
    assert_eq!(read(), (before.0, before.1, before.2, both));
    wire.set_memory_level(MemoryLevel::Cut).unwrap();
    assert_eq!(read(), (64 << 10, 16 << 10, 64 << 10, both));
    wire.set_memory_level(MemoryLevel::Small).unwrap();
    assert_eq!((read().0, read().1), (before.0, 16 << 10));
    wire.set_memory_level(MemoryLevel::Free).unwrap();
    let free = read();
    assert_eq!((free.1, free.3), (before.1, before.3));
    assert!(free.0 >= before.0 && free.2 >= before.2, "{free:?} after {before:?}");
}

#[tokio::test]
async fn buffer_of_fixed_size_is_not_restricted() {
    let (stream, _listener) = stream().await;
    sockopt::set_socket_recv_buffer_size(stream.tcp(), 100_000).unwrap();
    stream.wire().set_memory_level(MemoryLevel::Cut).unwrap();
    assert_eq!(info::memory(stream.tcp()).unwrap().rcvbuf, 200_000);
    stream.wire().set_memory_level(MemoryLevel::Free).unwrap();
    assert_eq!(info::buffer_locks(stream.tcp()).unwrap(), info::RCVBUF_LOCK);
}

#[test]
fn client_beyond_its_share_leaves_half_to_raise() {
    let memory = Pipes::new(1 << 20, 64 << 20);
    let mut raised = Share::of(&memory);
    assert_eq!(
        [0, 16 << 20, 99 << 20].map(|left| memory.room_for(left)),
        [32, 32, 64].map(|n| n << 20)
    );
    assert!(raised.resize(40 << 20));
    assert_eq!(
        [0, 16 << 20, 99 << 20].map(|left| memory.room_for(left)),
        [0, 16, 24].map(|n| n << 20)
    );
}
