// SPDX-License-Identifier: GPL-2.0-or-later
//! What limited a transfer: this end's own view, and the receipts of the depots that it went through.
//!
//! This end divides all its time: it waits for the network, for its disk or output, or for its own rate limit. The depots say
//! what the network waited for ([`limits::Chain`]).

use limits::{Cause, Chain, DepotReceipt, Flow, Receipt, Row};
use std::time::{Duration, Instant};

/// How often what was measured is added to the receipt: bodies come in thousands of pieces a second.
const FLUSH: Duration = Duration::from_millis(20);

/// What limited a transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct TransferLimits {
    /// This end's own view: of each row, the time of its own on the side of the client, and of the network on the other.
    pub own: Receipt,
    /// What each depot says, the nearest first. Empty without depots, and where they keep no receipts.
    pub depots: Vec<DepotReceipt>,
    /// All together.
    pub chain: Chain,
}

/// Where time was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spent {
    /// At this end.
    Here,
    /// Waiting for the network.
    Network,
}

/// The time of a transfer, as far as it has been accounted for.
#[derive(Debug)]
pub(crate) struct OwnLimits {
    started: Instant,
    marked: Instant,
    flushed: Duration,
    pending: Row,
    /// What [`moved_to`](Self::moved_to) was told last.
    moved: u64,
    receipt: Receipt,
}

impl OwnLimits {
    /// Of a transfer that began then.
    pub(crate) fn new(started: Instant) -> Self {
        Self {
            started,
            marked: started,
            flushed: Duration::ZERO,
            pending: Row::default(),
            moved: 0,
            receipt: Receipt::default(),
        }
    }

    /// The time since the last mark has gone there.
    pub(crate) fn mark(&mut self, spent: Spent, cause: Cause) {
        self.mark_at(Instant::now(), spent, cause);
    }

    fn mark_at(&mut self, now: Instant, spent: Spent, cause: Cause) {
        let times = match spent {
            Spent::Here => &mut self.pending.client,
            Spent::Network => &mut self.pending.upstream,
        };
        times.add(cause, now.saturating_duration_since(self.marked));
        self.marked = now;
        if now.saturating_duration_since(self.started) >= self.flushed + FLUSH {
            self.flush();
        }
    }

    /// The time since the last mark has gone to this end's source for so long, and to the network for the rest.
    pub(crate) fn split(&mut self, (here, cause): (Duration, Cause), network: Cause) {
        let now = Instant::now();
        let here = here.min(now.saturating_duration_since(self.marked));
        self.mark_at(self.marked + here, Spent::Here, cause);
        self.mark_at(now, Spent::Network, network);
    }

    /// So many bytes are there in all.
    pub(crate) fn moved_to(&mut self, bytes: u64) {
        self.pending.bytes += bytes.saturating_sub(self.moved);
        self.moved = self.moved.max(bytes);
    }

    /// So many bytes have come, or gone.
    pub(crate) fn moved(&mut self, bytes: u64) {
        self.pending.bytes += bytes;
    }

    fn flush(&mut self) {
        let now = self.marked.saturating_duration_since(self.started);
        self.receipt.add(self.flushed, now, &std::mem::take(&mut self.pending));
        self.flushed = now;
    }

    /// All of it, with what the depots say. `None` of a transfer that took no time.
    pub(crate) fn end(&mut self, depots: Vec<DepotReceipt>, flow: Flow) -> Option<TransferLimits> {
        self.flush();
        let own = std::mem::take(&mut self.receipt);
        let began_s_ago = self.started.elapsed().as_secs_f64();
        let chain = Chain::new(&own, began_s_ago, &depots, flow);
        (!chain.total.is_empty()).then_some(TransferLimits { own, depots, chain })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_time_is_accounted_for_once() {
        let started = Instant::now();
        let mut limits = OwnLimits::new(started);
        let at = |ms| started + Duration::from_millis(ms);
        limits.mark_at(at(100), Spent::Network, Cause::Connecting);
        for n in 0..1000 {
            limits.moved(10);
            limits.mark_at(at(101 + n), Spent::Network, Cause::OtherHop);
        }
        limits.mark_at(at(4100), Spent::Here, Cause::Disk);
        let found = limits.end(Vec::new(), Flow::Down).unwrap();
        let total = found.own.total();
        assert_eq!(total.bytes, 10_000);
        for (times, cause, seconds) in [
            (&total.upstream, Cause::Connecting, 0.1),
            (&total.upstream, Cause::OtherHop, 1.0),
            (&total.client, Cause::Disk, 3.0),
        ] {
            assert!((times.seconds(cause) - seconds).abs() < 1e-3, "{cause:?}: {total:?}");
        }
        let first = found.chain.total[0];
        assert_eq!((first.hop, first.cause), (0, Cause::Disk));
    }

    #[test]
    fn transfer_without_time_has_no_limits() {
        let mut limits = OwnLimits::new(Instant::now());
        assert_eq!(limits.end(Vec::new(), Flow::Down), None);
    }
}
