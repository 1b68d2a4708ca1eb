// SPDX-License-Identifier: GPL-2.0-or-later
//! One direction of a connection: the data that one end sends and the acknowledgements of the other.
//!
//! Sequence numbers become positions of 64 bits, whose lower half they are. `high` is the high-water mark, the end of the highest
//! data seen; what is expected next never follows from a single packet that may be missing. `seen` holds which data was
//! captured, `sacked` what the receiver has beyond a gap, `sent` when each packet's data was sent, until it is acknowledged.

mod acknowledged;
mod counts;
mod data;
mod position;

pub(crate) use acknowledged::Acknowledgement;
pub(crate) use counts::FlowCounts;
pub(crate) use data::Arrival;

use crate::{
    classify::Recovery,
    curves::{Curves, KeptCurves, WindowCurves},
    growth::Growth,
    ranges::RangeSet,
};
use position::Sequence;
use std::collections::VecDeque;

/// Packets under way that are remembered. Beyond, the oldest are forgotten, which costs samples of round trips.
const MAX_UNDER_WAY: usize = 1 << 17;
/// Retransmissions that wait for a duplicate selective acknowledgement.
const MAX_RESENT: usize = 256;

/// Data of one packet that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sent {
    begin: u64,
    end: u64,
    first_ns: u64,
    last_ns: u64,
    timestamp: Option<u32>,
    ip_id: u16,
    /// Whether it was seen once, so that an acknowledgement is its own.
    is_once: bool,
}

/// Data that was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Resent {
    begin: u64,
    end: u64,
    /// Of its segments, those that are not known to have been in vain.
    segments: u64,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    sequence: Option<Sequence>,
    /// Its SYN's number.
    isn: Option<u32>,
    fin: Option<u64>,
    is_fin_acknowledged: bool,
    seen: RangeSet,
    sacked: RangeSet,
    sent: VecDeque<Sent>,
    resent: VecDeque<Resent>,
    recovery: Option<(Recovery, u64)>,
    duplicate_acks: u32,
    window: Window,
    /// Times of the last data, of the last acknowledgement that told of something new, and that advanced.
    last_data_ns: u64,
    last_news_ns: u64,
    last_advance_ns: u64,
    first_data_ns: Option<u64>,
    /// Since when nothing is under way.
    idle_since_ns: Option<u64>,
    /// Since when no further segment fits into the window.
    limited_since_ns: Option<u64>,
    /// How IPv4 identifications of new data follow each other: counted up, or otherwise.
    last_ip_id: u16,
    counted_ids: u32,
    other_ids: u32,
    has_timestamps: bool,
    largest_payload: u32,
    /// If they are asked for.
    curves: Option<Box<Curves>>,
    pub(crate) counts: FlowCounts,
}

/// The receiver's window.
#[derive(Debug, Default, Clone, Copy)]
struct Window {
    /// As in the last header.
    raw: Option<u16>,
    /// `None` if the handshake was not captured.
    scale: Option<u8>,
    largest_raw: u16,
}

impl Window {
    fn bytes(self) -> Option<u64> {
        Some(u64::from(self.raw?) << self.scale?)
    }
}

impl Flow {
    /// A direction of which these curves are kept.
    pub(crate) fn new(kept: KeptCurves) -> Self {
        Self { curves: Curves::of(kept), ..Self::default() }
    }

    /// How its high-water mark rose, if that was asked for and data was sent.
    pub(crate) fn growth(&self) -> Option<&Growth> {
        let growth = self.curves.as_deref().map(|curves| &curves.growth);
        growth.filter(|growth| !growth.points().is_empty())
    }

    /// Windows and round trips, if they were asked for and data was sent.
    pub(crate) fn window_curves(&self) -> Option<&WindowCurves> {
        self.growth().and(self.curves.as_deref()?.windows.as_ref())
    }

