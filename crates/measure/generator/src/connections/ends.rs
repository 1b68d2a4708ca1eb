// SPDX-License-Identifier: GPL-2.0-or-later
//! The two ends of a source's connections.

use super::{Burst, File, LATE, Shared};
use crate::sys;
use rustix::net::sockopt::set_tcp_congestion;
use socket2::SockRef;
use std::{
    cell::RefCell,
    io,
    net::SocketAddr,
    os::fd::AsFd,
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::{TcpListener, TcpStream},
    time::{sleep, sleep_until},
};

/// The most that is written or read at once.
const PART: usize = 64 << 10;
static ZEROS: [u8; PART] = [0; PART];
/// What a connection that is on for a time may have in its buffer unsent, since that is sent after the time.
const MAX_UNSENT: u32 = 32 << 10;
/// How often a server looks whether a burst is acknowledged.
const ACKNOWLEDGED: Duration = Duration::from_millis(1);

type Bursts = Box<dyn Iterator<Item = (Burst, Duration)> + Send>;
type Arrivals = Box<dyn Iterator<Item = (u64, Duration)> + Send>;

/// The sending end.
pub struct Server {
    pub cc: String,
    /// Of a connection that goes on and off; it sends the bytes asked for where it is none.
    pub bursts: Option<Bursts>,
}

/// The receiving end.
pub struct Client {
    pub server: SocketAddr,
    pub start: Duration,
    /// Of files; one connection without end where it is none.
    pub arrivals: Option<Arrivals>,
}

impl Server {
    pub async fn serve(mut self, listener: TcpListener) {
        loop {
            // Out of descriptors: the client says that its connection failed.
            let Ok((stream, _)) = listener.accept().await else {
                sleep(ACKNOWLEDGED).await;
                continue;
            };
            // The record has it by name only; the kernel knew it when the run was prepared.
            let _ = set_tcp_congestion(&stream, &self.cc);
            match self.bursts.take() {
                // The other end says what went wrong.
                Some(bursts) => drop(tokio::task::spawn_local(go_on_and_off(stream, bursts))),
                None => drop(tokio::task::spawn_local(send_file(stream))),
            }
        }
    }
}

/// Sends as many bytes as the client asks for, and waits until it closes.
async fn send_file(mut stream: TcpStream) -> io::Result<()> {
    let mut left = stream.read_u64().await?;
    while left > 0 {
        let part = PART.min(usize::try_from(left).unwrap_or(PART));
        left -= stream.write(&ZEROS[..part]).await? as u64;
    }
    stream.read_u8().await.map(drop)
}

async fn go_on_and_off(mut stream: TcpStream, bursts: Bursts) -> io::Result<()> {
    stream.read_u64().await?;
    sys::set_max_unsent(stream.as_fd(), MAX_UNSENT)?;
    for (on, off) in bursts {
        match on {
            Burst::Time(time) => {
                let end = tokio::time::Instant::now() + time;
                while tokio::time::Instant::now() < end {
                    let write = stream.write(&ZEROS[..MAX_UNSENT as usize]);
                    // A write that does not come to its end has written nothing.
                    let Ok(written) = tokio::time::timeout_at(end, write).await else { break };
                    written?;
                }
            }
            Burst::Bytes(bytes) => {
                let mut left = bytes;
                while left > 0 {
                    let part = PART.min(usize::try_from(left).unwrap_or(PART));
                    left -= stream.write(&ZEROS[..part]).await? as u64;
                }
                while sys::unacknowledged(stream.as_fd())? > 0 {
                    sleep(ACKNOWLEDGED).await;
                }
            }
        }
        sleep(off).await;
    }
    Ok(())
}

impl Client {
    pub async fn receive(self, begun: Instant, report: Shared) {
        let mut at = begun + self.start;
        sleep_until(at.into()).await;
        let Some(arrivals) = self.arrivals else {
            if let Err(error) = receive_endless(self.server, &report).await {
                fail(&report, &error);
            }
            return;
        };
        for (size, until_next) in arrivals {
            sleep_until(at.into()).await;
            let start = Instant::now();
            let number = offer(
                &report,
                File { start, size, was_asked_for: false, completion: None },
                start - at,
            );
            let report = Rc::clone(&report);
            tokio::task::spawn_local(async move {
                if let Err(error) = receive_file(self.server, &report, (number, size), start).await
                {
                    fail(&report, &error);
                }
            });
            at += until_next;
        }
    }
}

/// Notes a file whose client starts, and answers its place in the report.
fn offer(report: &RefCell<super::Report>, file: File, lateness: Duration) -> usize {
    let mut report = report.borrow_mut();
    report.late += u64::from(lateness > LATE);
    report.lateness_max = report.lateness_max.max(lateness);
    report.files.push(file);
    report.files.len() - 1
}

fn fail(report: &RefCell<super::Report>, error: &io::Error) {
    let mut report = report.borrow_mut();
    report.failed += 1;
    report.first_failure.get_or_insert_with(|| error.to_string());
}

async fn receive_file(
    server: SocketAddr,
    report: &RefCell<super::Report>,
    (number, size): (usize, u64),
    start: Instant,
) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_u64(size).await?;
    report.borrow_mut().files[number].was_asked_for = true;
    let mut left = size;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(PART).min(PART);
        let length = discard(&stream, part).await?;
        report.borrow_mut().bytes += length as u64;
        left -= length as u64;
    }
    report.borrow_mut().files[number].completion = Some(start.elapsed());
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))
}

async fn receive_endless(server: SocketAddr, report: &RefCell<super::Report>) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_u64(0).await?;
    loop {
        let length = discard(&stream, PART).await?;
        report.borrow_mut().bytes += length as u64;
    }
}

/// Has the kernel discard what has arrived, up to that length. Answers how much it was.
async fn discard(stream: &TcpStream, most: usize) -> io::Result<usize> {
    let length = stream.async_io(Interest::READABLE, || sys::discard(stream.as_fd(), most)).await?;
    if length == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(length) }
}
