// SPDX-License-Identifier: GPL-2.0-or-later
//! Conversations written packet by packet, as a point of capture sees them.

use longhaul_trace::{
    CaptureReader, ConnectionSummary, ConnectionTable, Endpoint, Event, Flags, Heading, Kind,
    Segment,
};
use std::net::Ipv4Addr;

/// Bytes of a full segment in scripts.
pub const MSS: u32 = 1000;
/// Memory that no script needs.
pub const AMPLE: usize = 1 << 30;
const START_NS: u64 = 1_700_000_000_000_000_000;

/// Packets between a client, which opens, and a server, which sends data from sequence number 1 on.
#[derive(Clone, Default)]
pub struct Script {
    pub segments: Vec<Segment>,
    /// Added to all sequence numbers of the server.
    pub offset: u32,
    /// `TSval` of following packets.
    pub timestamp: Option<u32>,
    pub ids: [u16; 2],
}

pub fn client() -> Endpoint {
    Endpoint { ip: Ipv4Addr::new(10, 0, 0, 1).into(), port: 40_000 }
}

pub fn server() -> Endpoint {
    Endpoint { ip: Ipv4Addr::new(10, 0, 0, 2).into(), port: 80 }
}

impl Script {
    /// With a handshake that takes `to_client_us` and `to_server_us` from the point of capture and back.
    pub fn opened(to_client_us: u64, to_server_us: u64) -> Self {
        let mut script = Self::default();
        let opens = Flags { syn: true, ..Flags::default() };
        let answers = Flags { ack: true, ..opens };
        let open = |segment: &mut Segment, flags| {
            segment.flags = flags;
            segment.mss = Some(MSS as u16);
            segment.window_scale = Some(7);
        };
        open(script.push(0, 0, 0, 0, 0), opens);
        open(script.push(to_server_us, 1, 0, 0, 1), answers);
        script.push(to_server_us + to_client_us, 0, 1, 0, 1);
        script
    }

    /// A packet of side 0, the client, or 1.
    pub fn push(
        &mut self,
        at_us: u64,
        side: usize,
        seq: u32,
        payload: u32,
        ack: u32,
    ) -> &mut Segment {
        let ends = [client(), server()];
        self.ids[side] += 1;
        let (seq, ack) = if side == 1 {
            (seq.wrapping_add(self.offset), ack)
        } else {
            (seq, ack.wrapping_add(self.offset))
        };
        self.segments.push(Segment {
            number: self.segments.len() as u64 + 1,
            unix_ns: START_NS + at_us * 1000,
            from: ends[side],
            to: ends[1 - side],
            seq,
            ack,
            payload,
            window: 1000,
            flags: Flags { ack: true, ..Flags::default() },
            is_marked: false,
            ip_id: self.ids[side],
            hops: 64,
            interface: 0,
            heading: Heading::Unknown,
            mss: None,
            window_scale: None,
            timestamps: self.timestamp.map(|value| (value, 0)),
            sack: [(0, 0); 4],
            sack_blocks: 0,
        });
        self.segments.last_mut().expect("pushed above")
    }

    /// The server sends the n-th segment of data.
    pub fn data(&mut self, at_us: u64, n: u32) -> &mut Segment {
        self.push(at_us, 1, 1 + n * MSS, MSS, 1)
    }

    /// The client acknowledges all segments below the n-th, and blocks of segments.
    pub fn ack(&mut self, at_us: u64, n: u32, blocks: &[(u32, u32)]) -> &mut Segment {
        let offset = self.offset;
        let number = move |n: u32| (1 + n * MSS).wrapping_add(offset);
        let segment = self.push(at_us, 0, 1, 0, 1 + n * MSS);
        for (block, into) in blocks.iter().zip(&mut segment.sack) {
            *into = (number(block.0), number(block.1));
        }
        segment.sack_blocks = blocks.len() as u8;
        segment
    }

    /// What each packet is, without new data, and the connections.
    pub fn analysed(&self) -> (Vec<(u64, Kind)>, Vec<ConnectionSummary>) {
        let mut connections = Vec::new();
        let mut finished = |connection| connections.push(connection);
        let mut table = ConnectionTable::new(AMPLE, Vec::<Event>::new());
        for segment in &self.segments {
            table.take(segment, &mut finished);
        }
        let (events, evicted) = table.finish_all(&mut finished);
        assert_eq!(evicted, 0);
        let kinds = events.iter().map(|event| (event.packet, event.kind));
        (kinds.filter(|(_, kind)| *kind != Kind::NewData).collect(), connections)
    }

    /// The same of the only connection.
    pub fn only(&self) -> (Vec<(u64, Kind)>, ConnectionSummary) {
        let (kinds, mut connections) = self.analysed();
        assert_eq!(connections.len(), 1, "{connections:#?}");
        (kinds, connections.remove(0))
    }
}

/// All packets of a capture in memory: number, time, kept bytes, length.
pub fn packets(file: &[u8]) -> Vec<(u64, u64, Vec<u8>, u32)> {
    let mut reader = CaptureReader::new(file).expect("a capture");
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet().expect("whole packets") {
        packets.push((packet.number, packet.unix_ns, packet.data.to_vec(), packet.length));
    }
    packets
}
