// SPDX-License-Identifier: GPL-2.0-or-later
//! A session to a plain TCP server, opened on a socket that is there already.

use crate::sys;
use bytes::BytesMut;
use host::Carried;
use http::StatusCode;
use protocol::{
    Authority, DepotAddress,
    http::{Fault, ProxyError},
    session::{Answer, Answers, Header, Hop, HopReport, Malformed, Open, SessionId, Target},
};
use relay::{
    dial::{Class, Connector, Dialer, FaultSource, Names, Refusal, Resolver, resolver},
    tcp::{
        Incoming, ReadHeadError, Stream, congestion::Overruled, read_header,
        socket_options::HopOptions,
    },
};
use route::{FirstHopDialer, Route, server_peer};
use rustix::net::{self, RecvFlags, SendFlags};
use socket2::Socket;
use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    path::PathBuf,
    time::Duration,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    runtime,
    time::{Instant, timeout, timeout_at},
};
use units::Bytes;

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
    #[error("{}", .fault.reason)]
    Refused {
        /// What it says.
        fault: Fault,
        /// Whether it is the last one, so that the depots have reached each other.
        is_last: bool,
    },
    /// This host could not ask the first depot: it has run out of something, or refuses a socket.
    #[error("cannot ask depot {depot}: {error}")]
    NotAsked {
        /// The depot.
        depot: String,
        /// What the system says.
        error: io::Error,
    },
    /// The first depot took the connection, and said nothing in time: of the server or a depot behind it, it may not have
    /// heard either.
    #[error("depot {depot} took the connection, but did not answer in time")]
    Late {
        /// The depot.
        depot: String,
    },
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
            Self::Unreached { error, .. } | Self::NotAsked { error, .. } => {
                return error.raw_os_error().unwrap_or(match error.kind() {
                    ErrorKind::ConnectionRefused => libc::ECONNREFUSED,
                    ErrorKind::HostUnreachable => libc::EHOSTUNREACH,
                    _ => libc::ETIMEDOUT,
                });
            }
            Self::Broken { .. } => return libc::ECONNREFUSED,
            Self::Late { .. } => return libc::ETIMEDOUT,
            Self::Refused { fault, .. } => fault,
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
        let Self::Refused { fault, is_last } = self else { return false };
        *is_last
            && fault.status.is_server_error()
            && matches!(
                fault.error,
                ProxyError::ConnectionRefused
                    | ProxyError::ConnectionTimeout
                    | ProxyError::DestinationIpUnroutable
            )
    }
}

/// By when a connection to a depot has to stand, and by when the depot has to have answered.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// TCP's.
    pub connected: Instant,
    /// The session's.
    pub answered: Instant,
}

/// Connects a fresh TCP socket to the first of the depots at `address`, and opens a session to `server` on it. What the
/// socket carries from then on is the server's. Nothing is read beyond the depot's header.
///
/// # Errors
/// Why there is no session. The socket may be connected to the depot then.
pub async fn open(
    socket: &Socket,
    address: SocketAddr,
    (depots, server): (&[DepotAddress], &Authority),
    until: Deadlines,
) -> Result<Opened, ChainError> {
    let depot = depots[0].to_string();
    let connected = timeout_at(until.connected, connect(socket, address)).await;
    let mut socket = match connected.unwrap_or_else(|late| Err(late.into())) {
        Ok(socket) => Borrowed(socket),
        Err(error) => return Err(ChainError::Unreached { depot, error }),
    };
    let question = open_header(depots, server, until.answered);
    match timeout_at(until.answered, ask(&mut socket, &question)).await {
        Ok(Ok((answer, headers))) => Ok(Opened { hops: opening(answer, depots)?, headers }),
        Ok(Err(error)) => Err(ChainError::Broken { depot, error }),
        Err(_) => Err(ChainError::Late { depot }),
    }
}

/// What the depots report of their connections, if the answer opens the session.
fn opening(answer: Answer, depots: &[DepotAddress]) -> Result<Vec<HopReport>, ChainError> {
    match answer.fault() {
        None => Ok(answer.hops),
        // Each depot that has passed it on has reported its connection to the next one.
        Some(fault) => {
            Err(ChainError::Refused { fault, is_last: answer.hops.len() + 1 >= depots.len() })
        }
    }
}

/// An open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// What the depots say of their own connections.
    pub hops: Vec<HopReport>,
    /// What the socket has carried that is not the program's.
    pub headers: Carried,
}

fn random<const N: usize>() -> [u8; N] {
    host::random().expect("the kernel has random bytes")
}

