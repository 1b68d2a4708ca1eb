// SPDX-License-Identifier: GPL-2.0-or-later
//! Clients: the real curl and wget, and a bare socket for what those would not do.

use super::PATIENCE;
use socket2::{Domain, Socket, Type};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Command, Output},
};

/// Runs a program; fails, naming the Debian package, where it is missing.
pub fn run(program: &str, package: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).env_remove("http_proxy").output().unwrap_or_else(|error| {
        panic!("cannot run {program}: {error}; install the Debian package {package}")
    })
}

/// Runs curl, silent except for errors.
pub fn curl(args: &[&str]) -> Output {
    let common = ["-q", "-sS", "--noproxy", "*", "--max-time", "20"];
    run("curl", "curl", &[&common[..], args].concat())
}

/// Runs wget, without retries.
pub fn wget(args: &[&str]) -> Output {
    let common = ["--no-config", "--no-proxy", "-q", "--tries=1", "--timeout=20"];
    run("wget", "wget", &[&common[..], args].concat())
}

/// What curl prints for a URL after redirects, which must succeed.
pub fn body(url: &str) -> Vec<u8> {
    let output = curl(&["-L", "-f", url]);
    assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A connection on which a test writes and reads what it likes.
pub fn connect(to: SocketAddr) -> TcpStream {
    patient(TcpStream::connect(to).unwrap())
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The same from an address of choice.
pub fn connect_from(from: &str, to: SocketAddr) -> TcpStream {
    let from = SocketAddr::new(from.parse().unwrap(), 0);
    let socket = Socket::new(Domain::for_address(from), Type::STREAM, None).unwrap();
    socket.bind(&from.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    patient(socket.into())
}

/// Sends bytes and reads to the end: the head, and the body with how it ended.
pub fn exchange(to: SocketAddr, request: &[u8]) -> (String, Vec<u8>, std::io::Result<()>) {
    let mut stream = connect(to);
    stream.write_all(request).unwrap();
    read_answer(stream)
}

/// Reads an answer to its end.
pub fn read_answer(mut stream: TcpStream) -> (String, Vec<u8>, std::io::Result<()>) {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes).map(drop);
    let at = bytes.windows(4).position(|w| w == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
    let body = bytes.split_off(at);
    (String::from_utf8_lossy(&bytes).into_owned(), body, end)
}

/// Asks a depot for a route with HTTP/1.1.
pub fn get(to: SocketAddr, route: &str) -> (String, Vec<u8>, std::io::Result<()>) {
    exchange(
        to,
        format!("GET {route} HTTP/1.1\r\nHost: depot\r\nConnection: close\r\n\r\n").as_bytes(),
    )
}

/// The status of a head.
pub fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}
