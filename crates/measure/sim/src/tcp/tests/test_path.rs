// SPDX-License-Identifier: GPL-2.0-or-later
//! One connection over two link directions. What arrives at the end of one passes a rule before it is delivered.

use crate::{
    event_queue::{EventKind, EventQueue},
    network::Network,
    packet::{AckDetails, Blocks, Packet, PacketKind, flag},
    plan::SenderPacing,
    tcp::{
        Connection, ConnectionRoute, ConnectionSetup, Content, Context,
        sender::{Sender, SenderCounts},
    },
};
use congestion::{Algorithm, Decision};
use netmodel::{Discipline, Impairments, Link, LinkConfig, LossModel, QueueLimit};
use scenario::{Family, Profile, Tcp};
use std::{collections::BTreeMap, ops::Range};
use units::{Bytes, Duration, Rate, Timestamp};

/// Payload of a full segment.
pub(super) const MSS: u32 = 1448;
const FORWARD: u32 = 0;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    Deliver,
    Lose,
    /// It arrives so much later, and those behind it overtake it.
    Delay(Duration),
    /// It arrives now and once more, so much later.
    Repeat(Duration),
}

type Rule = Box<dyn FnMut(Timestamp, &Packet) -> Treatment>;

/// See the module.
pub(super) struct TestPath {
    connection: Connection,
    network: Network,
    events: EventQueue,
    tcp: Tcp,
    now: Timestamp,
    rule: Rule,
    late: BTreeMap<(Timestamp, u64), Packet>,
    delayed: u64,
    /// Numbers of the segments that were sent, by the millisecond of their transmission.
    sent: Vec<(u64, u64)>,
}

fn link(rate: Option<Rate>, delay: Duration) -> Link {
    Link::new(LinkConfig {
        rate: rate.map(Into::into),
        delay,
        queue: QueueLimit::Packets(1000),
        discipline: Discipline::TailDrop { mark: None },
        loss: LossModel::None,
        impairments: Impairments::default(),
        mtu: Bytes::new(1500),
        overhead: Bytes::ZERO,
        monitor: Duration::from_millis(100),
        spacing: false,
        seed: 1,
    })
}

impl TestPath {
    /// An endless transfer with an algorithm and its first acknowledgement still to come. Without a rate, packets
    /// take no time but the delay.
    pub(super) fn new(
        algorithm: &str,
        rate: Option<Rate>,
        one_way: Duration,
        rule: impl FnMut(Timestamp, &Packet) -> Treatment + 'static,
    ) -> Self {
        let tcp = Tcp { handshake: false, ..Tcp::of(Profile::Linux, Family::Ipv4) };
        Self::with_tcp(tcp, algorithm, rate, one_way, rule)
    }

    /// The same, with other settings of TCP, without a handshake.
    pub(super) fn with_tcp(
        tcp: Tcp,
        algorithm: &str,
        rate: Option<Rate>,
        one_way: Duration,
        rule: impl FnMut(Timestamp, &Packet) -> Treatment + 'static,
    ) -> Self {
        let links = [link(rate, one_way), link(None, one_way)];
        let mut network = Network::new(links.into_iter().map(|link| (link, None)));
        let (forward, backward) = (network.add_path(&[FORWARD]), network.add_path(&[1]));
        let events = EventQueue::new(network.number_arrival_sources(Vec::new()));
        let route =
            ConnectionRoute { owner: 0, generation: 0, forward, backward, header: tcp.header };
        let setup = ConnectionSetup {
            route,
            params: Algorithm::find(algorithm).unwrap().default_set(),
            mss: MSS,
            sndbuf: tcp.sndbuf,
            rcvbuf: tcp.rcvbuf,
            content: Content::ENDLESS,
            pace: SenderPacing::None,
            frame: 1,
            slow_start_after_idle: true,
        };
        let now = Timestamp::ZERO;
        let mut path = Self {
            connection: Connection::new(&setup, &tcp, now),
            network,
            events,
            tcp,
            now,
            rule: Box::new(rule),
            late: BTreeMap::new(),
            delayed: 0,
            sent: Vec::new(),
        };
        path.act(|connection, cx| {
            connection.open(cx);
            connection.offer(cx, Content::ENDLESS);
        });
        path
    }

    /// A sender whose segments arrive nowhere: acknowledgements come from a script.
    pub(super) fn scripted(algorithm: &str) -> Self {
        let lose = |_, packet: &Packet| match packet.kind {
            PacketKind::Data => Treatment::Lose,
            _ => Treatment::Deliver,
        };
        Self::new(algorithm, None, Duration::from_nanos(1), lose)
    }

