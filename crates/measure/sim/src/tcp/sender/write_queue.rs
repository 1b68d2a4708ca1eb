// SPDX-License-Identifier: GPL-2.0-or-later
//! The write queue: what the application has handed over and is not sent yet, and in which GSO packets it
//! leaves.
//!
//! Linux hands segments to the device in GSO packets (TSO), of a millisecond of the sender's rate each, and
//! waits for a full one where more acknowledgements are about to come (`tcp_write_xmit`,
//! `tcp_tso_should_defer`). So what an acknowledgement lets out is not sent at once, and a short queue before
//! the bottleneck sees bursts of a millisecond where two segments for each acknowledgement would do.

use super::state::{Phase, Sender};
use crate::{
    plan::SenderPacing,
    tcp::{Content, Context},
};
use scenario::Profile;
use units::{Duration, Timestamp};

/// A GSO packet is a millisecond of the rate long (Linux's `sk_pacing_shift`).
const GSO_PACKETS_PER_SECOND: u64 = 1024;
/// And no longer than the kernel hands to a device: 64 KB less room for headers.
pub(super) const MAX_GSO_BYTES: u64 = 65_535 - 320;
/// Bytes more that a GSO packet may have where the smallest RTT is short: [`MAX_GSO_BYTES`], halved for each
/// period of this many microseconds (Linux's `tcp_tso_rtt_log`).
const SHORT_RTT_US: u64 = 512;
/// Rate in bytes a second below which BBR sends single segments.
const BBR_SINGLE: u64 = 150_000;
/// Only soon after a GSO packet does the next one wait to grow.
const RECENT: Duration = Duration::from_millis(1);
/// Nor does it wait for more than this part of the window (Linux's `tcp_tso_win_divisor`).
const WINDOW_PART: u64 = 3;

/// What leaves next of the write queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GsoDecision {
    /// So many segments.
    Send(u32),
    /// It waits for the window to let out more of it; whether the congestion window is what holds it.
    Wait { cwnd_limited: bool },
}

impl Sender {
    /// The application hands over what the buffer has room for: at once, or, where it has found the buffer
    /// full, when a third of it is free (Linux's `sk_stream_is_writeable`). Whether there is more to send now.
    pub(super) fn fill_write_queue(&mut self) -> bool {
        let una = self.board.una();
        let queued = self.written - una;
        if self.content.available <= self.written
            || self.buffer_full && 3 * queued > 2 * self.buffer.segments
        {
            return false;
        }
        self.check_app_limited();
        let room = una + self.buffer.segments;
        let written = self.content.available.min(room).max(self.written);
        let more = written > self.written;
        self.written = written;
        self.buffer_full = written >= room;
        more
    }

    /// The application writes: whether the sender had nothing left to send (`tcp_rate_check_app_limited`).
    pub(super) fn check_app_limited(&mut self) {
        if self.has_sent_all()
            && self.board.in_flight() < self.decision.cwnd
            && self.board.next_lost().is_none()
        {
            self.sampler.app_limited(self.board.in_flight());
        }
    }

    /// Replaces the application's content. Content that is removed before it was sent stays unsent.
    pub(in crate::tcp) fn set_content(&mut self, content: Content) {
        self.content = content;
        let written = self.written.min(content.available.max(self.board.next()));
        if std::mem::replace(&mut self.written, written) > written && self.memory.is_some() {
            self.begin_send_memory();
        }
    }

    /// Whether all was sent that the application has handed over. What the receiver has no room for is
    /// unsent: then it is not the application that is slow.
    pub(super) fn has_sent_all(&self) -> bool {
        self.board.next() >= self.written
    }

    /// Whether a new segment may be sent as far as application and receiver go.
    pub(super) fn has_new(&self) -> bool {
        self.board.next() < self.allowed && !self.has_sent_all()
    }

    /// The most segments of a GSO packet (Linux's `tcp_tso_autosize`).
    pub(super) fn max_gso_segments(&self) -> u32 {
        if !matches!(self.pace, SenderPacing::None | SenderPacing::Tcp) {
            return 1; // a device whose packets are paced takes them one by one (`gso_max_segs`)
        }
        let rate = match self.decision.pacing_rate {
            0 => self.own_pacing_rate(),
            rate => rate,
        };
        let halvings = self.rtt.min().map_or(u64::MAX, |min| min.as_nanos() / 1000 / SHORT_RTT_US);
        let more = if halvings < 32 { MAX_GSO_BYTES >> halvings } else { 0 };
        let bytes = (rate / GSO_PACKETS_PER_SECOND + more).min(MAX_GSO_BYTES);
        let least = if self.window_algorithm || rate >= BBR_SINGLE { 2 } else { 1 };
        ((bytes / u64::from(self.mss)) as u32).max(least)
    }

