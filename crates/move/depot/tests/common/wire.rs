// SPDX-License-Identifier: GPL-2.0-or-later
//! A stretch between two programs that damages what passes.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
};

/// A way to `to` that turns one bit of what comes back: of the byte with this number on each connection.
pub fn flipping(to: SocketAddr, at: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(to) else { continue };
            let (back, forth) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || pass(near, forth, usize::MAX));
            std::thread::spawn(move || pass(far, back, at));
        }
    });
    address
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut left: usize) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if left < length {
            buffer[left] ^= 1;
        }
        left = left.checked_sub(length).unwrap_or(usize::MAX);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Write), from.shutdown(Shutdown::Read));
}

/// What a stretch does with one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// It passes all.
    Good,
    /// It passes what comes back in small pieces, with pauses.
    Slow,
    /// It resets both ends once this many bytes have come back.
    Cut(usize),
    /// It takes the connection, and passes nothing.
    Mute,
}

/// A path to `to` on which the n-th connection (from 0) behaves as `of` returns.
pub fn wires(to: SocketAddr, of: fn(usize) -> Wire) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut mute = Vec::new();
        for (n, near) in listener.incoming().map_while(Result::ok).enumerate() {
            let wire = of(n);
            if wire == Wire::Mute {
                mute.push(near);
                continue;
            }
            let Ok(far) = TcpStream::connect(to) else { continue };
            let (back, forth) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || pass(near, forth, usize::MAX));
            std::thread::spawn(move || match wire {
                Wire::Cut(after) => cut(far, &back, after),
                Wire::Slow => slowly(far, back),
                _ => pass(far, back, usize::MAX),
            });
        }
    });
    address
}

fn cut(mut from: TcpStream, mut to: &TcpStream, mut left: usize) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if length > left || to.write_all(&buffer[..length]).is_err() {
            break;
        }
        left -= length;
    }
    for end in [&from, to] {
        socket2::SockRef::from(end).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        let _ = end.shutdown(Shutdown::Both);
    }
}

fn slowly(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 8192];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let _ = (to.shutdown(Shutdown::Write), from.shutdown(Shutdown::Read));
}
