// SPDX-License-Identifier: GPL-2.0-or-later
//! longhaul's own server, for flows that a node's nginx can't send: at the rate of their program (`app_rate`; nginx sends in bursts of
//! a second under a rate limit), without an end, or over several streams.
//!
//! With a rate, small writes come by the schedule of [`scenario::app_rate`], one for all methods. Nagle's algorithm is on, so that they
//! leave in full segments. The server is a thread of this process, and so is each of its connections; its sockets are the node's, and
//! have the congestion control of the flow.

use crate::{error::LabError, servers::FlowPlan, stage::Stage};
use http::header;
use protocol::http::{Method, RequestHead};
use rustix::{
    event::{PollFd, PollFlags, poll},
    net::sockopt::set_tcp_congestion,
};
use scenario::app_rate;
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    ops::Range,
    os::unix::net::UnixStream,
    path::PathBuf,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use units::Rate;

/// The longest head of a request.
const MAX_HEAD: usize = 64 << 10;
/// The most that is written at once.
const MAX_WRITE: u64 = 256 << 10;
/// How long it may take until a thread that waits for data sees that the server has ended.
const MAX_SLEEP: Duration = Duration::from_millis(100);
/// The length that a flow without an end is said to have: no run gets there.
const ENDLESS: u64 = 1 << 60;

