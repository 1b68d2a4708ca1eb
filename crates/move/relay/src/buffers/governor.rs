// SPDX-License-Identifier: GPL-2.0-or-later
//! How large the buffers of one connection should be: from what is seen of it now and then.
//!
//! A connection is full when a bandwidth-delay product is under way: the highest rate at which the
//! peer was lately seen to take bytes, times the shortest round trip. With less than that in the
//! send buffer, or in the receiver's window, the path is never full (figure 12 of Augusto et al., on
//! the left). With far more the rest only waits, here or in the queues on the way, which overflow
//! (the same figure on the right). So:
//!
//! - Sending: if the buffer has kept the connection waiting and the kernel's own tuning can give no more, it
//!   gets twice the BDP (once for bytes under way, once for acknowledgements that arrive late), plus the
//!   unsent bytes. A buffer that is too small shows a BDP that is too small, but twice that BDP exceeds the
//!   buffer, so a few looks find the right size.
//! - Unsent: a tenth of a second's worth, and never more than a pipe holds.
//! - Receiving: the window holds the sender back if a whole window arrives in each round trip. If tuning can
//!   give no more, the window gets twice the BDP.
//!
//! Buffers are what the kernel reports, with its own overhead. How much of a receive buffer that is
//! depends on how packets come: half, or, where each comes alone, four fifths. So the buffer is raised in
//! the proportion that it has to the window, and not again before the window can have followed. No I/O and no clock: what is seen and when are arguments.

use std::time::Duration;
use units::{Bytes, Rate};

/// For how long a rate counts at least; at most twice as long.
const REMEMBERED: Duration = Duration::from_secs(5);
/// What is kept unsent lasts for so long, unless a pipe holds less.
const UNSENT: Duration = Duration::from_millis(100);
/// Less is not kept unsent: two of the largest pieces that TCP hands to a device at a time.
const LEAST_UNSENT: u64 = 128 << 10;
/// Maximum ratio of a receive buffer to its window.
const MOST_OVERHEAD: u64 = 8;
/// How many round trips a window may take to grow into a raised buffer.
const GROWS: u32 = 4;
/// The kernel keeps sizes in signed 32-bit numbers.
const MOST: u64 = 1 << 30;
/// A connection on which less has moved since the last look is not at work that way.
const AT_WORK: u64 = 64 << 10;

/// What is seen of a connection at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// When, on a clock that only goes on.
    pub at: Duration,
    /// How fast the peer was last seen to take bytes.
    pub delivery_rate: Option<Rate>,
    /// The shortest round trip.
    pub min_rtt: Option<Duration>,
    /// In the send buffer, not sent yet.
    pub unsent: Bytes,
    /// Sent since the connection began.
    pub sent: Bytes,
    /// Received since.
    pub received: Bytes,
    /// For how long sending has waited for room in the send buffer since.
    pub sndbuf_limited: Duration,
    /// The window that is offered.
    pub window: Bytes,
    /// The send buffer, as the kernel counts it.
    pub sndbuf: Bytes,
    /// The receive buffer, as the kernel counts it.
    pub rcvbuf: Bytes,
}

/// What a connection's buffers may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Up to where the kernel tunes send buffers by itself; none is raised where that is not known.
    pub tuned_sndbuf: Option<Bytes>,
    /// The same of receive buffers.
    pub tuned_rcvbuf: Option<Bytes>,
    /// The largest send buffer that it may have.
    pub sndbuf: Bytes,
    /// The largest receive buffer that it may have.
    pub rcvbuf: Bytes,
    /// The largest window that it can offer.
    pub window: Bytes,
    /// What may wait unsent at most.
    pub unsent: Bytes,
}

/// What to change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// The send buffer is to be raised to this.
    pub sndbuf: Option<Bytes>,
    /// The receive buffer is.
    pub rcvbuf: Option<Bytes>,
    /// So much is to be kept unsent.
    pub unsent: Option<Bytes>,
}

/// Who decides for one connection.
#[derive(Debug, Default)]
pub(super) struct Governor {
    before: Option<Seen>,
    outward: Highest,
    inward: Highest,
    unsent: Option<Bytes>,
    /// Until when a window has time to follow its buffer, and what it was before.
    grows: Option<(Duration, Bytes)>,
    /// Whether it has not: then a larger buffer would only cost memory.
    stuck: bool,
}

