// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel holds for all transfers, in pipes and sockets, and what keeps it within its limit.
//!
//! Socket memory is measured at each look, for all sockets; pipes are counted as they move bytes. From half of
//! the limit, sockets that move little get little memory, and so do new transfers. From three quarters, no
//! buffer grows, and stopped sockets are cut to what they hold. At the limit no transfer begins. A socket that
//! moves bytes again gets its memory back, a few sockets at each look, so a crowd that stops and resumes takes
//! the remaining memory slowly.
//!
//! Limits: a transfer under way is never ended. Between two looks, sockets take what arrives; so the limit holds
//! where less than a quarter of it arrives from one look to the next.

use crate::{copy::pipe::Pipes, tcp::MemoryLevel};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// What a transfer takes at most that has little memory and stops: its pipe or buffer, and what is in both of its sockets.
const LITTLE: usize = 768 << 10;
/// What one takes that has stopped before it was seen to, on a short path: a receive buffer that has grown as far as it
/// does in a moment, and what waits unsent.
const MUCH: usize = 5 << 20;
/// A socket at which fewer bytes have moved since the last look is not at work.
const AT_WORK: u64 = 16 << 10;

/// What the kernel holds for all transfers.
#[derive(Debug)]
pub struct KernelMemory {
    limit: usize,
    pipes: Arc<Pipes>,
    /// What sockets held at the last look.
    sockets: AtomicUsize,
    /// Transfers under way.
    transfers: AtomicUsize,
    /// The most at a time since the last look.
    most: AtomicUsize,
    /// The most at a time between the last two looks.
    most_before: AtomicUsize,
    /// The most at a time before these looks: as many have filled by now what they fill. Short transfers follow each
    /// other, so that their number goes up and down while it stays the same crowd.
    measured: AtomicUsize,
}

/// A transfer under way, for as long as this lives.
#[derive(Debug)]
pub struct Transfer<'m>(&'m KernelMemory);

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        self.0.transfers.fetch_sub(1, Relaxed);
    }
}

impl KernelMemory {
    /// Nothing yet, and at most `limit` bytes with what `pipes` hold.
    pub fn new(limit: usize, pipes: Arc<Pipes>) -> Self {
        let [sockets, transfers, most, most_before, measured] = [0; 5].map(AtomicUsize::new);
        Self { limit, pipes, sockets, transfers, most, most_before, measured }
    }

    /// Begins a transfer, or says how many bytes are held if there is no room for it.
    ///
    /// # Errors
    /// The number of bytes that are held.
    pub fn begin(&self) -> Result<Transfer<'_>, usize> {
        let transfers = self.transfers.fetch_add(1, Relaxed) + 1;
        let transfer = Transfer(self);
        self.most.fetch_max(transfers, Relaxed);
        let held = self.held();
        // Those under way hold less while they are at work, and may all stop.
        let to_come = (held + self.unmeasured().max(1) * LITTLE).max(transfers * LITTLE);
        if to_come > self.limit { Err(held) } else { Ok(transfer) }
    }

    /// How much memory a transfer gets that begins now.
    pub fn level_at_start(&self) -> MemoryLevel {
        let is_tight = self.held() + self.unmeasured() * MUCH > self.limit / 2;
        if is_tight { MemoryLevel::Small } else { MemoryLevel::Free }
    }

    /// The pipes, whose ceiling raised buffers share.
    pub(super) fn pipes(&self) -> &Arc<Pipes> {
        &self.pipes
    }

    /// What pipes and sockets hold, in bytes.
    pub fn held(&self) -> usize {
        self.sockets() + self.pipes.held()
    }

    /// What sockets held at the last look, in bytes.
    pub fn sockets(&self) -> usize {
        self.sockets.load(Relaxed)
    }

    /// Transfers of which it is not known yet what they hold.
    fn unmeasured(&self) -> usize {
        self.transfers.load(Relaxed).saturating_sub(self.measured.load(Relaxed))
    }

    /// A look at all sockets, which hold `sockets` bytes together.
    pub(super) fn measured(&self, sockets: usize) -> Look {
        self.sockets.store(sockets, Relaxed);
        let most = self.most.swap(self.transfers.load(Relaxed), Relaxed);
        let before = self.most_before.swap(most, Relaxed);
        self.measured.store(before, Relaxed);
        Look::new(self.limit, self.held())
    }
}

