// SPDX-License-Identifier: GPL-2.0-or-later
//! Traffic to measure a network with, from threads of this process on its nodes. Every function
//! ends by itself.

use crate::{
    Wan, WanError,
    gso_frame::{fold, sum},
    sys,
};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

/// Bytes that arrived in order, and in what time.
#[derive(Debug, Clone, Copy)]
pub struct Arrived {
    pub bytes: u64,
    pub seconds: f64,
}

fn failed(error: io::Error) -> WanError {
    WanError::system("send test traffic", error)
}

/// Sends over one TCP connection without end, at most at `pace` bytes a second, while `during`
/// runs; the second result is what arrived in that time.
pub fn tcp_while<T>(
    wan: &Wan,
    from: &str,
    to: &str,
    pace: Option<u64>,
    warm_up: Duration,
    during: impl FnOnce() -> Result<T, WanError>,
) -> Result<(T, Arrived), WanError> {
    let (sender, receiver) = connect(wan, from, to)?;
    if let Some(pace) = pace {
        sys::set_max_pacing_rate(sender.as_fd(), pace).map_err(failed)?;
    }
    let (count, stop) = (Count::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| send_until(&sender, &stop));
        scope.spawn(|| receive(&receiver, &count));
        thread::sleep(warm_up);
        if let Some(pace) = pace {
            correct_pace(&sender, &count, pace)?;
        }
        let before = count.at_next_arrival();
        let result = during();
        let after = count.at_next_arrival();
        stop.store(true, Ordering::Relaxed);
        // The sender may sit in a full socket: this ends its write and the receiver's read.
        let _ = sender.shutdown(std::net::Shutdown::Both);
        let _ = receiver.shutdown(std::net::Shutdown::Both);
        let arrived = Arrived {
            bytes: after.1 - before.1,
            seconds: after.0.duration_since(before.0).as_secs_f64(),
        };
        Ok((result?, arrived))
    })
}

/// TCP does not make up for pacing timers that fire late, so it sends somewhat less than it is
/// allowed: looks at how much less, and allows so much more.
fn correct_pace(sender: &TcpStream, count: &Count, pace: u64) -> Result<(), WanError> {
    const MOST: f64 = 1.15;
    let before = count.at_next_arrival();
    thread::sleep(Duration::from_millis(500));
    let after = count.at_next_arrival();
    let seconds = after.0.duration_since(before.0).as_secs_f64();
    let achieved = (after.1 - before.1) as f64 / seconds.max(1e-3);
    let correction = (pace as f64 / achieved.max(1.0)).clamp(1.0, MOST);
    let corrected = (pace as f64 * correction) as u64;
    sys::set_max_pacing_rate(sender.as_fd(), corrected).map_err(failed)
}

/// The two ends of a TCP connection.
fn connect(wan: &Wan, from: &str, to: &str) -> Result<(TcpStream, TcpStream), WanError> {
    let address = wan.address(to)?;
    let listener =
        wan.node(to)?.namespace.run(|| TcpListener::bind((address, 0))).map_err(failed)?;
    let target = listener.local_addr().map_err(failed)?;
    let sender = wan.node(from)?.namespace.run(|| TcpStream::connect(target)).map_err(failed)?;
    let (receiver, _) = listener.accept().map_err(failed)?;
    Ok((sender, receiver))
}

/// How many bytes have arrived, and when the last of them did.
#[derive(Default)]
struct Count(std::sync::Mutex<Option<(Instant, u64)>>);

impl Count {
    /// Waits for the next arrival, so that an interval begins and ends with one: packets come in
    /// lumps. Gives up after a second without any.
    fn at_next_arrival(&self) -> (Instant, u64) {
        let read = || *self.0.lock().expect("no reader panics");
        let started = Instant::now();
        let first = read();
        loop {
            thread::sleep(Duration::from_micros(200));
            let now = read();
            if now != first || started.elapsed() > Duration::from_secs(1) {
                return now.unwrap_or((Instant::now(), 0));
            }
        }
    }
}

