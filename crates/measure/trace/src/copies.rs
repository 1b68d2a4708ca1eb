// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets that were captured twice: by a mirror port of both directions, by two interfaces of a router, or behind a network that
//! duplicates.
//!
//! A copy equals one of the last [`REMEMBERED`] packets of its direction in all that TCP says and in IPv4's identification. Where
//! there is no identification (IPv6, or 0), equal packets may also have been sent twice: then a copy has to differ in interface or
//! hop limit; or be data within [`SOON_NS`] and half of the shortest round trip; or come within [`AT_ONCE_NS`] on a connection
//! with other copies.

use crate::segment::Segment;

const REMEMBERED: usize = 8;
const SOON_NS: u64 = 1_000_000;
const AT_ONCE_NS: u64 = 50_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Remembered {
    fingerprint: u64,
    unix_ns: u64,
    path: u32,
}

/// The last packets of a direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RecentPackets {
    ring: [Remembered; REMEMBERED],
    next: u8,
    found: bool,
}

impl RecentPackets {
    /// Whether a packet is a copy of one before. Remembers it if not.
    pub(crate) fn is_copy(&mut self, segment: &Segment, round_trip_ns: Option<u64>) -> bool {
        let now = Remembered {
            fingerprint: fingerprint(segment),
            unix_ns: segment.unix_ns,
            path: segment.interface << 8 | u32::from(segment.hops),
        };
        let equal = self.ring.iter().find(|before| before.fingerprint == now.fingerprint);
        if let Some(before) = equal {
            let later_ns = now.unix_ns.saturating_sub(before.unix_ns);
            let soon_ns = round_trip_ns.map_or(SOON_NS, |ns| SOON_NS.min(ns / 2));
            let is_copy = segment.ip_id != 0
                || before.path != now.path
                || (segment.sequence_length() > 0 && later_ns < soon_ns)
                || (self.found && later_ns < AT_ONCE_NS.min(soon_ns));
            self.found |= is_copy;
            if is_copy {
                return true;
            }
        }
        self.ring[usize::from(self.next)] = now;
        self.next = (self.next + 1) % REMEMBERED as u8;
        false
    }
}

/// Mixes all fields of TCP. Never 0, which is in empty places.
fn fingerprint(segment: &Segment) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let flags = &segment.flags;
    let bits = u32::from(flags.syn)
        | u32::from(flags.ack) << 1
        | u32::from(flags.fin) << 2
        | u32::from(flags.rst) << 3;
    let (value, echo) = segment.timestamps.unwrap_or_default();
    let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let mixed = [
        pair(segment.seq, segment.ack),
        pair(segment.payload, u32::from(segment.window) << 16 | u32::from(segment.ip_id)),
        pair(value, echo),
        u64::from(bits),
    ];
    let blocks = segment.sack().iter().map(|(left, right)| pair(*left, *right));
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER);
    mixed.into_iter().chain(blocks).fold(1, mix) | 1
}
