// SPDX-License-Identifier: GPL-2.0-or-later
//! UDP at constant rates, from one thread for all sources.
//!
//! Packet n of a source is due `n * packet / rate` after its start, so no rounding adds up. The thread sleeps until the next
//! burst is due: as many packets as the rate brings in [`BURST`], or one. The kernel cuts a burst into packets (`UDP_SEGMENT`), so
//! that it takes one system call and one way through the IP stack. A receiver's socket drops all that arrives by a filter, and
//! the kernel counts the drops, so no thread wakes for a packet.
//!
//! Limits: a packet leaves up to [`BURST`] after it is due. One that leaves more than [`LATE`] after that is counted as late, and
//! one that can't leave within [`GIVEN_UP`] is not sent.

use crate::sys;
use host::Namespace;
use rustix::time::{ClockId, clock_gettime};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use units::Rate;

/// A burst is what a rate brings in this time.
pub const BURST: Duration = Duration::from_micros(250);
/// A packet that leaves later than this after it is due is late.
pub const LATE: Duration = Duration::from_millis(1);
/// A packet that has not left by then is not sent.
pub const GIVEN_UP: Duration = Duration::from_millis(20);

/// Below the emulator's, which must read what is sent.
const REAL_TIME_PRIORITY: i32 = 5;

/// After a full socket, the time until the next try.
const RETRY: Duration = Duration::from_micros(100);
/// The longest time without a look whether to stop.
const LOOK: Duration = Duration::from_millis(20);
/// The most packets and bytes of payload that the kernel cuts (`UDP_MAX_SEGMENTS` of Linux 4.18).
const MAX_SEGMENTS: u64 = 64;
const MAX_BURST_BYTES: usize = 65_000;
/// Room for the bursts of some milliseconds at 10 Gb/s.
const SEND_BUFFER: i32 = 16 << 20;

/// What a source sends.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// Of IP packets, headers included.
    pub rate: Rate,
    /// An IP packet's length in bytes.
    pub packet: u32,
    /// When the first packet is due, counted from the start of all sources.
    pub start: Duration,
}

impl Schedule {
    /// When a packet is due after the first.
    fn due(&self, number: u64) -> Duration {
        let nanos = u128::from(number) * self.packet_bit_nanos() / u128::from(self.rate.bps());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Packets that are due this long after the first, with the first.
    fn due_by(&self, elapsed: Duration) -> u64 {
        let packets = elapsed.as_nanos() * u128::from(self.rate.bps()) / self.packet_bit_nanos();
        u64::try_from(packets).unwrap_or(u64::MAX).saturating_add(1)
    }

    fn packet_bit_nanos(&self) -> u128 {
        u128::from(self.packet) * 8 * 1_000_000_000
    }

    /// Packets of a burst.
    fn burst(&self) -> u64 {
        self.due_by(BURST).saturating_sub(1).max(1)
    }
}

/// What became of a source's packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Sent, in time or late.
    pub sent: u64,
    /// Of those, the ones that left more than [`LATE`] after they were due.
    pub late: u64,
    /// Not sent, because the thread did not run or the socket was full for too long.
    pub unsent: u64,
    /// The longest that one left after it was due.
    pub lateness_max: Duration,
    /// Arrived at the receiver's socket.
    pub arrived: u64,
}

/// A source's sockets and its progress.
#[derive(Debug)]
pub struct Source {
    schedule: Schedule,
    /// None where another machine sends.
    socket: Option<UdpSocket>,
    /// None where another machine receives.
    receiver: Option<Receiver>,
    payload: usize,
    /// The most packets that one call sends.
    per_call: u64,
    /// The number of the next packet.
    next: u64,
    report: Report,
}

