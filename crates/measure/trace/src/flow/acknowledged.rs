// SPDX-License-Identifier: GPL-2.0-or-later
//! Acknowledgements of one direction's data.

use super::{Flow, Sent, position::Sequence};
use crate::{classify::Kind, round_trip::RoundTrips};

/// What a packet says of the other direction's data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acknowledgement<'a> {
    pub(crate) now_ns: u64,
    pub(crate) ack: u32,
    /// As in the header.
    pub(crate) window: u16,
    /// In the handshake, windows are not scaled and repeat nothing.
    pub(crate) is_handshake: bool,
    /// It has neither data nor FIN.
    pub(crate) is_empty: bool,
    pub(crate) sack: &'a [(u32, u32)],
    /// Payload of a full segment.
    pub(crate) segment: u32,
}

impl Flow {
    /// Takes an acknowledgement, and round trips to the receiver. What it is: a duplicate, of a closed window, of data that came
    /// twice.
    pub(crate) fn acknowledge(
        &mut self,
        given: &Acknowledgement<'_>,
        to_receiver: &mut RoundTrips,
    ) -> [Option<Kind>; 3] {
        let now_ns = given.now_ns;
        let at = self.sequence.get_or_insert_with(|| Sequence::at(given.ack));
        let Some((mut ack, _)) = at.accept(given.ack, 0) else {
            self.counts.strays += 1;
            return [Some(Kind::Stray), None, None];
        };
        if self.fin.is_some_and(|fin| ack == fin + 1) {
            self.is_fin_acknowledged = true;
            ack -= 1;
        }
        let before = *at;
        // The capture lacks the data.
        at.high = at.high.max(ack);
        let had_window = self.window.raw;
        if !given.is_handshake {
            self.window.raw = Some(given.window);
            self.window.largest_raw = self.window.largest_raw.max(given.window);
        }
        let duplicate_sack = self.duplicate_sack(given, ack);
        let is_news = self.take_sack(given, ack, to_receiver);
        let advances = ack > before.acknowledged;
        if advances {
            self.advance(now_ns, ack, to_receiver);
        }
        if is_news || advances {
            self.last_news_ns = now_ns;
        }
        let is_duplicate = !advances
            && ack == before.acknowledged
            && given.is_empty
            && !given.is_handshake
            && had_window == Some(given.window)
            && before.high > ack;
        if is_duplicate {
            self.duplicate_acks += 1;
            self.counts.duplicate_acks += 1;
        }
        let is_zero = given.window == 0 && !given.is_handshake;
        self.counts.zero_windows += u64::from(is_zero);
        self.update_limit(now_ns, given.segment);
        self.keep_windows(now_ns);
        [
            is_duplicate.then_some(Kind::DuplicateAck),
            is_zero.then_some(Kind::ZeroWindow),
            duplicate_sack.then_some(Kind::DuplicateSack),
        ]
    }

    /// The acknowledgement advances.
    fn advance(&mut self, now_ns: u64, ack: u64, to_receiver: &mut RoundTrips) {
        let Some(at) = self.sequence.as_mut() else { return };
        at.acknowledged = ack;
        let is_all = ack >= at.high;
        let (mut last, mut is_ambiguous): (Option<Sent>, bool) = (None, false);
        while let Some(front) = self.sent.front_mut().filter(|front| front.begin < ack) {
            is_ambiguous |= !front.is_once;
            last = Some(*front);
            if front.end > ack {
                front.begin = ack;
                break;
            }
            self.sent.pop_front();
        }
        if let Some(sent) = last.filter(|_| !is_ambiguous) {
            let edge = ack.min(sent.end) - 1;
            // What was selectively acknowledged has given its sample.
            if self.sacked.count_in(&(edge..edge + 1)) == 0 {
                self.sample(now_ns, sent.first_ns, to_receiver);
            }
        }
        self.sacked.remove_below(ack);
        self.duplicate_acks = 0;
        self.last_advance_ns = now_ns;
        if self.recovery.is_some_and(|(_, until)| ack >= until) {
            self.recovery = None;
        }
        if is_all && self.first_data_ns.is_some() {
            self.idle_since_ns = Some(now_ns);
        }
    }

    /// A round trip to the receiver.
    fn sample(&mut self, now_ns: u64, sent_ns: u64, to_receiver: &mut RoundTrips) {
        let ns = now_ns.saturating_sub(sent_ns);
        to_receiver.sample(ns);
        if let Some(windows) = self.curves.as_mut().and_then(|curves| curves.windows.as_mut()) {
            windows.rtt_ns.add(now_ns, ns);
        }
    }

    /// Takes selective acknowledgements. Whether any is new.
    fn take_sack(
        &mut self,
        given: &Acknowledgement<'_>,
        ack: u64,
        to_receiver: &mut RoundTrips,
    ) -> bool {
        let Some(at) = self.sequence else { return false };
        let mut is_news = false;
        for (left, right) in given.sack {
            let (left, right) = (at.position(*left), at.position(*right));
            // What lies below is a duplicate, what lies above is of another connection.
            if left < ack || left >= right || right > at.high {
                continue;
            }
            let is_edge_new = self.sacked.count_in(&(right - 1..right)) == 0;
            is_news |= self.sacked.add(left..right) > 0;
            if is_edge_new {
                let index = self.sent.partition_point(|sent| sent.end < right);
                let sent = self.sent.get(index).filter(|sent| sent.begin < right && sent.is_once);
                if let Some(sent_ns) = sent.map(|sent| sent.first_ns) {
                    self.sample(given.now_ns, sent_ns, to_receiver);
                }
            }
        }
        is_news
    }

    /// Whether the first block tells of data that came twice, which is below the acknowledgement or within the second block (RFC
    /// 2883). If that was sent again, it was in vain.
    fn duplicate_sack(&mut self, given: &Acknowledgement<'_>, ack: u64) -> bool {
        let (Some(at), Some(first)) = (self.sequence, given.sack.first()) else { return false };
        let (left, right) = (at.position(first.0), at.position(first.1));
        let second = given.sack.get(1).map(|block| (at.position(block.0), at.position(block.1)));
        let is_within = second.is_some_and(|block| block.0 <= left && right <= block.1);
        if left >= right || !(right <= ack || is_within) {
            return false;
        }
        self.counts.duplicate_sacks += 1;
        let mut is_known = false;
        for resent in self.resent.iter_mut().filter(|resent| resent.segments > 0) {
            if resent.begin < right && left < resent.end {
                let bytes = resent.end.min(right) - resent.begin.max(left);
                let segments = bytes.div_ceil(given.segment.max(1).into()).min(resent.segments);
                self.counts.spurious += segments;
                resent.segments -= segments;
                is_known = true;
                break;
            }
        }
        self.counts.unmatched_duplicate_sacks += u64::from(!is_known);
        true
    }
}
