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