impl Source {
    /// Opens the sockets of a source: it sends in the one namespace to an address of the other. An end without a namespace is
    /// another machine's. Port 0 is one of the kernel's choice, where both are here.
    ///
    /// # Errors
    /// The namespaces can't be entered, the port is taken, or there are no more descriptors.
    pub fn open(
        from: Option<&Namespace>,
        (to, address): (Option<&Namespace>, SocketAddr),
        schedule: Schedule,
    ) -> io::Result<Self> {
        let receiver = to.map(|to| Receiver::open(to, address)).transpose()?;
        let target = receiver.as_ref().map_or(address, |receiver| receiver.address);
        let socket = from.map(|from| connected(from, target)).transpose()?;
        let headers = if address.is_ipv4() { 28 } else { 48 };
        let payload = (schedule.packet as usize).saturating_sub(headers);
        let fitting = MAX_BURST_BYTES.checked_div(payload).unwrap_or(1).max(1) as u64;
        let cut = |socket: &UdpSocket| sys::set_segment_size(socket.as_fd(), payload as u16);
        let is_cut = fitting > 1 && socket.as_ref().is_some_and(|socket| cut(socket).is_ok());
        let per_call = if is_cut { fitting.min(MAX_SEGMENTS) } else { 1 };
        let report = Report::default();
        Ok(Self { schedule, socket, receiver, payload, per_call, next: 0, report })
    }

    /// Sends what is due. Answers when to come again, counted from the start of all sources; never where another machine sends.
    fn send_due(&mut self, begun: Instant, zeros: &[u8]) -> Option<Duration> {
        let start = begun + self.schedule.start;
        loop {
            let elapsed = start.elapsed();
            let due = self.schedule.due_by(elapsed);
            let given_up = elapsed.checked_sub(GIVEN_UP).map_or(0, |at| self.schedule.due_by(at));
            if self.next < given_up {
                self.report.unsent += given_up - self.next;
                self.next = given_up;
            }
            if self.next >= due {
                let next = self.schedule.due(self.next + self.schedule.burst() - 1);
                return Some(self.schedule.start + next);
            }
            let packets = (due - self.next).min(self.per_call);
            let socket = self.socket.as_ref()?;
            match socket.send(&zeros[..packets as usize * self.payload]) {
                Ok(_) => self.count(packets, start.elapsed()),
                // A device without checksum offload, before Linux 6.11: the kernel cuts nothing for it.
                Err(error) if error.raw_os_error() == Some(libc::EIO) && self.per_call > 1 => {
                    self.per_call = 1;
                    let _ = sys::set_segment_size(socket.as_fd(), 0);
                }
                // Full, or something that passes, such as a route that is being changed.
                Err(_) => return Some(self.schedule.start + elapsed + RETRY),
            }
        }
    }

    fn count(&mut self, packets: u64, now: Duration) {
        let lateness = now.saturating_sub(self.schedule.due(self.next));
        self.report.lateness_max = self.report.lateness_max.max(lateness);
        let late = now.checked_sub(LATE).map_or(0, |at| self.schedule.due_by(at));
        self.report.late += late.saturating_sub(self.next).min(packets);
        self.report.sent += packets;
        self.next += packets;
    }
}

/// A socket of a namespace that sends to an address.
fn connected(namespace: &Namespace, to: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = namespace.run(|| {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    })?;
    sys::set_send_buffer(socket.as_fd(), SEND_BUFFER)?;
    Ok(socket)
}

/// A socket that counts what arrives.
#[derive(Debug)]
struct Receiver {
    socket: UdpSocket,
    address: SocketAddr,
    /// `/proc/net/udp` of its namespace.
    table: fs::File,
}

impl Receiver {
    fn open(namespace: &Namespace, address: SocketAddr) -> io::Result<Self> {
        let table = if address.is_ipv4() { "udp" } else { "udp6" };
        let (socket, table) = namespace.run(|| {
            let table = fs::File::open(format!("/proc/thread-self/net/{table}"))?;
            Ok((UdpSocket::bind(address)?, table))
        })?;
        sys::drop_arriving(socket.as_fd())?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, table })
    }

    /// How many datagrams have arrived.
    fn arrived(&self) -> io::Result<u64> {
        let inode = rustix::fs::fstat(&self.socket)?.st_ino.to_string();
        let mut table = String::new();
        io::Seek::rewind(&mut &self.table)?;
        io::Read::read_to_string(&mut &self.table, &mut table)?;
        drops_of(&table, &inode).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The last column of a socket's row in `/proc/net/udp`, its tenth being the inode.
fn drops_of(table: &str, inode: &str) -> Option<u64> {
    let mut rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.find(|row| row.get(9) == Some(&inode))?.last()?.parse().ok()
}

/// Sources at work. Dropping it ends them.
#[derive(Debug)]
pub struct Datagrams {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<(Vec<Source>, Usage)>>,
}

/// What the sending took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Processor time of the thread that sends.
    pub cpu: Duration,
    /// Whether it has real-time priority.
    pub real_time: bool,
}

