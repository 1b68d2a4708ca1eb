// SPDX-License-Identifier: GPL-2.0-or-later
//! The receiving end: order, acknowledgements, window.
//!
//! Acknowledgements are delayed (RFC 1122, RFC 5681 section 4.2) until `ack_every` segments have
//! arrived or `ack_delay` has passed, but never while there is a hole, nor for the first segments of a
//! connection (Linux's quick acknowledgements). With `ack_stretch`, what arrives within that time is one
//! arrival, as after receive offload: it is acknowledged once.
//!
//! Segments of one frame are one arrival, as after segmentation offload.
//!
//! Beyond a hole Linux acknowledges three segments at once and then no more than one in a millisecond, or in
//! 5 % of a shorter round trip (`tcp_comp_sack_delay_ns`): what the sender hears of at once, it answers at
//! once, in a burst. It keeps four ranges to tell of: before it forgets one, it acknowledges.
//!
//! A segment that is there already is acknowledged at once, with its number as the first block (DSACK, RFC 2883), and so
//! is what follows: something goes wrong (Linux's `tcp_enter_quickack_mode`). ns-2 reports no duplicates.
//!
//! The timestamp that is echoed is that of the last segment to arrive at the edge of what was acknowledged
//! (RFC 7323 section 4.3).
//!
//! What may be sent is decided by [`receive_window`](super::receive_window).

use super::receive_window::ReceiveWindow;
use crate::{
    packet::{Blocks, Packet, flag},
    ranges::Ranges,
    tcp::delivery_rate::before,
    timer::Timer,
};
use scenario::{Profile, Tcp};
use std::ops::Range;
use units::{Bytes, Duration, Timestamp};

/// Segments at the start that are acknowledged at once: Linux's `TCP_MAX_QUICKACKS`.
const QUICK: u32 = 16;
/// Segments beyond a hole that are acknowledged immediately, and later the number per acknowledgement (Linux's
/// `TCP_FASTRETRANS_THRESH`, `tcp_comp_sack_nr`).
const BEYOND_AT_ONCE: u32 = 3;
const MOST_COMPRESSED: u32 = 44;
/// The longest wait of that acknowledgement, and how late its timer may be (`tcp_comp_sack_slack_ns`).
const COMPRESSED: Duration = Duration::from_millis(1);
const COMPRESSED_SLACK: Duration = Duration::from_micros(100);
/// The ranges beyond a hole that it can tell of (`TCP_NUM_SACKS`).
const REMEMBERED: usize = 4;
/// After the first mark, the sender should know soon: its window may be small.
const QUICK_MARKED: u32 = 2;

#[derive(Debug)]
pub(super) struct Receiver {
    /// The next segment in order.
    next: u64,
    /// What the application has read.
    read: u64,
    beyond: Ranges,
    /// Segments in it.
    held_beyond: u64,
    /// A number in each of the ranges that were added to last, the newest first.
    recent: [u64; REMEMBERED],
    /// Arrived and not acknowledged.
    unacknowledged: u32,
    quick: u32,
    /// Of segments beyond a hole: those acknowledged at once since `next` moved, and those that wait.
    beyond_at_once: u32,
    compressed: u32,
    pub(super) timer: Timer,
    window: ReceiveWindow,
    /// The window's end as last told.
    advertised: u64,
    /// A mark has arrived that the sender has not answered.
    echo: bool,
    /// A segment that was there already, which the next acknowledgement reports.
    duplicate: Option<u64>,
    reports_duplicates: bool,
    /// All below was acknowledged (Linux's `rcv_wup`).
    acknowledged: u64,
    /// The timestamp to echo (RFC 7323, `TS.Recent`).
    timestamp: u32,
}

/// What shall be done about an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AckTiming {
    /// There is something wrong: the sender must know.
    Now,
    /// Enough has arrived.
    Due,
    /// No sooner than needs be.
    Later,
    /// With the rest of its frame.
    Part,
    /// More than one segment beyond a hole may be acknowledged by one.
    Compressed,
}

