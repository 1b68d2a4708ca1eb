// SPDX-License-Identifier: GPL-2.0-or-later
//! Waits between attempts: doubled after each failure, up to a longest one.

use std::time::Duration;

/// Waits that double from a first to a longest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    first: Duration,
    longest: Duration,
}

impl BackOff {
    /// From `first` to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The wait after this many failures in a row. There is none after 0.
    pub fn after(self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// The same, from half of it to all of it by `chance` (0 to 1), so that clients that failed together come back apart.
    pub fn jittered(self, failures: u32, chance: f64) -> Duration {
        self.after(failures).mul_f64(0.5 + chance / 2.0)
    }
}
