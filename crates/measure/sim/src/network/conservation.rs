// SPDX-License-Identifier: GPL-2.0-or-later
//! Nothing gets lost unnoticed: every packet and byte that was sent was delivered, dropped or lost, or is on
//! its way.

use super::Network;
use crate::packet::{PacketAccount, PacketCount};

impl Network {
    /// Asserts that every byte sent was delivered, dropped or lost, or is on its way.
    pub(crate) fn assert_conservation(&self) {
        let mut found = PacketCount::default();
        for direction in &self.directions {
            direction.arriving.iter().for_each(|arriving| found.add(&arriving.packet));
            direction.queued.iter().flatten().for_each(|packet| found.add(packet));
            if let Some(qdisc) = &direction.qdisc {
                found.packets += qdisc.waits.packets;
                found.bytes += qdisc.waits.bytes;
            }
        }
        let PacketAccount { mut sent, copied, delivered, dropped, lost, too_long } = self.account;
        sent.packets += copied.packets;
        sent.bytes += copied.bytes;
        for count in [delivered, dropped, lost, too_long] {
            found.packets += count.packets;
            found.bytes += count.bytes;
        }
        assert_eq!(found, sent, "packets and bytes found and sent");
        for direction in &self.directions {
            let counters = direction.link.counters();
            let decided = counters.delivered
                + counters.queue_drops
                + counters.policed
                + counters.losses
                + counters.too_long;
            let accounted = decided + direction.link.undecided().packets;
            assert_eq!(accounted, counters.offered, "a link accounts for every packet");
        }
    }
}
