// SPDX-License-Identifier: GPL-2.0-or-later
//! The time of a finite file: Cardwell, Savage, Anderson, "Modeling TCP latency", INFOCOM 2000, section II.
//!
//! Slow start to the first loss or the largest window, the cost of that loss, and the rest at the rate of congestion
//! avoidance. Handshake and request are counted by the caller, who knows redirects and depots. Domain: independent
//! losses with `0 <= p < 1`, a window that grows by a factor `growth` each round trip in slow start (2 where
//! segments are counted). Units: segments, seconds.

/// A window of the path's product, rounded, fills the link.
const ALMOST: f64 = 0.999;

/// A connection with a file to send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowStart {
    /// The first window.
    pub first_window: f64,
    /// The largest window.
    pub most_window: f64,
    /// Seconds.
    pub rtt_s: f64,
    /// The factor by which the window grows in a round trip.
    pub growth: f64,
}

impl SlowStart {
    /// `E[d_ss]` (equation 5): segments until the first loss, at most all `d`.
    pub fn segments(d: f64, p: f64) -> f64 {
        if p <= 0.0 { d } else { ((1.0 - (1.0 - p).powf(d)) * (1.0 - p) / p + 1.0).min(d) }
    }

    /// `E[W_ss]` (equation 11): the window after `segments`.
    pub fn window(&self, segments: f64) -> f64 {
        segments * (self.growth - 1.0) / self.growth + self.first_window / self.growth
    }

    /// `E[T_ss]` (equation 15): the time that `segments` take.
    pub fn seconds(&self, segments: f64) -> f64 {
        let (first, most, growth) = (self.first_window, self.most_window, self.growth);
        let rounds = if self.window(segments) <= most {
            (segments * (growth - 1.0) / first + 1.0).log(growth)
        } else {
            let grown = (growth * most - first) / (growth - 1.0);
            (most / first).log(growth) + 1.0 + (segments - grown) / most
        };
        self.rtt_s * rounds
    }

    /// When the last of `segments` departs, by whole windows: each leaves in one burst at `segments_per_s`, and the
    /// largest one, if it fills the link, without a gap. Where windows come out even, equation 15 less the round trip
    /// of the last acknowledgement.
    pub fn departure_s(&self, segments: f64, segments_per_s: f64) -> f64 {
        let (mut window, mut sent, mut seconds) = (self.first_window, 0.0, 0.0);
        while window < self.most_window && sent + window < segments {
            sent += window;
            seconds += self.rtt_s;
            window = (window * self.growth).min(self.most_window);
        }
        let left = segments - sent;
        if self.most_window >= segments_per_s * self.rtt_s * ALMOST {
            return seconds + left / segments_per_s;
        }
        let whole = ((left / window).ceil() - 1.0).max(0.0);
        seconds + whole * self.rtt_s + (left - whole * window) / segments_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: SlowStart =
        SlowStart { first_window: 10.0, most_window: f64::INFINITY, rtt_s: 0.1, growth: 2.0 };

    /// Windows of 10, 20, 40 and 80 take 150 segments in four rounds; summed up by hand.
    #[test]
    fn doubling_windows_by_hand() {
        assert!((PATH.seconds(150.0) - 0.4).abs() < 1e-12);
        assert!((PATH.window(150.0) - 80.0).abs() < 1e-12);
        // The third window is the largest: 10 + 20 + 40, and 40 each round from then on.
        let bounded = SlowStart { most_window: 40.0, ..PATH };
        assert!((bounded.seconds(70.0 + 10.0 * 40.0) - 1.3).abs() < 1e-9);
    }

    /// Four windows depart within three round trips and the last one's burst.
    #[test]
    fn last_departure_is_a_round_trip_earlier() {
        let departure = PATH.departure_s(150.0, 1e4);
        assert!((departure - (PATH.seconds(150.0) - 0.1 + 80.0 / 1e4)).abs() < 1e-12);
        // A window of 40 at 400 segments a second is the link's whole rate.
        let bounded = SlowStart { most_window: 40.0, ..PATH };
        assert!((bounded.departure_s(30.0 + 400.0, 400.0) - (0.2 + 1.0)).abs() < 1e-12);
        // At four times that rate ten windows leave ten bursts.
        assert!((bounded.departure_s(30.0 + 400.0, 1600.0) - (0.2 + 0.9 + 0.025)).abs() < 1e-12);
    }

    /// The mean of the geometric distribution, cut at `d`, summed term by term.
    #[test]
    fn segments_before_the_first_loss() {
        for (d, p) in [(100_u32, 0.01_f64), (1000, 0.001), (50, 0.1)] {
            let q = 1.0 - p;
            // Loss of segment k + 1 for k = 0 .. d - 1, and none.
            let cut: f64 = (0..d).map(|k| q.powf(f64::from(k)) * p * f64::from(k)).sum();
            let sum = cut + q.powf(f64::from(d)) * f64::from(d);
            let found = SlowStart::segments(f64::from(d), p);
            // The lost segment itself counts.
            assert!((found - sum).abs() <= 1.0 + 1e-9, "{found}, not {sum}");
        }
        assert!((SlowStart::segments(500.0, 0.0) - 500.0).abs() < 1e-12);
        assert!((SlowStart::segments(1e9, 0.01) - 100.0).abs() < 1e-6);
    }
}
