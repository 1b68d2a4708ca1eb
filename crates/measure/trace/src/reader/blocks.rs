// SPDX-License-Identifier: GPL-2.0-or-later
//! Blocks of pcap and pcapng, parsed by `pcap-parser`.

use crate::packet::{Heading, LinkType};
use pcap_parser::{
    Block, InterfaceDescriptionBlock, LegacyPcapBlock, OptionCode, PcapError, nom, parse_block_be,
    parse_block_le, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified,
    parse_pcap_header,
};

/// Bytes of the file header of pcap. What is shorter is no capture.
pub(super) const PCAP_HEADER: usize = 24;

/// A section of pcapng with more interfaces than this is taken for damage.
pub const MAX_INTERFACES: usize = 1 << 16;

const NS_IN_S: u64 = 1_000_000_000;
/// `epb_flags`; its lowest two bits are the direction.
const PACKET_FLAGS: OptionCode = OptionCode(2);

/// Parses a frame of pcap.
type FrameParser = fn(&[u8]) -> nom::IResult<&[u8], LegacyPcapBlock<'_>, PcapError<&[u8]>>;

/// What to expect in a file.
#[derive(Debug)]
pub(super) enum BlockParser {
    /// pcap.
    Frames { parse: FrameParser, header: usize, fraction_ns: u64, link: LinkType },
    /// pcapng.
    Blocks { is_big_endian: bool, interfaces: Vec<Interface> },
}

impl Default for BlockParser {
    fn default() -> Self {
        Self::Blocks { is_big_endian: false, interfaces: Vec::new() }
    }
}

/// An interface of pcapng.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interface {
    link: LinkType,
    resolution: u8,
    offset_s: i64,
}

/// A packet's place in the bytes that were parsed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundPacket {
    pub(super) block_length: usize,
    pub(super) begin: usize,
    pub(super) kept: usize,
    pub(super) unix_ns: u64,
    pub(super) length: u32,
    pub(super) link: LinkType,
    pub(super) interface: u32,
    pub(super) heading: Heading,
}

/// What some bytes begin with.
#[derive(Debug)]
pub(super) enum Parsed {
    Packet(FoundPacket),
    /// A block without a usable packet, which may be as it should be or of an unknown kind.
    Other {
        block_length: usize,
        is_known: bool,
    },
    /// More bytes are needed, at least so many.
    Incomplete {
        missing: usize,
    },
    Damaged(&'static str),
}

impl BlockParser {
    /// For a file by its first bytes. Also how many of them have been used. `None` if it is no capture.
    pub(super) fn of_file(first: &[u8]) -> Option<(Self, usize)> {
        if let Ok((_, header)) = parse_pcap_header(first) {
            let (parse, frame_header): (FrameParser, _) = if header.is_modified_format() {
                (parse_pcap_frame_modified, 24)
            } else if header.is_bigendian() {
                (parse_pcap_frame_be, 16)
            } else {
                (parse_pcap_frame, 16)
            };
            let fraction_ns = if header.is_nanosecond_precision() { 1 } else { 1000 };
            // The upper bits say whether frames end with a checksum.
            let link = LinkType(header.network.0.cast_unsigned() & 0x0fff_ffff);
            let parser = Self::Frames { parse, header: frame_header, fraction_ns, link };
            return Some((parser, header.size()));
        }
        let begins_section = first.len() >= PCAP_HEADER && first.starts_with(&[10, 13, 13, 10]);
        begins_section.then(|| (Self::default(), 0))
    }