/// How much memory each socket gets, as of one look.
#[derive(Debug)]
pub(super) struct Look {
    limit: usize,
    held: usize,
    /// How many sockets may still get their memory back.
    to_free: usize,
}

impl Look {
    fn new(limit: usize, held: usize) -> Self {
        let room = (limit / 4 * 3).saturating_sub(held);
        Self { limit, held, to_free: room / MUCH }
    }

    /// The new level of a socket at level `now` that has moved `moved` bytes since the last look. `None` at
    /// the first look: the first bytes fill buffers, whether or not the peer reads.
    pub(super) fn level(&mut self, now: MemoryLevel, moved: Option<u64>) -> MemoryLevel {
        use MemoryLevel::{Cut, Fixed, Free, Small};
        let Some(moved) = moved else { return now };
        let (is_at_work, is_small) = (moved >= AT_WORK, now >= Small);
        if self.held > self.limit / 4 * 3 {
            return if is_at_work { now.clamp(Fixed, Small) } else { Cut };
        }
        if is_at_work && is_small && self.to_free > 0 {
            self.to_free -= 1;
            return Free;
        }
        let is_tight = self.held > self.limit / 2;
        if is_small || (is_tight && !is_at_work) { now.max(Small) } else { Free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemoryLevel::{Cut, Fixed, Free, Small};

    const LIMIT: usize = 100 << 20;

    #[test]
    fn transfers_start_small_then_stop_near_the_limit() {
        let memory = KernelMemory::new(LIMIT, Pipes::new(1 << 20, LIMIT));
        let mut all = Vec::new();
        while memory.level_at_start() == Free {
            all.push(memory.begin().unwrap());
        }
        assert_eq!(all.len(), 11, "as many as may hold half of it before they are measured");
        while let Ok(transfer) = memory.begin() {
            all.push(transfer);
        }
        assert_eq!(all.len(), 133);
        memory.measured(60 << 20);
        assert!(memory.begin().is_err(), "some may have begun just now");
        memory.measured(60 << 20);
        assert_eq!(memory.level_at_start(), Small);
        assert!(memory.begin().is_err(), "all may stop at once");
        all.truncate(50);
        assert!(memory.begin().is_ok(), "there is room for those under way and another one");
        memory.measured(LIMIT);
        assert_eq!(memory.begin().unwrap_err(), LIMIT);
        drop(all);
        memory.measured(0);
        assert_eq!(memory.level_at_start(), Free);
    }

    #[test]
    fn repeated_crowd_of_short_transfers_starts_free() {
        let memory = KernelMemory::new(LIMIT, Pipes::new(1 << 20, LIMIT));
        for look in 0..6 {
            let crowd: Vec<_> = (0..100).map(|_| memory.begin().unwrap()).collect();
            let level = if look < 2 { Small } else { Free };
            assert_eq!(memory.level_at_start(), level, "at look {look}");
            drop(crowd);
            memory.measured(0);
        }
    }

    #[test]
    fn sockets_share_remaining_memory_by_use() {
        let mut free = Look::new(LIMIT, LIMIT / 2);
        assert_eq!([0, AT_WORK].map(|moved| free.level(Free, Some(moved))), [Free, Free]);
        let mut tight = Look::new(LIMIT, LIMIT / 2 + 1);
        assert_eq!([0, AT_WORK].map(|moved| tight.level(Free, Some(moved))), [Small, Free]);
        assert_eq!(tight.level(Cut, Some(0)), Cut, "it would fill what it was given");
        // 25 MB are left.
        let given = (0..100).filter(|_| tight.level(Small, Some(AT_WORK)) == Free).count();
        assert_eq!(given, 4);
        assert_eq!(tight.level(Free, None), Free, "nothing is known of it");
        let mut full = Look::new(LIMIT, LIMIT / 4 * 3 + 1);
        let levels = [Free, Fixed, Small, Cut];
        assert_eq!(levels.map(|now| full.level(now, Some(AT_WORK))), [Fixed, Fixed, Small, Small]);
        assert_eq!(levels.map(|now| full.level(now, Some(0))), [Cut; 4]);
    }
}
