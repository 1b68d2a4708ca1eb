// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether the emulator kept up: how late it delivered, and what the devices dropped because it did
//! not read in time.

use serde::{Deserialize, Serialize};
use units::Duration;

/// Lateness of deliveries, in bins of [`Lateness::BIN`] up to [`Lateness::LATE`] and beyond.
#[derive(Debug, Clone)]
pub struct Lateness {
    bins: Vec<u64>,
    count: u64,
    worst: Duration,
}

impl Lateness {
    const BIN: Duration = Duration::from_micros(5);
    /// From here on a delivery is late: what `wan check` allows to one round trip in a hundred.
    pub const LATE: Duration = Duration::from_millis(1);

    /// Nothing delivered yet.
    pub fn new() -> Self {
        let bins = (Self::LATE.as_nanos() / Self::BIN.as_nanos()) as usize + 1;
        Self { bins: vec![0; bins], count: 0, worst: Duration::ZERO }
    }

    /// Counts one delivery.
    pub fn add(&mut self, late: Duration) {
        let bin = (late.as_nanos() / Self::BIN.as_nanos()) as usize;
        let last = self.bins.len() - 1;
        self.bins[bin.min(last)] += 1;
        self.count += 1;
        self.worst = self.worst.max(late);
    }

    /// The lateness that a share of the deliveries does not exceed, to the width of a bin.
    fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (n, count) in self.bins.iter().enumerate() {
            seen += count;
            if seen >= wanted && n + 1 < self.bins.len() {
                return Self::BIN.saturating_mul(n as u64 + 1).min(self.worst);
            }
        }
        self.worst
    }

    fn late(&self) -> u64 {
        *self.bins.last().expect("a bin for what is late")
    }
}

/// How the emulator did so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct Health {
    /// Frames delivered.
    pub deliveries: u64,
    /// Of those, delivered more than a millisecond after their time.
    pub late: u64,
    /// Median lateness.
    pub lateness_p50_us: f64,
    /// 99th percentile of lateness.
    pub lateness_p99_us: f64,
    /// The worst.
    pub lateness_max_us: f64,
    /// Frames that a device dropped because the emulator had not read the ones before.
    pub device_drops: u64,
    /// Frames that the other side's device refused.
    pub write_errors: u64,
    /// Frames with headers that made no sense.
    pub malformed: u64,
    /// Processor time of the emulator's thread.
    pub cpu_s: f64,
    /// Whether its thread has real-time priority.
    pub real_time: bool,
}

impl Health {
    /// The largest share of deliveries that may be late in a run that counts.
    pub const MAX_LATE_SHARE: f64 = 0.01;

    pub(crate) fn new(lateness: &Lateness) -> Self {
        let micros = |d: Duration| d.as_nanos() as f64 / 1e3;
        Self {
            deliveries: lateness.count,
            late: lateness.late(),
            lateness_p50_us: micros(lateness.quantile(0.5)),
            lateness_p99_us: micros(lateness.quantile(0.99)),
            lateness_max_us: micros(lateness.worst),
            ..Self::default()
        }
    }

    /// Why a run with this health is not to be believed; empty if it is.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let share = self.late as f64 / self.deliveries.max(1) as f64;
        if share > Self::MAX_LATE_SHARE {
            faults.push(format!(
                "the emulator delivered {:.1} % of {} frames more than 1 ms late (limit {} %, worst {:.1} ms)",
                share * 100.0,
                self.deliveries,
                Self::MAX_LATE_SHARE * 100.0,
                self.lateness_max_us / 1e3,
            ));
        }
        for (count, what) in [
            (self.device_drops, "dropped by a device before the emulator could read them"),
            (self.write_errors, "refused by the receiving device"),
            (self.malformed, "not understood by the emulator"),
        ] {
            if count > 0 {
                faults.push(format!("{count} frames were {what}"));
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_verdict() {
        let mut lateness = Lateness::new();
        for micros in 0..1000 {
            lateness.add(Duration::from_micros(micros % 100));
        }
        let health = Health::new(&lateness);
        assert_eq!((health.lateness_p50_us, health.lateness_p99_us), (50.0, 99.0));
        assert!(health.faults().is_empty());
        for _ in 0..20 {
            lateness.add(Duration::from_millis(3));
        }
        let health = Health::new(&lateness);
        assert_eq!(health.late, 20);
        assert_eq!(health.faults().len(), 1, "{:?}", health.faults());
        assert!(health.faults()[0].contains("2.0 % of 1020"), "{:?}", health.faults());
        let dropped = Health { device_drops: 1, ..Health::default() };
        assert_eq!(dropped.faults().len(), 1);
    }
}
