// SPDX-License-Identifier: GPL-2.0-or-later
//! The receiver of flows that stock programs can't download: over several connections, or without an end.
//!
//! Each stream is a thread with a blocking socket of the flow's last node. It asks for its part of the file (`Range`), follows
//! redirects to depots as curl does, and reads. A flow with an end is written to its file, so that its content can be compared.
//! Of a flow without one, the kernel discards the bytes (`MSG_TRUNC`, tcp(7)), which spares a copy.

use crate::{
    ended::{Ended, Ending},
    error::LabError,
    servers::FlowPlan,
    stage::Stage,
};
use http::header;
use protocol::http::ResponseHead;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{AddressFamily, RecvFlags, SocketFlags, SocketType, connect, recv, socket_with, sockopt},
};
use std::{
    fs::File,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// How often a stream that waits looks whether the run is over.
const LOOK: Duration = Duration::from_millis(50);
/// The most that is read at once.
const MAX_READ: usize = 256 << 10;
/// The longest head of a response.
const MAX_HEAD: usize = 64 << 10;
/// More redirects than depots are no way to the data.
const MAX_REDIRECTS: usize = 32;

/// What a flow's streams have in common.
struct Receiver<'a> {
    stage: &'a dyn Stage,
    plan: &'a FlowPlan,
    received: &'a AtomicU64,
    file: Option<File>,
    end: Instant,
    interrupted: &'a AtomicBool,
    /// A stream has failed: the others end, too.
    has_failed: AtomicBool,
}

/// How a stream goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Done,
    Over,
}

/// Receives a flow until it is whole or `end` comes. Counts its bytes in `received`, and writes them to `file` if the flow has
/// an end.
///
/// # Errors
/// The file or the node's sockets can't be opened.
pub fn receive(
    stage: &dyn Stage,
    plan: &FlowPlan,
    (file, received): (&Path, &AtomicU64),
    end: Instant,
    interrupted: &AtomicBool,
) -> Result<Ended, LabError> {
    let create = |_| File::create(file).map_err(|e| LabError::file("write", file, e));
    let file = plan.flow.bytes.map(create).transpose()?;
    let has_failed = AtomicBool::new(false);
    let receiver = Receiver { stage, plan, received, file, end, interrupted, has_failed };
    let start = Instant::now();
    let namespace = stage.namespace(&plan.flow.to)?;
    let streams = namespace.run(|| Ok(receiver.run()));
    let streams = streams.map_err(|e| LabError::system("enter a node", e))?;
    let failed = streams.iter().find_map(|stream| stream.as_ref().err());
    let is_whole = streams.iter().all(|stream| matches!(stream, Ok(Step::Done)));
    let how = match failed {
        Some(error) => Ending::Failed(error.to_string()),
        None if is_whole => Ending::Whole,
        None => Ending::Cut,
    };
    Ok(Ended { start, end: Instant::now(), how })
}