/// What an acknowledgement says.
#[derive(Debug)]
pub(super) struct Acknowledgement {
    pub(super) next: u64,
    pub(super) window: u32,
    pub(super) blocks: Option<Blocks>,
    pub(super) echo: bool,
    /// It is for a segment that was there already.
    pub(super) duplicate: bool,
    pub(super) timestamp_echo: u32,
}

impl Receiver {
    /// A receiver with a buffer of `buffer` bytes and segments of `mss` bytes.
    pub(super) fn new(tcp: &Tcp, buffer: Bytes, mss: Bytes, now: Timestamp) -> Self {
        let window = ReceiveWindow::new(tcp, buffer, mss, now);
        let advertised = window.first_window();
        Self {
            next: 0,
            read: 0,
            beyond: Ranges::default(),
            held_beyond: 0,
            recent: [u64::MAX; REMEMBERED],
            unacknowledged: 0,
            quick: if tcp.ack_every > 1 { QUICK } else { 0 },
            beyond_at_once: 0,
            compressed: 0,
            timer: Timer::OFF,
            window,
            advertised,
            echo: false,
            duplicate: None,
            reports_duplicates: tcp.profile == Profile::Linux,
            acknowledged: 0,
            timestamp: 0,
        }
    }

    /// The next segment in order.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The first segment that it has not told the sender to have room for.
    pub(super) fn advertised(&self) -> u64 {
        self.advertised
    }

    /// A segment has arrived.
    pub(super) fn arrives(&mut self, packet: &Packet, tcp: &Tcp) -> AckTiming {
        let number = packet.number;
        // More of its frame comes, unless it was lost.
        let more = packet.flags & flag::MORE_IN_FRAME != 0;
        if number <= self.acknowledged
            && number + 1 >= self.acknowledged
            && !before(packet.window, self.timestamp)
        {
            self.timestamp = packet.window;
        }
        if number < self.next
            || (!self.beyond.is_empty() && self.beyond.range_with(number).is_some())
        {
            self.duplicate = Some(number);
            if self.reports_duplicates && tcp.ack_every > 1 {
                self.quick = QUICK;
            }
            return AckTiming::Now;
        }
        if number > self.next {
            self.beyond.insert(number..number + 1, |_| ());
            self.held_beyond += 1;
            self.remember(number);
            let beyond = self.beyond.end() - self.next;
            self.segment_arrived(beyond, tcp);
            return if more { AckTiming::Part } else { self.timing_beyond_hole(tcp) };
        }
        self.next += 1;
        let had_hole = !self.beyond.is_empty();
        if had_hole && let Some(first) = self.beyond.first().filter(|r| r.start == self.next) {
            self.next = first.end;
            self.held_beyond -= first.end - first.start;
            self.beyond.cut_below(first.end);
        }
        self.segment_arrived(0, tcp);
        self.unacknowledged += 1;
        self.beyond_at_once = u32::from(!self.beyond.is_empty());
        if more {
            return AckTiming::Part;
        }
        if had_hole {
            return AckTiming::Now;
        }
        let quick = self.quick > 0;
        self.quick = self.quick.saturating_sub(1);
        if quick || self.unacknowledged >= tcp.ack_every {
            AckTiming::Due
        } else {
            AckTiming::Later
        }
    }

    /// A segment has arrived, the last that is there so far beyond the first missing one. While the
    /// window opens, the sender should know of it: then each segment is acknowledged at once
    /// (`tcp_grow_window`).
    fn segment_arrived(&mut self, beyond: u64, tcp: &Tcp) {
        if self.window.arrived(beyond, self.held()) && tcp.ack_every > 1 {
            self.quick |= 1;
        }
    }

    /// What is done about a segment beyond a hole.
    fn timing_beyond_hole(&mut self, tcp: &Tcp) -> AckTiming {
        let quick = self.quick > 0;
        self.quick = self.quick.saturating_sub(1);
        if quick || tcp.profile == Profile::Ns2 || self.compressed >= MOST_COMPRESSED {
            return AckTiming::Now;
        }
        if self.beyond_at_once < BEYOND_AT_ONCE {
            self.beyond_at_once += 1;
            return AckTiming::Now;
        }
        self.compressed += 1;
        AckTiming::Compressed
    }

