// SPDX-License-Identifier: GPL-2.0-or-later
//! A send buffer at its maximum, as Linux counts it (`tcp_sendmsg_locked`): how much more the application gets in than the buffer has
//! room for.
//!
//! Unacknowledged and unsent data is kept in socket buffers (`sk_buff`) of up to [`MAX_GSO_BYTES`] of payload
//! that each take [`SKB_BYTES`] more. Room is asked for only where a new one begins (`sk_stream_memory_free`), so the last one may
//! stand out, and a program is told to go on when a third is free. A large write sends one GSO packet each time that the last buffer
//! is full and is the only one that is unsent (`tcp_push_one`). Part of it remains where GSO packets are smaller, and is filled again
//! without asking. So a large write ends where the congestion window is full, and not the send buffer, unless what was sent ends
//! with the buffer.
//!
//! It is so counted once it has held the sender back: before that, nothing depends on it. Without autotuning it is the idea of a buffer:
//! what may be out. So it is for a device whose packets are paced, which takes them one by one: nothing is filled again.

use super::{state::Sender, write_queue::MAX_GSO_BYTES};
use crate::{plan::SenderPacing, tcp::Context};
use scenario::Profile;
use std::collections::VecDeque;

/// Bytes that a socket buffer takes in addition to its payload, as measured on Linux 6.18 (`SK_MEMINFO_WMEM_QUEUED`).
const SKB_BYTES: u64 = 832;
/// A program sends a file in writes of a pipe of 16 pages (`sendfile(2)`), or copies about as much.
const PIPE: u64 = 16 * PAGE;
const PAGE: u64 = 4096;

/// The socket buffers of a sender.
#[derive(Debug, Default)]
pub(super) struct SendMemory {
    /// Ends, in segments, of those that were sent.
    sent: VecDeque<u64>,
    /// Ends, in bytes, of those that are not sent whole; the last one may grow.
    unsent: VecDeque<u64>,
    /// Bytes that the application has handed over.
    written: u64,
}

impl SendMemory {
    /// All below this segment was acknowledged.
    fn acknowledged(&mut self, una: u64) {
        while self.sent.front().is_some_and(|end| *end <= una) {
            self.sent.pop_front();
        }
    }

    /// What it takes, with this segment the first that is not acknowledged.
    fn bytes(&self, una: u64, mss: u64) -> u64 {
        let skbs = (self.sent.len() + self.unsent.len()) as u64;
        self.written.saturating_sub(una * mss) + skbs * SKB_BYTES
    }

    /// A GSO packet was sent that ends there.
    fn sent(&mut self, next: u64, mss: u64) {
        self.sent.push_back(next);
        while self.unsent.front().is_some_and(|end| *end <= next * mss) {
            self.unsent.pop_front();
        }
    }

    /// Room in the last buffer that is not sent whole.
    fn room_in_last(&self, next: u64, mss: u64, size: u64) -> u64 {
        let Some(end) = self.unsent.back() else { return 0 };
        let before = self.unsent.len().checked_sub(2).map_or(0, |n| self.unsent[n]);
        let begin = before.max(next * mss);
        size.saturating_sub(end - begin)
    }
}

impl Sender {
    /// Whether the buffer, at its maximum, is all that keeps the sender from sending more.
    pub(super) fn is_bound_by_buffer(&self, cx: &Context<'_>) -> bool {
        cx.tcp.profile == Profile::Linux
            && cx.tcp.autotuning
            && matches!(self.pace, SenderPacing::None | SenderPacing::Tcp)
            && self.buffer.is_largest()
            && self.buffer_full
            && self.has_sent_all()
            && self.content.available > self.written
            && self.board.in_flight() < self.decision.cwnd
    }

    /// From now on the buffer is counted exactly. What is under way has left in GSO packets as they are now.
    pub(super) fn begin_send_memory(&mut self) {
        let (una, next) = (self.board.una(), self.board.next());
        let mut memory =
            SendMemory { written: self.written * u64::from(self.mss), ..SendMemory::default() };
        let gso = u64::from(self.max_gso_segments());
        memory.sent.extend((una + 1..=next).filter(|end| (next - end).is_multiple_of(gso)));
        if self.written > next {
            memory.unsent.push_back(memory.written);
        }
        self.memory = Some(Box::new(memory));
    }

    /// A GSO packet has left.
    pub(super) fn count_sent(&mut self) {
        let (next, mss) = (self.board.next(), u64::from(self.mss));
        if let Some(memory) = &mut self.memory {
            memory.sent(next, mss);
        }
    }

    /// The application writes until it finds no room, as far as it has data.
    pub(super) fn write_until_full(&mut self, cx: &mut Context<'_>) {
        let (una, mss) = (self.board.una(), u64::from(self.mss));
        let most = self.buffer.most_bytes();
        let available = self.content.available.saturating_mul(mss);
        let Some(memory) = &mut self.memory else { return };
        memory.acknowledged(una);
        let is_told = !self.buffer_full || 3 * memory.bytes(una, mss) <= 2 * most;
        if !is_told || memory.written >= available {
            return;
        }
        loop {
            let written = self.memory.as_ref().map_or(0, |memory| memory.written);
            let left = available.saturating_sub(written).min(PIPE - written % PAGE);
            if left == 0 {
                self.buffer_full = false;
                return;
            }
            self.check_app_limited();
            let taken = self.write(cx, left, most);
            self.send_written(cx);
            self.buffer_full = taken < left;
            if taken == 0 {
                return;
            }
        }
    }

    /// Writes `bytes` bytes. Returns how many the buffer took.
    fn write(&mut self, cx: &mut Context<'_>, bytes: u64, most: u64) -> u64 {
        let mss = u64::from(self.mss);
        let size = (MAX_GSO_BYTES / mss).max(1) * mss;
        let mut left = bytes;
        while left > 0 {
            let (una, next) = (self.board.una(), self.board.next());
            let Some(memory) = &mut self.memory else { return 0 };
            let mut room = memory.room_in_last(next, mss, size);
            if room == 0 {
                if memory.bytes(una, mss) >= most {
                    break;
                }
                memory.unsent.push_back(memory.written);
                room = size;
            }
            let part = left.min(room);
            memory.written += part;
            left -= part;
            let end = memory.written;
            *memory.unsent.back_mut().expect("there is a last one") = end;
            let is_only_one = memory.unsent.len() == 1;
            self.written = (end / mss).min(self.content.available);
            if left > 0 && is_only_one {
                self.push_one(cx);
            }
        }
        bytes - left
    }
}