impl Receiver<'_> {
    /// All streams, in the calling thread's namespace.
    fn run(&self) -> Vec<io::Result<Step>> {
        thread::scope(|scope| {
            let streams: Vec<_> = (0..self.plan.flow.streams)
                .map(|n| {
                    scope.spawn(move || {
                        let ended = self.stream(n);
                        if ended.is_err() {
                            self.has_failed.store(true, Relaxed);
                        }
                        ended.map_err(|error| io::Error::other(format!("stream {n}: {error}")))
                    })
                })
                .collect();
            let joined = streams.into_iter().map(thread::ScopedJoinHandle::join);
            joined.map(|stream| stream.expect("a stream's thread does not panic")).collect()
        })
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
            || self.interrupted.load(Relaxed)
            || self.has_failed.load(Relaxed)
    }

    /// One stream from its first request on.
    fn stream(&self, n: u32) -> io::Result<Step> {
        let part = self.plan.part(n);
        if part.as_ref().is_some_and(Range::is_empty) {
            return Ok(Step::Done);
        }
        let mut url = self.plan.url.clone();
        for _ in 0..MAX_REDIRECTS {
            let (authority, target) = split(&url).ok_or_else(|| strange("address", &url))?;
            let Some(mut stream) = self.connect(self.address(authority)?)? else {
                return Ok(Step::Over);
            };
            let mut request = format!("GET {target} HTTP/1.1\r\nHost: {authority}\r\n");
            if let Some(Range { start, end }) = &part {
                request += &format!("Range: bytes={start}-{}\r\n", end - 1);
            }
            stream.write_all((request + "\r\n").as_bytes())?;
            let Some((head, rest)) = self.head(&mut stream)? else { return Ok(Step::Over) };
            if head.status.is_redirection() {
                let location = head.headers.get(&header::LOCATION).and_then(|to| to.to_str().ok());
                location
                    .ok_or_else(|| strange("redirect", "without Location"))?
                    .clone_into(&mut url);
                continue;
            }
            if !head.status.is_success() {
                return Err(strange("status", head.status.as_str()));
            }
            return self.body(&mut stream, &rest, part);
        }
        Err(strange("redirects", "too many"))
    }

    fn address(&self, authority: &str) -> io::Result<SocketAddr> {
        let (node, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
        let literal = node.trim_matches(['[', ']']).parse();
        let address = literal.or_else(|_| self.stage.address(node)).map_err(io::Error::other)?;
        let port = port.parse().map_err(|_| strange("port", port))?;
        Ok(SocketAddr::new(address, port))
    }

    /// A connection; none if the run is over before.
    fn connect(&self, to: SocketAddr) -> io::Result<Option<TcpStream>> {
        let family = if to.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let stream = TcpStream::from(socket_with(family, SocketType::STREAM, flags, None)?);
        match connect(&stream, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let step = Timespec::try_from(LOOK).expect("a short time");
        while poll(&mut [PollFd::new(&stream, PollFlags::OUT)], Some(&step)).unwrap_or(0) == 0 {
            if self.is_over() {
                return Ok(None);
            }
        }
        sockopt::socket_error(&stream)??;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LOOK))?;
        Ok(Some(stream))
    }

    /// The head of a response and what came of the body with it; none if the run is over before.
    fn head(&self, stream: &mut TcpStream) -> io::Result<Option<(ResponseHead, Vec<u8>)>> {
        let (mut received, mut more) = (Vec::new(), [0; 4096]);
        loop {
            let parsed = ResponseHead::parse(&received);
            if let Some((head, length)) =
                parsed.map_err(|fault| strange("answer", &fault.reason))?
            {
                return Ok(Some((head, received.split_off(length))));
            }
            if received.len() > MAX_HEAD {
                return Err(strange("answer", "its head is too long"));
            }
            match stream.read(&mut more) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => received.extend_from_slice(&more[..length]),
                Err(error) if waits(&error) && self.is_over() => return Ok(None),
                Err(error) if waits(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the rest of a part, or of a flow without an end, after its first bytes.
    fn body(
        &self,
        stream: &mut TcpStream,
        first: &[u8],
        part: Option<Range<u64>>,
    ) -> io::Result<Step> {
        let mut part = part.unwrap_or(0..u64::MAX);
        self.take(&mut part, first)?;
        let mut buffer = vec![0; MAX_READ];
        while !part.is_empty() {
            if self.is_over() {
                return Ok(Step::Over);
            }
            let most = MAX_READ.min(usize::try_from(part.end - part.start).unwrap_or(MAX_READ));
            let read = match &self.file {
                Some(_) => stream.read(&mut buffer[..most]),
                None => recv(&*stream, &mut buffer[..most], RecvFlags::TRUNC)
                    .map(|(_, length)| length)
                    .map_err(Into::into),
            };
            match read {
                Ok(0) => {
                    let missing = part.end - part.start;
                    let why = format!("the connection was closed, {missing} bytes before the end");
                    return Err(io::Error::other(why));
                }
                Ok(length) => self.take(&mut part, &buffer[..length.min(most)])?,
                Err(error) if waits(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Step::Done)
    }

    /// Counts and keeps bytes that have arrived.
    fn take(&self, part: &mut Range<u64>, bytes: &[u8]) -> io::Result<()> {
        if let Some(file) = &self.file {
            file.write_all_at(bytes, part.start)?;
        }
        part.start += bytes.len() as u64;
        self.received.fetch_add(bytes.len() as u64, Relaxed);
        Ok(())
    }
}

/// Whether a read has only waited for its time.
fn waits(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

fn strange(what: &str, why: &str) -> io::Error {
    io::Error::other(format!("unexpected {what}: {why}"))
}

/// Authority and target of an `http` URL.
fn split(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("http://")?;
    let at = rest.find('/')?;
    Some(rest.split_at(at))
}
