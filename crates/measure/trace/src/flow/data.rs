// SPDX-License-Identifier: GPL-2.0-or-later
//! Data that one end sends.

use super::{Flow, MAX_RESENT, MAX_UNDER_WAY, Resent, Sent, position::Sequence};
use crate::classify::{self, Cause, Evidence, GapFiller, Kind, Recovery};

/// A packet with data, and what is known of the path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) now_ns: u64,
    pub(crate) seq: u32,
    pub(crate) payload: u32,
    pub(crate) is_fin: bool,
    pub(crate) timestamp: Option<u32>,
    pub(crate) ip_id: u16,
    /// Payload of a full segment.
    pub(crate) segment: u32,
    /// Smoothed round trip and its variation, and the shortest, of the whole path as far as known.
    pub(crate) round_trip_ns: Option<(u64, u64)>,
    pub(crate) shortest_ns: Option<u64>,
}

impl Flow {
    /// Takes a packet that has data or ends the stream. What it is, also as to the window.
    pub(crate) fn data(&mut self, arrival: &Arrival) -> [Option<Kind>; 2] {
        let Arrival { now_ns, payload, .. } = *arrival;
        self.has_timestamps |= arrival.timestamp.is_some();
        let at = self.sequence.get_or_insert_with(|| Sequence::at(arrival.seq));
        let Some((begin, end)) = at.accept(arrival.seq, payload) else {
            self.counts.strays += 1;
            return [Some(Kind::Stray), None];
        };
        if arrival.is_fin && self.fin.replace(end) == Some(end) && payload == 0 {
            self.counts.control += 1;
            return [Some(Kind::ControlRetransmission), None];
        }
        if payload == 0 {
            return [None, None];
        }
        self.counts.data_packets += 1;
        self.counts.payload_bytes += u64::from(payload);
        self.largest_payload = self.largest_payload.max(payload);
        if let Some(probe) = self.probe(begin, end) {
            return [Some(probe), None];
        }
        self.first_data_ns.get_or_insert(now_ns);
        let kind = self.place(arrival, begin, end);
        self.last_data_ns = now_ns;
        let at = self.sequence.expect("set above");
        let outstanding = at.high - at.acknowledged.min(at.high);
        self.counts.outstanding_max_bytes = self.counts.outstanding_max_bytes.max(outstanding);
        let is_full = self
            .window
            .bytes()
            .is_some_and(|window| window > 0 && end == at.high && end >= at.acknowledged + window);
        self.counts.window_full += u64::from(is_full);
        self.update_limit(now_ns, arrival.segment);
        self.keep_windows(now_ns);
        [Some(kind), is_full.then_some(Kind::WindowFull)]
    }

    /// A packet without data whose number is that of the byte before the next one.
    pub(crate) fn empty(&mut self, seq: u32) -> Option<Kind> {
        let at = self.sequence.get_or_insert_with(|| Sequence::at(seq));
        let position = at.position(seq);
        let is_before = position + 1 == at.high && at.acknowledged >= at.high && self.fin.is_none();
        is_before.then(|| self.count_probe())
    }

    /// One byte that only asks for an acknowledgement.
    fn probe(&mut self, begin: u64, end: u64) -> Option<Kind> {
        let at = self.sequence?;
        let is_closed = self.window.raw == Some(0);
        let asks_again = end == at.high && at.acknowledged >= at.high && at.high > at.first;
        let asks_beyond = is_closed && begin == at.high && at.acknowledged >= at.high;
        (end - begin == 1 && (asks_again || asks_beyond)).then(|| self.count_probe())
    }

    fn count_probe(&mut self) -> Kind {
        if self.window.raw == Some(0) {
            self.counts.zero_window_probes += 1;
            Kind::ZeroWindowProbe
        } else {
            self.counts.keep_alives += 1;
            Kind::KeepAlive
        }
    }

    /// Finds out what data is, and remembers it.
    fn place(&mut self, arrival: &Arrival, begin: u64, end: u64) -> Kind {
        let at = self.sequence.as_mut().expect("data is placed in a stream");
        let before = *at;
        at.high = at.high.max(end);
        if begin < at.first && before.acknowledged <= before.first {
            // The capture began with a packet that had overtaken this one.
            (at.first, at.acknowledged) = (begin, begin);
        }
        if let Some(curves) = self.curves.as_mut().filter(|_| end > before.high) {
            curves.growth.add(arrival.now_ns, end - at.first);
        }
        let fresh = self.seen.add(begin..end);
        if begin >= before.high {
            return self.place_new(arrival, begin, end, before);
        }
        let below = end.min(before.high) - begin;
        let fresh_below = fresh.saturating_sub(end.saturating_sub(before.high));
        let fills = fresh_below == below;
        let behind = self.behind(end);
        if fills && end <= before.high && self.is_reordered(arrival, behind.as_ref()) {
            let late = behind.map_or(0, |sent| arrival.now_ns.saturating_sub(sent.first_ns));
            self.counts.reordered_packets += 1;
            self.counts.reordering_max_ns = self.counts.reordering_max_ns.max(late);
            self.remember(arrival, begin, end, true);
            return Kind::Reordered;
        }
        let cause = self.cause(arrival, begin, end, before, behind);
        self.resent(arrival, cause, begin, begin + below);
        if fills {
            self.remember(arrival, begin, end.min(before.high), false);
        } else {
            self.touch(begin, end, arrival.now_ns);
        }
        if end > before.high {
            self.remember(arrival, before.high, end, true);
        }
        Kind::Retransmission(cause)
    }

