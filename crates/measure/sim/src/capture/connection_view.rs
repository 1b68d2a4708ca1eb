// SPDX-License-Identifier: GPL-2.0-or-later
//! A connection as its packets' headers tell of it: from segments to sequence numbers.

use crate::packet::{Packet, PacketKind, REQUEST, SACK_BLOCKS, SackStore, flag};
use std::net::IpAddr;
use units::Bytes;

/// Where servers listen. The n-th connection has the n-th client port above the reserved ones.
const SERVER_PORT: u16 = 80;
const FIRST_CLIENT_PORT: u16 = 1024;
const CLIENT_PORTS: u64 = 1 << 15;

/// A packet as its headers say.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// Sender and receiver.
    pub(super) ends: [(IpAddr, u16); 2],
    /// None of a datagram.
    pub(super) tcp: Option<TcpView>,
    /// Bytes behind the headers.
    pub(super) payload: u32,
    pub(super) is_ect: bool,
    pub(super) is_marked: bool,
}

/// What is known of a connection beforehand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenedConnection<'a> {
    /// The node that sends data.
    pub(crate) server: &'a str,
    pub(crate) client: &'a str,
    /// Bytes of payload in a full segment.
    pub(crate) mss: u32,
    /// The client's, which bounds its window.
    pub(crate) rcvbuf: Bytes,
}

/// What TCP's header says.
#[derive(Debug, Clone, Default)]
pub(super) struct TcpView {
    pub(super) seq: u32,
    /// None in the first packet of a connection.
    pub(super) ack: Option<u32>,
    pub(super) window: u16,
    /// Of packets that open a connection: the largest segment, and the window's scale.
    pub(super) opens: Option<(u16, u8)>,
    pub(super) pushed: bool,
    pub(super) echo: bool,
    pub(super) reduced: bool,
    /// Selective blocks, the most recent first.
    pub(super) blocks: Vec<(u32, u32)>,
    /// Bytes of options that a full segment has.
    pub(super) options: u32,
}

/// What is known of a connection from its packets.
#[derive(Debug, Clone)]
pub(super) struct ConnectionView {
    server: (IpAddr, u16),
    client: (IpAddr, u16),
    mss: u32,
    header: u32,
    window_scale: u8,
    /// Segments below this were acknowledged by the client.
    acknowledged: u64,
    /// Requests that the server has received.
    requests: u64,
    /// The last segments of files before others, with the bytes that they lack of a full one.
    short: Vec<(u64, u32)>,
}

impl ConnectionView {
    /// The n-th connection of a run, between a server that sends data and its client.
    pub(super) fn new(
        n: u64,
        [server, client]: [IpAddr; 2],
        opened: &OpenedConnection<'_>,
        header: u32,
    ) -> Self {
        let largest = opened.rcvbuf.get();
        let window_scale = (0..14).find(|scale| u16::try_from(largest >> scale).is_ok());
        Self {
            server: (server, SERVER_PORT.wrapping_add((n / CLIENT_PORTS) as u16)),
            client: (client, FIRST_CLIENT_PORT + (n % CLIENT_PORTS) as u16),
            mss: opened.mss,
            header,
            window_scale: window_scale.unwrap_or(14),
            acknowledged: 0,
            requests: 0,
            short: Vec::new(),
        }
    }

    pub(super) fn sent(&mut self, packet: &Packet) {
        match packet.kind {
            PacketKind::Ack => self.acknowledged = self.acknowledged.max(packet.number),
            PacketKind::Data => {
                let lacks = self.mss.saturating_sub(self.payload(packet));
                if lacks > 0 && self.short.iter().all(|(number, _)| *number != packet.number) {
                    self.short.push((packet.number, lacks));
                }
            }
            _ => {}
        }
    }

    pub(super) fn requested(&mut self, number: u64) {
        self.requests = self.requests.max(number + 1);
    }

    fn payload(&self, packet: &Packet) -> u32 {
        u32::from(packet.length).saturating_sub(self.header)
    }

    /// The server's sequence number at the begin of a segment: its SYN has 0.
    fn server_seq(&self, number: u64) -> u32 {
        let before = self.short.iter().filter(|(short, _)| *short < number);
        let lacking: u64 = before.map(|(_, lacks)| u64::from(*lacks)).sum();
        (1 + number * u64::from(self.mss) - lacking) as u32
    }

    fn client_seq(requests: u64) -> u32 {
        (1 + requests * u64::from(REQUEST)) as u32
    }

    pub(super) fn view(&self, packet: &Packet, store: &SackStore) -> View {
        let is = |flag| packet.flags & flag != 0;
        let (payload, tcp) = match packet.kind {
            PacketKind::Datagram => {
                (u32::from(packet.length).saturating_sub(self.datagram_header()), None)
            }
            PacketKind::Ack => (0, Some(self.acknowledgement(packet, store))),
            _ => (self.payload(packet), Some(self.other(packet))),
        };
        let from_server =
            matches!(packet.kind, PacketKind::Data | PacketKind::SynAck | PacketKind::Datagram);
        let (from, to) =
            if from_server { (self.server, self.client) } else { (self.client, self.server) };
        View { ends: [from, to], tcp, payload, is_ect: is(flag::ECT), is_marked: is(flag::CE) }
    }

    fn ip_header(&self) -> u32 {
        if self.server.0.is_ipv4() { 20 } else { 40 }
    }

    fn datagram_header(&self) -> u32 {
        self.ip_header() + 8
    }

    /// What the scenario's header leaves for options.
    fn options(&self) -> u32 {
        self.header.saturating_sub(self.ip_header() + 20).min(40) / 4 * 4
    }

    fn window(&self, segments: u32) -> u16 {
        let bytes = u64::from(segments) * u64::from(self.mss);
        u16::try_from(bytes >> self.window_scale).unwrap_or(u16::MAX)
    }

    fn acknowledgement(&self, packet: &Packet, store: &SackStore) -> TcpView {
        let details = (packet.flags & flag::SACK != 0).then(|| store.get(packet));
        let blocks = details.iter().flat_map(|details| &details.blocks);
        let blocks = blocks.filter(|block| !block.is_empty()).take(SACK_BLOCKS);
        TcpView {
            seq: Self::client_seq(self.requests),
            ack: Some(self.server_seq(packet.number)),
            window: self.window(details.map_or(packet.window, |details| details.window)),
            echo: packet.flags & flag::ECE != 0,
            blocks: blocks
                .map(|block| (self.server_seq(block.start), self.server_seq(block.end)))
                .collect(),
            options: self.options(),
            ..TcpView::default()
        }
    }

    /// A packet that opens the connection, asks for data or carries it.
    fn other(&self, packet: &Packet) -> TcpView {
        let opens = Some((self.mss as u16, self.window_scale));
        let options = self.options();
        // The server receives requests alone; what it advertises bounds nothing.
        let plain = TcpView { window: u16::MAX, options, ..TcpView::default() };
        match packet.kind {
            PacketKind::Syn => TcpView { opens, ..plain },
            PacketKind::SynAck => TcpView { ack: Some(1), opens, ..plain },
            PacketKind::Request => TcpView {
                seq: Self::client_seq(packet.number),
                ack: Some(self.server_seq(self.acknowledged)),
                pushed: true,
                ..plain
            },
            _ => TcpView {
                seq: self.server_seq(packet.number),
                ack: Some(Self::client_seq(self.requests)),
                pushed: packet.flags & flag::PSH != 0,
                reduced: packet.flags & flag::CWR != 0,
                ..plain
            },
        }
    }
}
