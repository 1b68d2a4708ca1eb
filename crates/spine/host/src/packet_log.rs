// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets that a firewall rule logs to a group (`log group N` of nftables, `nfnetlink_log`).
//!
//! Source: `linux/netfilter/nfnetlink_log.h`.

use netlink_packet_core::{
    DefaultNla, Emitable, NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader, NlasIterator,
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use std::{
    io::{self, ErrorKind},
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
};

/// `NFNL_SUBSYS_ULOG` and the two messages.
const PACKET: u16 = 4 << 8;
const CONFIG: u16 = PACKET | 1;
const NETLINK_ERROR: u16 = 2;
const NETLINK_HEADER: usize = 16;
/// `struct nfgenmsg`: family, version and group.
const NETFILTER_HEADER: usize = 4;
/// `NFULA_CFG_CMD`, `NFULA_CFG_MODE`, `NFULA_CFG_QTHRESH`, `NFULA_PAYLOAD`.
const COMMAND: u16 = 1;
const MODE: u16 = 2;
const THRESHOLD: u16 = 5;
const PAYLOAD: u16 = 9;
const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
/// Bytes of one message: the kernel puts one packet into it, since each is delivered at once.
const LONGEST_MESSAGE: usize = 128 << 10;
/// Bytes that the kernel keeps for us. Packets beyond them are lost.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Packets of one group, in the network namespace of the thread that opened it.
pub struct PacketLog {
    netlink: Socket,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for PacketLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketLog").finish_non_exhaustive()
    }
}

impl PacketLog {
    /// Becomes the reader of a group. It does not block.
    ///
    /// # Errors
    /// EPERM: it needs `CAP_NET_ADMIN`. EBUSY: the group has a reader. Others: the kernel has no `nfnetlink_log`.
    pub fn open(group: u16) -> io::Result<Self> {
        let mut netlink = Socket::new(NETLINK_NETFILTER)?;
        netlink.bind_auto()?;
        netlink.connect(&SocketAddr::new(0, 0))?;
        // More packets than the limit of net.core.rmem_max holds are lost sooner.
        let _ = netlink.set_rx_buf_sz(RECEIVE_BUFFER as u32);
        let mut log = Self { netlink, buffer: Vec::new() };
        let mode = [&u32::from(u16::MAX).to_be_bytes()[..], &[COPY_PACKET, 0]].concat();
        log.configure(group, COMMAND, vec![BIND])?;
        log.configure(group, MODE, mode)?;
        log.configure(group, THRESHOLD, 1_u32.to_be_bytes().to_vec())?;
        log.netlink.set_non_blocking(true)?;
        Ok(log)
    }

    fn configure(&mut self, group: u16, attribute: u16, value: Vec<u8>) -> io::Result<()> {
        let attribute = DefaultNla::new(attribute, value);
        let length = NETLINK_HEADER + NETFILTER_HEADER + attribute.buffer_len();
        let mut header = NetlinkHeader::default();
        header.length = length as u32;
        header.message_type = CONFIG;
        header.flags = NLM_F_REQUEST | NLM_F_ACK;
        let mut message = vec![0; length];
        header.emit(&mut message);
        message[NETLINK_HEADER + 2..][..2].copy_from_slice(&group.to_be_bytes());
        attribute.emit(&mut message[NETLINK_HEADER + NETFILTER_HEADER..]);
        self.netlink.send(&message, 0)?;
        loop {
            self.receive_bytes()?;
            for (kind, body) in Messages(&self.buffer) {
                if kind == NETLINK_ERROR {
                    let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    return if code == 0 {
                        Ok(())
                    } else {
                        Err(io::Error::from_raw_os_error(-code))
                    };
                }
            }
        }
    }

    /// Hands over the packets that have come, each beginning with its IP header.
    ///
    /// # Errors
    /// `WouldBlock`: there are none. ENOBUFS: some were lost.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        self.receive_bytes()?;
        for (kind, body) in Messages(&self.buffer) {
            let Some(attributes) = body.get(NETFILTER_HEADER..).filter(|_| kind == PACKET) else {
                continue;
            };
            for attribute in NlasIterator::new(attributes).flatten() {
                if attribute.kind() == PAYLOAD {
                    each(attribute.value());
                }
            }
        }
        Ok(())
    }

    fn receive_bytes(&mut self) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.reserve(LONGEST_MESSAGE);
        if self.netlink.recv(&mut self.buffer, 0)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

impl AsFd for PacketLog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

impl AsRawFd for PacketLog {
    fn as_raw_fd(&self) -> RawFd {
        self.netlink.as_raw_fd()
    }
}

/// The messages of a datagram, each with its type and what follows its header.
struct Messages<'b>(&'b [u8]);

impl<'b> Iterator for Messages<'b> {
    type Item = (u16, &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = u32::from_ne_bytes(*self.0.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(self.0.get(4..6)?.try_into().ok()?);
        let body = self.0.get(NETLINK_HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_datagram_are_told_apart_and_short_ones_end_it() {
        let mut bytes = Vec::new();
        for (kind, body) in [(7_u16, &b"abcde"[..]), (8, b"")] {
            bytes.extend((NETLINK_HEADER as u32 + body.len() as u32).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend(body);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        let read = |bytes| Messages(bytes).collect::<Vec<_>>();
        assert_eq!(read(&bytes), [(7, &b"abcde"[..]), (8, b"")]);
        assert_eq!(read(&bytes[..bytes.len() - 1]), [(7, &b"abcde"[..])]);
        // A length below that of the header.
        assert_eq!(read(&[3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), []);
        for cut in 0..bytes.len() {
            read(&bytes[..cut]);
        }
    }
}