/// OPEN for the first of the depots, which has until then to answer.
fn open_header(depots: &[DepotAddress], server: &Authority, until: Instant) -> Vec<u8> {
    let hops = depots[1..].iter().cloned().map(Hop::from).collect();
    let target = Target::Tcp { server: server.clone(), proxy_protocol: false };
    let answer_within = Some(Open::time_for_next(until.saturating_duration_since(Instant::now())));
    let open = Open { answer_within, ..Open::new(SessionId(random()), hops, target) };
    open.to_bytes().expect("a route of 16 hops fits into a header")
}

async fn connect(socket: &Socket, address: SocketAddr) -> io::Result<AsyncFd<BorrowedFd<'_>>> {
    let started = start_connecting(socket, address);
    // Only now: a socket that is neither connected nor about to be counts as ready.
    let watched = sys::watch(socket.as_fd(), Interest::READABLE | Interest::WRITABLE)?;
    match started {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EALREADY)) => {}
        other => return other.map(|()| watched),
    }
    watched.writable().await?.retain_ready();
    match socket.take_error()? {
        Some(error) => Err(error),
        // Only now the kernel counts the socket as connected, and refuses to connect it once more.
        None => start_connecting(socket, address).map(|()| watched),
    }
}

/// Connects a socket and waits for it.
pub(crate) async fn connect_here(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    connect(socket, address).await.map(drop)
}

/// Connects a socket as connect(2) would for its owner: it waits only if the socket blocks, and for no longer than the
/// socket's own limit.
pub(crate) async fn connect_as_program(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if socket.nonblocking()? {
        return socket.connect(&address.into());
    }
    let most = socket.write_timeout()?.unwrap_or(Duration::MAX);
    let late = |_| Err(io::Error::from_raw_os_error(libc::EINPROGRESS));
    timeout(most, connect_here(socket, address)).await.unwrap_or_else(late)
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

/// A connection that OPEN can be sent on, and that is read without a byte more than ANSWER.
trait Connection {
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    async fn receive(&mut self, answers: &mut Answers) -> Result<Answer, ReadHeadError<Malformed>>;
}

/// The final answer, and how long the headers were.
async fn ask(connection: &mut impl Connection, question: &[u8]) -> io::Result<(Answer, Carried)> {
    connection.send(question).await?;
    let mut answers = Answers::default();
    loop {
        let answer = connection.receive(&mut answers).await.map_err(unanswered)?;
        if !answer.is_interim() {
            let (sent, received) = (question.len() as u64, answers.length() as u64);
            return Ok((
                answer,
                Carried { sent: Bytes::new(sent), received: Bytes::new(received) },
            ));
        }
    }
}

/// The next answer, and not a byte more, so that what follows is left to the socket's owner.
async fn next_answer(
    source: &mut impl Incoming,
    answers: &mut Answers,
) -> Result<Answer, ReadHeadError<Malformed>> {
    let next = |bytes: &[u8]| answers.next(bytes);
    read_header(source, &mut BytesMut::new(), Header::missing, next).await
}

fn unanswered(error: ReadHeadError<Malformed>) -> io::Error {
    match error {
        ReadHeadError::Io(error) => error,
        ReadHeadError::Malformed(error) => {
            let text = format!("it does not speak sessions: {error}");
            io::Error::new(ErrorKind::InvalidData, text)
        }
        ReadHeadError::Closed | ReadHeadError::CutOff | ReadHeadError::TooLarge => {
            io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection")
        }
    }
}

/// Somebody else's socket.
struct Borrowed<'s>(AsyncFd<BorrowedFd<'s>>);

impl Connection for Borrowed<'_> {
    async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while !bytes.is_empty() {
            let send = |fd: &BorrowedFd<'_>| Ok(net::send(fd, bytes, flags)?);
            let sent = self.0.async_io(Interest::WRITABLE, send).await?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    async fn receive(&mut self, answers: &mut Answers) -> Result<Answer, ReadHeadError<Malformed>> {
        next_answer(self, answers).await
    }
}

impl Incoming for Borrowed<'_> {
    async fn read(&mut self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        let mut bytes = vec![0; most];
        let receive =
            |fd: &BorrowedFd<'_>| Ok(net::recv(fd, &mut bytes[..], RecvFlags::DONTWAIT)?.0);
        let received = self.0.async_io(Interest::READABLE, receive).await?;
        buffer.extend_from_slice(&bytes[..received]);
        Ok(received)
    }
}

impl Connection for Stream {
    async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let (_, mut sink) = self.split();
        while !bytes.is_empty() {
            let sent = sink.write(bytes).await?;
            bytes = &bytes[sent..];
        }
        sink.flush().await
    }

    async fn receive(&mut self, answers: &mut Answers) -> Result<Answer, ReadHeadError<Malformed>> {
        next_answer(&mut self.split().0, answers).await
    }
}

