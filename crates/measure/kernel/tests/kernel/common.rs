// SPDX-License-Identifier: GPL-2.0-or-later
//! What the tests share: a network of their own, transfers through it, and faults on the way.

#![expect(unsafe_code, reason = "namespaces, socket filters and rights of one thread")]

use congestion::Algorithm;
use longhaul_kernel::cc::{self, Loaded, Options};
use socket2::{Domain, Socket, Type};
use std::{
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener},
    process::Command,
    thread,
    time::Duration,
};

/// Runs a test's body in a network namespace of its own, which goes with its thread.
pub fn in_own_network<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    let inside = || {
        // SAFETY: no memory is involved; only this thread's namespace changes.
        let moved = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(moved, 0, "unshare: {}; these tests run as root", io::Error::last_os_error());
        ip(&["link", "set", "lo", "up"]);
        body()
    };
    thread::scope(|scope| match scope.spawn(inside).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Configures the calling thread's network namespace.
pub fn ip(arguments: &[&str]) {
    configure("ip", arguments);
}

/// Configures queueing disciplines of the calling thread's network namespace.
pub fn tc(arguments: &[&str]) {
    configure("tc", arguments);
}

fn configure(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().expect("iproute2");
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

/// The names that the kernel has.
pub fn available() -> Vec<String> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = fs::read_to_string(path).expect("TCP's settings");
    text.split_whitespace().map(str::to_owned).collect()
}

/// The default parameters, and loaded.
pub fn loaded(name: &str, options: &Options) -> Loaded {
    let algorithm = Algorithm::find(name).expect("an algorithm of cc/");
    cc::load(algorithm.default_set(), options).expect("it loads")
}

/// The two ends of a connection.
pub struct Pair {
    pub sender: Socket,
    pub receiver: Socket,
}

impl Pair {
    /// Over loopback, with that congestion control at the sender.
    pub fn connect(congestion_control: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("lo is up");
        let address = listener.local_addr().expect("bound");
        let sender = Self::socket();
        sender.set_tcp_congestion(congestion_control.as_bytes()).expect("it is loaded");
        sender.connect(&address.into()).expect("the listener is up");
        Self { sender, receiver: listener.accept().expect("connected").0.into() }
    }

    /// A socket that is not connected.
    pub fn socket() -> Socket {
        Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket")
    }

    /// Gives the sender another congestion control.
    pub fn choose(&self, congestion_control: &str) {
        self.sender.set_tcp_congestion(congestion_control.as_bytes()).expect("it is loaded");
    }

    /// Sends that many bytes and waits until they have arrived.
    pub fn transfer(&self, bytes: u64) {
        thread::scope(|scope| {
            scope.spawn(|| {
                let block = vec![7u8; 64 * 1024];
                let mut left = bytes;
                while left > 0 {
                    let length = left.min(block.len() as u64) as usize;
                    (&self.sender).write_all(&block[..length]).expect("the receiver reads");
                    left -= length as u64;
                }
            });
            let mut got = 0;
            let mut block = vec![0u8; 64 * 1024];
            while got < bytes {
                let read = (&self.receiver).read(&mut block).expect("the sender sends");
                assert!(read > 0, "the connection ended after {got} of {bytes} bytes");
                got += read as u64;
            }
        });
    }

    /// What the sender's socket says that it uses.
    pub fn congestion_control(&self) -> String {
        let name = self.sender.tcp_congestion().expect("a TCP socket");
        String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
    }

    /// Has the receiver's kernel drop that share (of 2^16) of what comes in.
    pub fn drop_share(&self, share: u16) {
        drop_at(&self.receiver, share);
    }

    /// While `work` sends, nothing arrives, for a while.
    pub fn losing_all(&self, period: Duration, work: impl FnOnce() + Send) {
        Self::deaf(&self.receiver, period, work);
    }

    /// While `work` sends, all arrives, but no acknowledgement of it comes back, for a while.
    pub fn losing_acknowledgements(&self, period: Duration, work: impl FnOnce() + Send) {
        Self::deaf(&self.sender, period, work);
    }

    fn deaf(socket: &Socket, period: Duration, work: impl FnOnce() + Send) {
        drop_at(socket, u16::MAX);
        thread::scope(|scope| {
            scope.spawn(work);
            thread::sleep(period);
            socket.detach_filter().expect("a filter is there");
        });
    }
}

fn drop_at(socket: &Socket, share: u16) {
    // SKF_AD_OFF + SKF_AD_RANDOM of linux/filter.h: 32 random bits.
    const RANDOM: u32 = 0xffff_f000 + 56;
    let load = instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, RANDOM);
    let limit = u32::from(share) << 16;
    let jump = instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, 0, limit);
    let answer = |k| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, k);
    socket.attach_filter(&[load, jump, answer(0), answer(u32::MAX)]).expect("a filter");
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> socket2::SockFilter {
    socket2::SockFilter::new(code as u16, jt, jf, k)
}

/// Runs something as a user without rights, on a thread of its own.
pub fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    const NOBODY: libc::uid_t = 65_534;
    let dropped = || {
        // SAFETY: no memory is involved. Unlike the library's function, the system call changes
        // this thread only.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
        assert_eq!(changed, 0, "setresuid: {}", io::Error::last_os_error());
        work()
    };
    thread::scope(|scope| scope.spawn(dropped).join().expect("it does not panic"))
}

/// This binary, about to run one of its tests once more, as a process of its own inside `around`.
pub fn once_more(around: &[&str], test: &str) -> Command {
    let binary = std::env::current_exe().expect("this test's binary");
    // `env` with nothing but a command is that command.
    let mut command = Command::new("env");
    command.args(around).arg(binary).args(["--exact", test, "--nocapture"]).env(AGAIN, test);
    command
}

/// Whether this is the process of [`once_more`].
pub fn is_once_more() -> bool {
    std::env::var_os(AGAIN).is_some()
}

const AGAIN: &str = "LONGHAUL_TEST_AGAIN";

/// The compiler of the adapters, for their machine.
pub fn clang() -> Command {
    let mut clang = Command::new(std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned()));
    clang.args(["-target", "bpf"]);
    clang
}
