// SPDX-License-Identifier: GPL-2.0-or-later
//! Closed forms: the average window that an algorithm holds against loss, and what follows from it.
//!
//! Windows are in segments, averaged over time. All forms assume that losses come from outside at a
//! fixed rate, that nothing else bounds the window (no full link, no small buffer) and that each
//! segment is acknowledged. A bottleneck shared by flows is another matter: there each flow makes
//! its own losses.
//!
//! The literature has two models of loss. *Deterministic*: one loss every `1/p` segments, the
//! window a periodic saw. It is exact for the algorithm, and what `tests/response.rs` compares the
//! C code with. *Random*: each segment is lost independently; averages are up to a third lower for
//! the same `p`, because short and long epochs do not weigh alike.
//!
//! ```
//! use longhaul_congestion::response;
//! let (loss, rtt) = ("1e-7".parse()?, "100ms".parse()?);
//! let highspeed = response::average_window("lh_highspeed", loss, rtt).unwrap();
//! assert!((highspeed / 83_981.0 - 1.0).abs() < 0.01); // RFC 3649, table 3
//! assert_eq!(response::average_window("bbr", loss, rtt), None); // does not answer to loss
//! # Ok::<(), units::ParseError>(())
//! ```

mod chain;
mod epoch;

pub use chain::{chain_bps, goodput_bps, in_series, mathis_bps};
pub use epoch::{HTCP_KEPT, bic, htcp};

use crate::Algorithm;
use units::{Duration, Probability};

/// The average window of an algorithm with its default parameters, by its name here or in the kernel
/// (with or without `lh_`; Linux's own modules of the same names have the same forms).
///
/// None for what has no form of loss and round trip alone: `fast` and `bbr` do not answer to loss
/// by a window, and [`libra`] grows by the link's capacity too.
pub fn average_window(algorithm: &str, loss: Probability, rtt: Duration) -> Option<f64> {
    let window = match algorithm.strip_prefix(Algorithm::PREFIX).unwrap_or(algorithm) {
        "reno" => reno(loss),
        "highspeed" => highspeed(loss),
        "scalable" => scalable(loss),
        "cubic" => cubic(loss, rtt),
        "htcp" => htcp(HTCP_KEPT, loss, rtt),
        "bic" => bic(loss),
        _ => return None,
    };
    Some(window)
}

/// A window that grows by `increase` segments a round trip and keeps the share `kept` of itself on a
/// loss: `sqrt(increase (1 + kept) / (2 (1 - kept) p))`.
///
/// Deterministic loss: an epoch climbs from `kept W` to `W` in `(1 - kept) W / increase` round trips
/// at `(1 + kept) W / 2` segments each, `1/p` in all. RFC 9438 section 4.3 has the same.
pub fn aimd(increase: f64, kept: f64, loss: Probability) -> f64 {
    (increase * (1.0 + kept) / (2.0 * (1.0 - kept) * loss.get())).sqrt()
}

/// Reno: `sqrt(3/2) / sqrt(p)`. Mathis et al. 1997, equation 3; RFC 3649 rounds to `1.2 / sqrt(p)`.
/// For `p` below about 0.01; above it timeouts rule.
pub fn reno(loss: Probability) -> f64 {
    aimd(1.0, 0.5, loss)
}

/// Reno where each segment is lost independently: `1.31 / sqrt(p)`. Mathis et al. 1997, table 1, by Ott, Kemperman and
/// Mathis 1996, who have 1.3098 for the mean over time.
pub fn reno_random(loss: Probability) -> f64 {
    1.3098 / loss.get().sqrt()
}

/// Reno that grows a segment for each window of *acknowledgements*, of which the receiver sends one
/// for two segments: `sqrt(3/4) / sqrt(p)`. Mathis et al. 1997, section 2. Not so where segments are
/// counted, as here and in Linux.
pub fn reno_delayed_acks(loss: Probability) -> f64 {
    aimd(0.5, 0.5, loss)
}

