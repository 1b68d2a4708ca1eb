// SPDX-License-Identifier: GPL-2.0-or-later
//! When the emulator's thread sleeps and when it polls.
//!
//! Waking up takes some tens of microseconds, so the last part of a wait is better spent polling.
//! But the thread has real-time priority, and a kernel that finds its processor taken for too long
//! gives 50 ms of each second back to ordinary tasks in one piece (`sched_rt_runtime_us`, or since
//! 6.12 the fair server): deliveries would be that late. So the thread polls only while it has slept
//! a fair share of the time, and otherwise sleeps through each wait, some tens of microseconds too long.

use units::{Duration, Timestamp};

/// Over which time the share of sleep is taken.
const WINDOW: Duration = Duration::from_millis(10);
/// The thread polls in a window if it slept at least one part in this many of the one before.
const SLEEP_PART: u64 = 4;

/// Keeps the thread's sleep within bounds.
#[derive(Debug, Default)]
pub struct PollPolicy {
    window_start: Timestamp,
    slept: Duration,
    asleep_since: Option<Timestamp>,
    sleeps_out: bool,
}

impl PollPolicy {
    /// How long to sleep at `now`, with the next release due then; for ever without one.
    pub fn sleep_until(&mut self, next: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
        let sleep = next.map(|next| {
            let wait = next.since(now);
            if self.sleeps_out { wait } else { wait.saturating_sub(polled(wait)) }
        });
        self.asleep_since = (sleep != Some(Duration::ZERO)).then_some(now);
        sleep
    }

    /// The thread goes on at `now`.
    pub fn woke(&mut self, now: Timestamp) {
        if let Some(since) = self.asleep_since.take() {
            self.slept = self.slept + now.since(since);
        }
        let window = now.since(self.window_start);
        if window >= WINDOW {
            self.sleeps_out = self.slept.saturating_mul(SLEEP_PART) < window;
            self.window_start = now;
            self.slept = Duration::ZERO;
        }
    }
}

/// The part of a wait that is spent polling: a quarter, within bounds.
fn polled(wait: Duration) -> Duration {
    Duration::from_nanos((wait.as_nanos() / 4).clamp(30_000, 80_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Releases come every `gap` for a second; how much of it is slept.
    fn share_slept(gap: Duration) -> f64 {
        let (mut policy, mut now, mut slept) = (PollPolicy::default(), Timestamp::ZERO, 0.0);
        while now.as_secs_f64() < 1.0 {
            let next = now + gap;
            let sleep = policy.sleep_until(Some(next), now).unwrap();
            slept += sleep.as_secs_f64();
            now = now + sleep;
            policy.woke(now);
            if sleep == Duration::ZERO {
                now = next;
                policy.woke(now);
            }
        }
        slept
    }

    #[test]
    fn polling_never_takes_the_processor_for_long() {
        for micros in [5, 20, 29, 31, 50, 100, 1000, 100_000] {
            let share = share_slept(Duration::from_micros(micros));
            assert!(share > 0.2, "slept {share} with a release every {micros} us");
        }
    }

    #[test]
    fn with_nothing_due_it_sleeps_until_woken() {
        let mut policy = PollPolicy::default();
        assert_eq!(policy.sleep_until(None, Timestamp::ZERO), None);
        let far = Timestamp::ZERO + Duration::from_millis(5);
        assert_eq!(
            policy.sleep_until(Some(far), Timestamp::ZERO),
            Some(Duration::from_micros(4920))
        );
    }
}
