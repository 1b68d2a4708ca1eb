// SPDX-License-Identifier: GPL-2.0-or-later
//! Blocks of a capture file: section header, interfaces, packets, statistics.
//!
//! Source: draft-ietf-opsawg-pcapng, sections 3, 4.1 to 4.3 and 4.6. Byte order is little-endian, times are in
//! nanoseconds. The stable release of the crate pcap-file (2.0, of 2023) brings second versions of syn and thiserror,
//! and the next one needs a newer compiler than ours; these are five fixed layouts.

/// Ethernet, as link types are numbered.
const ETHERNET: u16 = 1;
/// `if_tsresol`: 10 to the power of -9 s.
const NANOSECONDS: u8 = 9;

/// Codes of options (`opt_`, `shb_`, `if_`, `epb_`, `isb_`).
mod option {
    pub const COMMENT: u16 = 1;
    pub const OS: u16 = 3;
    pub const APPLICATION: u16 = 4;
    pub const NAME: u16 = 2;
    pub const DESCRIPTION: u16 = 3;
    pub const TIME_RESOLUTION: u16 = 9;
    pub const INTERFACE_OS: u16 = 12;
    pub const FLAGS: u16 = 2;
    pub const SYSTEM_DROPS: u16 = 7;
    pub const DELIVERED: u16 = 8;
}

/// Way of a packet, seen from the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heading {
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// A packet to be written.
#[derive(Debug, Clone, Copy)]
pub struct CapturedPacket<'a> {
    /// Which of the file's interfaces it passed.
    pub interface: u32,
    /// When, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Which way.
    pub heading: Heading,
    /// Its length on the device.
    pub length: u32,
    /// Its first bytes, from the Ethernet header.
    pub data: &'a [u8],
}

/// An interface of a capture.
#[derive(Debug, Clone)]
pub struct Interface {
    /// The device's name.
    pub name: String,
    /// What it is for.
    pub description: String,
}

/// A block under construction at the end of a buffer.
struct Block<'a> {
    buffer: &'a mut Vec<u8>,
    begin: usize,
}

impl<'a> Block<'a> {
    fn begin(buffer: &'a mut Vec<u8>, kind: u32) -> Self {
        let begin = buffer.len();
        buffer.extend(kind.to_le_bytes());
        // The length, which is known at the end.
        buffer.extend([0; 4]);
        Self { buffer, begin }
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.buffer.extend(value.to_le_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.buffer.extend(value.to_le_bytes());
        self
    }

    /// A time, in the order of halves that the format has.
    fn time(&mut self, unix_ns: u64) -> &mut Self {
        self.u32((unix_ns >> 32) as u32).u32(unix_ns as u32)
    }

    fn padded(&mut self, bytes: &[u8]) -> &mut Self {
        self.buffer.extend(bytes);
        self.buffer.extend(&[0; 3][..bytes.len().next_multiple_of(4) - bytes.len()]);
        self
    }

    /// An option; one too long for its length field is cut.
    fn option(&mut self, code: u16, value: &[u8]) -> &mut Self {
        let value = &value[..value.len().min(u16::MAX.into())];
        self.u16(code).u16(value.len() as u16).padded(value)
    }

    /// Ends the options, of which there is at least one, and the block.
    fn end(&mut self) {
        self.u32(0);
        let length = (self.buffer.len() + 4 - self.begin) as u32;
        self.u32(length);
        self.buffer[self.begin + 4..self.begin + 8].copy_from_slice(&length.to_le_bytes());
    }
}

/// Begins a file: what wrote it, on which system if it was a real one, and for what.
pub fn section_header(buffer: &mut Vec<u8>, os: Option<&str>, application: &str, comment: &str) {
    const BYTE_ORDER: u32 = 0x1a2b_3c4d;
    let mut block = Block::begin(buffer, 0x0a0d_0d0a);
    block.u32(BYTE_ORDER).u16(1).u16(0);
    // The section's length: not known.
    block.u32(u32::MAX).u32(u32::MAX);
    block.option(option::COMMENT, comment.as_bytes());
    if let Some(os) = os {
        block.option(option::OS, os.as_bytes());
    }
    block.option(option::APPLICATION, application.as_bytes()).end();
}

/// The next interface, whose packets are cut at `snap` bytes.
pub fn interface(buffer: &mut Vec<u8>, interface: &Interface, snap: u32, os: Option<&str>) {
    let mut block = Block::begin(buffer, 1);
    block.u16(ETHERNET).u16(0).u32(snap);
    block.option(option::NAME, interface.name.as_bytes());
    block.option(option::DESCRIPTION, interface.description.as_bytes());
    block.option(option::TIME_RESOLUTION, &[NANOSECONDS]);
    if let Some(os) = os {
        block.option(option::INTERFACE_OS, os.as_bytes());
    }
    block.end();
}

/// An enhanced packet.
pub fn packet(buffer: &mut Vec<u8>, packet: &CapturedPacket<'_>) {
    let heading = match packet.heading {
        Heading::Inbound => 1_u32,
        Heading::Outbound => 2,
    };
    let mut block = Block::begin(buffer, 6);
    block.u32(packet.interface).time(packet.unix_ns);
    block.u32(packet.data.len() as u32).u32(packet.length).padded(packet.data);
    block.option(option::FLAGS, &heading.to_le_bytes()).end();
}

/// Statistics of an interface: packets in the file, and packets that the system did not keep.
pub fn statistics(
    buffer: &mut Vec<u8>,
    interface: u32,
    unix_ns: u64,
    (delivered, dropped): (u64, u64),
    comment: &str,
) {
    let mut block = Block::begin(buffer, 5);
    block.u32(interface).time(unix_ns);
    if !comment.is_empty() {
        block.option(option::COMMENT, comment.as_bytes());
    }
    block.option(option::SYSTEM_DROPS, &dropped.to_le_bytes());
    block.option(option::DELIVERED, &delivered.to_le_bytes()).end();
}