    fn place_new(&mut self, arrival: &Arrival, begin: u64, end: u64, before: Sequence) -> Kind {
        if let Some(since) = self.idle_since_ns.take() {
            let idle_ns = arrival.now_ns.saturating_sub(since);
            self.counts.idle_ns = self.counts.idle_ns.saturating_add(idle_ns);
        }
        if arrival.ip_id != 0 {
            match arrival.ip_id.wrapping_sub(self.last_ip_id) {
                1..=64 => self.counted_ids += 1,
                _ => self.other_ids += 1,
            }
            self.last_ip_id = arrival.ip_id;
        }
        self.remember(arrival, begin, end, true);
        if begin > before.high {
            self.counts.gaps += 1;
            return Kind::Gap;
        }
        Kind::NewData
    }

    /// Of the data behind a position, what was captured first: it made the gap. What is right behind may itself have filled one
    /// later. A few packets are looked at, since gaps are mostly shorter.
    fn behind(&self, position: u64) -> Option<Sent> {
        const LOOKED_AT: usize = 64;
        let next = self.sent.partition_point(|sent| sent.begin < position);
        self.sent.range(next..).take(LOOKED_AT).min_by_key(|sent| sent.first_ns).copied()
    }

    fn is_reordered(&self, arrival: &Arrival, behind: Option<&Sent>) -> bool {
        let Some(behind) = behind else {
            // What was behind the gap is acknowledged: the capture has them in another order than the receiver.
            return arrival.now_ns.saturating_sub(self.last_advance_ns) < 1_000_000;
        };
        let are_counted = self.counted_ids > 4 * self.other_ids;
        let ids = (arrival.ip_id, behind.ip_id);
        classify::is_reordered(&GapFiller {
            timestamps: arrival.timestamp.zip(behind.timestamp),
            identifications: (are_counted && ids.0 != 0 && ids.1 != 0).then_some(ids),
            late_ns: arrival.now_ns.saturating_sub(behind.first_ns),
            round_trip_ns: arrival.shortest_ns,
        })
    }

    fn cause(
        &mut self,
        arrival: &Arrival,
        begin: u64,
        end: u64,
        before: Sequence,
        behind: Option<Sent>,
    ) -> Cause {
        let now_ns = arrival.now_ns;
        let at = self.sent.partition_point(|sent| sent.end <= begin);
        let own = self.sent.get(at).filter(|sent| sent.begin < end);
        // Data that fills a gap was sent before what is behind the gap.
        let sent_ns = own.map(|sent| sent.last_ns).or(behind.map(|sent| sent.first_ns));
        let since_ns = sent_ns.unwrap_or(self.last_data_ns).max(self.last_advance_ns);
        let below = begin..end.min(before.high);
        let is_sacked = self.sacked.count_in(&below) == below.end - below.start;
        let recovery = self.recovery.filter(|(_, until)| begin < *until).map(|(kind, _)| kind);
        let evidence = Evidence {
            is_acknowledged: below.end <= before.acknowledged || is_sacked,
            is_first: begin <= before.acknowledged,
            is_last: end >= before.high,
            is_sacked_behind: self.sacked.end().is_some_and(|sacked| sacked > end),
            duplicate_acks: self.duplicate_acks,
            recovery,
            waited_ns: now_ns.saturating_sub(since_ns),
            silence_ns: now_ns.saturating_sub(self.last_data_ns.max(self.last_news_ns)),
            round_trip_ns: arrival.round_trip_ns,
        };
        let cause = classify::cause(&evidence);
        self.counts.timeouts += u64::from(classify::has_timed_out(&evidence));
        match (cause, recovery) {
            (Cause::Timeout, None | Some(Recovery::Fast)) => {
                self.recovery = Some((Recovery::Timeout, before.high));
            }
            (Cause::Fast, None) => self.recovery = Some((Recovery::Fast, before.high)),
            _ => {}
        }
        cause
    }

    fn resent(&mut self, arrival: &Arrival, cause: Cause, begin: u64, end: u64) {
        let bytes = end - begin;
        let segments = bytes.div_ceil(arrival.segment.max(1).into());
        self.counts.resent(cause, segments, bytes);
        if self.resent.len() == MAX_RESENT {
            self.resent.pop_front();
        }
        self.resent.push_back(Resent { begin, end, segments });
    }

    /// Remembers data that was captured for the first time.
    fn remember(&mut self, arrival: &Arrival, begin: u64, end: u64, is_once: bool) {
        let sent = Sent {
            begin,
            end,
            first_ns: arrival.now_ns,
            last_ns: arrival.now_ns,
            timestamp: arrival.timestamp,
            ip_id: arrival.ip_id,
            is_once,
        };
        if self.sequence.is_some_and(|at| end <= at.acknowledged) {
            return;
        }
        if self.sent.len() == MAX_UNDER_WAY {
            self.sent.pop_front();
        }
        if self.sent.back().is_none_or(|last| last.end <= begin) {
            self.sent.push_back(sent);
        } else {
            let at = self.sent.partition_point(|other| other.begin < begin);
            self.sent.insert(at, sent);
        }
    }

    /// Data that is under way was sent again.
    fn touch(&mut self, begin: u64, end: u64, now_ns: u64) {
        let from = self.sent.partition_point(|sent| sent.end <= begin);
        for sent in self.sent.range_mut(from..).take_while(|sent| sent.begin < end) {
            sent.last_ns = now_ns;
            sent.is_once = false;
        }
    }
}