fn send_until(mut sender: &TcpStream, stop: &AtomicBool) {
    let zeros = vec![0; 256 * 1024];
    while !stop.load(Ordering::Relaxed) && sender.write_all(&zeros).is_ok() {}
}

fn receive(mut receiver: &TcpStream, count: &Count) {
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    while let Ok(length @ 1..) = receiver.read(&mut buffer) {
        bytes += length as u64;
        *count.0.lock().expect("no reader panics") = Some((Instant::now(), bytes));
    }
}

/// Sends the given number of bytes over one TCP connection, the first on this network. Returns how many
/// segments the sending kernel counted, those of super-packets singly. (The receiving one counts a
/// super-packet from a device once.)
pub fn tcp_segments(wan: &Wan, from: &str, to: &str, bytes: u64) -> Result<u64, WanError> {
    let (mut sender, receiver) = connect(wan, from, to)?;
    let count = Count::default();
    thread::scope(|scope| {
        scope.spawn(|| receive(&receiver, &count));
        let sent = io::copy(&mut io::repeat(0).take(bytes), &mut sender);
        let _ = sender.shutdown(std::net::Shutdown::Write);
        sent.map_err(failed)
    })?;
    // The end of the stream has been read, but its acknowledgement and what was sent in doubt may
    // still be under way.
    drop((sender, receiver));
    thread::sleep(Duration::from_millis(500));
    let counters = wan.node(from)?.namespace.protocol_counters().map_err(failed)?;
    let counted = |name| counters.get("Tcp", name).unwrap_or_default();
    // Linux counts what it sends again apart.
    Ok(counted("OutSegs") + counted("RetransSegs"))
}

/// ICMP echo requests: between which nodes, how many, and one every which time.
#[derive(Clone, Copy)]
pub struct Probes<'a> {
    pub from: &'a str,
    pub to: &'a str,
    pub count: u16,
    pub interval: Duration,
}

/// Their round trips, from just before the request is sent to when the kernel has received the
/// reply. Lost ones are missing.
pub fn round_trips(wan: &Wan, probes: Probes<'_>) -> Result<Vec<Duration>, WanError> {
    thread::scope(|scope| {
        let probe = scope.spawn(|| {
            // Or the delay from reading the clock to sending would be measured as well.
            host::request_real_time(crate::REAL_TIME_PRIORITY);
            probe(wan, probes)
        });
        probe.join().expect("probing does not panic")
    })
}

fn probe(wan: &Wan, probes: Probes<'_>) -> Result<Vec<Duration>, WanError> {
    const ECHO_REQUEST: u8 = 8;
    const IDENTIFIER: [u8; 2] = [0x6c, 0x68];
    let Probes { from, to, count, interval } = probes;
    let IpAddr::V4(address) = wan.address(to)? else { unreachable!("checks run over IPv4") };
    let open = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4));
    let mut socket = wan.node(from)?.namespace.run(open).map_err(failed)?;
    let target = SocketAddr::from((address, 0)).into();
    // Switches time-stamping on; there is no packet yet to tell the time of.
    let _ = sys::receive_time(socket.as_fd());
    let mut sent = Vec::with_capacity(count.into());
    let mut trips = Vec::new();
    let mut reply = [0; 128];
    let started = Instant::now();
    let end = interval * u32::from(count) + Duration::from_secs(1);
    while started.elapsed() < end && trips.len() < usize::from(count) {
        let due = interval * sent.len() as u32;
        if sent.len() < usize::from(count) && started.elapsed() >= due {
            let [high, low] = (sent.len() as u16).to_be_bytes();
            let mut request = [ECHO_REQUEST, 0, 0, 0, IDENTIFIER[0], IDENTIFIER[1], high, low];
            let checksum = !fold(sum(&request));
            request[2..4].copy_from_slice(&checksum.to_be_bytes());
            sent.push(SystemTime::now());
            socket.send_to(&request, &target).map_err(failed)?;
            continue;
        }
        let wait = due.saturating_sub(started.elapsed()).max(Duration::from_micros(100));
        socket.set_read_timeout(Some(wait.min(end))).map_err(failed)?;
        let Ok(length) = socket.read(&mut reply) else { continue };
        // IPv4 header of 20 bytes, then type 0 (echo reply), code, checksum, identifier, sequence.
        if length < 28 || reply[20] != 0 || reply[24..26] != IDENTIFIER {
            continue;
        }
        let sequence = usize::from(u16::from_be_bytes([reply[26], reply[27]]));
        let at = SystemTime::UNIX_EPOCH + sys::receive_time(socket.as_fd()).map_err(failed)?;
        if let Some(Ok(trip)) = sent.get(sequence).map(|sent| at.duration_since(*sent)) {
            trips.push(trip);
        }
    }
    Ok(trips)
}

