// SPDX-License-Identifier: GPL-2.0-or-later
//! What travels over lanes.

use std::ops::Range;

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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
    /// The sender can be told of congestion by a mark (ECT of RFC 3168).
    pub const CAPABLE: u8 = 1;
    /// It met congestion (CE).
    pub const MARKED: u8 = 2;
    /// Of an acknowledgement: a marked segment has arrived (ECE).
    pub const ECHO: u8 = 4;
    /// Of data: the window was reduced (CWR).
    pub const REDUCED: u8 = 8;
    /// Of an acknowledgement: for a segment that was there already (the duplicate block of RFC 2883).
    pub const DUPLICATE: u8 = 16;
}

/// A packet. Kept small: at 10 Gb/s and 100 ms, 80 000 of them are on their way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    /// See [`Kind`].
    pub number: u64,
    /// The connection, or the source of a datagram.
    pub owner: u32,
    /// Of an acknowledgement: segments from `number` on that the receiver has room for.
    pub window: u32,
    /// Of an acknowledgement: where its selective blocks stand, [`Sacks::NONE`] without any.
    pub sacks: u32,
    /// Bytes of the IP packet.
    pub length: u16,
    /// Which path it takes.
    pub path: u16,
    /// Lanes of the path that it has passed before the one that it is on.
    pub hop: u8,
    pub kind: Kind,
    pub flags: u8,
}

/// The most selective blocks that fit an acknowledgement with timestamps.
pub(crate) const SACK_BLOCKS: usize = 3;

/// Selective blocks of an acknowledgement, the most recent first; unused ones are empty.
pub(crate) type Blocks = [Range<u64>; SACK_BLOCKS];

/// The blocks of those acknowledgements on their way that have any: few, so they don't make every
/// packet larger.
#[derive(Debug, Default)]
pub(crate) struct Sacks {
    blocks: Vec<Blocks>,
    free: Vec<u32>,
}

impl Sacks {
    pub(crate) const NONE: u32 = u32::MAX;

    pub(crate) fn keep(&mut self, blocks: Blocks) -> u32 {
        if let Some(at) = self.free.pop() {
            self.blocks[at as usize] = blocks;
            return at;
        }
        self.blocks.push(blocks);
        self.blocks.len() as u32 - 1
    }

    /// The blocks, which are then forgotten.
    pub(crate) fn take(&mut self, at: u32) -> Option<Blocks> {
        if at == Self::NONE {
            return None;
        }
        self.free.push(at);
        Some(self.blocks[at as usize].clone())
    }
}
