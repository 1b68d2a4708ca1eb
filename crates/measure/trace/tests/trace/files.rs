// SPDX-License-Identifier: GPL-2.0-or-later
//! Capture files written byte by byte.

/// Byte order of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

impl Order {
    pub fn u16(self, number: u16) -> [u8; 2] {
        if self == Self::Little { number.to_le_bytes() } else { number.to_be_bytes() }
    }

    pub fn u32(self, number: u32) -> [u8; 4] {
        if self == Self::Little { number.to_le_bytes() } else { number.to_be_bytes() }
    }

    pub fn u64(self, number: u64) -> [u8; 8] {
        if self == Self::Little { number.to_le_bytes() } else { number.to_be_bytes() }
    }
}

/// The header of a pcap file.
pub fn pcap_header(order: Order, is_nano: bool, link: u32) -> Vec<u8> {
    let magic = if is_nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    [
        &order.u32(magic)[..],
        &order.u16(2),
        &order.u16(4),
        &order.u32(0),
        &order.u32(0),
        &order.u32(65535),
        &order.u32(link),
    ]
    .concat()
}

/// A packet of pcap, of which `kept` bytes are there.
pub fn pcap_packet(order: Order, seconds: u32, fraction: u32, kept: &[u8], length: u32) -> Vec<u8> {
    let numbers = [seconds, fraction, kept.len() as u32, length];
    let header: Vec<u8> = numbers.iter().flat_map(|number| order.u32(*number)).collect();
    [&header, kept].concat()
}

/// A block of pcapng.
pub fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
    let length = order.u32((12 + body.len() + padding.len()) as u32);
    [&order.u32(kind)[..], &length, body, &padding, &length].concat()
}

/// The header of a section.
pub fn section(order: Order) -> Vec<u8> {
    let body = [&order.u32(0x1a2b_3c4d)[..], &order.u16(1), &order.u16(0), &order.u64(u64::MAX)];
    block(order, 0x0a0d_0d0a, &body.concat())
}

fn option(order: Order, code: u16, value: &[u8]) -> Vec<u8> {
    let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
    [&order.u16(code)[..], &order.u16(value.len() as u16), value, &padding].concat()
}

/// An interface with a resolution and an offset in seconds.
pub fn interface(
    order: Order,
    link: u16,
    resolution: Option<u8>,
    offset_s: Option<i64>,
) -> Vec<u8> {
    let mut body = [&order.u16(link)[..], &order.u16(0), &order.u32(0)].concat();
    if let Some(resolution) = resolution {
        body.extend(option(order, 9, &[resolution]));
    }
    if let Some(offset) = offset_s {
        body.extend(option(order, 14, &order.u64(offset.cast_unsigned())));
    }
    body.extend(option(order, 0, &[]));
    block(order, 1, &body)
}

/// A packet of an interface, with its direction: 1 inbound, 2 outbound.
pub fn enhanced(
    order: Order,
    interface: u32,
    units: u64,
    kept: &[u8],
    length: u32,
    direction: u32,
) -> Vec<u8> {
    let padding = vec![0; kept.len().next_multiple_of(4) - kept.len()];
    let body = [
        &order.u32(interface)[..],
        &order.u32((units >> 32) as u32),
        &order.u32(units as u32),
        &order.u32(kept.len() as u32),
        &order.u32(length),
        kept,
        &padding,
        &option(order, 2, &order.u32(direction)),
        &option(order, 0, &[]),
    ];
    block(order, 6, &body.concat())
}
