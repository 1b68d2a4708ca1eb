// SPDX-License-Identifier: GPL-2.0-or-later
//! A session to a plain TCP server, opened on a socket that is there already.

use crate::sys;
use http::StatusCode;
use rustix::{
    net::{self, RecvFlags, SendFlags},
    rand::{GetRandomFlags, getrandom},
};
use session::{
    Authority, DepotAddress,
    lsl::{Answer, FIRST_BYTE, Header, Hop, HopReport, MAX_HEADER, Open, SessionId, Target},
    message::{Fault, ProxyError},
};
use socket2::Socket;
use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
};
use tokio::io::{Interest, unix::AsyncFd};

/// Magic, version, kind and length: what says how long a header is.
const FIXED: usize = 8;

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The first depot could not be connected to.
    #[error("cannot reach depot {depot}: {error}")]
    Unreached {
        /// The depot.
        depot: String,
        /// What the system says.
        error: io::Error,
    },
    /// A depot says why not.
    #[error("{}", .0.reason)]
    Refused(Fault),
    /// The first depot does not speak sessions, or the connection to it broke.
    #[error("depot {depot} did not answer: {error}")]
    Broken {
        /// The depot.
        depot: String,
        /// What happened.
        error: io::Error,
    },
}

impl ChainError {
    /// What connect(2) of a program that knows nothing of depots says of it.
    pub fn errno(&self) -> i32 {
        let fault = match self {
            Self::Unreached { error, .. } => {
                return error.raw_os_error().unwrap_or(libc::ETIMEDOUT);
            }
            Self::Broken { .. } => return libc::ECONNREFUSED,
            Self::Refused(fault) => fault,
        };
        match fault.error {
            ProxyError::ConnectionTimeout | ProxyError::DnsTimeout => libc::ETIMEDOUT,
            ProxyError::DestinationIpUnroutable | ProxyError::DnsError => libc::EHOSTUNREACH,
            ProxyError::ProxyLoopDetected => libc::ELOOP,
            _ if fault.status == StatusCode::FORBIDDEN => libc::EACCES,
            _ => libc::ECONNREFUSED,
        }
    }

    /// Whether it is the server that cannot be reached, and not the chain. Then the depots have done their part, and
    /// there is no reason to believe that it can be reached without them.
    pub fn is_of_server(&self) -> bool {
        let Self::Refused(fault) = self else { return false };
        fault.status.is_server_error()
            && matches!(
                fault.error,
                ProxyError::ConnectionRefused
                    | ProxyError::ConnectionTimeout
                    | ProxyError::DestinationIpUnroutable
            )
    }
}

/// Connects a fresh TCP socket to the first of the depots at `address`, and opens a session to `server` on it. What the
/// socket carries from then on is the server's. Nothing is read beyond the depot's header.
///
/// # Errors
/// Why there is no session. The socket may be connected to the depot then.
pub async fn open(
    socket: &Socket,
    address: SocketAddr,
    depots: &[DepotAddress],
    server: &Authority,
) -> Result<Vec<HopReport>, ChainError> {
    let depot = depots[0].to_string();
    let socket = match connect(socket, address).await {
        Ok(socket) => socket,
        Err(error) => return Err(ChainError::Unreached { depot, error }),
    };
    match ask(&socket, &open_header(depots, server)).await {
        Ok(answer) => {
            answer.fault().map_or(Ok(answer.hops), |fault| Err(ChainError::Refused(fault)))
        }
        Err(error) => Err(ChainError::Broken { depot, error }),
    }
}

fn open_header(depots: &[DepotAddress], server: &Authority) -> Vec<u8> {
    let mut session = [0; 16];
    getrandom(&mut session, GetRandomFlags::empty()).expect("the kernel has random bytes");
    let hops = depots[1..].iter().cloned().map(Hop::from).collect();
    let target = Target::Tcp { server: server.clone(), proxy_protocol: false };
    let open = Open::new(SessionId(session), hops, target);
    open.to_bytes().expect("a route of 16 hops fits into a header")
}

async fn connect(socket: &Socket, address: SocketAddr) -> io::Result<AsyncFd<BorrowedFd<'_>>> {
    let started = start_connecting(socket, address);
    // Only now: a socket that is neither connected nor about to be counts as ready.
    let watched = sys::watch(socket.as_fd(), Interest::READABLE | Interest::WRITABLE)?;
    match started {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        other => return other.map(|()| watched),
    }
    watched.writable().await?.retain_ready();
    match socket.take_error()? {
        Some(error) => Err(error),
        // Only now the kernel counts the socket as connected, and refuses to connect it once more.
        None => start_connecting(socket, address).map(|()| watched),
    }
}

/// Does not wait for the connection, whether the socket blocks its owner or not: the flag is the owner's too, and as it
/// was when this returns.
fn start_connecting(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    let blocks = !socket.nonblocking()?;
    if blocks {
        socket.set_nonblocking(true)?;
    }
    let connected = socket.connect(&address.into());
    if blocks {
        socket.set_nonblocking(false)?;
    }
    connected
}

async fn ask(socket: &AsyncFd<BorrowedFd<'_>>, question: &[u8]) -> io::Result<Answer> {
    let invalid = |text: String| io::Error::new(ErrorKind::InvalidData, text);
    send(socket, question).await?;
    loop {
        let header = read_header(socket).await?;
        let parsed = Header::parse_answer(&header).map_err(|error| invalid(error.to_string()))?;
        match parsed {
            Some((answer, _)) if answer.is_interim() => {}
            Some((answer, _)) => return Ok(answer),
            None => return Err(invalid("its header is too short".to_owned())),
        }
    }
}

async fn send(socket: &AsyncFd<BorrowedFd<'_>>, mut bytes: &[u8]) -> io::Result<()> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    while !bytes.is_empty() {
        let send = |fd: &BorrowedFd<'_>| Ok(net::send(fd, bytes, flags)?);
        let sent = socket.async_io(Interest::WRITABLE, send).await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// One header and not a byte more.
async fn read_header(socket: &AsyncFd<BorrowedFd<'_>>) -> io::Result<Vec<u8>> {
    let mut header = vec![0; FIXED];
    read(socket, &mut header).await?;
    let length = usize::from(u16::from_be_bytes([header[FIXED - 2], header[FIXED - 1]]));
    if header[0] != FIRST_BYTE || FIXED + length > MAX_HEADER {
        return Err(io::Error::new(ErrorKind::InvalidData, "it does not speak sessions"));
    }
    header.resize(FIXED + length, 0);
    read(socket, &mut header[FIXED..]).await?;
    Ok(header)
}

async fn read(socket: &AsyncFd<BorrowedFd<'_>>, mut rest: &mut [u8]) -> io::Result<()> {
    while !rest.is_empty() {
        let receive = |fd: &BorrowedFd<'_>| Ok(net::recv(fd, &mut *rest, RecvFlags::DONTWAIT)?.0);
        let count = socket.async_io(Interest::READABLE, receive).await?;
        if count == 0 {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection"));
        }
        rest = &mut rest[count..];
    }
    Ok(())
}

/// Makes a connected socket, or one that failed to connect, fresh again.
///
/// # Errors
/// The system does not allow it.
pub fn disconnect(socket: &Socket) -> io::Result<()> {
    Ok(net::connect_unspec(socket)?)
}
