// SPDX-License-Identifier: GPL-2.0-or-later
//! The thread that waits in a call: what its arguments point at, and the socket that it means.

use super::{
    calls::Call,
    filter::{ABIS, Abi, SOCKETCALL_SOCKET},
};
use rustix::{
    fs::fstat,
    io::Errno,
    process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open},
};
use socket2::Socket;
use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::{fd::AsFd, unix::fs::FileExt},
};

/// `struct sockaddr_in`.
const IPV4: usize = 16;
/// `struct sockaddr_in6`, without its scope as older programs have it.
const IPV6: usize = 24;
/// With it.
const LONGEST: usize = 28;

/// What a thread asks for.
#[derive(Debug)]
pub(super) enum Question {
    /// To connect a socket.
    Connect(Request),
    /// To make one: domain, type and protocol.
    Socket([i32; 3]),
}

/// What a thread wants to connect, and where to.
#[derive(Debug)]
pub(super) struct Request {
    thread: Pid,
    descriptor: i32,
    pub address: Address,
}

/// What connect(2) is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    /// An address of IP.
    Ip(SocketAddr),
    /// None: the socket is to be disconnected.
    Unspecified,
    /// Of another family.
    Other,
    /// Too short for its family.
    Short,
}

impl Question {
    /// What the call asks for. Arguments in memory are read once.
    ///
    /// # Errors
    /// The thread is gone, or hides its memory from its own user.
    pub(super) fn of(call: &Call) -> io::Result<Self> {
        let memory = File::open(format!("/proc/{}/mem", call.thread))?;
        let abi = ABIS.iter().find(|abi| abi.arch == call.arch).ok_or(ErrorKind::Unsupported)?;
        let arguments = arguments(call, abi, &memory)?;
        if abi.socketcall == Some(call.number) && call.arguments[0] as u32 == SOCKETCALL_SOCKET {
            return Ok(Self::Socket(arguments.map(|argument| argument as i32)));
        }
        let [descriptor, address, length] = arguments;
        let length = usize::try_from(length as i32).unwrap_or(0).min(LONGEST);
        let mut bytes = [0; LONGEST];
        memory.read_exact_at(&mut bytes[..length], address)?;
        let address = parse(&bytes[..length]);
        let thread = i32::try_from(call.thread).ok().and_then(Pid::from_raw);
        let thread = thread.ok_or(ErrorKind::NotFound)?;
        Ok(Self::Connect(Request { thread, descriptor: descriptor as i32, address }))
    }
}

impl Request {
    /// The program's own socket: another descriptor of the same one. Threads may have descriptors of their own
    /// (`CLONE_FILES`), so it is the thread that is asked and not its process.
    ///
    /// # Errors
    /// There is none, or the process is not to be looked into.
    pub(super) fn socket(&self) -> io::Result<Socket> {
        let owner = match pidfd_open(self.thread, THREAD) {
            // Before Linux 6.9.
            Err(Errno::INVAL) => pidfd_open(self.process()?, PidfdFlags::empty())?,
            opened => opened?,
        };
        let socket = pidfd_getfd(owner, self.descriptor, PidfdGetfdFlags::empty())?;
        if !self.is_of_thread(&socket)? {
            return Err(ErrorKind::NotFound.into());
        }
        Ok(socket.into())
    }

    /// Whether the thread's descriptor is this socket.
    fn is_of_thread(&self, socket: impl AsFd) -> io::Result<bool> {
        let (thread, descriptor) = (self.thread.as_raw_nonzero(), self.descriptor);
        let link = fs::read_link(format!("/proc/{thread}/fd/{descriptor}"))?;
        if !link.to_string_lossy().starts_with("socket:") {
            return Err(Errno::NOTSOCK.into());
        }
        let inode = fstat(socket)?.st_ino;
        Ok(link.to_str() == Some(format!("socket:[{inode}]").as_str()))
    }

