// SPDX-License-Identifier: GPL-2.0-or-later
//! How far the windows of an idle connection have grown, by which one of several is chosen.
//!
//! The window towards the peer is this side's congestion window. That of the peer is not known here; what arrived
//! within one round trip shows it. Neither is more than the connection has carried, because before it has carried
//! much, both figures are initial values. Linux halves a window for each retransmission timeout without data, down
//! to the initial one, unless `net.ipv4.tcp_slow_start_after_idle` is 0 (`tcp_cwnd_restart`). The peer is assumed
//! to have the same setting.
//! Limits: a window of the peer that losses have reduced later is overestimated.

use crate::tcp::info::INITIAL_WINDOW;
use host::{TcpInfo, sysctl};
use std::time::Duration;

/// The windows at the beginning of an idle time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Growth {
    /// Bytes that may be under way to the peer.
    sending: u64,
    /// Bytes that the peer has had under way to here.
    receiving: u64,
    timeout: Duration,
}

impl Growth {
    pub(super) fn of(info: &TcpInfo) -> Self {
        Self {
            sending: info.cwnd.min(info.acked).get(),
            receiving: info.received_per_rtt.min(info.received).get(),
            timeout: info.retransmission_timeout,
        }
    }

    /// Both windows together after an idle time, and before it: of equal ones after, the larger one before has the
    /// higher slow-start threshold.
    pub(super) fn windows(self, idle: Duration, restarts: bool) -> (u64, u64) {
        let Self { sending, receiving, timeout } = self;
        let timeouts = match timeout.as_nanos() {
            0 => 0,
            timeout => idle.as_nanos() / timeout,
        };
        let halvings = if restarts { u32::try_from(timeouts).unwrap_or(u32::MAX) } else { 0 };
        let left =
            |window: u64| window.checked_shr(halvings).unwrap_or(0).max(INITIAL_WINDOW.min(window));
        (left(sending) + left(receiving), sending + receiving)
    }
}

/// Whether this host halves the windows of idle connections.
pub(super) fn restarts_after_idle() -> bool {
    sysctl::read("net.ipv4.tcp_slow_start_after_idle").map_or(true, |value| value != "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    fn growth(cwnd: u64, acked: u64, received_per_rtt: u64, received: u64) -> Growth {
        let [cwnd, acked, received_per_rtt, received] =
            [cwnd, acked, received_per_rtt, received].map(Bytes::new);
        let retransmission_timeout = Duration::from_millis(300);
        let info = TcpInfo {
            cwnd,
            acked,
            received_per_rtt,
            received,
            retransmission_timeout,
            ..TcpInfo::default()
        };
        Growth::of(&info)
    }

    #[test]
    fn window_counts_only_as_far_as_it_was_used() {
        let now = |growth: Growth| growth.windows(Duration::ZERO, true);
        assert_eq!(now(growth(14_600, 100, 14_600, 10_000)), (10_100, 10_100));
        assert_eq!(now(growth(14_600, 100, 470_000, 1_000_000)), (470_100, 470_100));
        assert_eq!(now(growth(900_000, 5_000_000, 14_600, 300)), (900_300, 900_300));
    }

    #[test]
    fn idle_window_is_halved_for_each_timeout() {
        let grown = growth(0, 0, 480_000, 1_000_000);
        let after = |milliseconds| grown.windows(Duration::from_millis(milliseconds), true).0;
        assert_eq!(
            [after(0), after(299), after(300), after(650)],
            [480_000, 480_000, 240_000, 120_000]
        );
        assert_eq!([after(3000), after(u64::MAX / 2)], [INITIAL_WINDOW, INITIAL_WINDOW]);
        let kept = grown.windows(Duration::from_secs(3000), false);
        assert_eq!(kept, (480_000, 480_000));
        // A small one does not grow by being idle.
        assert_eq!(growth(0, 0, 900, 900).windows(Duration::from_secs(9), true), (900, 900));
        assert_eq!(Growth::default().windows(Duration::from_secs(9), true), (0, 0));
    }
}
