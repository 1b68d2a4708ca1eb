// SPDX-License-Identifier: GPL-2.0-or-later
//! Reno with timeouts: Padhye, Firoiu, Towsley, Kurose, "Modeling TCP Reno performance", Transactions on Networking 8(2), 2000,
//! the full model of sections II-B and II-C.
//!
//! Loss `p` begins a train: the rest of that round is lost too, as at a full queue, and a loss in a small window ends in
//! a timeout. Senders with SACK over independent losses have fewer of either: at 0.5 to 3 % the simulator is 13 to 25 %
//! faster than the model where losses alone bound the window. So it is used here where buffers hold the window down
//! (its second case), of which Mathis's form knows nothing. Domain: Reno, `0 < p < 1`. Units: segments, seconds.

/// The largest window, round trip and first timeout of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reno {
    /// Segments.
    pub most_window: f64,
    /// Seconds.
    pub rtt_s: f64,
    /// The first timeout, in seconds.
    pub timeout_s: f64,
    /// Segments for one acknowledgement that lets the window grow: 1 where segments are counted.
    pub per_ack: f64,
}

impl Reno {
    /// Segments a second that arrive: Padhye et al.'s `T(p)`, which leaves out what is lost of what is sent.
    pub fn throughput(self, p: f64) -> f64 {
        let window = unlimited_window(p, self.per_ack);
        let (window, round_trips) = if window < self.most_window {
            (window, self.per_ack / 2.0 * window + 1.0)
        } else {
            let most = self.most_window;
            (most, self.per_ack / 8.0 * most + (1.0 - p) / (p * most) + 2.0)
        };
        let by_timeout = timeout_share(p, window);
        let segments = (1.0 - p) / p + window / 2.0 + by_timeout;
        segments
            / (self.rtt_s * round_trips + by_timeout * self.timeout_s * back_off(p) / (1.0 - p))
    }
}

/// `E[Wu]`, the window at the end of an epoch (equation 13).
fn unlimited_window(p: f64, b: f64) -> f64 {
    let offset = (2.0 + b) / (3.0 * b);
    offset + (8.0 * (1.0 - p) / (3.0 * b * p) + offset * offset).sqrt()
}

/// `Q(w)`, the share of losses that end in a timeout (equation 24).
pub fn timeout_share(p: f64, window: f64) -> f64 {
    let q = 1.0 - p;
    let three = 1.0 - q.powi(3);
    let share = three * (1.0 + q.powi(3) * (1.0 - q.powf(window - 3.0))) / (1.0 - q.powf(window));
    share.clamp(0.0, 1.0)
}

/// `f(p)`: how timeouts in a row double (equation 29).
pub fn back_off(p: f64) -> f64 {
    1.0 + p
        + 2.0 * p.powi(2)
        + 4.0 * p.powi(3)
        + 8.0 * p.powi(4)
        + 16.0 * p.powi(5)
        + 32.0 * p.powi(6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found}, not {expected}");
    }

    const WIDE: Reno =
        Reno { most_window: f64::INFINITY, rtt_s: 0.1, timeout_s: 1.0, per_ack: 2.0 };

    /// As `p` goes to 0: `sqrt(3 / (2 b p)) / RTT` (their equation 20), which is Mathis's form.
    #[test]
    fn rare_losses_give_the_square_root() {
        for (b, p) in [(1.0, 1e-8), (2.0, 1e-9)] {
            let model = Reno { per_ack: b, ..WIDE };
            close(model.throughput(p), (3.0_f64 / (2.0 * b * p)).sqrt() / 0.1, 0.01);
        }
    }

    /// Their approximation (equation 33), written separately.
    #[test]
    fn full_model_is_near_its_approximation() {
        for p in [1e-4, 1e-3, 1e-2, 0.03] {
            let b = 2.0_f64;
            let timeouts =
                (3.0 * (3.0 * b * p / 8.0_f64).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
            let approximate = 1.0 / (0.1 * (2.0 * b * p / 3.0_f64).sqrt() + timeouts);
            close(WIDE.throughput(p), approximate, 0.25);
        }
    }

    /// A window that losses hardly ever cut is sent once a round trip.
    #[test]
    fn small_window_is_the_limit() {
        close(Reno { most_window: 8.0, ..WIDE }.throughput(1e-6), 80.0, 0.001);
    }

    /// With `p = 0.1` and a window of 4: `1 - 0.9^3 = 0.271`, `1 - 0.9^4 = 0.3439`.
    #[test]
    fn share_of_timeouts_by_hand() {
        close(timeout_share(0.1, 4.0), 0.271 * (1.0 + 0.729 * 0.1) / 0.3439, 1e-9);
        close(timeout_share(0.1, 3.0), 1.0, 1e-9);
        // For rare losses 3 / w.
        close(timeout_share(1e-7, 300.0), 0.01, 0.01);
        close(back_off(0.5), 1.0 + 6.0 * 0.5, 1e-9);
    }
}