/// What depots report of their own connections on the way to a server: a session is opened for that, and ended.
///
/// `ca` is a file (PEM) of further authorities to trust for depots over TLS. Waits for `time` at most; for programs
/// without a runtime.
///
/// # Errors
/// Why there is no session.
pub fn hop_reports(
    route: &Route<'_>,
    ca: Option<PathBuf>,
    time: Duration,
) -> Result<Vec<HopReport>, ChainError> {
    let of_host = |error| ChainError::NotAsked { depot: route.depots[0].to_string(), error };
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(of_host)?;
    let (_, hops) = runtime.block_on(EntryDialer::new(ca).open(route, time))?;
    Ok(hops)
}

/// Makes connections of its own.
#[derive(Debug)]
pub struct EntryDialer {
    /// Apart from servers: a client can have as many of their names looked up as there may be at a time.
    depots: FirstHopDialer,
    names: Names,
    overruled: Overruled,
    mark: Option<u32>,
}

impl EntryDialer {
    /// With certificates (PEM) of further authorities to trust for depots over TLS.
    pub fn new(ca: Option<PathBuf>) -> Self {
        let (names, overruled) = (Names::default(), Overruled::default());
        Self { depots: FirstHopDialer::new(ca), names, overruled, mark: None }
    }

    /// Marks its connections, so that rules of this host tell them apart.
    #[must_use]
    pub fn with_mark(self, mark: u32) -> Self {
        Self { mark: Some(mark), ..self }
    }

    /// A connection to the server of a route, through its depots.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn open(
        &self,
        route: &Route<'_>,
        time: Duration,
    ) -> Result<(Stream, Vec<HopReport>), ChainError> {
        let (name, until) = (route.depots[0].to_string(), Instant::now() + time);
        let mut stream = self.connect_to_depot(&route.depots[0], time).await?;
        let question = open_header(route.depots, &route.server, until);
        match timeout_at(until, ask(&mut stream, &question)).await {
            Ok(Ok((answer, _))) => Ok((stream, opening(answer, route.depots)?)),
            Ok(Err(error)) => Err(ChainError::Broken { depot: name, error }),
            Err(_) => Err(ChainError::Late { depot: name }),
        }
    }

    /// Asks a depot for what it refuses itself, whatever its settings: a session that ends nowhere.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) async fn ask_depot(
        &self,
        depot: &DepotAddress,
        time: Duration,
    ) -> Result<(), ChainError> {
        let (name, until) = (depot.to_string(), Instant::now() + time);
        let mut stream = self.connect_to_depot(depot, time).await?;
        let open = Open::new(SessionId(random()), Vec::new(), Target::End);
        let question = open.to_bytes().expect("a header without hops is short");
        match timeout_at(until, ask(&mut stream, &question)).await {
            Ok(Ok(_)) => Ok(()),
            // Whatever it says instead: it is there. A depot that is full answers by HTTP.
            Ok(Err(error)) if error.kind() == ErrorKind::InvalidData => Ok(()),
            Ok(Err(error)) => Err(ChainError::Broken { depot: name, error }),
            Err(_) => Err(ChainError::Late { depot: name }),
        }
    }

    async fn connect_to_depot(
        &self,
        depot: &DepotAddress,
        time: Duration,
    ) -> Result<Stream, ChainError> {
        let connected = self.depots.connect(depot, &self.options(), time).await;
        connected.map_err(|refusal| {
            let (depot, error) = (depot.to_string(), of_refusal(&refusal));
            match refusal.source {
                FaultSource::Peer => ChainError::Unreached { depot, error },
                FaultSource::Host | FaultSource::Rules => ChainError::NotAsked { depot, error },
            }
        })
    }

    /// A connection without depots.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connect(&self, to: &Authority, time: Duration) -> Result<Stream, Refusal> {
        let none = || unreachable!("a server is asked without TLS");
        let dialer = Dialer {
            connector: Connector { tls: &none, overruled: &self.overruled },
            resolver: Resolver { names: &self.names, client: resolver::OWN },
            time,
        };
        dialer.dial(&server_peer(to, false), &self.options()).await
    }

    fn options(&self) -> HopOptions<'_> {
        HopOptions { keepalive: true, mark: self.mark, ..HopOptions::default() }
    }
}

fn of_refusal(refusal: &Refusal) -> io::Error {
    let kind = match refusal.class {
        Class::ConnectionRefused => ErrorKind::ConnectionRefused,
        Class::ConnectionTimeout | Class::NameTimeout => ErrorKind::TimedOut,
        Class::Unroutable | Class::NameUnknown => ErrorKind::HostUnreachable,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, refusal.text.clone())
}

/// Makes a connected socket, or one that failed to connect, fresh again.
///
/// # Errors
/// The system does not allow it.
pub fn disconnect(socket: &Socket) -> io::Result<()> {
    Ok(net::connect_unspec(socket)?)
}
