// SPDX-License-Identifier: GPL-2.0-or-later
//! Two network namespaces with a TAP device each, and a wire between them that drops gap frames. What a TAP
//! is given is read in the order in which it was queued, whichever processor did it.

#![expect(unsafe_code, reason = "namespaces and TAP devices of the test")]

use crate::common::{ip, tc};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    ffi::CString,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// The sender's device and address; its packets are what is looked at.
pub const DEVICE: &str = "pace0";
pub const SENDER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const RECEIVER_V4: &str = "10.9.0.2";
pub const RECEIVER_V6: &str = "fd09::2";

pub struct Wire {
    sender: File,
    receiver: File,
    there: File,
}

/// A frame that left the sender, without check sequence.
pub struct Frame(pub Vec<u8>);

impl Frame {
    pub fn is_gap(&self) -> bool {
        self.0[12..14] == [0x88, 0x08]
    }

    pub fn is_tcp(&self) -> bool {
        let protocol = if self.is_v6() { 20 } else { 23 };
        !self.is_gap() && self.0[protocol] == 6
    }

    fn is_v6(&self) -> bool {
        self.0[12..14] == [0x86, 0xdd]
    }

    /// Bytes of TCP's payload; none of what isn't TCP.
    pub fn payload(&self) -> usize {
        let tcp = if self.is_v6() { 54 } else { 34 };
        if self.is_tcp() { self.0.len() - tcp - usize::from(self.0[tcp + 12] >> 4) * 4 } else { 0 }
    }

    /// What it takes of a link.
    pub fn on_link(&self, overhead: u64) -> u64 {
        (self.0.len() as u64).max(60) + overhead
    }
}

impl Wire {
    /// Between the calling thread's namespace, which should be its own, and another.
    pub fn new() -> Self {
        let sender = tap(DEVICE);
        let here = namespace();
        unshare();
        let there = namespace();
        let receiver = tap(DEVICE);
        configure("02:00:00:00:00:02", ["10.9.0.2/24", "fd09::2/64"], ["10.9.0.1", "fd09::1"], 1);
        enter(&here);
        configure("02:00:00:00:00:01", ["10.9.0.1/24", "fd09::1/64"], ["10.9.0.2", "fd09::2"], 2);
        Self { sender, receiver, there }
    }

    /// Runs something in the receiver's namespace.
    pub fn there<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let entered = || {
            enter(&self.there);
            work()
        };
        thread::scope(|scope| scope.spawn(entered).join().expect("it does not panic"))
    }

    /// Carries frames both ways while `work` goes on; `look` sees those of the sender, in their order.
    pub fn carrying<T>(&self, mut look: impl FnMut(Frame) + Send, work: impl FnOnce() -> T) -> T {
        /// Ends the wire's threads, also when the work panics.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                carry(&self.sender, &over, |frame| {
                    if frame[12..14] != [0x88, 0x08] {
                        deliver(&self.receiver, frame);
                    }
                    look(Frame(frame.to_vec()));
                });
            });
            scope.spawn(|| carry(&self.receiver, &over, |frame| deliver(&self.sender, frame)));
            let _over = Over(&over);
            work()
        })
    }
}

/// Until it is over and nothing more comes.
fn carry(mut from: &File, over: &AtomicBool, mut take: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 70_000];
    loop {
        match from.read(&mut buffer) {
            Ok(length) => take(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
                poll(&mut [PollFd::new(&from.as_fd(), PollFlags::IN)], Some(&wait)).expect("poll");
            }
            Err(error) => panic!("read a device: {error}"),
        }
    }
}

fn deliver(mut to: &File, frame: &[u8]) {
    to.write_all(frame).expect("the device is up");
}

fn configure(mac: &str, addresses: [&str; 2], neighbours: [&str; 2], other: u8) {
    ip(&["link", "set", DEVICE, "address", mac, "txqueuelen", "30000", "up"]);
    // Where the system's default is another, as fq_codel is with systemd.
    tc(&["qdisc", "replace", "dev", DEVICE, "root", "pfifo_fast"]);
    ip(&["link", "set", "lo", "up"]);
    ip(&["addr", "add", addresses[0], "dev", DEVICE]);
    ip(&["addr", "add", addresses[1], "dev", DEVICE, "nodad"]);
    for address in neighbours {
        let mac = format!("02:00:00:00:00:0{other}");
        ip(&["neigh", "replace", address, "lladdr", &mac, "dev", DEVICE, "nud", "permanent"]);
    }
}

fn namespace() -> File {
    File::open(Path::new("/proc/thread-self/ns/net")).expect("a mounted /proc")
}

fn unshare() {
    // SAFETY: no memory is involved; only this thread's namespace changes.
    let moved = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(moved, 0, "unshare: {}", io::Error::last_os_error());
}

fn enter(namespace: &File) {
    // SAFETY: no memory is involved; only this thread's namespace changes.
    let moved = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(moved, 0, "setns: {}", io::Error::last_os_error());
}

fn tap(name: &str) -> File {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun");
    let file = file.expect("a kernel with TUN");
    // SAFETY: ifreq is plain data; zero is a valid value of each of its fields.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = CString::new(name).expect("a plain name");
    for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an ifreq and keeps no pointer to it.
    let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    assert_eq!(made, 0, "TUNSETIFF: {}", io::Error::last_os_error());
    file
}
