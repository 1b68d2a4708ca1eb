// SPDX-License-Identifier: GPL-2.0-or-later
//! Facts of a running program: its TCP connections, and how busy its threads are.
//!
//! Whether a program has set a buffer is asked of its socket, of which a descriptor is taken for a moment (`pidfd_getfd(2)`,
//! Linux 5.6; `SO_BUF_LOCK`, 5.14). That takes the program's user or root.

use host::{TcpSocket, TcpSockets};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde::Serialize;
use std::{collections::BTreeMap, fs, io, thread, time::Duration};

/// A connection of a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Socket {
    /// The program's process.
    pub pid: u32,
    /// Its name.
    pub program: String,
    /// The connection's own address.
    pub local: String,
    /// The other end's.
    pub peer: String,
    /// The smoothed round trip.
    pub rtt_us: u32,
    /// Whether the program has set the size of the send buffer.
    pub sets_send_buffer: bool,
    /// Whether it has set that of the receive buffer.
    pub sets_receive_buffer: bool,
    /// The size of the send buffer, as the kernel counts it.
    pub send_buffer_bytes: u64,
    /// The size of the receive buffer.
    pub receive_buffer_bytes: u64,
    /// The share of the time with data to send in which the send buffer was full.
    pub send_buffer_limited: f64,
    /// The same of the time in which the peer had no room.
    pub peer_limited: f64,
    /// The share of a processor that its busiest thread uses, over [`WATCHED`].
    pub busiest_thread: f64,
    /// The share of that time in which its busiest waiter waited for a disk.
    pub disk_wait: f64,
}

/// Which program is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The process of that number.
    Process(u32),
    /// All with a connection from or to that port.
    Port(u16),
}

/// How long its threads are watched.
pub const WATCHED: Duration = Duration::from_secs(1);
/// Between two looks at whether a thread waits for a disk.
const LOOK: Duration = Duration::from_millis(20);
/// More connections are not looked at: those with the most bytes are.
const MOST_SOCKETS: usize = 16;

/// The connections of a program, those that carried most first, 16 at most.
///
/// # Errors
/// The kernel does not list sockets, or there is no such process.
pub fn gather(which: Which) -> io::Result<Vec<Socket>> {
    let mut kernel = TcpSockets::open()?;
    let mut found = kernel.connections(false)?;
    found.extend(kernel.connections(true)?);
    let owners = match which {
        Which::Process(pid) => {
            descriptors(pid)?.into_iter().map(|(inode, fd)| (inode, (pid, fd))).collect()
        }
        Which::Port(port) => {
            found.retain(|socket| socket.local.port() == port || socket.peer.port() == port);
            owners()
        }
    };
    found.retain(|socket| owners.contains_key(&socket.inode));
    found.sort_by_key(|socket| {
        std::cmp::Reverse(socket.info.sent.get().max(socket.info.received.get()))
    });
    found.truncate(MOST_SOCKETS);
    let mut pids: Vec<u32> = found.iter().map(|socket| owners[&socket.inode].0).collect();
    pids.sort_unstable();
    pids.dedup();
    let busy = watch(&pids);
    Ok(found.iter().map(|socket| describe(socket, owners[&socket.inode], &busy)).collect())
}

fn describe(socket: &TcpSocket, (pid, fd): (u32, i32), busy: &BTreeMap<u32, Busy>) -> Socket {
    let set = taken(pid, fd).and_then(host::set_buffers).unwrap_or_default();
    let info = &socket.info;
    let share = |part: Duration| {
        if info.busy.is_zero() { 0.0 } else { part.as_secs_f64() / info.busy.as_secs_f64() }
    };
    let busy = busy.get(&pid).copied().unwrap_or_default();
    Socket {
        pid,
        program: fs::read_to_string(format!("/proc/{pid}/comm"))
            .unwrap_or_default()
            .trim()
            .to_owned(),
        local: socket.local.to_string(),
        peer: socket.peer.to_string(),
        rtt_us: info.rtt_us,
        sets_send_buffer: set.send,
        sets_receive_buffer: set.receive,
        send_buffer_bytes: socket.sndbuf_bytes,
        receive_buffer_bytes: socket.rcvbuf_bytes,
        send_buffer_limited: share(info.sndbuf_limited),
        peer_limited: share(info.rwnd_limited),
        busiest_thread: busy.processor,
        disk_wait: busy.disk,
    }
}

/// A descriptor of another process's socket.
fn taken(pid: u32, fd: i32) -> io::Result<std::os::fd::OwnedFd> {
    let pid = Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::NotFound)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    Ok(pidfd_getfd(process, fd, PidfdGetfdFlags::empty())?)
}