/// `HighSpeed` TCP: `0.12 / p^0.835`, RFC 3649 section 5, and Reno's `1.2 / sqrt(p)` where `p` is
/// above 1e-3 (a window below 38). It was laid out for `p` from 1e-3 to 1e-7.
pub fn highspeed(loss: Probability) -> f64 {
    let p = loss.get();
    if p > 1e-3 { 1.2 / p.sqrt() } else { 0.12 / p.powf(0.835) }
}

/// CUBIC: `(C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT / p)^(3/4)`, which is `1.054 (RTT / p)^(3/4)`
/// with `C` = 0.4 and `beta` = 0.7, RFC 9438 section 5; never below the Reno-friendly window, which
/// is Reno's (section 4.3). Without fast convergence; where the two cross, either is a few percent
/// low, because part of an epoch is Reno's and part the cubic's.
pub fn cubic(loss: Probability, rtt: Duration) -> f64 {
    let (c, kept) = (0.4_f64, 0.7);
    let scale = (c * (3.0 + kept) / (4.0 * (1.0 - kept))).powf(0.25);
    (scale * (rtt.as_secs_f64() / loss.get()).powf(0.75)).max(reno(loss))
}

/// Scalable: `a / (p ln(1 / (1 - b)))`, which is `0.0749 / p` with `a` = 0.01 and `b` = 0.125.
///
/// Deterministic loss: every acknowledged segment adds `a`, so the `1/p` segments of an epoch regain
/// the `b W` lost: `W = a / (b p)` at its peak, Kelly's `0.08 / p` (Kelly 2003, section 2). The
/// window grows by `e^a` a round trip, so an epoch lasts `ln(1 / (1 - b)) / a` round trips, and the
/// average is `1/p` segments over those. Up to a window of 100, where `p` is above 7.5e-4, it grows by
/// a segment a round trip, as in Linux: `2.74 / sqrt(p)`.
pub fn scalable(loss: Probability) -> f64 {
    let (a, b) = (0.01_f64, 0.125_f64);
    (a / (loss.get() * -(-b).ln_1p())).max(aimd(1.0, 1.0 - b, loss))
}

/// Libra over an empty queue: an AIMD with increase `alpha T^2 / (T + T0)` a round trip and decrease
/// factor `T1 / (2 (T + T0))`; paper 002 section 3.6, times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Libra {
    /// `alpha` where nothing queues: `k1` times the link's capacity, segments a second squared.
    pub alpha: f64,
    /// `T0`.
    pub t0: Duration,
    /// `T1`.
    pub t1: Duration,
}

/// Libra's average window under deterministic loss, where the queue is empty (`T` the base round
/// trip), so that its penalty for queueing is 1.
pub fn libra(with: Libra, loss: Probability, rtt: Duration) -> f64 {
    let (t, t0, t1) = (rtt.as_secs_f64(), with.t0.as_secs_f64(), with.t1.as_secs_f64());
    aimd(with.alpha * t * t / (t + t0), 1.0 - t1 / (2.0 * (t + t0)), loss)
}