impl Datagrams {
    /// Starts all sources, which count their time from `begun`.
    ///
    /// # Errors
    /// No more threads.
    pub fn start(sources: Vec<Source>, begun: Instant) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || send(sources, begun, &stopped);
        let thread = thread::Builder::new().name("datagrams".into()).spawn(work)?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends all sources. Answers a report for each, in the order in which they were given; what is under way has not arrived.
    ///
    /// # Errors
    /// The kernel does not tell what has arrived.
    pub fn finish(mut self) -> io::Result<(Vec<Report>, Usage)> {
        let (sources, usage) = self.join().unwrap_or_default();
        let report = |source: &Source| {
            let arrived = source.receiver.as_ref().map_or(Ok(0), Receiver::arrived)?;
            Ok::<_, io::Error>(Report { arrived, ..source.report })
        };
        Ok((sources.iter().map(report).collect::<Result<_, _>>()?, usage))
    }

    fn join(&mut self) -> Option<(Vec<Source>, Usage)> {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take()?;
        Some(thread.join().expect("the sending thread does not panic"))
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.join();
    }
}

/// The sending thread.
fn send(mut sources: Vec<Source>, begun: Instant, stop: &AtomicBool) -> (Vec<Source>, Usage) {
    let real_time = sources.iter().any(|source| source.socket.is_some())
        && host::request_real_time(REAL_TIME_PRIORITY);
    let zeros = vec![0; MAX_BURST_BYTES.max(u16::MAX.into())];
    let first = |(n, source): (usize, &Source)| Reverse((source.schedule.start, n));
    let sending = sources.iter().enumerate().filter(|(_, source)| source.socket.is_some());
    let mut due: BinaryHeap<_> = sending.map(first).collect();
    while !stop.load(Relaxed) {
        let Some(&Reverse((next, n))) = due.peek() else { break };
        let wait = next.saturating_sub(begun.elapsed());
        if wait > Duration::ZERO {
            thread::sleep(wait.min(LOOK));
            continue;
        }
        due.pop();
        due.extend(sources[n].send_due(begun, &zeros).map(|next| Reverse((next, n))));
    }
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    let cpu = Duration::new(cpu.tv_sec.cast_unsigned(), cpu.tv_nsec as u32);
    (sources, Usage { cpu, real_time })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: Schedule = Schedule {
        rate: Rate::bits_per_second(1_000_000_000),
        packet: 1500,
        start: Duration::ZERO,
    };

    #[test]
    fn packets_are_due_by_the_rate_without_drift() {
        assert_eq!(GIGABIT.due(0), Duration::ZERO);
        assert_eq!(GIGABIT.due(1), Duration::from_micros(12));
        assert_eq!(GIGABIT.due(250_000_000), Duration::from_secs(3000));
        assert_eq!(GIGABIT.burst(), 20);
        let odd = Schedule { rate: Rate::bits_per_second(7), packet: 997, ..GIGABIT };
        assert_eq!(odd.burst(), 1);
        for number in [1, 2, 77, 123_456] {
            for schedule in [GIGABIT, odd] {
                let at = schedule.due(number) + Duration::from_nanos(1);
                assert_eq!(schedule.due_by(at), number + 1, "{schedule:?}");
                let before = schedule.due(number).saturating_sub(Duration::from_nanos(1));
                assert_eq!(schedule.due_by(before), number, "{schedule:?}");
            }
        }
    }

    #[test]
    fn drops_are_read_from_the_sockets_row() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
             20: 0100007F:0202 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 42\n\
             21: 0100007F:0203 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 7\n";
        assert_eq!(drops_of(table, "4712"), Some(7));
        assert_eq!(drops_of(table, "471"), None);
    }
}