    fn process(&self) -> io::Result<Pid> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.thread.as_raw_nonzero()))?;
        let number = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let pid = number.and_then(|number| Pid::from_raw(number.trim().parse().ok()?));
        pid.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "the status names no process"))
    }
}

/// `PIDFD_THREAD`: a thread that need not be its process's first.
const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

/// The first three arguments of connect(2), or of a call within socketcall(2).
fn arguments(call: &Call, abi: &Abi, memory: &File) -> io::Result<[u64; 3]> {
    if call.number == abi.connect {
        let [descriptor, address, length, ..] = call.arguments;
        return Ok([descriptor, address, length]);
    }
    // socketcall(2): they are in memory, 32 bits each.
    let mut bytes = [0; 12];
    memory.read_exact_at(&mut bytes, call.arguments[1])?;
    let (words, _) = bytes.as_chunks::<4>();
    Ok([words[0], words[1], words[2]].map(|word| u32::from_ne_bytes(word).into()))
}

/// A struct sockaddr.
fn parse(bytes: &[u8]) -> Address {
    let Some(family) = bytes.first_chunk() else { return Address::Short };
    match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_UNSPEC => Address::Unspecified,
        libc::AF_INET => ipv4(bytes).map_or(Address::Short, Address::Ip),
        libc::AF_INET6 => ipv6(bytes).map_or(Address::Short, Address::Ip),
        _ => Address::Other,
    }
}

fn ipv4(bytes: &[u8]) -> Option<SocketAddr> {
    let bytes = bytes.get(..IPV4)?;
    let port = u16::from_be_bytes(*bytes[2..].first_chunk()?);
    Some((Ipv4Addr::from(*bytes[4..].first_chunk()?), port).into())
}

fn ipv6(bytes: &[u8]) -> Option<SocketAddr> {
    let (bytes, rest) = bytes.split_at_checked(IPV6)?;
    let port = u16::from_be_bytes(*bytes[2..].first_chunk()?);
    let flow = u32::from_ne_bytes(*bytes[4..].first_chunk()?);
    let ip = Ipv6Addr::from(*bytes[8..].first_chunk()?);
    let scope = rest.first_chunk().map_or(0, |&scope| u32::from_ne_bytes(scope));
    Some(SocketAddrV6::new(ip, port, flow, scope).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(address: SocketAddr) -> Vec<u8> {
        match address {
            SocketAddr::V4(v4) => [
                &(libc::AF_INET as u16).to_ne_bytes()[..],
                &v4.port().to_be_bytes(),
                &v4.ip().octets(),
                &[0; 8],
            ]
            .concat(),
            SocketAddr::V6(v6) => [
                &(libc::AF_INET6 as u16).to_ne_bytes()[..],
                &v6.port().to_be_bytes(),
                &[0; 4],
                &v6.ip().octets(),
                &v6.scope_id().to_ne_bytes(),
            ]
            .concat(),
        }
    }

    #[test]
    fn addresses_are_read_and_others_left_alone() {
        for text in ["192.0.2.7:443", "[2001:db8::7]:22", "[fe80::1%3]:80"] {
            let address: SocketAddr = text.parse().unwrap();
            let all = bytes(address);
            assert_eq!(parse(&all), Address::Ip(address), "{text}");
        }
        let six: SocketAddr = "[fe80::1%3]:80".parse().unwrap();
        let without_scope = parse(&bytes(six)[..IPV6]);
        assert_eq!(without_scope, Address::Ip("[fe80::1]:80".parse().unwrap()));
        let four = bytes("192.0.2.7:443".parse().unwrap());
        for length in 0..IPV4 {
            assert_eq!(parse(&four[..length]), Address::Short);
        }
        for (family, expected) in [
            (libc::AF_UNIX, Address::Other),
            (libc::AF_UNSPEC, Address::Unspecified),
            (libc::AF_NETLINK, Address::Other),
        ] {
            let mut other = four.clone();
            other[..2].copy_from_slice(&(family as u16).to_ne_bytes());
            assert_eq!(parse(&other), expected);
        }
    }
}
