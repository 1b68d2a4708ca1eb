// SPDX-License-Identifier: GPL-2.0-or-later
//! A packet as a capture holds it.

/// What a packet's first header is, by the numbers of <https://www.tcpdump.org/linktypes.html>.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkType(pub u32);

impl LinkType {
    /// BSD loopback: the address family in the byte order of the machine that captured.
    pub const NULL: Self = Self(0);
    /// Ethernet, with or without VLAN tags.
    pub const ETHERNET: Self = Self(1);
    /// IP without a header before it, as some systems number it in files.
    pub const RAW_BSD: Self = Self(12);
    /// The same on OpenBSD.
    pub const RAW_OPENBSD: Self = Self(14);
    /// IP without a header before it.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback: the address family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, as of `tcpdump -i any`.
    pub const LINUX_SLL: Self = Self(113);
    /// IPv4 alone.
    pub const IPV4: Self = Self(228);
    /// IPv6 alone.
    pub const IPV6: Self = Self(229);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);
}

/// Whether the machine that captured a packet had sent or received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Heading {
    /// The capture does not say.
    Unknown,
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// A packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its number in the capture, from 1.
    pub number: u64,
    /// When it was captured, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// The bytes that were kept.
    pub data: &'a [u8],
    /// Its length on the link, in bytes: at least that of `data` unless the file lies.
    pub length: u32,
    /// What `data` begins with.
    pub link: LinkType,
    /// Which of the capture's interfaces saw it.
    pub interface: u32,
    /// Which way it went, if the capture says.
    pub heading: Heading,
}
