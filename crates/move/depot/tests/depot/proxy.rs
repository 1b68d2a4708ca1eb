// SPDX-License-Identifier: GPL-2.0-or-later
//! Depots as HTTP proxies: authentication, servers, and what is passed on.

mod access;
mod guessing;
mod requests;
mod revoked;
mod targets;
mod tunnels;

use crate::common::{
    client::{connect, read_answer, status},
    process::Daemon,
    scripted::read_head,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// By `openssl passwd -6 -salt longhaulsalt secret`.
const SECRET: &str = "$6$longhaulsalt$lgVWM.bjH0A4hmIiKNDkAmuJ9OlixNMdPHAgn8USTSJgpeLHbbCleY1f7aDgH14.3wmCVV0.vxMl7Ru4N2.ZF0";

/// A depot that is ann's proxy; her password is "secret".
struct Proxy {
    depot: Daemon,
    dir: TempDir,
}

impl Proxy {
    /// One that is open for loopback.
    fn new() -> Self {
        Self::with("", "", "")
    }

    /// The same with further settings at the top, in `[proxy]` and in tables behind it.
    fn with(top: &str, proxy: &str, tables: &str) -> Self {
        Self::started(top, proxy, tables, Daemon::depot)
    }

    fn started(top: &str, proxy: &str, tables: &str, start: impl Fn(&str) -> Daemon) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = passwords(dir.path(), &format!("ann:{SECRET}\n"));
        let depot = start(&format!(
            "id = \"d1\"\n{top}\n[proxy]\npasswords = \"{}\"\n{proxy}\n{tables}",
            file.display()
        ));
        Self { depot, dir }
    }

    fn address(&self) -> SocketAddr {
        self.depot.address
    }
}

/// Writes the file of users, as an operator does.
fn passwords(dir: &Path, text: &str) -> PathBuf {
    let (new, file) = (dir.join("new"), dir.join("passwords"));
    fs::write(&new, text).unwrap();
    fs::rename(new, &file).unwrap();
    file
}

/// The field by which a client shows who it is.
fn shown(user: &str, password: &str) -> String {
    let code = BASE64_STANDARD.encode(format!("{user}:{password}"));
    format!("Proxy-Authorization: Basic {code}\r\n")
}

/// Ann's.
fn ann() -> String {
    shown("ann", "secret")
}

/// The head of a request for a tunnel.
fn connect_head(target: &str, fields: &str) -> String {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{fields}\r\n")
}

/// A tunnel of ann's, once it is there.
fn tunnel(proxy: SocketAddr, target: &str) -> TcpStream {
    let mut stream = connect(proxy);
    stream.write_all(connect_head(target, &ann()).as_bytes()).unwrap();
    let head = read_head(&stream).expect("an answer");
    assert_eq!(head, "HTTP/1.1 200 Connection established\r\n\r\n");
    stream
}

/// What a depot answers to a request, before it closes: the status, the head and the body.
fn answered(mut stream: TcpStream, request: &str) -> (u16, String, String) {
    stream.write_all(request.as_bytes()).unwrap();
    let (head, body, _) = read_answer(stream);
    (status(&head), head, String::from_utf8_lossy(&body).into_owned())
}

/// Why a depot makes no tunnel for ann: the status and the reason.
fn refused(proxy: SocketAddr, target: &str) -> (u16, String) {
    let (status, _, body) = answered(connect(proxy), &connect_head(target, &ann()));
    (status, body)
}

/// A request of ann's for a URL, the last one on its connection.
fn get(url: &str, fields: &str) -> String {
    format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{}{fields}\r\n", ann())
}
