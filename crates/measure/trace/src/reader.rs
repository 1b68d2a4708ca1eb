// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets from a capture file in pcap or pcapng, in either byte order, plain or compressed by gzip or zstd.
//!
//! Streams through one buffer: memory is bounded by the largest block, at most [`MAX_BLOCK`]. Blocks are parsed by the crate
//! `pcap-parser`; this module feeds it and turns its blocks into [`Packet`]s with times in nanoseconds.

mod blocks;
mod compression;

pub use blocks::MAX_INTERFACES;
pub use compression::decompressed;

use crate::packet::Packet;
use blocks::{BlockParser, Parsed};
use std::io::{self, Read};

/// A packet or block with more bytes than this is taken for damage.
pub const MAX_BLOCK: usize = 16 << 20;

const INITIAL_BUFFER: usize = 1 << 18;

/// Why reading a capture stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file is of another kind.
    #[error("this is not a pcap or pcapng file, plain or compressed by gzip or zstd")]
    Unrecognised,
    /// The last packet is not there in full, as when a capture was stopped abruptly.
    #[error("the file ends within a packet, at byte {at}")]
    Truncated {
        /// Position of the incomplete block in the decompressed file.
        at: u64,
    },
    /// The file contradicts itself.
    #[error("the file is damaged at byte {at}: {what}")]
    Damaged {
        /// Position of the bad block in the decompressed file.
        at: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The file can't be read or decompressed.
    #[error("reading stopped after byte {at}: {error}")]
    Io {
        /// Decompressed bytes read before.
        at: u64,
        /// What the system or the decompressor says.
        error: io::Error,
    },
}

/// Reads a capture packet by packet.
#[derive(Debug)]
pub struct CaptureReader<R> {
    input: R,
    buffer: Vec<u8>,
    /// Where unread bytes begin and end in `buffer`.
    start: usize,
    end: usize,
    /// Bytes before `start` in the decompressed file.
    position: u64,
    packets: u64,
    skipped_blocks: u64,
    blocks: BlockParser,
}

impl<R: Read> CaptureReader<R> {
    /// Reads the header of a capture that is not compressed; [`decompressed`] makes it so.
    ///
    /// # Errors
    /// It is no capture, or can't be read.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut reader = Self {
            input,
            buffer: vec![0; INITIAL_BUFFER],
            start: 0,
            end: 0,
            position: 0,
            packets: 0,
            skipped_blocks: 0,
            blocks: BlockParser::default(),
        };
        // The file header of pcap has 24 bytes, the first block of pcapng at least 28.
        while reader.end < blocks::PCAP_HEADER && reader.fill(0)? {}
        let header = &reader.buffer[..reader.end];
        let (blocks, header) = BlockParser::of_file(header).ok_or(ReadError::Unrecognised)?;
        reader.blocks = blocks;
        reader.skip(header);
        Ok(reader)
    }

    /// The next packet. `None` at the end of the capture.
    ///
    /// # Errors
    /// The rest can't be read. Packets before are good.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, ReadError> {
        loop {
            match self.blocks.parse(&self.buffer[self.start..self.end]) {
                Parsed::Packet(found) => {
                    let begin = self.start + found.begin;
                    self.skip(found.block_length);
                    self.packets += 1;
                    return Ok(Some(Packet {
                        number: self.packets,
                        unix_ns: found.unix_ns,
                        data: &self.buffer[begin..begin + found.kept],
                        length: found.length,
                        link: found.link,
                        interface: found.interface,
                        heading: found.heading,
                    }));
                }
                Parsed::Other { block_length, is_known } => {
                    self.skipped_blocks += u64::from(!is_known);
                    self.skip(block_length);
                }
                Parsed::Incomplete { missing } => {
                    let at = self.position;
                    if !self.fill(missing)? {
                        let is_whole = self.start == self.end;
                        return if is_whole { Ok(None) } else { Err(ReadError::Truncated { at }) };
                    }
                }
                Parsed::Damaged(what) => {
                    return Err(ReadError::Damaged { at: self.position, what });
                }
            }
        }
    }

    /// Packets read so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Blocks read so far that may hold packets and can't be used: of unknown kinds, or without a time.
    pub fn skipped_blocks(&self) -> u64 {
        self.skipped_blocks
    }

    fn skip(&mut self, bytes: usize) {
        self.start += bytes;
        self.position += bytes as u64;
    }

    /// Reads more, at best as much as is missing. False at the end of the file.
    fn fill(&mut self, missing: usize) -> Result<bool, ReadError> {
        let wanted = (self.end - self.start).saturating_add(missing);
        if wanted > MAX_BLOCK {
            let what = "a block or packet of more than 16 MiB";
            return Err(ReadError::Damaged { at: self.position, what });
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            let longer = (2 * self.buffer.len()).min(MAX_BLOCK + 1);
            self.buffer.resize(longer, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let at = self.position + (self.end - self.start) as u64;
                    return Err(ReadError::Io { at, error });
                }
            }
        }
    }
}
