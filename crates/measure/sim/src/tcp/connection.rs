// SPDX-License-Identifier: GPL-2.0-or-later
//! A connection: both of its ends, and how it opens.

use super::{
    Carried, ConnectionRoute, Context,
    connection_setup::ConnectionSetup,
    content::Content,
    receiver::{AckTiming, Receiver},
    sender::{ReceivedAck, Sender, SenderCounts},
};
use crate::{
    event_queue::EventKind,
    packet::{AckDetails, Packet, PacketKind, REQUEST, flag},
};
use congestion::{Decision, Params};
use scenario::{Profile, Tcp};
use units::{Bytes, Duration, Timestamp};

/// What a client waits for the first answer before it asks again (RFC 6298 section 2), then twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// How long a receiver waits for the rest of a frame that was lost on the way: no link's `max_burst` should be
/// longer, and no result depends on it.
const PART_OF_A_FRAME: Duration = Duration::from_micros(500);
/// Bytes of an acknowledgement of ns-2's `TCPSink`, whatever the header of data, and of each block in it:
/// with taildrop a microsecond more or less can decide which packet is dropped.
const NS2_ACKNOWLEDGEMENT: u32 = 40;
const NS2_BLOCK: u32 = 8;

/// How far the client has come with opening the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// It has asked for a connection, for the n-th time.
    Asked(u32),
    /// It has asked for the data, for the n-th time.
    Requested(u32),
    /// Data has come.
    Over,
}

/// What a packet or a timer meant for those who use the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    Nothing,
    /// The server has been asked for the data.
    Requested,
    /// More data is in order at the receiver.
    Arrived,
    /// The sender's first unacknowledged segment moved.
    Acknowledged,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) route: ConnectionRoute,
    sender: Sender,
    receiver: Receiver,
    opening: Opening,
    opening_timer: crate::timer::Timer,
    /// The first segment of the answer that the client waits for.
    awaited: u64,
    /// How many requests the client has sent before this one, and how many the server has answered.
    requests: u64,
    answers: u64,
    /// When the server answered the client, for its first RTT sample.
    answered: Option<Timestamp>,
    params: Params,
    /// Whether the application reads what is in order at once.
    pub(crate) reads: bool,
}

impl Connection {
    pub(crate) fn new(setup: &ConnectionSetup<'_>, tcp: &Tcp, now: Timestamp) -> Self {
        let mss = Bytes::new(setup.mss.into());
        let receiver = Receiver::new(tcp, setup.rcvbuf, mss, now);
        let allowed = receiver.advertised();
        Self {
            route: setup.route,
            sender: Sender::new(tcp, setup, allowed),
            receiver,
            opening: Opening::Over,
            opening_timer: crate::timer::Timer::OFF,
            awaited: 0,
            requests: 0,
            answers: 0,
            answered: None,
            params: setup.params.clone(),
            reads: true,
        }
    }

    /// Begins: with a handshake, or with data at once.
    pub(crate) fn open(&mut self, cx: &mut Context<'_>) -> ConnectionEvent {
        if cx.tcp.handshake {
            self.opening = Opening::Asked(0);
            self.ask(cx);
            return ConnectionEvent::Nothing;
        }
        self.sender.establish(cx.now, &self.params, None);
        ConnectionEvent::Requested
    }

    /// The client asks for more, when all that it asked for before is there.
    pub(crate) fn ask_again(&mut self, cx: &mut Context<'_>) -> ConnectionEvent {
        self.requests += 1;
        self.awaited = self.receiver.next();
        if !cx.tcp.handshake {
            return ConnectionEvent::Requested;
        }
        self.opening = Opening::Requested(0);
        self.ask(cx);
        ConnectionEvent::Nothing
    }

    /// Sends the client's packet of the opening, or a later request.
    fn ask(&mut self, cx: &mut Context<'_>) {
        let (kind, payload, tries) = match self.opening {
            Opening::Asked(tries) => (PacketKind::Syn, 0, tries),
            Opening::Requested(tries) => (PacketKind::Request, REQUEST, tries),
            Opening::Over => return,
        };
        self.control(cx, kind, payload, self.route.backward);
        let wait = if self.requests == 0 { FIRST_WAIT } else { self.sender.rtt.timeout(cx.tcp) };
        let due = cx.now + wait.saturating_mul(1 << tries.min(6));
        let id = self.route.event_id(EventKind::Opening);
        self.opening_timer.set(due, |at| cx.events.plan(at, id));
    }

    fn control(&self, cx: &mut Context<'_>, kind: PacketKind, payload: u32, path: u32) {
        let packet = Packet {
            number: self.requests,
            owner: self.route.owner,
            window: 0,
            length: (self.route.header + payload) as u16,
            path,
            kind,
            flags: 0,
        };
        cx.network.send(cx.events, cx.now, packet, None);
    }

