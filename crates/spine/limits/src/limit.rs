// SPDX-License-Identifier: GPL-2.0-or-later
//! Limits of a sender: the share of a connection's time for each cause.
//!
//! The causes are those of the kernel's chronographs (`tcpi_rwnd_limited`, `tcpi_sndbuf_limited`), and what remains of the time is
//! told apart by the sender's state. A simulated sender and one of a kernel are judged by the same rules, in this order:
//!
//! | cause | the sender |
//! |---|---|
//! | receive window in recovery | the same while it repairs losses: what comes after a hole fills the peer's window |
//! | receive window | could send by its congestion window, and its peer has no room |
//! | send buffer | has sent all, and the application waits for room in the buffer |
//! | recovery | repairs losses, or has waited for a timeout |
//! | application | has sent all that the application has given it |
//! | start-up | is in slow start |
//! | pacing | waits for the time at which its pace lets the next packet go |
//! | cwnd | waits for an acknowledgement |

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Why a sender does not send at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The congestion window, outside slow start and recovery.
    Cwnd,
    /// The window that the receiver offers.
    ReceiveWindow,
    /// The sender's socket buffer.
    SendBuffer,
    /// The pacing rate.
    Pacing,
    /// The application gives it nothing to send.
    Application,
    /// Slow start.
    StartUp,
    /// The repair of losses.
    Recovery,
    /// The window that the receiver offers, while losses are repaired.
    WindowInRecovery,
}

impl Limit {
    /// All causes, in the order of [`LimitShares`].
    pub const ALL: [Self; 8] = [
        Self::Cwnd,
        Self::ReceiveWindow,
        Self::SendBuffer,
        Self::Pacing,
        Self::Application,
        Self::StartUp,
        Self::Recovery,
        Self::WindowInRecovery,
    ];

    /// In words, for tables and pages.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Cwnd => "cwnd",
            Self::ReceiveWindow => "receive window",
            Self::SendBuffer => "send buffer",
            Self::Pacing => "pacing",
            Self::Application => "application",
            Self::StartUp => "start-up",
            Self::Recovery => "recovery",
            Self::WindowInRecovery => "receive window in recovery",
        }
    }

    /// The setting to raise where a socket buffer is the limit, and a comparison of congestion controls would compare buffers.
    pub const fn setting(self) -> Option<&'static str> {
        match self {
            Self::SendBuffer => Some("the sender's tcp_wmem_max"),
            Self::ReceiveWindow | Self::WindowInRecovery => Some("the receiver's tcp_rmem_max"),
            _ => None,
        }
    }
}

/// State from which the present cause is decided.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "any of them may be true at the same time")]
pub struct SenderState {
    /// The receiver has no room for the next segment, and the congestion window has.
    pub receiver_is_full: bool,
    /// All was sent, and the application waits for room in the send buffer.
    pub buffer_is_full: bool,
    /// Losses are being repaired.
    pub recovers: bool,
    /// There is something that was not sent yet, in the buffer or with an application that waits for room in it.
    pub has_unsent: bool,
    /// The congestion window is below the slow-start threshold.
    pub is_starting: bool,
    /// The next packet waits for its time.
    pub waits_for_pace: bool,
}

impl SenderState {
    /// The cause.
    pub fn limit(&self) -> Limit {
        match self {
            Self { receiver_is_full: true, recovers: true, .. } => Limit::WindowInRecovery,
            Self { receiver_is_full: true, .. } => Limit::ReceiveWindow,
            Self { buffer_is_full: true, .. } => Limit::SendBuffer,
            Self { recovers: true, .. } => Limit::Recovery,
            Self { has_unsent: false, .. } => Limit::Application,
            Self { is_starting: true, .. } => Limit::StartUp,
            Self { waits_for_pace: true, .. } => Limit::Pacing,
            _ => Limit::Cwnd,
        }
    }
}

/// How long each cause has held a sender back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitTimes([u64; Limit::ALL.len()]);

impl LimitTimes {
    /// So much longer.
    pub fn add(&mut self, limit: Limit, time: Duration) {
        self.add_nanos(limit, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The same, in nanoseconds.
    pub fn add_nanos(&mut self, limit: Limit, nanos: u64) {
        let sum = &mut self.0[limit as usize];
        *sum = sum.saturating_add(nanos);
    }

    /// How long one cause has held it back.
    pub fn of(&self, limit: Limit) -> Duration {
        Duration::from_nanos(self.0[limit as usize])
    }

    /// All of these, too.
    pub fn add_all(&mut self, other: &Self) {
        for (sum, nanos) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(nanos);
        }
    }

    /// The difference to earlier times of the same sender.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut times = *self;
        for (time, before) in times.0.iter_mut().zip(before.0) {
            *time = time.saturating_sub(before);
        }
        times
    }

