// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures of nodes: each packet that passes a link's end at one of them, as a frame of Ethernet, IP and TCP or UDP.
//!
//! A packet is seen as by the emulator: when it is offered to the link, before its queue, and when it arrives. The frame
//! says what the packet says: sequence numbers of whole segments in bytes, acknowledgement, window, selective blocks,
//! ECN. Sequence numbers begin at 0. What simulated TCP lacks is not there: timestamps (their bytes are padding),
//! closing, content (zeros). Selective blocks take room in a frame's header, while every simulated acknowledgement has
//! the scenario's `header` bytes, so frames of two or three blocks are 8 or 16 bytes longer than their packets.
//!
//! What a node receives may be handed on late (`crate::junction`), so frames are sorted by time when they are taken.

mod connection_view;
mod frame;

pub(crate) use connection_view::OpenedConnection;

use self::{
    connection_view::{ConnectionView, View},
    frame::{EthernetEnds, Headers},
};
use crate::packet::{Packet, PacketKind, SackStore};
use experiment::capture::{CapturedPacket, Heading, links_of};
use scenario::{Family, Run, addresses};
use std::{collections::BTreeMap, net::IpAddr};
use units::Timestamp;

/// An end of a link direction at a node that is captured.
#[derive(Debug, Clone, Copy)]
struct Tap {
    /// Which of the run's captures.
    capture: u32,
    interface: u32,
    snap: u32,
    ends: EthernetEnds,
}

/// A frame whose bytes lie elsewhere.
#[derive(Debug, Clone, Copy)]
struct Frame {
    at: Timestamp,
    capture: u32,
    interface: u32,
    heading: Heading,
    length: u32,
    begin: usize,
    kept: usize,
}

/// Frames that were seen and not taken, and what it takes to make them.
#[derive(Debug)]
pub(crate) struct CaptureLog {
    /// By link direction: at the node that sends, at the node that receives.
    taps: Vec<[Option<Tap>; 2]>,
    addresses: BTreeMap<String, IpAddr>,
    header: u32,
    /// Connections by number; one takes the place of one that is over.
    connections: Vec<ConnectionView>,
    opened: u64,
    frames: Vec<Frame>,
    bytes: Vec<u8>,
}

impl CaptureLog {
    /// For a run that captures any node.
    pub(crate) fn of(run: &Run) -> Option<Box<Self>> {
        let captured = run.nodes.iter().filter(|node| node.capture.is_some());
        let mut taps = vec![[None; 2]; run.links.len() * 2];
        for (number, node) in (0..).zip(captured) {
            let snap = node.capture.map_or(0, |capture| capture.snap);
            for (interface, link) in (0..).zip(links_of(run, &node.name)) {
                // The first end sends forward.
                let own = usize::from(run.links[link].b == node.name);
                let macs = [own, 1 - own].map(|end| addresses::mac(link, end));
                let tap = |ends| Some(Tap { capture: number, interface, snap, ends });
                taps[2 * link + own][0] = tap(EthernetEnds { from: macs[0], to: macs[1] });
                taps[2 * link + 1 - own][1] = tap(EthernetEnds { from: macs[1], to: macs[0] });
            }
        }
        let address = |n: u16| match run.family {
            Family::Ipv4 => addresses::ipv4(n).into(),
            Family::Ipv6 => addresses::ipv6(n).into(),
        };
        let is_captured = taps.iter().flatten().any(Option::is_some);
        is_captured.then(|| {
            Box::new(Self {
                taps,
                addresses: (0..)
                    .zip(&run.nodes)
                    .map(|(n, node)| (node.name.clone(), address(n)))
                    .collect(),
                header: run.tcp.header,
                connections: Vec::new(),
                opened: 0,
                frames: Vec::new(),
                bytes: Vec::new(),
            })
        })
    }

    /// A number stands for a new connection.
    pub(crate) fn opens(&mut self, owner: u32, connection: &OpenedConnection<'_>) {
        let OpenedConnection { server, client, .. } = *connection;
        let [server, client] = [server, client].map(|node| self.addresses[node]);
        let view = ConnectionView::new(self.opened, [server, client], connection, self.header);
        self.opened += 1;
        let at = owner as usize;
        if at == self.connections.len() {
            self.connections.push(view);
        } else {
            self.connections[at] = view;
        }
    }

    /// A packet leaves its host.
    pub(crate) fn sent(&mut self, packet: &Packet) {
        self.connections[packet.owner as usize].sent(packet);
    }

    /// A packet has come to its end.
    pub(crate) fn delivered(&mut self, packet: &Packet) {
        if packet.kind == PacketKind::Request {
            self.connections[packet.owner as usize].requested(packet.number);
        }
    }

    /// A packet passes an end of a link direction: the one that sends it, or the one that it arrives at.
    #[cold]
    pub(crate) fn passes(
        &mut self,
        at: Timestamp,
        direction: u32,
        heading: Heading,
        packet: &Packet,
        store: &SackStore,
    ) {
        let end = usize::from(heading == Heading::Inbound);
        let Some(tap) = self.taps[direction as usize][end] else { return };
        let view: View = self.connections[packet.owner as usize].view(packet, store);
        let headers = Headers::of(&view, tap.ends);
        let begin = self.bytes.len();
        let length = headers.write(&mut self.bytes, view.payload, tap.snap);
        let (capture, interface) = (tap.capture, tap.interface);
        let kept = self.bytes.len() - begin;
        self.frames.push(Frame { at, capture, interface, heading, length, begin, kept });
    }

    /// Hands all frames over in order of time, each with the number of its capture, and forgets them.
    pub(crate) fn take(&mut self, mut each: impl FnMut(usize, &CapturedPacket<'_>)) {
        self.frames.sort_by_key(|frame| frame.at);
        for frame in self.frames.drain(..) {
            let Frame { at, capture, interface, heading, length, begin, kept } = frame;
            let data = &self.bytes[begin..begin + kept];
            let unix_ns = at.as_nanos();
            each(capture as usize, &CapturedPacket { interface, unix_ns, heading, length, data });
        }
        self.bytes.clear();
    }
}