    /// A packet has arrived at one of the ends.
    pub(crate) fn receive(&mut self, cx: &mut Context<'_>, packet: &Packet) -> ConnectionEvent {
        match packet.kind {
            PacketKind::Data => return self.data(cx, packet),
            PacketKind::Ack => return self.acknowledgement(cx, packet),
            PacketKind::Syn => {
                self.answered.get_or_insert(cx.now);
                self.control(cx, PacketKind::SynAck, 0, self.route.forward);
            }
            PacketKind::SynAck => {
                if matches!(self.opening, Opening::Asked(_)) {
                    self.opening = Opening::Requested(0);
                    self.ask(cx);
                }
            }
            // One that was sent again may have been answered.
            PacketKind::Request if packet.number < self.answers => {}
            PacketKind::Request => {
                self.answers += 1;
                if !self.sender.is_established() {
                    let rtt = self.answered.map(|answered| cx.now.since(answered));
                    self.sender.establish(cx.now, &self.params, rtt);
                }
                return ConnectionEvent::Requested;
            }
            PacketKind::Datagram => unreachable!("a datagram is of no connection"),
        }
        ConnectionEvent::Nothing
    }

    fn data(&mut self, cx: &mut Context<'_>, packet: &Packet) -> ConnectionEvent {
        if self.opening != Opening::Over && packet.number >= self.awaited {
            self.opening = Opening::Over;
            self.opening_timer.clear();
        }
        let before = self.receiver.next();
        if cx.tcp.ecn {
            let is = |flag| packet.flags & flag != 0;
            self.receiver.congestion(is(flag::CE), is(flag::CWR));
        }
        if self.receiver.would_forget(packet.number) {
            self.acknowledge(cx);
        }
        let pushed = packet.flags & flag::PSH != 0;
        let mut timing = self.receiver.arrives(packet, cx.tcp);
        let next = self.receiver.next();
        if self.reads && next > before {
            self.receiver.read(next);
            // Who has read a pushed segment, and all else, acknowledges it (`tcp_cleanup_rbuf`).
            if timing == AckTiming::Later && pushed && self.receiver.has_read_all() {
                timing = AckTiming::Due;
            }
            if cx.tcp.autotuning
                && let Some(rtt) = self.sender.rtt.smoothed()
            {
                self.receiver.tune(cx.now, rtt);
            }
        }
        let wait = match timing {
            AckTiming::Now => Duration::ZERO,
            AckTiming::Due => cx.tcp.ack_stretch,
            AckTiming::Later => cx.tcp.ack_delay,
            AckTiming::Part => PART_OF_A_FRAME,
            AckTiming::Compressed => {
                Receiver::compression(self.sender.rtt.smoothed().unwrap_or_default())
            }
        };
        if wait == Duration::ZERO {
            self.acknowledge(cx);
        } else {
            let id = self.route.event_id(EventKind::Acknowledgement);
            let due = cx.now + wait;
            self.receiver.timer.bring_forward(due, |at| cx.events.plan(at, id));
        }
        if next > before { ConnectionEvent::Arrived } else { ConnectionEvent::Nothing }
    }

