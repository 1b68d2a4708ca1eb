// SPDX-License-Identifier: GPL-2.0-or-later
//! The receiving end: order, acknowledgements, window.
//!
//! Acknowledgements are delayed (RFC 1122, RFC 5681 section 4.2) until `ack_every` segments have
//! arrived or `ack_delay` has passed, but never while there is a hole, nor for the first segments of a
//! connection (Linux's quick acknowledgements). With `ack_stretch`, what arrives within that time is one
//! arrival, as after receive offload: it is acknowledged once.
//!
//! The window is the buffer's limit less what the application has not read. With autotuning it begins
//! at 64 KB and follows what was read in a round trip, doubled, as Linux does it: buffers of a fast
//! connection grow ahead of its congestion window. Linux counts its own overhead too, and since 6.6
//! measures how much of the buffer is payload: with the emulator's bursts of a few segments two thirds
//! (a buffer of 4 MB gave a window of 2.76 MB), which is taken here for all.

use super::Timer;
use crate::{
    packet::{Blocks, SACK_BLOCKS},
    ranges::Ranges,
};
use scenario::Tcp;
use std::ops::Range;
use units::{Bytes, Duration, Timestamp};

/// Segments at the start that are acknowledged at once: Linux's `TCP_MAX_QUICKACKS`.
const QUICK: u32 = 16;
/// Segments that a first round trip is taken to bring.
const FIRST_ROUND: u64 = 10;
/// The window before any tuning.
const FIRST_WINDOW: Bytes = Bytes::new(65_535);

#[derive(Debug)]
pub(super) struct Receiver {
    /// The next segment in order.
    next: u64,
    /// What the application has read.
    read: u64,
    beyond: Ranges,
    /// A number in each of the ranges that were added to last, the newest first.
    recent: [u64; SACK_BLOCKS],
    /// Arrived and not acknowledged.
    unacknowledged: u32,
    quick: u32,
    pub(super) timer: Timer,
    window: u32,
    most: u32,
    /// What had been read when the round trip began, what was read in the one before, and when it
    /// began.
    tuning: (u64, u64, Timestamp),
    /// The window's end as last told.
    told: u64,
    /// A mark has arrived that the sender has not answered.
    echo: bool,
    duplicate: bool,
}

/// What shall be done about an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// There is something wrong: the sender must know.
    Now,
    /// Enough has arrived.
    Due,
    /// No sooner than needs be.
    Later,
}

/// What an acknowledgement says.
#[derive(Debug)]
pub(super) struct Acknowledgement {
    pub(super) next: u64,
    pub(super) window: u32,
    pub(super) blocks: Option<Blocks>,
    pub(super) echo: bool,
    pub(super) duplicate: bool,
}

impl Receiver {
    /// With a buffer of so many bytes, of segments of so many.
    pub(super) fn new(tcp: &Tcp, buffer: Bytes, mss: Bytes, now: Timestamp) -> Self {
        let segments =
            |bytes: u64| u32::try_from(bytes / mss.get().max(1)).unwrap_or(u32::MAX).max(2);
        let most = segments(if tcp.autotuning { buffer.get() / 3 * 2 } else { buffer.get() });
        let window = if tcp.autotuning { segments(FIRST_WINDOW.get()).min(most) } else { most };
        Self {
            next: 0,
            read: 0,
            beyond: Ranges::default(),
            recent: [u64::MAX; SACK_BLOCKS],
            unacknowledged: 0,
            quick: if tcp.ack_every > 1 { QUICK } else { 0 },
            timer: Timer::OFF,
            window,
            most,
            tuning: (0, FIRST_ROUND, now),
            told: window.into(),
            echo: false,
            duplicate: false,
        }
    }

    /// The next segment in order.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// What it has told the sender that it may send, for the start.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// A segment has arrived.
    pub(super) fn arrives(&mut self, number: u64, tcp: &Tcp) -> Reply {
        if number < self.next || (!self.beyond.is_empty() && self.beyond.around(number).is_some()) {
            self.duplicate = true;
            return Reply::Now;
        }
        if number > self.next {
            self.beyond.insert(number..number + 1, |_| ());
            self.remember(number);
            return Reply::Now;
        }
        self.next += 1;
        let had_hole = !self.beyond.is_empty();
        if had_hole && let Some(first) = self.beyond.first().filter(|r| r.start == self.next) {
            self.next = first.end;
            self.beyond.cut_below(first.end);
        }
        self.unacknowledged += 1;
        if had_hole {
            return Reply::Now;
        }
        let quick = self.quick > 0;
        self.quick = self.quick.saturating_sub(1);
        if quick || self.unacknowledged >= tcp.ack_every { Reply::Due } else { Reply::Later }
    }

    /// The range of that number is the newest.
    fn remember(&mut self, number: u64) {
        let Some(newest) = self.beyond.around(number) else { return };
        let older = self.recent.into_iter().filter(|n| !newest.contains(n));
        let mut recent = [u64::MAX; SACK_BLOCKS];
        for (place, n) in recent.iter_mut().zip(std::iter::once(number).chain(older)) {
            *place = n;
        }
        self.recent = recent;
    }

    /// The mark of a packet, and whether the sender says that it has answered.
    pub(super) fn congestion(&mut self, marked: bool, answered: bool) {
        if answered {
            self.echo = false;
        }
        self.echo |= marked;
    }

    /// The application has read all below `number`. Whether the window opens so far that the sender
    /// should be told.
    pub(super) fn read(&mut self, number: u64) -> bool {
        self.read = number;
        let end = self.read + u64::from(self.window);
        // RFC 9293 section 3.8.6.2.2: a segment or half of the window.
        let shut = self.told.saturating_sub(self.next) < 2;
        shut && end >= self.told + u64::from(self.window / 2).clamp(1, 2)
    }

    /// Once a round trip, the window follows what was read.
    pub(super) fn tune(&mut self, now: Timestamp, rtt: Duration) {
        let (from, before, since) = self.tuning;
        if now.since(since) < rtt {
            return;
        }
        let read = self.read - from;
        if read > before {
            // Twice what was read, and more by twice the share by which reading grew: slow start
            // doubles before the new window is in use.
            let wanted = 2 * read + 16;
            let wanted = wanted + 2 * wanted * (read - before) / before;
            let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
            self.window = self.window.max(wanted.min(self.most));
        }
        self.tuning = (self.read, read.max(before), now);
    }

    /// The acknowledgement that is sent now.
    pub(super) fn acknowledge(&mut self) -> Acknowledgement {
        self.unacknowledged = 0;
        self.timer.clear();
        // What was promised is never taken back.
        self.told = self.told.max(self.read + u64::from(self.window)).max(self.next);
        Acknowledgement {
            next: self.next,
            window: u32::try_from(self.told - self.next).unwrap_or(u32::MAX),
            blocks: (!self.beyond.is_empty()).then(|| self.blocks()),
            echo: self.echo,
            duplicate: std::mem::take(&mut self.duplicate),
        }
    }

    fn blocks(&self) -> Blocks {
        let mut blocks: Blocks = [0..0, 0..0, 0..0];
        let mut count = 0;
        for number in self.recent {
            let Some(range) = self.beyond.around(number) else { continue };
            let known = |block: &Range<u64>| *block == range;
            if !blocks[..count].iter().any(known) {
                blocks[count] = range;
                count += 1;
            }
        }
        blocks
    }
}
