// SPDX-License-Identifier: GPL-2.0-or-later
//! TCP connections between nodes, with a congestion control of their own.

use crate::congestion::Path;
use socket2::SockRef;
use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};
use wan::Wan;

/// The two ends of a connection over a path, its sender with that congestion control from before
/// the first byte on, as the socket says. (Chosen before it connects, the route's would win.)
pub fn connect(wan: &Wan, path: &Path, congestion: &str) -> io::Result<(TcpStream, TcpStream)> {
    let namespace = |node: &str| &wan.node(node).expect("the path's nodes are up").namespace;
    let address = wan.address(&path.receiver()).expect("the path's nodes are up");
    let listener = namespace(&path.receiver()).run(|| TcpListener::bind((address, 0)))?;
    let target = listener.local_addr()?;
    let sender = namespace(&path.sender()).run(|| TcpStream::connect(target))?;
    let (receiver, _) = listener.accept()?;
    SockRef::from(&sender).set_tcp_congestion(congestion.as_bytes())?;
    assert_eq!(in_force(&sender), congestion);
    Ok((sender, receiver))
}

/// The congestion control that a socket reports.
pub fn in_force(socket: &TcpStream) -> String {
    let name = SockRef::from(socket).tcp_congestion().expect("Linux tells");
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
}

/// Sends without end until told to stop.
pub fn send_until(mut sender: &TcpStream, stop: &AtomicBool) {
    let zeros = vec![0; 256 * 1024];
    while !stop.load(Ordering::Relaxed) && sender.write_all(&zeros).is_ok() {}
}

/// Reads and forgets, until the other end closes.
pub fn receive(mut receiver: &TcpStream) -> u64 {
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    while let Ok(length @ 1..) = receiver.read(&mut buffer) {
        bytes += length as u64;
    }
    bytes
}

/// Time that `bytes` bytes take from the first write to the last byte's arrival.
pub fn time_of(wan: &Wan, path: &Path, congestion: &str, bytes: u64) -> io::Result<Duration> {
    let (sender, receiver) = connect(wan, path, congestion)?;
    std::thread::scope(|scope| {
        let started = Instant::now();
        let arrival = scope.spawn(|| {
            let arrived = receive(&receiver);
            (arrived, Instant::now())
        });
        io::copy(&mut io::repeat(0).take(bytes), &mut &sender)?;
        assert_eq!(in_force(&sender), congestion);
        sender.shutdown(std::net::Shutdown::Write)?;
        let (arrived, ended) = arrival.join().expect("reading does not panic");
        assert_eq!(arrived, bytes);
        Ok(ended.duration_since(started))
    })
}
