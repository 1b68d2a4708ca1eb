// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether the emulator kept up: how late it delivered, how long frames it had not read let a link
//! idle, and what the devices dropped because it did not read in time.

use netmodel::Histogram;
use serde::{Deserialize, Serialize};
use units::Duration;

/// Lateness of deliveries.
#[derive(Debug, Clone)]
pub struct Lateness {
    times: Histogram,
    late: u64,
}

impl Lateness {
    /// From here on a delivery is late: what `wan check` allows to one round trip in a hundred.
    pub const LATE: Duration = Duration::from_millis(1);

    /// Nothing delivered yet.
    pub fn new() -> Self {
        let mut times = Histogram::new();
        times.reserve();
        Self { times, late: 0 }
    }

    /// Counts one delivery.
    pub fn add(&mut self, late: Duration) {
        self.times.add(late.as_nanos());
        self.late += u64::from(late >= Self::LATE);
    }

    /// The lateness that a share of the deliveries does not exceed, to within 3.2 %.
    fn quantile(&self, share: f64) -> Duration {
        let longest = self.times.largest();
        let slot = self.times.quantile(share);
        Duration::from_nanos(slot.map_or(longest, |slot| (slot.to - 1).min(longest)))
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
    /// Devices that were deleted while the network was up; of a bridge also cards that were set down.
    pub devices_lost: u64,
    /// How long a link idled while frames for it waited unread; of the links, the longest time.
    pub starved_s: f64,
    /// How long the links' time stood still because the emulator's thread did not run.
    pub stood_still_s: f64,
    /// How long the emulator has run.
    pub elapsed_s: f64,
    /// Processor time of the emulator's thread.
    pub cpu_s: f64,
    /// Whether its thread has real-time priority.
    pub real_time: bool,
}

impl Health {
    /// The largest share of deliveries that may be late in a valid run.
    pub const MAX_LATE_SHARE: f64 = 0.01;
    /// The largest share of its time that a link may idle in want of frames that were there.
    pub const MAX_STARVED_SHARE: f64 = 0.01;
    /// The largest share of its time that the links may stand still.
    pub const MAX_STILL_SHARE: f64 = 0.01;

    pub(crate) fn new(lateness: &Lateness) -> Self {
        let micros = |d: Duration| d.as_nanos() as f64 / 1e3;
        Self {
            deliveries: lateness.times.count(),
            late: lateness.late,
            lateness_p50_us: micros(lateness.quantile(0.5)),
            lateness_p99_us: micros(lateness.quantile(0.99)),
            lateness_max_us: micros(Duration::from_nanos(lateness.times.largest())),
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
        if self.starved_s > self.elapsed_s * Self::MAX_STARVED_SHARE {
            faults.push(format!(
                "a link idled for {:.1} % of {:.1} s because the emulator had not read frames that \
                 waited (limit {} %)",
                self.starved_s / self.elapsed_s * 100.0,
                self.elapsed_s,
                Self::MAX_STARVED_SHARE * 100.0,
            ));
        }
        if self.stood_still_s > self.elapsed_s * Self::MAX_STILL_SHARE {
            faults.push(format!(
                "the emulator's links stood still for {:.1} % of {:.1} s because it was too late (limit {} %, \
                 worst {:.1} ms)",
                self.stood_still_s / self.elapsed_s * 100.0,
                self.elapsed_s,
                Self::MAX_STILL_SHARE * 100.0,
                self.lateness_max_us / 1e3,
            ));
        }
        for (count, what) in [
            (
                self.device_drops,
                "frames were dropped by a device before the emulator could read them",
            ),
            (self.write_errors, "frames were refused by the receiving device"),
            (self.malformed, "frames were not understood by the emulator"),
            (self.devices_lost, "devices were deleted or set down while the network was up"),
        ] {
            if count > 0 {
                faults.push(format!("{count} {what}"));
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
        let near = |found: f64, exact: f64| (found / exact - 1.0).abs() < 1.0 / 32.0;
        assert!(near(health.lateness_p50_us, 49.0) && near(health.lateness_p99_us, 98.0));
        assert!(health.faults().is_empty());
        for _ in 0..20 {
            lateness.add(Duration::from_millis(3));
        }
        let health = Health::new(&lateness);
        assert_eq!(health.late, 20);
        assert_eq!(health.faults().len(), 1, "{:?}", health.faults());
        assert!(health.faults()[0].contains("2.0 % of 1020"), "{:?}", health.faults());
        let micros = health.lateness_p99_us;
        assert!((3000.0..3400.0).contains(&micros), "99 % with more than 1 % late: {micros}");
        for fault in [
            Health { device_drops: 1, ..Health::default() },
            Health { devices_lost: 1, ..Health::default() },
            Health { starved_s: 0.011, elapsed_s: 1.0, ..Health::default() },
            Health { stood_still_s: 0.011, elapsed_s: 1.0, ..Health::default() },
        ] {
            assert_eq!(fault.faults().len(), 1, "{fault:?}");
        }
        let enough = Health { starved_s: 0.009, elapsed_s: 1.0, ..Health::default() };
        assert!(enough.faults().is_empty());
    }
}
