// SPDX-License-Identifier: GPL-2.0-or-later
//! The links' time, and by how much longer than the links take a frame is under way.
//!
//! A frame comes out late for three reasons, which add up: it waited in its device because the emulator's thread
//! did not run, the links' time stood still while it was on its link, and it was written after its time.

use std::time::Instant;
use units::{Duration, Timestamp};

/// The links' time: the machine's since the start, less the times in which the emulator's thread did not run
/// when it should have.
#[derive(Debug, Clone, Copy)]
pub struct LinkClock {
    started: Instant,
    stood_still: Duration,
}

impl LinkClock {
    /// Lateness that is not made up for. Most deliveries are late by the time that waking up takes.
    pub const TOLERATED: Duration = Duration::from_micros(500);

    /// Time begins.
    pub fn new(started: Instant) -> Self {
        Self { started, stood_still: Duration::ZERO }
    }

    /// The links' time.
    pub fn now(&self) -> Timestamp {
        Timestamp::ZERO + Duration::from(self.started.elapsed()).saturating_sub(self.stood_still)
    }

    /// A delivery was so late. Where that is more than is tolerated, its time is now.
    pub fn was_late(&mut self, late: Duration) {
        if late > Self::TOLERATED {
            self.stood_still = self.stood_still + late;
        }
    }

    /// For how long the links' time has stood still.
    pub fn stood_still(&self) -> Duration {
        self.stood_still
    }

    /// A frame is read now that had waited in its device for so long.
    pub fn reading(&self, waited: Duration) -> Reading {
        Reading { stood_still: self.stood_still, waited }
    }

    /// How much longer than the links take a frame was under way, which is delivered `late` by the links' time.
    pub fn lateness(&self, read: Reading, late: Duration) -> Duration {
        late + self.stood_still.saturating_sub(read.stood_still) + read.waited
    }
}

/// What is to be known of the moment at which a frame was read to say later how late it came out.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    stood_still: Duration,
    waited: Duration,
}

/// For how long frames may have waited in their devices because the emulator's thread did not run.
///
/// When a frame came to a device is not known, only that it came after the thread last looked. So while there is
/// traffic the thread looks often, and a frame that it finds after a longer time may have waited for all of it. The
/// kernel's own count of the time that a thread waits for a processor would be less: a wake-up that is on its way to
/// another processor, and what a hypervisor takes from the machine, are not in it.
#[derive(Debug)]
pub struct Absence {
    looked: Instant,
    saw_frame: Instant,
}

impl Absence {
    /// How often the thread looks at the devices while there is traffic.
    const LOOK_EVERY: Duration = Duration::from_micros(250);
    /// Shorter times between looks are not absence: waking up takes some.
    const TOLERATED: Duration = Duration::from_micros(500);
    /// How long there is traffic after a frame.
    const TRAFFIC: Duration = Duration::from_secs(1);

    /// The thread looks at the devices for the first time.
    pub fn new(now: Instant) -> Self {
        Self { looked: now, saw_frame: now }
    }

    /// How long the thread may sleep that is to sleep for `wanted`, for ever without it.
    pub fn sleep(&self, wanted: Option<Duration>) -> Option<Duration> {
        if self.is_traffic() {
            Some(wanted.map_or(Self::LOOK_EVERY, |wanted| wanted.min(Self::LOOK_EVERY)))
        } else {
            wanted
        }
    }

    /// The thread looks at the devices. Answers how long a frame that it finds may have waited; of the first after
    /// a time without traffic nothing is known.
    pub fn look(&mut self, now: Instant) -> Duration {
        let since = Duration::from(now - self.looked);
        self.looked = now;
        if since > Self::TOLERATED && self.is_traffic() { since } else { Duration::ZERO }
    }

    /// It found a frame.
    pub fn found(&mut self) {
        self.saw_frame = self.looked;
    }

    fn is_traffic(&self) -> bool {
        Duration::from(self.looked - self.saw_frame) < Self::TRAFFIC
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_time_stops_while_the_thread_is_late() {
        let mut clock = LinkClock::new(Instant::now());
        clock.was_late(LinkClock::TOLERATED);
        assert_eq!(clock.stood_still, Duration::ZERO, "waking up takes some time");
        let before = clock.now();
        clock.was_late(Duration::from_millis(20));
        assert_eq!(clock.stood_still, Duration::from_millis(20));
        assert!(clock.now() < before + Duration::from_secs(1));
    }

    #[test]
    fn lateness_adds_up_from_the_device_to_the_device() {
        let millis = Duration::from_millis;
        let mut clock = LinkClock::new(Instant::now());
        clock.was_late(millis(7));
        let read = clock.reading(millis(2));
        clock.was_late(millis(3));
        assert_eq!(clock.lateness(read, millis(1)), millis(6), "the 7 ms were before");
    }

    #[test]
    fn frame_may_have_waited_since_the_last_look() {
        let (began, millis) = (Instant::now(), Duration::from_millis);
        let after = |micros| began + std::time::Duration::from_micros(micros);
        let mut absence = Absence::new(began);
        absence.found();
        assert_eq!(absence.sleep(None), Some(Absence::LOOK_EVERY));
        assert_eq!(absence.sleep(Some(Duration::ZERO)), Some(Duration::ZERO));
        assert_eq!(absence.look(after(300)), Duration::ZERO, "as it wanted, and time to wake up");
        assert_eq!(absence.look(after(7300)), millis(7));
        absence.found();
        // Nothing came for longer: it sleeps until something comes.
        assert_eq!(absence.look(after(1_007_300)), Duration::ZERO);
        assert_eq!(absence.sleep(Some(millis(5))), Some(millis(5)));
        assert_eq!(absence.sleep(None), None);
        assert_eq!(absence.look(after(2_000_000)), Duration::ZERO);
        absence.found();
        assert_eq!(absence.look(after(2_001_000)), millis(1));
    }
}
