// SPDX-License-Identifier: GPL-2.0-or-later
//! Counters of a paced device.

use std::{net::SocketAddr, ops::AddAssign};
use units::{Bytes, Duration, Rate};

/// Packets and bytes that have left since pacing began. Bytes include link overhead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that a rule paced.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Gap frames.
    pub gap_frames: u64,
    /// Their bytes.
    pub gap_bytes: u64,
    /// Packets of `packets` that left at the line's rate, without gap, because the targets' sum was as much.
    pub at_line_rate: u64,
    /// Packets that were not paced because their socket knew no round trip yet.
    pub no_rtt: u64,
    /// Packets that went on unpaced because other processors kept the queue for too long.
    pub lock_failures: u64,
    /// Packets of `packets` that were several segments in one.
    pub super_packets: u64,
    /// Bytes of gaps that could not be made, or found no room in the device's queue.
    pub lost_gap_bytes: u64,
    /// Packets that found no room in the device's queue; their sockets were told.
    pub lost_packets: u64,
    /// Packets that were dropped because they would have had to wait for more than two seconds for their
    /// time of departure; their sockets were told.
    pub beyond_horizon: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.gap_frames += other.gap_frames;
        self.gap_bytes += other.gap_bytes;
        self.at_line_rate += other.at_line_rate;
        self.no_rtt += other.no_rtt;
        self.lock_failures += other.lock_failures;
        self.super_packets += other.super_packets;
        self.lost_gap_bytes += other.lost_gap_bytes;
        self.lost_packets += other.lost_packets;
        self.beyond_horizon += other.beyond_horizon;
    }
}

/// A socket, or all that a rule with a rate has paced. Bytes are of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    /// Of the first packet.
    pub source: SocketAddr,
    /// Of the first packet.
    pub destination: SocketAddr,
    /// Of IP: 6 is TCP, 17 UDP.
    pub protocol: u8,
    /// The rule's number.
    pub rule: u32,
    /// At the newest packet.
    pub target: Rate,
    /// So many.
    pub packets: u64,
    /// Of packets.
    pub bytes: Bytes,
    /// Of gaps behind them.
    pub gap_bytes: Bytes,
    /// Between the first packet and the newest; by times of departure, where packets have them.
    pub span: Duration,
}

impl Sender {
    /// Its protocol's name, or number.
    pub fn protocol_name(&self) -> String {
        match self.protocol {
            6 => "tcp".to_owned(),
            17 => "udp".to_owned(),
            other => other.to_string(),
        }
    }

    /// Average rate over that time, without the newest packet. `None` before the second packet.
    pub fn achieved(&self) -> Option<Rate> {
        let nanos = u128::from(self.span.as_nanos());
        let bits = u128::from(self.bytes.get()) * 8;
        let before = bits * u128::from(self.packets.checked_sub(1)?) / u128::from(self.packets);
        (before * 1_000_000_000).checked_div(nanos).map(|bps| Rate::bits_per_second(bps as u64))
    }
}