    /// How long an acknowledgement of segments beyond a hole waits for more of them.
    pub(super) fn compression(rtt: Duration) -> Duration {
        Duration::from_nanos(rtt.as_nanos() / 20).min(COMPRESSED) + COMPRESSED_SLACK
    }

    /// Whether that segment, which has arrived, begins a range for which another is forgotten that the
    /// sender may not know of: then it is told first (`tcp_sack_compress_send_ack`).
    pub(super) fn would_forget(&self, number: u64) -> bool {
        self.compressed > 0
            && number > self.next
            && self.known_ranges().count() == REMEMBERED
            && self.known_ranges().all(|range| number + 1 < range.start || range.end < number)
    }

    /// The ranges that it remembers, the newest first.
    fn known_ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.recent.into_iter().filter_map(|number| self.beyond.range_with(number))
    }

    /// The range of that number is the newest.
    fn remember(&mut self, number: u64) {
        let Some(newest) = self.beyond.range_with(number) else { return };
        let older = self.recent.into_iter().filter(|n| !newest.contains(n));
        let mut recent = [u64::MAX; REMEMBERED];
        for (place, n) in recent.iter_mut().zip(std::iter::once(number).chain(older)) {
            *place = n;
        }
        self.recent = recent;
    }

    /// The mark of a packet, and whether the sender says that it has answered.
    pub(super) fn congestion(&mut self, marked: bool, answered: bool) {
        if answered {
            self.echo = false;
            self.quick = self.quick.max(1);
        }
        if marked && !self.echo {
            self.echo = true;
            self.quick = self.quick.max(QUICK_MARKED);
        }
    }

    /// Segments that it holds: beyond a hole, or not read yet.
    fn held(&self) -> u64 {
        self.held_beyond + (self.next - self.read)
    }

    /// The application has read all below `number`. Whether the window opens so far that the sender
    /// should be told.
    pub(super) fn read(&mut self, number: u64) -> bool {
        self.read = number;
        let window = self.advertised.saturating_sub(self.next);
        self.window.is_much_more(window, self.held())
    }

    /// Whether the application has read everything that is there.
    pub(super) fn has_read_all(&self) -> bool {
        self.held() == 0
    }

    /// The application has read.
    pub(super) fn tune(&mut self, now: Timestamp, rtt: Duration) {
        let beyond = if self.beyond.is_empty() { 0 } else { self.beyond.end() - self.next };
        self.window.tune(now, rtt, self.read, beyond);
    }

    /// The acknowledgement that is sent now.
    pub(super) fn acknowledge(&mut self) -> Acknowledgement {
        (self.unacknowledged, self.compressed) = (0, 0);
        self.timer.clear();
        self.acknowledged = self.next;
        let duplicate = self.duplicate.take();
        let reported = duplicate.filter(|_| self.reports_duplicates);
        // What was promised is never taken back.
        self.advertised = self.advertised.max(self.next + self.window.size(self.held()));
        Acknowledgement {
            next: self.next,
            window: u32::try_from(self.advertised - self.next).unwrap_or(u32::MAX),
            blocks: (reported.is_some() || !self.beyond.is_empty()).then(|| self.blocks(reported)),
            echo: self.echo,
            duplicate: duplicate.is_some(),
            timestamp_echo: self.timestamp,
        }
    }

    /// The blocks of an acknowledgement that reports that duplicate.
    fn blocks(&self, duplicate: Option<u64>) -> Blocks {
        let mut blocks = Blocks::default();
        let duplicate = duplicate.map(|number| number..number + 1);
        for (block, range) in
            blocks.iter_mut().zip(duplicate.into_iter().chain(self.known_ranges()))
        {
            *block = range;
        }
        blocks
    }
}
