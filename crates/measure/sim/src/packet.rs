// SPDX-License-Identifier: GPL-2.0-or-later
//! What travels over link directions.

use std::ops::Range;

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketKind {
    /// A segment of data; `number` counts segments of the connection.
    Data,
    /// An acknowledgement; `number` is the next segment expected.
    Ack,
    /// The client opens the connection.
    Syn,
    /// The server answers.
    SynAck,
    /// The client asks for the data.
    Request,
    /// A datagram, of no connection.
    Datagram,
}

/// Flags of a packet, or'ed.
pub(crate) mod flag {
    /// The sender supports ECN (ECT of RFC 3168).
    pub const ECT: u8 = 1;
    /// It met congestion (CE).
    pub const CE: u8 = 2;
    /// Of an acknowledgement: a marked segment has arrived (ECE).
    pub const ECE: u8 = 4;
    /// Of data: the window was reduced (CWR).
    pub const CWR: u8 = 8;
    /// Of an acknowledgement: for a segment that was there already (the duplicate block of RFC 2883).
    pub const DSACK: u8 = 16;
    /// Of an acknowledgement: [`SackStore`](super::SackStore) has the rest of it, as selective blocks.
    pub const SACK: u8 = 32;
    /// Of data: the next segment comes in the same frame, if it is not lost.
    pub const MORE_IN_FRAME: u8 = 64;
    /// Of data: the last of a GSO packet of several segments (PSH).
    pub const PSH: u8 = 128;
}

/// A packet. Kept small: at 10 Gb/s and 100 ms, 80 000 of them are on their way. With a time, two of
/// them are a line of the processor's cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    /// See [`PacketKind`].
    pub number: u64,
    /// The connection, or the source of a datagram.
    pub owner: u32,
    /// Of an acknowledgement: segments from `number` on that the receiver has room for. With
    /// [`flag::SACK`]: where [`SackStore`] has this, and more. Of data: when it was sent, in
    /// milliseconds (RFC 7323), wrapping.
    pub window: u32,
    /// The rest of its path: where the network has the link direction that it is offered to next.
    pub path: u32,
    /// Bytes of the IP packet.
    pub length: u16,
    pub kind: PacketKind,
    pub flags: u8,
}

/// Bytes of a client's request beyond headers: a line and a few fields.
pub(crate) const REQUEST: u32 = 150;

/// The most selective blocks that fit an acknowledgement with timestamps.
pub(crate) const SACK_BLOCKS: usize = 3;

/// Selective blocks of an acknowledgement, the most recent first; unused ones are empty. With [`flag::DSACK`],
/// the first one is a duplicate of Linux's receiver (RFC 2883).
pub(crate) type Blocks = [Range<u64>; SACK_BLOCKS];

const _: () = assert!(size_of::<Packet>() == 24);

/// What an acknowledgement says that has more to say than a packet has room for.
#[derive(Debug, Clone, Default)]
pub(crate) struct AckDetails {
    /// Segments that the receiver has room for.
    pub(crate) window: u32,
    pub(crate) blocks: Blocks,
    /// When the segment was sent whose timestamp it echoes, in milliseconds (RFC 7323), wrapping.
    pub(crate) timestamp_echo: u32,
}

/// Details of those acknowledgements on their way that have any: few, so they don't make every packet
/// larger.
#[derive(Debug, Default)]
pub(crate) struct SackStore {
    kept: Vec<AckDetails>,
    free: Vec<u32>,
}

impl SackStore {
    /// Stores the details and returns their index.
    pub(crate) fn keep(&mut self, details: AckDetails) -> u32 {
        if let Some(at) = self.free.pop() {
            self.kept[at as usize] = details;
            return at;
        }
        self.kept.push(details);
        self.kept.len() as u32 - 1
    }

    /// Another packet like it, with details of its own where it has any.
    pub(crate) fn copy(&mut self, packet: &Packet) -> Packet {
        let mut copy = *packet;
        if packet.flags & flag::SACK != 0 {
            copy.window = self.keep(self.kept[packet.window as usize].clone());
        }
        copy
    }

    /// The details of a packet that has any.
    pub(crate) fn get(&self, packet: &Packet) -> &AckDetails {
        &self.kept[packet.window as usize]
    }

    /// The details of a packet that has any, which are then forgotten.
    pub(crate) fn take(&mut self, packet: &Packet) -> Option<AckDetails> {
        if packet.flags & flag::SACK == 0 {
            return None;
        }
        self.free.push(packet.window);
        Some(self.kept[packet.window as usize].clone())
    }
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PacketCount {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl PacketCount {
    pub(crate) fn take(&mut self, packet: &Packet) {
        self.packets -= 1;
        self.bytes -= u64::from(packet.length);
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }

    pub(crate) fn less(self, other: Self) -> Self {
        Self { packets: self.packets - other.packets, bytes: self.bytes - other.bytes }
    }

    pub(crate) fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.length);
    }
}

/// What became of everything that was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PacketAccount {
    pub(crate) sent: PacketCount,
    pub(crate) copied: PacketCount,
    pub(crate) delivered: PacketCount,
    pub(crate) dropped: PacketCount,
    pub(crate) lost: PacketCount,
    pub(crate) too_long: PacketCount,
}
