// SPDX-License-Identifier: GPL-2.0-or-later
//! The thread that waits in a call: what its arguments point at, and the socket that it means.

use super::{
    calls::Call,
    filter::{ABIS, Abi},
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

/// What a thread wants to connect, and where to.
#[derive(Debug)]
pub(super) struct Request {
    thread: Pid,
    descriptor: i32,
    pub destination: SocketAddr,
}

impl Request {
    /// What the call asks for, if it is a connection by IP. The address is read once.
    ///
    /// # Errors
    /// The thread is gone, or hides its memory from its own user.
    pub(super) fn of(call: &Call) -> io::Result<Option<Self>> {
        let memory = File::open(format!("/proc/{}/mem", call.thread))?;
        let Some(abi) = ABIS.iter().find(|abi| abi.arch == call.arch) else { return Ok(None) };
        let [descriptor, address, length] = arguments(call, abi, &memory)?;
        let length = usize::try_from(length as i32).unwrap_or(0).min(LONGEST);
        let mut bytes = [0; LONGEST];
        memory.read_exact_at(&mut bytes[..length], address)?;
        let Some(destination) = parse(&bytes[..length]) else { return Ok(None) };
        let thread = i32::try_from(call.thread).ok().and_then(Pid::from_raw);
        let thread = thread.ok_or(ErrorKind::NotFound)?;
        Ok(Some(Self { thread, descriptor: descriptor as i32, destination }))
    }

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

/// The first three arguments of connect(2), however it was called.
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

/// A struct sockaddr of IPv4 or IPv6.
fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match family {
        libc::AF_INET if bytes.len() >= IPV4 => {
            let ip = Ipv4Addr::from(*bytes[4..].first_chunk()?);
            Some((ip, port).into())
        }
        libc::AF_INET6 if bytes.len() >= IPV6 => {
            let ip = Ipv6Addr::from(*bytes[8..].first_chunk()?);
            let scope = bytes[IPV6..].first_chunk().map_or(0, |&scope| u32::from_ne_bytes(scope));
            Some(SocketAddrV6::new(ip, port, 0, scope).into())
        }
        _ => None,
    }
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
            assert_eq!(parse(&all), Some(address), "{text}");
        }
        let six: SocketAddr = "[fe80::1%3]:80".parse().unwrap();
        let without_scope = parse(&bytes(six)[..IPV6]);
        assert_eq!(without_scope, Some("[fe80::1]:80".parse().unwrap()));
        let four = bytes("192.0.2.7:443".parse().unwrap());
        for length in 0..IPV4 {
            assert_eq!(parse(&four[..length]), None);
        }
        for family in [libc::AF_UNIX, libc::AF_UNSPEC, libc::AF_NETLINK] {
            let mut other = four.clone();
            other[..2].copy_from_slice(&(family as u16).to_ne_bytes());
            assert_eq!(parse(&other), None);
        }
    }
}