    /// The SYN of this direction. Whether it is the first of them.
    pub(crate) fn opens(&mut self, isn: u32) -> bool {
        let is_first = self.isn.is_none();
        self.isn = Some(isn);
        if self.sequence.is_none() {
            self.sequence = Some(Sequence::at(isn.wrapping_add(1)));
        }
        is_first
    }

    /// The number of its SYN, if that was captured.
    pub(crate) fn isn(&self) -> Option<u32> {
        self.isn
    }

    /// Sets how its receiver scales windows.
    pub(crate) fn set_window_scale(&mut self, scale: u8) {
        self.window.scale = Some(scale);
    }

    /// Whether its end was acknowledged.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_fin_acknowledged
    }

    /// Whether any packet was captured that tells of its data.
    pub(crate) fn is_known(&self) -> bool {
        self.sequence.is_some()
    }

    /// First position, high-water mark, and what is acknowledged. Zeros if nothing is known.
    pub(crate) fn positions(&self) -> (u64, u64, u64) {
        self.sequence.map_or((0, 0, 0), |at| (at.first, at.high, at.acknowledged))
    }

    /// Distinct bytes captured.
    pub(crate) fn seen_bytes(&self) -> u64 {
        self.seen.count_in(&(0..u64::MAX))
    }

    /// The window's scale and the largest window in bytes, where the scale is known.
    pub(crate) fn largest_window(&self) -> (Option<u8>, Option<u64>) {
        let scale = self.window.scale;
        (scale, scale.map(|scale| u64::from(self.window.largest_raw) << scale))
    }

    /// First data, and the later of the last data and the last advance of the acknowledgement.
    pub(crate) fn active_ns(&self) -> Option<(u64, u64)> {
        Some((self.first_data_ns?, self.last_data_ns.max(self.last_advance_ns)))
    }

    /// When the acknowledgement advanced for the last time; 0 if never.
    pub(crate) fn last_advance_ns(&self) -> u64 {
        self.last_advance_ns
    }

    /// Payload of a full segment, and whether the handshake told it.
    pub(crate) fn segment_bytes(&self, largest: Option<u16>) -> (u32, bool) {
        let options = if self.has_timestamps { 12 } else { 0 };
        match largest {
            Some(mss) => (u32::from(mss).saturating_sub(options).max(1), true),
            None => ((1460 - options).min(self.largest_payload.max(1)), false),
        }
    }

    /// Bytes of memory behind it.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.seen.heap_bytes()
            + self.sacked.heap_bytes()
            + self.sent.capacity() * size_of::<Sent>()
            + self.resent.capacity() * size_of::<Resent>()
            + self.curves.as_ref().map_or(0, |curves| curves.heap_bytes())
    }

    /// Keeps what is under way and the receiver's window now, if that is asked for.
    fn keep_windows(&mut self, now_ns: u64) {
        let Some(at) = self.sequence.filter(|_| self.first_data_ns.is_some()) else { return };
        let window = self.window.bytes();
        let curves = self.curves.as_mut().and_then(|curves| curves.windows.as_mut());
        let Some(windows) = curves else { return };
        windows.outstanding_bytes.add(now_ns, at.high - at.acknowledged.min(at.high));
        if let Some(window) = window {
            windows.window_bytes.add(now_ns, window);
        }
    }

    /// Adds the time since the window was full, until now.
    fn leave_limit(&mut self, now_ns: u64) {
        if let Some(since) = self.limited_since_ns.take() {
            let limited_ns = now_ns.saturating_sub(since);
            self.counts.window_limited_ns =
                self.counts.window_limited_ns.saturating_add(limited_ns);
        }
    }

    /// Whether a further segment fits into the window, from now on.
    fn update_limit(&mut self, now_ns: u64, segment: u32) {
        let Some(at) = self.sequence else { return };
        let window = self.window.bytes();
        let is_limited = window.is_some_and(|window| {
            at.high > at.acknowledged && at.high + u64::from(segment) > at.acknowledged + window
        });
        if !is_limited {
            self.leave_limit(now_ns);
        } else if self.limited_since_ns.is_none() {
            self.limited_since_ns = Some(now_ns);
        }
    }
}