/// A numbered datagram that has arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub number: u64,
    /// From just before it was sent to when it was read.
    pub delay: Duration,
}

/// Sends `count` UDP datagrams of `length` bytes, in groups of `group` each millisecond; answers
/// how many arrived.
pub fn datagrams(
    wan: &Wan,
    from: &str,
    to: &str,
    count: u64,
    length: usize,
    group: u64,
) -> Result<u64, WanError> {
    numbered(wan, from, to, count, length, group).map(|arrivals| arrivals.len() as u64)
}

/// The same; answers which arrived, in their order, copies included. At least 16 bytes each.
pub fn numbered(
    wan: &Wan,
    from: &str,
    to: &str,
    count: u64,
    length: usize,
    group: u64,
) -> Result<Vec<Arrival>, WanError> {
    let begun = Instant::now();
    let address = wan.address(to)?;
    let bind = || {
        let socket = Socket::new(Domain::for_address((address, 0).into()), Type::DGRAM, None)?;
        socket.bind(&SocketAddr::from((address, 0)).into())?;
        // Whatever arrives must find room, whatever the machine allows to everybody: only the link
        // may lose anything here.
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20)?;
        socket.set_read_timeout(Some(Duration::from_millis(300)))?;
        Ok(UdpSocket::from(socket))
    };
    let receiver = wan.node(to)?.namespace.run(bind).map_err(failed)?;
    let target = receiver.local_addr().map_err(failed)?;
    let source = wan.address(from)?;
    let sender = wan.node(from)?.namespace.run(|| UdpSocket::bind((source, 0))).map_err(failed)?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let counted = scope.spawn(|| {
            let mut buffer = vec![0; length];
            let mut arrived = Vec::with_capacity(2 * count as usize);
            loop {
                match receiver.recv(&mut buffer) {
                    Ok(_) => arrived.push(Arrival::read(&buffer, begun.elapsed())),
                    Err(_) if done.load(Ordering::Acquire) => return arrived,
                    Err(_) => {}
                }
            }
        });
        let sent = send_datagrams(&sender, target, count, length, group, begun);
        done.store(true, Ordering::Release);
        let arrived = counted.join().expect("counting does not panic");
        sent.map_err(failed)?;
        Ok(arrived)
    })
}

fn send_datagrams(
    sender: &UdpSocket,
    target: SocketAddr,
    count: u64,
    length: usize,
    group: u64,
    begun: Instant,
) -> io::Result<()> {
    let mut payload = vec![0; length];
    let started = Instant::now();
    for n in 0..count {
        if n % group == 0 {
            let due = Duration::from_millis(n / group);
            thread::sleep(due.saturating_sub(started.elapsed()));
        }
        payload[..8].copy_from_slice(&n.to_ne_bytes());
        payload[8..16].copy_from_slice(&(begun.elapsed().as_nanos() as u64).to_ne_bytes());
        sender.send_to(&payload, target)?;
    }
    Ok(())
}

impl Arrival {
    /// What a datagram says that was read so long after the beginning.
    fn read(datagram: &[u8], read: Duration) -> Self {
        let number = |at: usize| {
            let bytes = datagram[at..at + 8].try_into().expect("eight bytes");
            u64::from_ne_bytes(bytes)
        };
        let delay = read.saturating_sub(Duration::from_nanos(number(8)));
        Self { number: number(0), delay }
    }
}
