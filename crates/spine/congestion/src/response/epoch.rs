// SPDX-License-Identifier: GPL-2.0-or-later
//! Algorithms whose window has no average in one formula: the epoch between two losses is summed up
//! from its rule, and the epoch of `1/p` segments is found by bisection.

use units::{Duration, Probability};

/// An epoch between two losses.
struct Epoch {
    segments: f64,
    round_trips: f64,
}

/// H-TCP under deterministic loss: growth is `alpha(t)` a round trip at `t` seconds from a loss,
///
/// ```text
/// alpha(t) = max(1, 2 (1 - beta) a(t)),  a = 1 in the first second,
///                                        a = s (1 + 10 (t - 1) + 0.25 (t - 1)^2) after it
/// ```
///
/// with the share of the window that a loss leaves, `beta` ([`HTCP_KEPT`] where nothing queues, 0.5 without
/// adaptive backoff), and Linux's RTT scaling `s`, the round trip over 100 ms within 0.1 and 2.
/// Draft-leith-tcp-htcp-06; paper 002 section 3.5, where `s` = 1.
pub fn htcp(beta: f64, loss: Probability, rtt: Duration) -> f64 {
    let rtt_s = rtt.as_secs_f64();
    average(loss, |seconds| htcp_epoch(beta, seconds, rtt_s))
}

/// `beta` over an empty queue, where `RTTmin / RTTmax` is above its upper bound of 0.8.
pub const HTCP_KEPT: f64 = 819.0 / 1024.0;

/// The window at the start is `beta` times that at the end, so the climb gives both.
fn htcp_epoch(beta: f64, seconds: f64, rtt_s: f64) -> Epoch {
    const STEPS: u32 = 2000;
    let step = seconds / f64::from(STEPS);
    let (mut climbed, mut area) = (0.0, 0.0);
    for n in 0..STEPS {
        let middle = (f64::from(n) + 0.5) * step;
        let gained = htcp_alpha(beta, middle, rtt_s) * step / rtt_s;
        area += (climbed + gained / 2.0) * step;
        climbed += gained;
    }
    let from = climbed * beta / (1.0 - beta);
    Epoch { segments: (from * seconds + area) / rtt_s, round_trips: seconds / rtt_s }
}

fn htcp_alpha(beta: f64, since_loss_s: f64, rtt_s: f64) -> f64 {
    let high = since_loss_s - 1.0;
    let scale = (rtt_s / 0.1).clamp(0.1, 2.0);
    let alpha = if high > 0.0 { scale * (1.0 + 10.0 * high + 0.25 * high * high) } else { 1.0 };
    (2.0 * (1.0 - beta) * alpha).max(1.0)
}

/// The average window of the epoch of `1/p` segments, found among those of `epoch(size)`, which grow with
/// `size`.
fn average(loss: Probability, epoch: impl Fn(f64) -> Epoch) -> f64 {
    let wanted = 1.0 / loss.get();
    if wanted.is_infinite() {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while epoch(high).segments < wanted {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if epoch(middle).segments < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    wanted / epoch(high).round_trips
}

/// BIC under deterministic loss, with Linux's parameters: at most 16 segments a round trip, a quarter
/// of the gap to the last peak, 0.2 where that quarter is below 2; 0.8 kept; Reno up to 14 segments.
/// Without fast convergence.
///
/// Its top is so flat that the saw has no single height: 5 round trips pass there without a segment of
/// growth, and a saw that ends within them repeats itself. This is the highest, which just reaches its
/// last peak; the lowest has an average lower by 5 in the round trips of an epoch.
///
/// Xu et al. 2004 section IV give approximations for three regimes; here the round trips from
/// `kept W` to `W` are summed up as they do it. Where `W` is in the thousands, additive increase
/// takes most of an epoch, and this is [`super::aimd`]`(16, 0.8)`.
pub fn bic(loss: Probability) -> f64 {
    average(loss, bic_epoch)
}

fn bic_epoch(peak: f64) -> Epoch {
    const LOW_WINDOW: f64 = 14.0;
    let mut window = peak * if peak > LOW_WINDOW { 819.0 / 1024.0 } else { 0.5 };
    let mut epoch = Epoch { segments: 0.0, round_trips: 0.0 };
    while window < peak {
        let step = if window > LOW_WINDOW { bic_step(peak - window) } else { 1.0 };
        // The last round trip ends where the loss is.
        let share = ((peak - window) / step).min(1.0);
        epoch.segments += share * (window + share * step / 2.0);
        epoch.round_trips += share;
        window += step;
    }
    epoch
}

fn bic_step(gap: f64) -> f64 {
    let (smax, b, smooth_part) = (16.0, 4.0, 20.0);
    if gap < 2.0 * b { b / smooth_part } else { (gap / b).min(smax) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::aimd;

    fn p(loss: f64) -> Probability {
        Probability::new(loss).unwrap()
    }

    /// Where an epoch ends within the first second, growth is one segment a round trip.
    #[test]
    fn htcp_in_short_epochs_is_aimd() {
        let (loss, rtt) = (p(1e-2), Duration::from_millis(10));
        let aimd = aimd(1.0, HTCP_KEPT, loss);
        let window = htcp(HTCP_KEPT, loss, rtt);
        assert!((window / aimd - 1.0).abs() < 1e-3, "{window} {aimd}");
    }

    /// Late in a long epoch the quadratic term is all: `w = k t^3 / 3`, and all else follows.
    #[test]
    fn htcp_window_is_cubic_in_long_epochs() {
        let long = htcp_epoch(0.8, 1e4, 0.1);
        let peak = 0.4 * 0.25 * 1e12 / 3.0 / 0.1 / 0.2; // climbed / (1 - beta)
        let mean = 0.8 * peak + 0.2 * peak / 4.0; // the mean of t^3 is a quarter of its end
        assert!((long.segments / long.round_trips / mean - 1.0).abs() < 0.01);
    }

    /// Xu et al. 2004 section IV: with `beta W` far above `smax`, additive increase rules.
    #[test]
    fn bic_in_large_windows_is_aimd() {
        let ratio = |loss| bic(p(loss)) / aimd(16.0, 819.0 / 1024.0, p(loss));
        assert!((ratio(1e-9) - 1.0).abs() < 0.01, "{}", ratio(1e-9));
        assert!(ratio(1e-5) < 0.9, "{}", ratio(1e-5));
    }
}
