// SPDX-License-Identifier: GPL-2.0-or-later
//! A connection: two directions, the handshake, and round trips to both ends.

use crate::{
    classify::Kind,
    copies::RecentPackets,
    curves::KeptCurves,
    flow::{Acknowledgement, Arrival, Flow},
    round_trip::RoundTrips,
    segment::{Endpoint, Segment},
};

/// Something that a packet was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Number of the packet in the capture, from 1.
    pub packet: u64,
    /// When it was captured, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Who sent it.
    pub from: Endpoint,
    /// To whom.
    pub to: Endpoint,
    /// What it was.
    pub kind: Kind,
}

/// Learns of each packet what it was.
pub trait Observer {
    /// A packet was something. Called once for each [`Kind`] that it was.
    fn event(&mut self, event: Event);
}

/// Ignores all events.
impl Observer for () {
    fn event(&mut self, _: Event) {}
}

impl Observer for Vec<Event> {
    fn event(&mut self, event: Event) {
        self.push(event);
    }
}

/// Time of a packet of the handshake, and whether it came once.
#[derive(Debug, Default, Clone, Copy)]
struct Opening {
    unix_ns: Option<u64>,
    is_repeated: bool,
    mss: Option<u16>,
    window_scale: Option<u8>,
}

/// A connection. Side 0 opened it, or sent the first packet that was captured.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) ends: [Endpoint; 2],
    pub(crate) first_packet: u64,
    pub(crate) start_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) is_reset: bool,
    /// Of the data that each side sends.
    pub(crate) flows: [Flow; 2],
    /// To each side.
    pub(crate) round_trips: [RoundTrips; 2],
    openings: [Opening; 2],
    is_answered: bool,
    recent: [RecentPackets; 2],
}

impl Connection {
    /// A connection whose first captured packet this is. It is not taken yet.
    pub(crate) fn new(segment: &Segment, kept: KeptCurves) -> Self {
        let is_answer = segment.flags.syn && segment.flags.ack;
        let ends = if is_answer { [segment.to, segment.from] } else { [segment.from, segment.to] };
        Self {
            ends,
            first_packet: segment.number,
            start_ns: segment.unix_ns,
            last_ns: segment.unix_ns,
            is_reset: false,
            flows: [(); 2].map(|()| Flow::new(kept)),
            round_trips: [RoundTrips::default(); 2],
            openings: [Opening::default(); 2],
            is_answered: false,
            recent: [RecentPackets::default(); 2],
        }
    }

    /// Whether a packet opens another connection between the same ends.
    pub(crate) fn is_replaced_by(&self, segment: &Segment) -> bool {
        let flow = &self.flows[self.side(segment)];
        segment.flags.syn
            && !segment.flags.ack
            && !segment.flags.rst
            && flow.is_known()
            && flow.isn() != Some(segment.seq)
    }