/// A server at work. It ends when this is dropped.
pub struct FlowServer {
    /// Closed when it shall end.
    go_on: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// What it serves under a path.
struct Resource {
    target: String,
    /// Where clients that are not depots are sent.
    redirect: Option<String>,
    /// What is sent; zeros without end where it is none.
    file: Option<PathBuf>,
    /// Of each connection.
    rate: Option<Rate>,
}

impl FlowServer {
    /// Serves flows that have this address in common.
    ///
    /// # Errors
    /// The address can't be listened on.
    pub fn start(
        stage: &dyn Stage,
        node: &str,
        address: SocketAddr,
        plans: &[&FlowPlan],
    ) -> Result<Self, LabError> {
        let system = |error| LabError::system("start a server of flows", error);
        let namespace = stage.namespace(node)?;
        let listener = namespace.run(|| TcpListener::bind(address)).map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let resource = |plan: &&FlowPlan| Resource {
            target: format!("/{}", plan.flow.name),
            redirect: plan.redirect(),
            file: plan.payload.as_ref().map(|payload| payload.path.clone()),
            rate: plan.rate_of_stream(),
        };
        let resources: Vec<Resource> = plans.iter().map(resource).collect();
        let (go_on, stop) = UnixStream::pair().map_err(system)?;
        let cc = plans.first().map(|first| first.flow.cc[0].clone());
        let work = move || accept(&listener, cc.as_deref(), &resources, &stop);
        let thread =
            thread::Builder::new().name("flow-server".into()).spawn(work).map_err(system)?;
        Ok(Self { go_on: Some(go_on), thread: Some(thread) })
    }
}

impl Drop for FlowServer {
    fn drop(&mut self) {
        drop(self.go_on.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a server's thread does not panic");
        }
    }
}

/// Takes connections until the other end of `stop` is closed.
fn accept(listener: &TcpListener, cc: Option<&str>, resources: &[Resource], stop: &UnixStream) {
    thread::scope(|scope| {
        let mut taken = Vec::new();
        loop {
            let mut waits =
                [PollFd::new(stop, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
            let failed = poll(&mut waits, None).is_err_and(|e| e != rustix::io::Errno::INTR);
            if failed || !waits[0].revents().is_empty() {
                break;
            }
            let Ok((stream, _)) = listener.accept() else { continue };
            let Ok(other) = stream.try_clone() else { continue };
            if let Some(cc) = cc {
                // The record has what is in force, and another one makes the run invalid.
                let _ = set_tcp_congestion(&stream, cc);
            }
            taken.push(other);
            // A client that goes away says itself what went wrong.
            scope.spawn(move || serve(stream, resources).unwrap_or_default());
        }
        for stream in taken {
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
}

/// The requests of one connection, one after the other.
fn serve(mut stream: TcpStream, resources: &[Resource]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut received = Vec::new();
    loop {
        let (request, length) = match RequestHead::parse(&received) {
            Ok(Some(parsed)) => parsed,
            Ok(None) if received.len() < MAX_HEAD => {
                let mut more = [0; 4096];
                let length = stream.read(&mut more)?;
                if length == 0 {
                    return Ok(());
                }
                received.extend_from_slice(&more[..length]);
                continue;
            }
            _ => return head(&mut stream, "400 Bad Request", ""),
        };
        received.drain(..length);
        respond(&mut stream, &request, resources)?;
        if !request.keeps_alive() {
            return Ok(());
        }
    }
}

fn respond(
    stream: &mut TcpStream,
    request: &RequestHead,
    resources: &[Resource],
) -> io::Result<()> {
    let resource = resources.iter().find(|resource| resource.target == request.target);
    let is_read = matches!(request.method, Method::Get | Method::Head);
    let Some(resource) = resource.filter(|_| is_read) else {
        return head(stream, "404 Not Found", "");
    };
    if let Some(location) = resource.redirect.as_ref().filter(|_| !request.came_through_depot()) {
        return head(stream, "302 Found", &format!("Location: {location}\r\n"));
    }
    let mut file = resource.file.as_ref().map(File::open).transpose()?;
    let length =
        file.as_ref().map_or(Ok(ENDLESS), |file| Ok::<_, io::Error>(file.metadata()?.len()))?;
    let asked = request.headers.get(&header::RANGE).and_then(|range| range.to_str().ok());
    let part = asked.and_then(|range| part_of(range, length));
    if let (Some(part), Some(file)) = (&part, &mut file) {
        file.seek(SeekFrom::Start(part.start))?;
    }
    let body: Box<dyn Read> =
        file.map_or_else(|| Box::new(io::repeat(0)) as _, |f| Box::new(f) as _);
    let status = part.as_ref().map_or("200 OK".to_owned(), |part| {
        let (start, last) = (part.start, part.end - 1);
        format!("206 Partial Content\r\nContent-Range: bytes {start}-{last}/{length}")
    });
    let length = part.map_or(length, |part| part.end - part.start);
    let first = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n"
    );
    let length = if request.method == Method::Head { 0 } else { length };
    write_at_rate(stream, first.into_bytes(), body.take(length), length, resource.rate)
}

/// The one part of so many bytes that a `Range` asks for, in the form in which longhaul's own receiver asks; the whole is sent for all
/// others, as a server may (RFC 9110, section 14.2).
fn part_of(range: &str, length: u64) -> Option<Range<u64>> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let part = first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?;
    (part.start < part.end && part.end <= length).then_some(part)
}

/// An answer without a body.
fn head(stream: &mut TcpStream, status: &str, field: &str) -> io::Result<()> {
    stream.write_all(format!("HTTP/1.1 {status}\r\n{field}Content-Length: 0\r\n\r\n").as_bytes())
}

/// Writes the head and then what has been produced of the body, until all `length` bytes are written.
fn write_at_rate(
    stream: &mut TcpStream,
    mut part: Vec<u8>,
    mut body: impl Read,
    length: u64,
    rate: Option<Rate>,
) -> io::Result<()> {
    let begun = Instant::now();
    let mut written = 0;
    loop {
        let elapsed = units::Duration::from_nanos(begun.elapsed().as_nanos() as u64);
        let produced = rate.map_or(length, |rate| app_rate::produced(rate, elapsed).min(length));
        let more = (produced - written).min(MAX_WRITE);
        let read = body.by_ref().take(more).read_to_end(&mut part)? as u64;
        if read < more {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        stream.write_all(&part)?;
        part.clear();
        written += more;
        if written == length {
            return Ok(());
        }
        if let Some(rate) = rate.filter(|_| written == produced) {
            let next = begun + Duration::from(app_rate::time_of(rate, written + 1));
            thread::sleep(next.saturating_duration_since(Instant::now()).min(MAX_SLEEP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_ranges_within_the_file_are_parts() {
        assert_eq!(part_of("bytes=0-9", 10), Some(0..10));
        assert_eq!(part_of("bytes=4-4", 10), Some(4..5));
        for other in
            ["bytes=5-10", "bytes=5-", "bytes=-5", "bytes=6-5", "items=0-1", "bytes=0-1,3-4"]
        {
            assert_eq!(part_of(other, 10), None, "{other}");
        }
    }
}
