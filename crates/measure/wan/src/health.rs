// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether the emulator kept up: how late frames came out, how long frames it had not read let a link
//! idle, and what the devices dropped because it did not read in time.

use netmodel::Histogram;
use serde::{Deserialize, Serialize};
use units::Duration;

/// How much longer than the links take frames were under way.
#[derive(Debug, Clone)]
pub struct Lateness {
    times: Histogram,
    late: u64,
}

impl Lateness {
    /// From here on a packet is late: the millisecond that `wan check` allows to one round trip in a hundred, less what
    /// the emulator cannot see of the kernel's own way from and to its devices.
    pub const LATE: Duration = Duration::from_micros(900);

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

/// How many packets of one directed link were late.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq)]
pub struct Punctuality {
    /// Packets that came out.
    pub packets: u64,
    /// Of those, 0.9 ms or more late.
    pub late: u64,
}

impl Punctuality {
    /// Counts packets that came out together.
    pub fn add(&mut self, packets: u64, lateness: Duration) {
        self.packets += packets;
        if lateness >= Lateness::LATE {
            self.late += packets;
        }
    }

    /// The share of packets that were late. One alone says nothing of the others, where there are few.
    fn late_share(&self) -> f64 {
        if self.late > 1 { self.late as f64 / self.packets as f64 } else { 0.0 }
    }
}

/// How the emulator did so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct Health {
    /// Frames delivered.
    pub deliveries: u64,
    /// Of those, under way for 0.9 ms or more longer than the links take.
    pub late: u64,
    /// Of the directed link with the largest share of late packets.
    pub worst_link: Punctuality,
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
    /// How long the emulator has run, including what its links stood still.
    pub elapsed_s: f64,
    /// Processor time of the emulator's thread.
    pub cpu_s: f64,
    /// Whether its thread has real-time priority.
    pub real_time: bool,
}

impl Health {
    /// The largest share of a directed link's packets that may be late in a valid run.
    pub const MAX_LATE_SHARE: f64 = 0.01;
    /// The largest share of its time that a link may idle in want of frames that were there.
    pub const MAX_STARVED_SHARE: f64 = 0.01;
    /// The largest share of its time that the links may stand still.
    pub const MAX_STILL_SHARE: f64 = 0.01;

    pub(crate) fn new(
        lateness: &Lateness,
        directed_links: impl Iterator<Item = Punctuality>,
    ) -> Self {
        let micros = |d: Duration| d.as_nanos() as f64 / 1e3;
        Self {
            deliveries: lateness.times.count(),
            late: lateness.late,
            worst_link: directed_links
                .max_by(|a, b| a.late_share().total_cmp(&b.late_share()))
                .unwrap_or_default(),
            lateness_p50_us: micros(lateness.quantile(0.5)),
            lateness_p99_us: micros(lateness.quantile(0.99)),
            lateness_max_us: micros(Duration::from_nanos(lateness.times.largest())),
            ..Self::default()
        }
    }

    /// Why a run with this health is not to be believed; empty if it is.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let share = self.worst_link.late_share();
        if share > Self::MAX_LATE_SHARE {
            faults.push(format!(
                "the emulator delivered {:.1} % of a link's {} packets more than 0.9 ms late (limit {} %, worst {:.1} ms)",
                share * 100.0,
                self.worst_link.packets,
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
        let (mut lateness, mut link) = (Lateness::new(), Punctuality::default());
        let mut add = |late: Duration| {
            lateness.add(late);
            link.add(1, late);
            Health::new(&lateness, [link, Punctuality { packets: 900_000, late: 0 }].into_iter())
        };
        let mut health = Health::default();
        for micros in 0..1000 {
            health = add(Duration::from_micros(micros % 100));
        }
        let near = |found: f64, exact: f64| (found / exact - 1.0).abs() < 1.0 / 32.0;
        assert!(near(health.lateness_p50_us, 49.0) && near(health.lateness_p99_us, 98.0));
        assert!(health.faults().is_empty());
        for _ in 0..20 {
            health = add(Duration::from_millis(3));
        }
        assert_eq!(health.late, 20);
        assert_eq!(health.faults().len(), 1, "{:?}", health.faults());
        let fault = &health.faults()[0];
        assert!(fault.contains("2.0 % of a link's 1020"), "punctual links hide none: {fault}");
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
        for (packets, late, is_fault) in [(10, 1, false), (10, 2, true), (200, 2, false)] {
            let worst_link = Punctuality { packets, late };
            let health = Health { worst_link, ..Health::default() };
            assert_eq!(!health.faults().is_empty(), is_fault, "{worst_link:?}");
        }
    }
}
