// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures read back by parsers that longhaul does not use, and counts of TCP over them.

use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::pcapng::{Block, parse_block_le};
use std::{collections::BTreeMap, net::IpAddr, ops::Range, path::Path};

/// `epb_flags`, `if_name`, `isb_osdrop`.
const PACKET_FLAGS: u16 = 2;
const INTERFACE_NAME: u16 = 2;
const SYSTEM_DROPS: u16 = 7;

/// A capture file.
#[derive(Debug, Default)]
pub struct Captured {
    /// The names of its interfaces.
    pub interfaces: Vec<String>,
    /// Its packets in order.
    pub packets: Vec<SeenPacket>,
    /// Statistics of interfaces, if they are there.
    pub statistics: usize,
    /// Drops by the system, as the statistics have them.
    pub drops: u64,
    /// Whether it ends within a block.
    pub is_cut: bool,
}

/// A packet of a capture.
#[derive(Debug, Clone)]
pub struct SeenPacket {
    /// Which interface.
    pub interface: u32,
    /// When, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Whether the node sent it.
    pub is_outbound: bool,
    /// Its length on the device.
    pub length: u32,
    /// Bytes kept.
    pub kept: usize,
    /// What TCP says, if it is TCP.
    pub tcp: Option<SeenSegment>,
}

/// A segment, or a GSO packet of several.
#[derive(Debug, Clone)]
pub struct SeenSegment {
    /// Sender and receiver, address and port.
    pub ends: [(IpAddr, u16); 2],
    /// Its first sequence number.
    pub seq: u32,
    /// What it acknowledges.
    pub ack: u32,
    /// `[SYN, FIN, RST]`.
    pub flags: [bool; 3],
    /// Bytes of payload, by the lengths in the headers.
    pub payload: u32,
    /// Selective blocks.
    pub blocks: Vec<(u32, u32)>,
}

impl Captured {
    /// Reads a file.
    ///
    /// # Panics
    /// It is no capture, or holds what can't be read.
    pub fn open(file: &Path) -> Self {
        let bytes = std::fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let mut captured = Self::default();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match parse_block_le(rest) {
                Ok((after, block)) => {
                    captured.add(&block);
                    rest = after;
                }
                Err(error) if error.is_incomplete() => {
                    captured.is_cut = true;
                    return captured;
                }
                Err(error) => panic!("byte {}: {error:?}", bytes.len() - rest.len()),
            }
        }
        captured
    }

    fn add(&mut self, block: &Block<'_>) {
        match block {
            Block::SectionHeader(_) => {}
            Block::InterfaceDescription(interface) => {
                assert_eq!(interface.if_tsresol, 9, "nanoseconds");
                let name = interface.options.iter().find(|option| option.code.0 == INTERFACE_NAME);
                let name = name.expect("a name").as_str().expect("a text");
                self.interfaces.push(name.to_owned());
            }
            Block::EnhancedPacket(packet) => {
                let flags = packet.options.iter().find(|option| option.code.0 == PACKET_FLAGS);
                let flags = flags.expect("flags").as_u32_le().expect("32 bits");
                let data = &packet.data[..packet.caplen as usize];
                assert!((packet.if_id as usize) < self.interfaces.len());
                self.packets.push(SeenPacket {
                    interface: packet.if_id,
                    unix_ns: u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
                    is_outbound: flags & 3 == 2,
                    length: packet.origlen,
                    kept: data.len(),
                    tcp: segment(data),
                });
            }
            Block::InterfaceStatistics(statistics) => {
                let drops = statistics.options.iter().find(|option| option.code.0 == SYSTEM_DROPS);
                self.statistics += 1;
                self.drops += drops.expect("drops").as_u64_le().expect("64 bits");
            }
            other => panic!("an unexpected block: {other:?}"),
        }
    }

    /// The segments that the node sent, or those that it received.
    pub fn segments(&self, is_outbound: bool) -> impl Iterator<Item = &SeenSegment> {
        let packets = self.packets.iter().filter(move |packet| packet.is_outbound == is_outbound);
        packets.filter_map(|packet| packet.tcp.as_ref())
    }
}

/// Payload of segments of one direction, by ranges of sequence numbers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct PayloadCount {
    /// All of it.
    pub bytes: u64,
    /// What no earlier packet had.
    pub unique: u64,
    /// Segments of `mss` bytes, or packets without payload.
    pub segments: u64,
    /// Segments that had been seen before.
    pub repeated: u64,
}

impl PayloadCount {
    /// Counts them, of all connections.
    pub fn of<'a>(segments: impl Iterator<Item = &'a SeenSegment>, mss: u32) -> Self {
        let mut count = Self::default();
        let mut seen = BTreeMap::<_, (u32, Vec<Range<u64>>)>::new();
        for segment in segments {
            count.segments += u64::from(segment.payload.div_ceil(mss).max(1));
            if segment.payload == 0 {
                continue;
            }
            let (first, ranges) = seen.entry(segment.ends).or_insert((segment.seq, Vec::new()));
            // Below 2 GB from the first, and a segment may come before the one that was seen first.
            let begin = (1 << 32) + i64::from(segment.seq.wrapping_sub(*first).cast_signed());
            let begin = begin.cast_unsigned();
            let range = begin..begin + u64::from(segment.payload);
            let fresh = add_range(ranges, range);
            count.bytes += u64::from(segment.payload);
            count.unique += fresh;
            count.repeated += (u64::from(segment.payload) - fresh).div_ceil(mss.into());
        }
        count
    }
}

/// Adds a range to sorted, disjoint ones. How much of it is new.
fn add_range(ranges: &mut Vec<Range<u64>>, mut new: Range<u64>) -> u64 {
    let from = ranges.partition_point(|range| range.end < new.start);
    let to = ranges.partition_point(|range| range.start <= new.end);
    let touched = &ranges[from..to];
    let overlap =
        |range: &Range<u64>| new.end.min(range.end).saturating_sub(new.start.max(range.start));
    let known: u64 = touched.iter().map(overlap).sum();
    let fresh = new.end - new.start - known;
    if let (Some(first), Some(last)) = (touched.first(), touched.last()) {
        new = new.start.min(first.start)..new.end.max(last.end);
    }
    ranges.splice(from..to, [new]);
    fresh
}

fn segment(data: &[u8]) -> Option<SeenSegment> {
    let packet = LaxSlicedPacket::from_ethernet(data).ok()?;
    let (ends, ip_payload) = match packet.net? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let length = u32::from(header.total_len()) - u32::from(header.ihl()) * 4;
            ([header.source_addr().into(), header.destination_addr().into()], length)
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let length = u32::from(header.payload_length());
            ([header.source_addr().into(), header.destination_addr().into()], length)
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let [from, to]: [IpAddr; 2] = ends;
    let Some(TransportSlice::Tcp(tcp)) = packet.transport else { return None };
    let blocks = tcp.options_iterator().filter_map(Result::ok).flat_map(|option| match option {
        etherparse::TcpOptionElement::SelectiveAcknowledgement(first, more) => {
            [Some(first)].into_iter().chain(more).flatten().collect()
        }
        _ => Vec::new(),
    });
    Some(SeenSegment {
        ends: [(from, tcp.source_port()), (to, tcp.destination_port())],
        seq: tcp.sequence_number(),
        ack: tcp.acknowledgment_number(),
        flags: [tcp.syn(), tcp.fin(), tcp.rst()],
        payload: ip_payload.saturating_sub(u32::from(tcp.data_offset()) * 4),
        blocks: blocks.collect(),
    })
}