    /// Parses the packet or block that the bytes begin with.
    pub(super) fn parse(&mut self, bytes: &[u8]) -> Parsed {
        match self {
            Self::Frames { parse, header, fraction_ns, link } => match parse(bytes) {
                Ok((rest, frame)) => Parsed::Packet(FoundPacket {
                    block_length: bytes.len() - rest.len(),
                    begin: *header,
                    kept: frame.data.len(),
                    unix_ns: u64::from(frame.ts_sec) * NS_IN_S
                        + u64::from(frame.ts_usec) * *fraction_ns,
                    length: frame.origlen.max(frame.data.len() as u32),
                    link: *link,
                    interface: 0,
                    heading: Heading::Unknown,
                }),
                Err(error) => not_parsed(&error),
            },
            Self::Blocks { is_big_endian, interfaces } => {
                if is_too_short(bytes, *is_big_endian) {
                    return Parsed::Damaged("a block shorter than its own header");
                }
                let parse = if *is_big_endian { parse_block_be } else { parse_block_le };
                match parse(bytes) {
                    Ok((rest, block)) => {
                        let length = bytes.len() - rest.len();
                        if let Block::SectionHeader(section) = &block {
                            *is_big_endian = section.big_endian();
                            interfaces.clear();
                        }
                        take_block(&block, length, *is_big_endian, interfaces)
                    }
                    Err(error) => not_parsed(&error),
                }
            }
        }
    }
}

/// Whether a block claims less than its type and both of its lengths take: `pcap-parser` would wait for more of it. The
/// length of a section's header is in the section's own byte order.
fn is_too_short(bytes: &[u8], is_big_endian: bool) -> bool {
    let (Some(kind), Some(length)) =
        (bytes.first_chunk::<4>(), bytes[4.min(bytes.len())..].first_chunk::<4>())
    else {
        return false;
    };
    let length =
        if is_big_endian { u32::from_be_bytes(*length) } else { u32::from_le_bytes(*length) };
    *kind != [10, 13, 13, 10] && length < 12
}

fn not_parsed(error: &nom::Err<PcapError<&[u8]>>) -> Parsed {
    match error {
        nom::Err::Incomplete(nom::Needed::Size(missing)) => {
            Parsed::Incomplete { missing: missing.get() }
        }
        nom::Err::Incomplete(nom::Needed::Unknown) => Parsed::Incomplete { missing: 1 },
        _ => Parsed::Damaged("lengths or kinds of a block contradict each other"),
    }
}

fn take_block(
    block: &Block<'_>,
    block_length: usize,
    is_big_endian: bool,
    interfaces: &mut Vec<Interface>,
) -> Parsed {
    let other = |is_known| Parsed::Other { block_length, is_known };
    match block {
        Block::InterfaceDescription(described) => {
            if interfaces.len() == MAX_INTERFACES {
                return Parsed::Damaged("more than 65536 interfaces");
            }
            interfaces.push(Interface::of(described, is_big_endian));
            other(true)
        }
        Block::EnhancedPacket(packet) => {
            let Some(interface) = interfaces.get(packet.if_id as usize) else {
                return Parsed::Damaged("a packet of an interface that is not described");
            };
            let kept = (packet.caplen as usize).min(packet.data.len());
            let flags = packet.options.iter().find(|option| option.code == PACKET_FLAGS);
            let flags = flags.and_then(|option| option.value().first_chunk::<4>());
            let direction = flags.map_or(0, |flags| {
                3 & if is_big_endian {
                    u32::from_be_bytes(*flags)
                } else {
                    u32::from_le_bytes(*flags)
                }
            });
            Parsed::Packet(FoundPacket {
                block_length,
                begin: 28,
                kept,
                unix_ns: interface
                    .unix_ns(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low)),
                length: packet.origlen.max(kept as u32),
                link: interface.link,
                interface: packet.if_id,
                heading: match direction {
                    1 => Heading::Inbound,
                    2 => Heading::Outbound,
                    _ => Heading::Unknown,
                },
            })
        }
        // Its packet has no time.
        Block::SimplePacket(_) | Block::Unknown(_) => other(false),
        _ => other(true),
    }
}

impl Interface {
    fn of(described: &InterfaceDescriptionBlock<'_>, is_big_endian: bool) -> Self {
        // `pcap-parser` reads the offset as little-endian in all sections.
        let offset_s = described.if_tsoffset;
        Self {
            link: LinkType(described.linktype.0.cast_unsigned()),
            resolution: described.if_tsresol,
            offset_s: if is_big_endian { offset_s.swap_bytes() } else { offset_s },
        }
    }

    /// A time in units of the interface, in nanoseconds since 1970. Times beyond 2554 end there.
    fn unix_ns(&self, units: u64) -> u64 {
        let units = u128::from(units);
        let since_offset = match self.resolution {
            9 => units,
            6 => units * 1000,
            binary if binary & 0x80 != 0 => {
                (units * u128::from(NS_IN_S)) >> (binary & 0x7f).min(127)
            }
            decimal if decimal < 9 => units * 10_u128.pow(u32::from(9 - decimal)),
            decimal => 10_u128.checked_pow(u32::from(decimal - 9)).map_or(0, |unit| units / unit),
        };
        let offset = i128::from(self.offset_s) * i128::from(NS_IN_S);
        let ns = i128::try_from(since_offset).unwrap_or(i128::MAX).saturating_add(offset);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}