    /// What leaves next, where there is something new and room in both windows.
    pub(super) fn next_gso_packet(&self, cx: &Context<'_>, may_wait: bool) -> GsoDecision {
        if cx.tcp.profile == Profile::Ns2 {
            return GsoDecision::Send(1);
        }
        let (next, cwnd) = (self.board.next(), self.decision.cwnd);
        let room = cwnd - self.board.in_flight();
        let queued = self.written - next;
        let most = self.max_gso_segments();
        if queued.min(most.into()) == 1 {
            return GsoDecision::Send(1);
        }
        let receiver = self.allowed - next;
        // At least two GSO packets are in flight.
        let quota = room.min((cwnd / 2).max(1)).min(most);
        let here = self.segments_left_of_write(next).max(quota.into()).min(queued);
        let limit = receiver.min(room.into());
        let is_full = limit >= most.into()
            || here < queued && limit >= here
            || limit >= (self.allowed - self.board.una()).min(cwnd.into()) / WINDOW_PART;
        if is_full || !may_wait || !self.may_wait(cx.now) {
            return GsoDecision::Send(here.min(quota.into()).min(receiver) as u32);
        }
        GsoDecision::Wait { cwnd_limited: u64::from(room) < receiver && u64::from(room) <= here }
    }

    /// Whether waiting is worth while: losses are not being repaired, a GSO packet has just left, and the next
    /// acknowledgement is near.
    fn may_wait(&self, now: Timestamp) -> bool {
        if matches!(self.phase, Phase::Recovery(_) | Phase::Timeout(_)) || self.board.is_empty() {
            return false;
        }
        let oldest = self.board.get(self.board.una()).sent;
        let half = self.rtt.smoothed().unwrap_or_default().as_nanos() / 2;
        now <= self.write_time + RECENT && now.since(oldest).as_nanos() >= half
    }

    /// Segments up to the end of the buffer that the kernel filled with one write, as large as a GSO packet may
    /// be: a GSO packet does not wait beyond it.
    fn segments_left_of_write(&self, next: u64) -> u64 {
        let size = (MAX_GSO_BYTES / u64::from(self.mss)).max(1);
        size - next % size
    }

    /// Whether the pace allows another GSO packet now.
    pub(super) fn is_paced_out(&self, now: Timestamp) -> bool {
        self.decision.pacing_rate > 0 && now < self.write_time
    }

    /// Records that a GSO packet of `bytes` bytes of payload has left, and computes when the next one may leave. A
    /// sender that is late may send the next one sooner, by half of its time at most (Linux's
    /// `tcp_update_skb_after_send`).
    pub(super) fn gso_packet_sent(&mut self, now: Timestamp, bytes: u64) {
        let before = self.write_time;
        self.write_time = before.max(now);
        let rate = self.decision.pacing_rate;
        if rate == 0 || self.counts.sent < UNPACED {
            return;
        }
        let took =
            (u128::from(bytes) * 1_000_000_000 / u128::from(rate)).min(u128::from(u64::MAX >> 1));
        let took = took as u64;
        let late = self.write_time.since(before).as_nanos();
        self.write_time = self.write_time + Duration::from_nanos(took - late.min(took / 2));
    }

    /// Linux's pacing rate, which also sets the size of its GSO packets: the window in a round
    /// trip, times 2 in slow start and 1.2 after, in bytes a second.
    pub(super) fn own_pacing_rate(&self) -> u64 {
        let Some(rtt) = self.rtt.smoothed() else { return 0 };
        let out = (self.board.next() - self.board.una()) as u32;
        let window = u64::from(self.decision.cwnd.max(out)) * u64::from(self.mss);
        let percent = if self.decision.cwnd < self.decision.ssthresh / 2 { 200 } else { 120 };
        // Windows up to 10^8 segments fit.
        window.saturating_mul(percent * 10_000) / (rtt.as_nanos() / 1000).max(1)
    }

    /// The rate that the algorithm leaves to TCP, where TCP is to pace.
    pub(super) fn set_own_pacing_rate(&mut self) {
        if self.pace == SenderPacing::Tcp && self.window_algorithm {
            self.decision.pacing_rate = self.own_pacing_rate();
        }
    }
}

/// The first segments of a connection are not paced.
const UNPACED: u64 = 10;
