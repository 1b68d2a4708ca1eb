// SPDX-License-Identifier: GPL-2.0-or-later
//! What a connection has carried, so that of one that was used before, each user's part can be told.

use record::LimitTimes;

/// Counts since the connection was opened, or between two times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Segments in order at the receiver.
    pub(crate) arrived: u64,
    /// Segments acknowledged in order.
    pub(crate) acknowledged: u64,
    /// Segments acknowledged, also selectively.
    pub(crate) delivered: u64,
    pub(crate) retransmits: u64,
    pub(crate) timeouts: u64,
    /// What held its sender back.
    pub(crate) limited: LimitTimes,
}

impl Carried {
    /// What came after that.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            arrived: self.arrived - before.arrived,
            acknowledged: self.acknowledged - before.acknowledged,
            delivered: self.delivered - before.delivered,
            retransmits: self.retransmits - before.retransmits,
            timeouts: self.timeouts - before.timeouts,
            limited: self.limited.since(&before.limited),
        }
    }
}