/// The share of a link that `streams` parallel AIMD streams use, each keeping the share `kept` of its
/// window on a loss, when only one of them loses at a time:
/// `1 - 1 / (1 + N (1 + kept) / (1 - kept))`. Altman et al. 2006, in paper 004.
pub fn parallel_share(streams: u32, kept: f64) -> f64 {
    1.0 - 1.0 / (1.0 + f64::from(streams) * (1.0 + kept) / (1.0 - kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(loss: f64) -> Probability {
        Probability::new(loss).unwrap()
    }

    /// RFC 3649 tables 1 and 3; RFC 9438 tables 1 and 2, whose entries are rounded.
    #[test]
    fn the_tables_of_the_rfcs() {
        let rows = [
            (1e-2, 12.0, 12.0, 12.0, 12.0),
            (1e-3, 38.0, 38.0, 38.0, 38.0),
            (1e-4, 120.0, 263.0, 187.0, 120.0),
            (1e-5, 379.0, 1795.0, 1054.0, 379.0),
            (1e-6, 1200.0, 12_280.0, 5926.0, 1200.0),
            (1e-7, 3795.0, 83_981.0, 33_325.0, 5926.0),
            (1e-8, 12_000.0, 574_356.0, 187_400.0, 33_325.0),
        ];
        let (far, near) = (Duration::from_millis(100), Duration::from_millis(10));
        for (loss, of_reno, of_highspeed, of_cubic, of_near_cubic) in rows {
            let loss = p(loss);
            let pairs = [
                // sqrt(3/2) is 1.225, which the RFCs round to 1.2; 12.2 is printed as 12.
                (reno(loss), of_reno, 0.025),
                (highspeed(loss), of_highspeed, 0.012),
                (cubic(loss, far), of_cubic, 0.025),
                (cubic(loss, near), of_near_cubic, 0.025),
            ];
            for (found, table, tolerance) in pairs {
                assert!((found / table - 1.0).abs() < tolerance, "{loss:?} {found} {table}");
            }
        }
    }

    #[test]
    fn by_name() {
        let (loss, rtt) = (p(1e-5), Duration::from_millis(100));
        for name in ["reno", "highspeed", "scalable", "cubic", "htcp", "bic"] {
            let ours = average_window(&format!("lh_{name}"), loss, rtt);
            assert!(ours.unwrap() > 300.0);
            assert_eq!(ours, average_window(name, loss, rtt), "{name}");
        }
        for name in ["bbr", "fast", "libra", "vegas", ""] {
            assert_eq!(average_window(name, loss, rtt), None, "{name}");
        }
        assert_eq!(average_window("htcp", Probability::ZERO, rtt), Some(f64::INFINITY));
        assert_eq!(average_window("bic", Probability::ZERO, rtt), Some(f64::INFINITY));
    }

    #[test]
    fn forms_agree_where_one_contains_the_other() {
        let loss = p(1e-4);
        assert!((reno(loss) - (1.5_f64 / 1e-4).sqrt()).abs() < 1e-9);
        assert!((reno_delayed_acks(loss) - (0.75_f64 / 1e-4).sqrt()).abs() < 1e-9);
        // Paper 002, section 1: 83 333 segments take one loss in 5e9, N = W^2 / 1.5.
        assert!((reno(p(1.0 / 4.63e9)) / 83_333.0 - 1.0).abs() < 1e-3);
        assert!((scalable(loss) - 748.9).abs() < 0.1);
        // CUBIC's Reno-friendly increase is such that its window is Reno's: RFC 9438, equation 4.
        assert!((aimd(3.0 * 0.3 / 1.7, 0.7, loss) - reno(loss)).abs() < 1e-9);
        // T1 = 2 T0 and T = T0: half is kept, and alpha T / 2 a round trip is Reno's at alpha = 20.
        let second = Duration::from_millis(100);
        let with = Libra { alpha: 20.0, t0: second, t1: Duration::from_millis(200) };
        assert!((libra(with, loss, second) - reno(loss)).abs() < 1e-9);
    }

    #[test]
    fn parallel_streams_share_by_altman() {
        // One Reno stream alone: 3/4. With kept = 1/2, N streams leave 1 / (1 + 3 N) unused.
        assert!((parallel_share(1, 0.5) - 0.75).abs() < 1e-12);
        assert!((parallel_share(11, 0.5) - 33.0 / 34.0).abs() < 1e-12);
        assert!(parallel_share(0, 0.5).abs() < 1e-12);
        // CUBIC's 0.7: (1 + 0.7) / (1 - 0.7) = 17/3.
        assert!((parallel_share(3, 0.7) - 17.0 / 18.0).abs() < 1e-12);
    }
}
