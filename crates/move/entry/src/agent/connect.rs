// SPDX-License-Identifier: GPL-2.0-or-later
//! Questions to a running agent: one connection on standard input and output, and its status.

use super::Login;
use crate::connections::Status;
use protocol::{Authority, http::proxy::Credentials};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    thread,
    time::Duration,
};

/// How long the agent may take.
const TIME: Duration = Duration::from_secs(60);
/// The longest head of an answer.
const LONGEST: usize = 16 << 10;

/// Connects to a server by the agent, and passes standard input there and what comes back to standard output.
///
/// # Errors
/// The agent does not answer, or says why it has not connected.
pub fn connect(agent: SocketAddr, login: Option<&Login>, server: &Authority) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&agent, TIME)?;
    stream.set_read_timeout(Some(TIME))?;
    let shown = shown("Proxy-Authorization", login);
    let head = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n{shown}\r\n");
    stream.write_all(head.as_bytes())?;
    let head = read_head(&mut stream)?;
    if !head.starts_with("HTTP/1.1 200 ") {
        let mut why = String::new();
        stream.take(LONGEST as u64).read_to_string(&mut why)?;
        return Err(io::Error::new(ErrorKind::ConnectionRefused, why.trim().to_owned()));
    }
    stream.set_read_timeout(None)?;
    stream.set_nodelay(true)?;
    let mut to_server = stream.try_clone()?;
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let mut out = io::stdout().lock();
    let mut bytes = vec![0; 64 << 10];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            count => {
                match out.write_all(&bytes[..count]).and_then(|()| out.flush()) {
                    // The reader wants no more.
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                    written => written?,
                }
            }
        }
    }
}

/// The field that shows a login.
fn shown(field: &str, login: Option<&Login>) -> String {
    let value = |Login { user, password }: &Login| Credentials::header(user, password);
    login.map_or_else(String::new, |login| format!("{field}: {}\r\n", value(login)))
}

/// A head and not a byte more.
fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == LONGEST {
            return Err(io::Error::new(ErrorKind::InvalidData, "it is no agent"));
        }
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    String::from_utf8(head).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no agent"))
}

/// What a running agent does.
///
/// # Errors
/// It does not answer, or is none.
pub fn status(agent: SocketAddr, login: Option<&Login>) -> io::Result<Status> {
    let mut stream = TcpStream::connect_timeout(&agent, TIME)?;
    stream.set_read_timeout(Some(TIME))?;
    let shown = shown("Authorization", login);
    let request =
        format!("GET /status.json HTTP/1.1\r\nHost: {agent}\r\n{shown}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let head = read_head(&mut stream)?;
    if !head.starts_with("HTTP/1.1 200 ") {
        let mut why = String::new();
        stream.take(LONGEST as u64).read_to_string(&mut why)?;
        return Err(io::Error::new(ErrorKind::PermissionDenied, why.trim().to_owned()));
    }
    let mut body = String::new();
    stream.take(64 << 20).read_to_string(&mut body)?;
    serde_json::from_str(&body).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}
