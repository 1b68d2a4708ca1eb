// SPDX-License-Identifier: GPL-2.0-or-later
//! How a congestion window grows in a round trip and what a loss leaves of it, in fluid form.
//!
//! Sources: Reno RFC 5681; CUBIC RFC 9438 section 4, with the Reno-friendly region as Linux has it; `HighSpeed`
//! RFC 3649 section 5; Scalable Kelly 2003; BIC Xu et al. 2004 with Linux's parameters. Windows are in segments.
//!
//! Not here: H-TCP, whose share kept on a loss depends on how throughput has moved since the loss before (its form
//! for losses at regular intervals is in `congestion::response`); BBR, FAST and Libra, which do not answer to loss
//! by a window of their own.

use congestion::Algorithm;

/// The rule of a congestion control with its default parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// One segment a round trip; a half.
    Reno,
    /// A cubic of the time since the loss; 0.7.
    Cubic,
    /// Both by the window.
    HighSpeed,
    /// One hundredth of the window a round trip; seven eighths.
    Scalable,
    /// Binary search for the window of the last loss; 0.8.
    Bic,
}

/// CUBIC's `C` and the share it keeps.
const CUBIC_C: f64 = 0.4;
const CUBIC_KEPT: f64 = 0.7;
/// BIC's share, and where it stops being Reno.
const BIC_KEPT: f64 = 819.0 / 1024.0;
const BIC_LOW_WINDOW: f64 = 14.0;
/// RFC 3649: `Low_Window`, `High_Window`, `High_Decrease`.
const HIGHSPEED_LOW: f64 = 38.0;
const HIGHSPEED_HIGH: f64 = 83_000.0;
const HIGHSPEED_DECREASE: f64 = 0.1;
/// No window is smaller (RFC 5681).
const LEAST: f64 = 2.0;

impl Rule {
    /// The rule of a congestion control by its name here or in the kernel; none where it has none.
    pub fn of(algorithm: &str) -> Option<Self> {
        match algorithm.strip_prefix(Algorithm::PREFIX).unwrap_or(algorithm) {
            "reno" => Some(Self::Reno),
            "cubic" => Some(Self::Cubic),
            "highspeed" => Some(Self::HighSpeed),
            "scalable" => Some(Self::Scalable),
            "bic" => Some(Self::Bic),
            _ => None,
        }
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "Reno",
            Self::Cubic => "CUBIC (RFC 9438)",
            Self::HighSpeed => "HighSpeed (RFC 3649)",
            Self::Scalable => "Scalable (Kelly 2003)",
            Self::Bic => "BIC (Xu et al. 2004)",
        }
    }

    /// The share of `window` that a loss leaves.
    pub fn kept(self, window: f64) -> f64 {
        match self {
            Self::Cubic => CUBIC_KEPT,
            Self::HighSpeed => 1.0 - highspeed_decrease(window),
            Self::Scalable => 0.875,
            Self::Bic if window > BIC_LOW_WINDOW => BIC_KEPT,
            Self::Reno | Self::Bic => 0.5,
        }
    }
}

/// RFC 3649 section 5: `b(w)`.
fn highspeed_decrease(window: f64) -> f64 {
    let span = (HIGHSPEED_HIGH / HIGHSPEED_LOW).ln();
    let at = (window.clamp(HIGHSPEED_LOW, HIGHSPEED_HIGH) / HIGHSPEED_LOW).ln() / span;
    0.5 - (0.5 - HIGHSPEED_DECREASE) * at
}

/// RFC 3649 section 5: `a(w) = w^2 p(w) 2 b(w) / (2 - b(w))` with `p(w) = 0.078 / w^1.2`.
fn highspeed_increase(window: f64) -> f64 {
    if window <= HIGHSPEED_LOW {
        return 1.0;
    }
    let decrease = highspeed_decrease(window);
    (0.078 * window.powf(0.8) * 2.0 * decrease / (2.0 - decrease)).max(1.0)
}

/// BIC's growth in a round trip at that distance below the window of the last loss, or above it where it is negative.
fn bic_increase(gap: f64) -> f64 {
    let (most, b, smooth_part) = (16.0, 4.0, 20.0);
    match gap {
        _ if gap >= 2.0 * b => (gap / b).min(most),
        _ if gap > -b => b / smooth_part,
        _ => (-gap / (b - 1.0)).min(most),
    }
}

/// A congestion window in congestion avoidance.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    rule: Rule,
    /// Segments.
    pub segments: f64,
    /// CUBIC's and BIC's window of the last loss; none before it.
    peak: Option<f64>,
    /// At the start of the epoch.
    from: f64,
    /// Since then, in seconds.
    age_s: f64,
    /// CUBIC's `W_est`.
    friendly: f64,
}

impl Window {
    /// A window of that size at the start of congestion avoidance, before any loss.
    pub fn new(rule: Rule, segments: f64) -> Self {
        Self { rule, segments, peak: None, from: segments, age_s: 0.0, friendly: segments }
    }

    /// Grows by what a round trip of `round_s` seconds adds, of which all segments were acknowledged.
    pub fn grow(&mut self, round_s: f64) {
        match self.rule {
            Rule::Reno => self.segments += 1.0,
            Rule::HighSpeed => self.segments += highspeed_increase(self.segments),
            Rule::Scalable => self.segments += (0.01 * self.segments).max(1.0),
            Rule::Bic if self.segments <= BIC_LOW_WINDOW => self.segments += 1.0,
            Rule::Bic => {
                let gap = self.peak.map_or(-f64::INFINITY, |peak| peak - self.segments);
                self.segments += bic_increase(gap).min(self.segments);
            }
            Rule::Cubic => self.grow_cubic(round_s),
        }
        self.age_s += round_s;
    }

    /// RFC 9438 sections 4.2 and 4.3. Linux's cwnd follows `W_est` a round trip late, and grows by a twentieth of
    /// itself at least before the first loss.
    fn grow_cubic(&mut self, round_s: f64) {
        let peak = self.peak.unwrap_or(self.from).max(self.from);
        let k = ((peak - self.from) / CUBIC_C).cbrt();
        let target = peak + CUBIC_C * (self.age_s + round_s - k).powi(3);
        let least = if self.peak.is_none() { 1.05 * self.segments } else { self.friendly };
        let most = 1.5 * self.segments;
        self.segments = target.max(least).clamp(self.segments, most);
        self.friendly += 3.0 * (1.0 - CUBIC_KEPT) / (1.0 + CUBIC_KEPT);
    }

    /// A loss: the window comes down and an epoch begins. A loss below the last peak gives way to others (fast
    /// convergence of CUBIC and BIC).
    pub fn lose(&mut self) {
        let kept = self.rule.kept(self.segments);
        let gives_way = self.peak.is_some_and(|peak| self.segments < peak);
        let share = if gives_way { f64::midpoint(1.0, kept) } else { 1.0 };
        self.peak = Some(self.segments * share);
        self.segments = (self.segments * kept).max(LEAST);
        (self.from, self.friendly, self.age_s) = (self.segments, self.segments, 0.0);
    }
}
