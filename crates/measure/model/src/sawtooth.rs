// SPDX-License-Identifier: GPL-2.0-or-later
//! What AIMD streams use of a link that only they fill, by its queue and by how their losses fall together.
//!
//! The sum of the windows climbs to what link and queue hold, 1 + q bandwidth-delay products, and drops. If one stream
//! loses at a time, it drops by `(1 - kept) / n` (Altman, Barman, Tuffin, Vojnovic, "Parallel TCP sockets", INFOCOM
//! 2006, whose form for no queue at all is [`congestion::response::parallel_share`]). If all lose at once, which
//! taildrop makes likely, it drops by `1 - kept` whatever their number. Queueing stretches round trips: Appenzeller,
//! Keslassy, `McKeown` 2004, section 3. Domain: growth by equal steps, equal round trips. A share of the rate, 0 to 1.

use congestion::response::parallel_share;

/// How the losses of parallel streams fall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Losses {
    /// All streams lose at once.
    Synchronised,
    /// One stream at a time.
    OneAtATime,
}

/// The used share of the rate: `streams` that keep `kept` on a loss, over a queue of `queue` bandwidth-delay products.
pub fn used_share(streams: u32, kept: f64, queue: f64, losses: Losses) -> f64 {
    let bottom = match losses {
        Losses::Synchronised => kept,
        Losses::OneAtATime => 1.0 - (1.0 - kept) / f64::from(streams.max(1)),
    };
    if queue <= 0.0 && losses == Losses::OneAtATime {
        return parallel_share(streams, kept);
    }
    climb(bottom * (1.0 + queue), 1.0 + queue)
}

/// What a window carries on its way from `low` to `high` products, as a share of the rate: below 1 a round trip brings
/// a window, above 1 it takes as long as the window's serialisation.
fn climb(low: f64, high: f64) -> f64 {
    if low >= 1.0 {
        return 1.0;
    }
    let carried = (high * high - low * low) / 2.0;
    let time = (1.0 - low) + (high * high - 1.0) / 2.0;
    carried / time
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream by steps of time: the window grows by a step each round trip, which is longer above the product.
    fn stepped(low: f64, high: f64) -> f64 {
        let steps = 200_000;
        let step = (high - low) / f64::from(steps);
        let (mut carried, mut time) = (0.0, 0.0);
        for n in 0..steps {
            let window = low + (f64::from(n) + 0.5) * step;
            carried += window;
            time += window.max(1.0);
        }
        carried / time
    }

    #[test]
    fn saw_is_the_sum_over_its_rounds() {
        for (kept, queue) in [(0.5, 0.0), (0.5, 0.3), (0.7, 0.1), (0.5, 0.9)] {
            let found = used_share(1, kept, queue, Losses::Synchronised);
            let summed = stepped(kept * (1.0 + queue), 1.0 + queue);
            assert!((found - summed).abs() < 1e-4, "{found}, not {summed}");
        }
    }

    #[test]
    fn limits_of_queue_and_streams() {
        // A queue of a product is enough for one Reno stream (Appenzeller et al.).
        assert!((used_share(1, 0.5, 1.0, Losses::OneAtATime) - 1.0).abs() < 1e-12);
        // Without a queue three quarters, whoever counts.
        for losses in [Losses::Synchronised, Losses::OneAtATime] {
            assert!((used_share(1, 0.5, 0.0, losses) - 0.75).abs() < 1e-12);
        }
        // Altman et al.: 1 - 1 / (1 + 3 n).
        assert!((used_share(10, 0.5, 0.0, Losses::OneAtATime) - 30.0 / 31.0).abs() < 1e-12);
        assert!((used_share(10, 0.5, 0.0, Losses::Synchronised) - 0.75).abs() < 1e-12);
        assert!((used_share(1000, 0.5, 0.1, Losses::OneAtATime) - 1.0).abs() < 1e-12);
    }
}