    fn act<R>(&mut self, act: impl FnOnce(&mut Connection, &mut Context<'_>) -> R) -> R {
        let mut cx = Context {
            now: self.now,
            tcp: &self.tcp,
            network: &mut self.network,
            events: &mut self.events,
            route: self.connection.route,
        };
        act(&mut self.connection, &mut cx)
    }

    /// The application has handed over so many segments so far.
    pub(super) fn offer(&mut self, available: u64) {
        let content = Content { available, complete: false, last: 0 };
        self.act(|connection, cx| connection.offer(cx, content));
    }

    /// Goes on until that time, including what happens then.
    pub(super) fn run_until(&mut self, until: Timestamp) {
        loop {
            let event = self.events.first().filter(|event| event.at <= until);
            let late = self.late.first_key_value().map(|(key, _)| *key);
            let late = late.filter(|(at, _)| *at <= until && event.is_none_or(|e| *at < e.at));
            if let Some(key) = late {
                self.now = key.0;
                let packet = self.late.remove(&key).unwrap();
                self.act(|connection, cx| connection.receive(cx, &packet));
                continue;
            }
            let Some(event) = event else { break };
            self.now = event.at;
            if event.id.kind() == EventKind::Arrival {
                let source = event.id.index();
                if let Some(packet) = self.network.arrive(&mut self.events, event.at, source) {
                    self.arrived(packet);
                }
            } else {
                self.events.pop();
                self.act(|connection, cx| connection.timer_fired(cx, event.id.kind()));
            }
        }
        self.now = until;
    }

    fn arrived(&mut self, packet: Packet) {
        if packet.kind == PacketKind::Data {
            self.sent.push((packet.window.into(), packet.number));
        }
        let delay = match (self.rule)(self.now, &packet) {
            Treatment::Lose => {
                self.network.sack_store.take(&packet);
                return;
            }
            Treatment::Delay(delay) => Some(delay),
            Treatment::Deliver => None,
            Treatment::Repeat(delay) => {
                self.hold(packet, delay);
                None
            }
        };
        match delay {
            Some(delay) => self.hold(packet, delay),
            None => {
                self.act(|connection, cx| connection.receive(cx, &packet));
            }
        }
    }

    fn hold(&mut self, packet: Packet, delay: Duration) {
        self.delayed += 1;
        self.late.insert((self.now + delay, self.delayed), packet);
    }

    /// At that millisecond, an acknowledgement arrives that expects `next`, with a block of others and, unless it left before
    /// any retransmission, the millisecond that it echoes. `duplicate`: a segment that it reports as one.
    pub(super) fn acknowledge(
        &mut self,
        at_ms: u64,
        next: u64,
        block: Option<Range<u64>>,
        echo_ms: Option<u32>,
        duplicate: Option<u64>,
    ) {
        self.run_until(at(at_ms));
        let all = duplicate.map(|number| number..number + 1).into_iter().chain(block);
        let mut details = AckDetails { window: 1000, ..AckDetails::default() };
        for (block, range) in details.blocks.iter_mut().zip(all) {
            *block = range;
        }
        details.timestamp_echo = echo_ms.unwrap_or_default();
        let has_details = details.blocks != Blocks::default() || echo_ms.is_some();
        let flags = [(has_details, flag::SACK), (duplicate.is_some(), flag::DSACK)];
        let window = if has_details { self.network.sack_store.keep(details) } else { 1000 };
        let packet = Packet {
            number: next,
            owner: 0,
            window,
            path: self.connection.route.backward,
            length: 52,
            kind: PacketKind::Ack,
            flags: flags.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag),
        };
        self.act(|connection, cx| connection.receive(cx, &packet));
    }

    /// What was sent since this was asked last, as milliseconds and numbers.
    pub(super) fn take_sent(&mut self) -> Vec<(u64, u64)> {
        // It arrives a nanosecond later.
        self.run_until(self.now + Duration::from_nanos(1));
        std::mem::take(&mut self.sent)
    }

    pub(super) fn decision(&self) -> Decision {
        self.connection.decision()
    }

    pub(super) fn counts(&self) -> SenderCounts {
        self.sender().counts
    }

    pub(super) fn sender(&self) -> &Sender {
        self.connection.sender()
    }

    /// Segments that the sender knows to be there.
    pub(super) fn acknowledged(&self) -> u64 {
        self.connection.una()
    }

    /// Segments in order at the receiver.
    pub(super) fn arrived_in_order(&self) -> u64 {
        self.connection.arrived()
    }
}

/// That many milliseconds after the start.
pub(super) fn at(ms: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(ms)
}