/// The sockets that a process has open: their numbers, and its descriptors of them.
fn descriptors(pid: u32) -> io::Result<BTreeMap<u32, i32>> {
    let socket = |entry: fs::DirEntry| {
        let target = fs::read_link(entry.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        Some((inode, entry.file_name().to_str()?.parse().ok()?))
    };
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.flatten().filter_map(socket).collect())
}

/// The sockets of all processes that this user may look at.
fn owners() -> BTreeMap<u32, (u32, i32)> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of = |pid| {
        let found = descriptors(pid).unwrap_or_default();
        found.into_iter().map(move |(inode, fd)| (inode, (pid, fd)))
    };
    pids.flat_map(of).collect()
}

/// What a process's threads do, each the most of any thread.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Busy {
    processor: f64,
    disk: f64,
}

/// Watches processes for a second.
fn watch(pids: &[u32]) -> BTreeMap<u32, Busy> {
    if pids.is_empty() {
        return BTreeMap::new();
    }
    let before: BTreeMap<u32, _> = pids.iter().map(|pid| (*pid, threads(*pid))).collect();
    let looks = (WATCHED.as_millis() / LOOK.as_millis()) as u32;
    let mut waits: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for _ in 0..looks {
        thread::sleep(LOOK);
        for pid in pids {
            for (tid, thread) in threads(*pid) {
                *waits.entry((*pid, tid)).or_default() += u32::from(thread.waits_for_disk);
            }
        }
    }
    let ticks = rustix::param::clock_ticks_per_second() as f64 * WATCHED.as_secs_f64();
    let of = |pid: &u32| {
        let spent = threads(*pid).into_iter().map(|(tid, thread)| {
            let earlier = before[pid].get(&tid).map_or(0, |earlier| earlier.ticks);
            thread.ticks.saturating_sub(earlier) as f64 / ticks
        });
        let disk = waits.iter().filter(|((of, _), _)| of == pid);
        let disk = disk.map(|(_, count)| f64::from(*count) / f64::from(looks));
        (*pid, Busy { processor: spent.fold(0.0, f64::max), disk: disk.fold(0.0, f64::max) })
    };
    pids.iter().map(of).collect()
}

/// A thread at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Thread {
    /// Processor time, in ticks.
    ticks: u64,
    /// Whether it sleeps without interruption, as one does that waits for a disk.
    waits_for_disk: bool,
}

fn threads(pid: u32) -> BTreeMap<u32, Thread> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, parse_stat(&stat)?))
    };
    tasks.filter_map(of).collect()
}

/// State, user and system time in `/proc/PID/stat`: the name before them may hold blanks and brackets.
fn parse_stat(stat: &str) -> Option<Thread> {
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    Some(Thread { ticks: number(11)? + number(12)?, waits_for_disk: *words.first()? == "D" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn buffers_that_a_program_set_are_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let _server = listener.accept().unwrap();
        socket2::SockRef::from(&client).set_recv_buffer_size(50_000).unwrap();
        let own = client.local_addr().unwrap().to_string();
        for which in [Which::Port(port), Which::Process(std::process::id())] {
            let found = gather(which).unwrap();
            let socket = found.iter().find(|socket| socket.local == own);
            // Other tests of this process may have more connections than are shown.
            let Some(socket) = socket else {
                assert!(which != Which::Port(port), "{found:?}");
                continue;
            };
            assert!(socket.sets_receive_buffer && !socket.sets_send_buffer, "{socket:?}");
            assert_eq!((socket.pid, socket.receive_buffer_bytes), (std::process::id(), 100_000));
        }
        assert!(gather(Which::Process(u32::MAX / 2)).is_err());
    }

    #[test]
    fn stat_is_read_behind_any_name() {
        let stat = "7 (a) D 1 (x) S 1 2 3 4 5 6 7 8 9 10 30 12 0";
        assert_eq!(parse_stat(stat), Some(Thread { ticks: 42, waits_for_disk: false }));
        let stat = "7 (dd) D 1 2 3 4 5 6 7 8 9 10 30 12 0";
        assert_eq!(parse_stat(stat), Some(Thread { ticks: 42, waits_for_disk: true }));
        for stat in ["", "7 (a)", "7 (a) S 1", "7 (a) S 1 2 3 4 5 6 7 8 9 10 x 12"] {
            assert_eq!(parse_stat(stat), None, "{stat:?}");
        }
    }
}
