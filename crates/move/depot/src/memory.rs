// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory that a crowd has left behind, given back to the system.
//!
//! The C library keeps what is freed for its next use, and cannot give back by itself what lies
//! below something that is still in use: after very many connections a depot of few would stay as
//! large as it was. So it is told to once there is clearly less to do.

#![expect(unsafe_code, reason = "malloc_trim(3) has no safe wrapper")]

/// A fall of less than this is not worth the search for memory, which takes milliseconds.
const LEAST: usize = 256;
/// For how many looks nothing may happen before work counts as over.
const QUIET: u32 = 5;

/// How much there was to do lately.
#[derive(Debug, Default)]
pub(crate) struct PeakDrop {
    most: usize,
}

impl PeakDrop {
    /// Whether the load is clearly below its maximum. Call it periodically, with the maximum since the last
    /// call and the load now.
    pub(crate) fn has_fallen(&mut self, (most, now): (usize, usize)) -> bool {
        self.most = self.most.max(most);
        let fallen = self.most - now >= LEAST.max(self.most / 4);
        if fallen {
            self.most = now;
        }
        fallen
    }
}

/// How much was done since memory was last given back, and how long nothing has been.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// How many transfers had begun then.
    given_back: u64,
    /// How many had at the last look.
    begun: u64,
    /// How many looks ago that last changed, or one was under way.
    quiet: u32,
}

impl Work {
    /// Whether it has been quiet for a while, after much that was done: many transfers that come a few at
    /// a time leave as much behind as a crowd does, and what served them is let go a little after them. To
    /// be asked every second or so, with how many have begun so far and how many are under way.
    pub(crate) fn is_over(&mut self, begun: u64, now: usize) -> bool {
        let quiet = now == 0 && begun == self.begun;
        self.quiet = if quiet { self.quiet.saturating_add(1) } else { 0 };
        self.begun = begun;
        let over = self.quiet >= QUIET && begun - self.given_back >= LEAST as u64;
        if over {
            self.given_back = begun;
        }
        over
    }
}

/// Gives back what can be. Takes milliseconds, during which others may wait for memory.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: releases free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_has_fallen_after_quiet_time() {
        let mut work = Work::default();
        let mut looks = |begun, now, times: u32| (0..times).any(|_| work.is_over(begun, now));
        assert!(!looks(255, 0, 20), "too little");
        assert!(!looks(256, 1, 20) && !looks(256, 0, QUIET - 1) && looks(256, 0, 1));
        assert!(!looks(256, 0, 20), "once");
        assert!(!looks(511, 0, QUIET) && !looks(512, 0, QUIET) && looks(512, 0, 1));
    }

    #[test]
    fn clear_fall_is_reported_once() {
        let mut tide = PeakDrop::default();
        let mut asked = |most, now| tide.has_fallen((most, now));
        assert!(!asked(255, 0));
        assert!(!asked(2000, 2000) && !asked(2000, 1501), "by less than a quarter");
        assert!(asked(1501, 1500) && !asked(1500, 1500));
        // Up and down between two questions.
        assert!(asked(5000, 10) && !asked(10, 0));
    }
}