    fn acknowledge(&mut self, cx: &mut Context<'_>) {
        let says = self.receiver.acknowledge();
        let blocks = says.blocks.iter().flatten().filter(|block| !block.is_empty()).count() as u32;
        let length = match cx.tcp.profile {
            Profile::Linux => self.route.header,
            Profile::Ns2 => NS2_ACKNOWLEDGEMENT + NS2_BLOCK * blocks,
        };
        // A timestamp matters only to a sender that compares it with that of a retransmission. If it has not sent
        // any so far, what is echoed is older.
        let has_details = says.blocks.is_some() || self.sender.compares_timestamps();
        let flags =
            [(says.echo, flag::ECE), (says.duplicate, flag::DSACK), (has_details, flag::SACK)];
        let window = if has_details {
            let (window, timestamp_echo) = (says.window, says.timestamp_echo);
            let blocks = says.blocks.unwrap_or_default();
            cx.network.sack_store.keep(AckDetails { window, blocks, timestamp_echo })
        } else {
            says.window
        };
        let packet = Packet {
            number: says.next,
            owner: self.route.owner,
            window,
            length: length as u16,
            path: self.route.backward,
            kind: PacketKind::Ack,
            flags: flags.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag),
        };
        cx.network.send(cx.events, cx.now, packet, None);
    }

    fn acknowledgement(&mut self, cx: &mut Context<'_>, packet: &Packet) -> ConnectionEvent {
        let details = cx.network.sack_store.take(packet);
        let before = self.sender.una();
        let received = ReceivedAck {
            next: packet.number,
            window: details.as_ref().map_or(packet.window, |details| details.window),
            details: details.as_ref(),
            echo: packet.flags & flag::ECE != 0,
            duplicate: packet.flags & flag::DSACK != 0,
        };
        self.sender.acknowledged(cx, &received);
        self.sender.send(cx);
        if self.sender.una() > before {
            ConnectionEvent::Acknowledged
        } else {
            ConnectionEvent::Nothing
        }
    }

    /// An entry of this connection in the event queue.
    pub(crate) fn timer_fired(&mut self, cx: &mut Context<'_>, kind: EventKind) {
        let (now, id) = (cx.now, self.route.event_id(kind));
        match kind {
            EventKind::Retransmission => {
                if self.sender.timer.fires(now, |at| cx.events.plan(at, id)) {
                    self.sender.timer_fired(cx);
                }
            }
            EventKind::Pacing => {
                if self.sender.pacing.fires(now, |at| cx.events.plan(at, id)) {
                    self.sender.send(cx);
                }
            }
            EventKind::Acknowledgement => {
                if self.receiver.timer.fires(now, |at| cx.events.plan(at, id)) {
                    self.acknowledge(cx);
                }
            }
            EventKind::Opening => {
                if self.opening_timer.fires(now, |at| cx.events.plan(at, id)) {
                    self.opening = match self.opening {
                        Opening::Asked(tries) => Opening::Asked(tries + 1),
                        Opening::Requested(tries) => Opening::Requested(tries + 1),
                        Opening::Over => Opening::Over,
                    };
                    self.ask(cx);
                }
            }
            EventKind::Arrival
            | EventKind::Dequeue
            | EventKind::Departure
            | EventKind::Flow
            | EventKind::Site
            | EventKind::Application
            | EventKind::Traffic
            | EventKind::Sample => unreachable!("not a connection's"),
        }
    }

    /// The application hands over more, or says that this is all; what may be sent is.
    pub(crate) fn offer(&mut self, cx: &mut Context<'_>, content: Content) {
        self.sender.set_content(content);
        self.sender.send(cx);
    }

    /// The application reads all below `number`.
    pub(crate) fn read(&mut self, cx: &mut Context<'_>, number: u64) {
        if self.receiver.read(number) {
            self.acknowledge(cx);
        }
        if cx.tcp.autotuning
            && let Some(rtt) = self.sender.rtt.smoothed()
        {
            self.receiver.tune(cx.now, rtt);
        }
    }

    /// Segments in order at the receiver.
    pub(crate) fn arrived(&self) -> u64 {
        self.receiver.next()
    }

    /// Content bytes in order at the receiver.
    pub(crate) fn arrived_bytes(&self) -> u64 {
        let (arrived, content, mss) = (self.arrived(), self.content(), u64::from(self.sender.mss));
        if self.is_whole() {
            content.available.saturating_sub(1) * mss + u64::from(content.last)
        } else {
            arrived * mss
        }
    }

    /// Whether all that it carries is in order at the receiver.
    pub(crate) fn is_whole(&self) -> bool {
        let content = self.content();
        content.complete && self.arrived() == content.available
    }

    /// The first segment that is not acknowledged.
    pub(crate) fn una(&self) -> u64 {
        self.sender.una()
    }

    /// Segments sent so far, each once.
    pub(crate) fn sent(&self) -> u64 {
        self.sender.next()
    }

    #[cfg(test)]
    pub(super) fn sender(&self) -> &Sender {
        &self.sender
    }

    /// What it carries.
    pub(crate) fn content(&self) -> Content {
        self.sender.content
    }

    /// Whether all of it was delivered and acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.sender.is_done()
    }

    /// Bytes from the first unacknowledged one on that the send buffer takes.
    pub(crate) fn buffer(&self) -> u64 {
        self.sender.buffer()
    }

    /// Window and rate in force.
    pub(crate) fn decision(&self) -> Decision {
        self.sender.decision
    }

    /// The window that a segment sent now would find, and the one before the idle time that ends with it.
    pub(crate) fn windows(&self, now: Timestamp, tcp: &Tcp) -> (u32, u32) {
        self.sender.windows(now, tcp)
    }

    /// Bytes a second that its packets are spaced at: of the link with gap frames, of payload where TCP
    /// spaces them; 0 without pacing.
    pub(crate) fn pacing_rate(&self) -> u64 {
        self.sender.pacing_rate()
    }

    /// What it has carried since it was opened.
    pub(crate) fn carried(&self, now: Timestamp) -> Carried {
        let SenderCounts { retransmits, timeouts, delivered, .. } = self.sender.counts;
        let (arrived, acknowledged) = (self.arrived(), self.una());
        let limited = self.sender.limits.until(now);
        Carried { arrived, acknowledged, delivered, retransmits, timeouts, limited }
    }

    /// The smoothed and the smallest RTT.
    pub(crate) fn rtt(&self) -> (Option<Duration>, Option<Duration>) {
        (self.sender.rtt.smoothed(), self.sender.rtt.min())
    }
}