    /// Whether it has ended in both directions, or was reset.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_reset || self.flows.iter().all(Flow::is_closed)
    }

    /// Whether its handshake was captured.
    pub(crate) fn is_opening_known(&self) -> bool {
        self.openings.iter().all(|opening| opening.unix_ns.is_some())
    }

    /// Bytes of memory of it.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.flows[0].heap_bytes() + self.flows[1].heap_bytes()
    }

    /// The largest segment of a direction by the handshake: each end sends what both can take.
    pub(crate) fn largest_segment(&self) -> Option<u16> {
        let [a, b] = self.openings.map(|opening| opening.mss);
        Some(a?.min(b?))
    }

    fn side(&self, segment: &Segment) -> usize {
        usize::from(segment.from != self.ends[0])
    }

    /// Smoothed round trip of the path with its variation, and the shortest one, for the data that a side sends.
    fn path_round_trip(&self, side: usize) -> (Option<(u64, u64)>, Option<u64>) {
        let (own, other) = (&self.round_trips[side], &self.round_trips[1 - side]);
        let to_sender = own.min_ns().unwrap_or(0);
        let smoothed =
            other.smoothed_ns().map(|(ns, variation)| (ns.saturating_add(to_sender), variation));
        let opening = || other.min_ns().map(|ns| (ns.saturating_add(to_sender), ns / 2));
        let shortest = other.min_ns().and_then(|ns| Some(ns.saturating_add(own.min_ns()?)));
        (smoothed.or_else(opening), shortest)
    }

    /// Takes a packet of this connection.
    pub(crate) fn take(&mut self, segment: &Segment, observer: &mut impl Observer) {
        let side = self.side(segment);
        let now_ns = segment.unix_ns;
        let mut tell = |kind| {
            let Segment { number: packet, unix_ns, from, to, .. } = *segment;
            observer.event(Event { packet, unix_ns, from, to, kind });
        };
        self.last_ns = self.last_ns.max(now_ns);
        let counts = &mut self.flows[side].counts;
        counts.packets += 1;
        let (smoothed, shortest) = self.path_round_trip(side);
        if self.recent[side].is_copy(segment, shortest) {
            self.flows[side].counts.copies += 1;
            tell(Kind::Copy);
            return;
        }
        self.flows[side].counts.marked_packets += u64::from(segment.is_marked);
        if segment.flags.rst {
            self.is_reset = true;
            return;
        }
        if segment.flags.syn && self.open(side, segment) {
            self.flows[side].counts.control += 1;
            tell(Kind::ControlRetransmission);
        }
        self.measure(side, segment);
        let largest = self.largest_segment();
        if segment.flags.ack {
            let flow = &mut self.flows[1 - side];
            let given = Acknowledgement {
                now_ns,
                ack: segment.ack,
                window: segment.window,
                is_handshake: segment.flags.syn,
                is_empty: segment.payload == 0 && !segment.flags.fin,
                sack: segment.sack(),
                segment: flow.segment_bytes(largest).0,
            };
            let kinds = flow.acknowledge(&given, &mut self.round_trips[side]);
            kinds.into_iter().flatten().for_each(&mut tell);
        }
        let flow = &mut self.flows[side];
        if segment.payload > 0 || segment.flags.fin {
            let arrival = Arrival {
                now_ns,
                // Data of a SYN comes behind it.
                seq: segment.seq.wrapping_add(segment.flags.syn.into()),
                payload: segment.payload,
                is_fin: segment.flags.fin,
                timestamp: segment.timestamps.map(|(value, _)| value),
                ip_id: segment.ip_id,
                segment: flow.segment_bytes(largest).0,
                round_trip_ns: smoothed,
                shortest_ns: shortest,
            };
            flow.data(&arrival).into_iter().flatten().for_each(&mut tell);
        } else if !segment.flags.syn {
            flow.empty(segment.seq).into_iter().for_each(&mut tell);
        }
    }

    /// A packet of the handshake. Whether it was sent again.
    fn open(&mut self, side: usize, segment: &Segment) -> bool {
        let is_first = self.flows[side].opens(segment.seq);
        let own = &mut self.openings[side];
        if is_first {
            *own = Opening {
                unix_ns: Some(segment.unix_ns),
                is_repeated: false,
                mss: segment.mss,
                window_scale: segment.window_scale,
            };
        } else {
            own.is_repeated = true;
        }
        if let [
            Opening { unix_ns: Some(_), window_scale: a, .. },
            Opening { unix_ns: Some(_), window_scale: b, .. },
        ] = self.openings
        {
            // Both ends have to offer it (RFC 7323).
            let [a, b] = if let (Some(a), Some(b)) = (a, b) { [a, b] } else { [0, 0] };
            self.flows[1].set_window_scale(a);
            self.flows[0].set_window_scale(b);
        }
        !is_first
    }

    /// Round trips by the handshake and by timestamps.
    fn measure(&mut self, side: usize, segment: &Segment) {
        let now_ns = segment.unix_ns;
        let other = self.openings[1 - side];
        if !self.is_answered && segment.flags.ack && !other.is_repeated {
            let is_third = !segment.flags.syn && self.openings[side].unix_ns.is_some();
            if let Some(sent_ns) = other.unix_ns.filter(|_| segment.flags.syn || is_third) {
                self.round_trips[side].bound(now_ns.saturating_sub(sent_ns));
            }
            self.is_answered |= is_third;
        }
        if let Some((value, echo)) = segment.timestamps {
            self.round_trips[1 - side].timestamp_goes(value, now_ns);
            if segment.flags.ack {
                self.round_trips[side].echo_comes(echo, now_ns);
            }
        }
    }
}