impl Governor {
    /// What to change, after another look.
    pub(super) fn look(&mut self, seen: Seen, bounds: &Bounds) -> Decision {
        let Some(before) = self.before.replace(seen) else { return Decision::default() };
        let (sent, received) =
            (since(before.sent, seen.sent), since(before.received, seen.received));
        let mut decision = Decision::default();
        if sent >= AT_WORK
            && let Some(rate) = seen.delivery_rate
        {
            let rate = self.outward.see(seen.at, rate);
            decision.unsent = self.unsent(rate, bounds);
            decision.sndbuf = sndbuf(rate, &before, &seen, bounds);
        }
        if received >= AT_WORK
            && let Some(rate) = rate_of(received, seen.at.saturating_sub(before.at))
        {
            let rate = self.inward.see(seen.at, rate);
            decision.rcvbuf = rcvbuf(rate, &seen, bounds).filter(|_| self.may_grow(&seen));
        }
        if decision.rcvbuf.is_some() {
            let until = seen.at.saturating_add(GROWS * seen.min_rtt.unwrap_or_default());
            self.grows = Some((until, seen.window));
        }
        decision
    }

    /// Whether a receive buffer may be raised again: once its window has followed the last time.
    fn may_grow(&mut self, seen: &Seen) -> bool {
        if let Some((until, before)) = self.grows {
            if seen.at < until {
                return false;
            }
            // Linux lets packets that take much more memory than they have data widen a window only up to
            // what tcp_rmem would give it.
            self.stuck |= seen.window.get() <= before.get() + before.get() / 8;
        }
        !self.stuck
    }

    /// What to keep unsent, where that is not about what it is already.
    fn unsent(&mut self, rate: Rate, bounds: &Bounds) -> Option<Bytes> {
        let most = bounds.unsent.get();
        let wanted = in_time(rate, UNSENT).clamp(LEAST_UNSENT.min(most), most);
        let now = self.unsent.unwrap_or(bounds.unsent).get();
        if now.abs_diff(wanted) <= now / 4 && (self.unsent.is_some() || now == wanted) {
            return None;
        }
        self.unsent = Some(Bytes::new(wanted));
        self.unsent
    }
}

/// The send buffer to have, if not the one there is.
fn sndbuf(rate: Rate, before: &Seen, seen: &Seen, bounds: &Bounds) -> Option<Bytes> {
    let at_ceiling = seen.sndbuf >= bounds.tuned_sndbuf?;
    let limited = seen.sndbuf_limited > before.sndbuf_limited;
    let unsent = seen.unsent.get().min(bounds.unsent.get());
    let wanted = 2 * in_time(rate, seen.min_rtt?) + unsent;
    (at_ceiling && limited).then_some(())?;
    more_than(seen.sndbuf, wanted.min(bounds.sndbuf.get()))
}

/// The receive buffer to have, if not the one there is.
fn rcvbuf(rate: Rate, seen: &Seen, bounds: &Bounds) -> Option<Bytes> {
    let at_ceiling = seen.rcvbuf >= bounds.tuned_rcvbuf?;
    let product = in_time(rate, seen.min_rtt?);
    let window = seen.window.get().max(1);
    // A sender whose acknowledgements come in lumps has not all of the window under way all the time.
    let limited = product >= window / 4 * 3;
    (at_ceiling && limited).then_some(())?;
    let overhead = seen.rcvbuf.get().div_ceil(window).clamp(2, MOST_OVERHEAD);
    let wanted = overhead * (2 * product).min(bounds.window.get());
    more_than(seen.rcvbuf, wanted.min(bounds.rcvbuf.get()))
}

/// A size, if it is more than another by so much that it is worth a change.
fn more_than(now: Bytes, wanted: u64) -> Option<Bytes> {
    let wanted = wanted.min(MOST);
    (wanted > now.get() + now.get() / 8).then_some(Bytes::new(wanted))
}

/// What has come to a count that only grows.
pub(super) fn since(before: Bytes, now: Bytes) -> u64 {
    now.get().saturating_sub(before.get())
}

/// Bytes that pass at a rate in a time, or more than any buffer holds.
fn in_time(rate: Rate, time: Duration) -> u64 {
    let bytes = u128::from(rate.bps()) * time.as_micros() / 8_000_000;
    bytes.min(1 << 40) as u64
}

/// The rate at which bytes pass in a time.
fn rate_of(bytes: u64, time: Duration) -> Option<Rate> {
    let bps = (u128::from(bytes) * 8_000_000).checked_div(time.as_micros())?;
    Some(Rate::bits_per_second(bps.try_into().unwrap_or(u64::MAX)))
}

/// The highest of the rates seen lately: of this span and the one before.
#[derive(Debug, Default)]
struct Highest {
    span: u128,
    this: Option<Rate>,
    last: Option<Rate>,
}

impl Highest {
    fn see(&mut self, at: Duration, rate: Rate) -> Rate {
        let span = at.as_micros() / REMEMBERED.as_micros();
        if span != self.span {
            self.last = self.this.take().filter(|_| span == self.span + 1);
            self.span = span;
        }
        self.this = self.this.max(Some(rate));
        self.this.max(self.last).unwrap_or(rate)
    }
}

#[cfg(test)]
mod tests;
