// SPDX-License-Identifier: GPL-2.0-or-later
//! Detection of routes that are slower than their forecast allows.

use crate::core::{Core, Figures};
use ::route::Floor;
use tokio::time::sleep;

/// Resolves when the acknowledged rate over the floor's time is below the floor, although more data is in flight and the receiver has
/// window. Never resolves without a floor.
pub(crate) async fn too_slow(core: &Core, floor: Option<Floor>) {
    let Some(floor) = floor else { return std::future::pending().await };
    let mut before = core.figures();
    loop {
        sleep(floor.over).await;
        let now = core.figures();
        if before.is_connected && is_too_slow(&before, &now, floor) {
            return;
        }
        before = now;
    }
}

fn is_too_slow(before: &Figures, now: &Figures, floor: Floor) -> bool {
    let came = now.acknowledged.saturating_sub(before.acknowledged);
    // An application that writes slowly leaves little in flight.
    let is_full = now.sent.saturating_sub(now.acknowledged) > came;
    let is_held_back = now.sent >= now.limit;
    is_full && !is_held_back && came < floor.rate.times(floor.over.into()).get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use units::Rate;

    #[test]
    fn slow_ends_are_not_the_routes_fault() {
        // 1 MB in 2 s.
        let floor = Floor { rate: Rate::bits_per_second(4_000_000), over: Duration::from_secs(2) };
        let at =
            |sent, acknowledged, limit| Figures { sent, limit, acknowledged, ..Figures::default() };
        let before = at(5_000_000, 1_000_000, 64 << 20);
        for (sent, acknowledged, limit, expected, why) in [
            (6_000_000, 1_500_000, 64 << 20, true, "the route"),
            (6_000_000, 2_100_000, 64 << 20, false, "fast enough"),
            (1_600_000, 1_500_000, 64 << 20, false, "the application writes slowly"),
            (6_000_000, 1_500_000, 6_000_000, false, "the other end takes no more"),
            (5_000_000, 1_000_000, 64 << 20, true, "silent"),
            (1_000_000, 1_000_000, 64 << 20, false, "idle"),
        ] {
            let now = at(sent, acknowledged, limit);
            assert_eq!(is_too_slow(&before, &now, floor), expected, "{why}");
        }
    }
}