    /// The parts of the whole; `None` where no time has passed.
    pub fn shares(&self) -> Option<LimitShares> {
        let all: f64 = self.0.iter().map(|nanos| *nanos as f64).sum();
        let share = |limit: Limit| self.0[limit as usize] as f64 / all;
        (all > 0.0).then(|| LimitShares {
            cwnd: share(Limit::Cwnd),
            receive_window: share(Limit::ReceiveWindow),
            send_buffer: share(Limit::SendBuffer),
            pacing: share(Limit::Pacing),
            application: share(Limit::Application),
            start_up: share(Limit::StartUp),
            recovery: share(Limit::Recovery),
            window_in_recovery: share(Limit::WindowInRecovery),
        })
    }
}

/// The parts of a sender's time in which each cause held it back; together 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitShares {
    /// [`Limit::Cwnd`].
    pub cwnd: f64,
    /// [`Limit::ReceiveWindow`].
    pub receive_window: f64,
    /// [`Limit::SendBuffer`].
    pub send_buffer: f64,
    /// [`Limit::Pacing`].
    pub pacing: f64,
    /// [`Limit::Application`].
    pub application: f64,
    /// [`Limit::StartUp`].
    pub start_up: f64,
    /// [`Limit::Recovery`].
    pub recovery: f64,
    /// [`Limit::WindowInRecovery`]; records of earlier versions count it as [`Limit::ReceiveWindow`].
    #[serde(default)]
    pub window_in_recovery: f64,
}

impl LimitShares {
    /// One cause's part.
    pub fn of(&self, limit: Limit) -> f64 {
        match limit {
            Limit::Cwnd => self.cwnd,
            Limit::ReceiveWindow => self.receive_window,
            Limit::SendBuffer => self.send_buffer,
            Limit::Pacing => self.pacing,
            Limit::Application => self.application,
            Limit::StartUp => self.start_up,
            Limit::Recovery => self.recovery,
            Limit::WindowInRecovery => self.window_in_recovery,
        }
    }

    /// The cause with the largest part.
    pub fn largest(&self) -> Limit {
        let by_share = |one: &Limit, other: &Limit| self.of(*one).total_cmp(&self.of(*other));
        Limit::ALL.into_iter().max_by(by_share).expect("there are causes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_shares_of_what_has_passed() {
        let mut times = LimitTimes::default();
        assert_eq!(times.shares(), None);
        times.add(Limit::StartUp, Duration::from_secs(7));
        let before = times;
        for (limit, seconds) in Limit::ALL.into_iter().zip([3, 1, 1, 1, 1, 1, 1, 1]) {
            times.add(limit, Duration::from_secs(seconds));
        }
        let shares = times.since(&before).shares().unwrap();
        for limit in Limit::ALL {
            let expected = if limit == Limit::Cwnd { 0.3 } else { 0.1 };
            assert!((shares.of(limit) - expected).abs() < 1e-12, "{limit:?}");
        }
        assert_eq!(
            (shares.largest(), times.shares().unwrap().largest()),
            (Limit::Cwnd, Limit::StartUp)
        );
    }

    #[test]
    fn cause_is_the_first_in_the_table() {
        let mut state = SenderState {
            receiver_is_full: true,
            buffer_is_full: true,
            recovers: true,
            has_unsent: false,
            is_starting: true,
            waits_for_pace: true,
        };
        assert_eq!(state.limit(), Limit::WindowInRecovery);
        state.recovers = false;
        assert_eq!(state.limit(), Limit::ReceiveWindow);
        (state.receiver_is_full, state.recovers) = (false, true);
        assert_eq!(state.limit(), Limit::SendBuffer);
        state.buffer_is_full = false;
        assert_eq!(state.limit(), Limit::Recovery);
        state.recovers = false;
        assert_eq!(state.limit(), Limit::Application);
        state.has_unsent = true;
        assert_eq!(state.limit(), Limit::StartUp);
        state.is_starting = false;
        assert_eq!(state.limit(), Limit::Pacing);
        state.waits_for_pace = false;
        assert_eq!(state.limit(), Limit::Cwnd);
    }
}
