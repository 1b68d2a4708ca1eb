// SPDX-License-Identifier: GPL-2.0-or-later
//! Order and times of packets on the wire: the scheduler, driven by the wire's own clock.
//!
//! - **With gap frames** the wire is kept full while something waits: a wait that the scheduler asks
//!   for is filled with gap frames, to the byte. A gap shorter than the shortest frame becomes that
//!   frame, and the gaps after it are shorter by the difference: the scheduler makes up
//!   for waiting. At most [`IN_DEVICE`] of the wire's time is with the device, so that a packet that comes
//!   meanwhile is late by no more than that.
//! - **Without**, the wire's clock is the machine's, and each packet is handed over when it is due.
//!
//! No I/O, and no clock is read.

use super::clock::WireClock;
use netmodel::pacing::{Class, Departure, Next, Packet, Scheduler, SchedulerError};
use units::{Bytes, Duration, Rate, Timestamp};

/// How much of the wire's time is with the device at most.
pub const IN_DEVICE: Duration = Duration::from_millis(1);

/// Sizes of gap frames on the link.
#[derive(Debug, Clone, Copy)]
pub struct GapSizes {
    pub shortest: Bytes,
    pub longest: Bytes,
}

/// The next action.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// A packet of that class leaves.
    Packet(usize, T),
    /// A gap frame that takes this number of bytes of the link leaves.
    Gap(Bytes),
    /// Nothing before that time of the machine's, unless a packet comes.
    Sleep(Timestamp),
    /// Nothing waits.
    Idle,
}

/// How often, and how long, the wire ran dry while something waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stalls {
    pub count: u64,
    pub time: Duration,
}

pub struct Pacer<T> {
    scheduler: Scheduler<(Bytes, T)>,
    clock: WireClock,
    gaps: Option<GapSizes>,
    stalls: Stalls,
}

impl<T> Pacer<T> {
    pub fn new(
        line: Rate,
        classes: &[Class],
        gaps: Option<GapSizes>,
    ) -> Result<Self, SchedulerError> {
        let scheduler = Scheduler::new(line, classes)?;
        Ok(Self { scheduler, clock: WireClock::new(line), gaps, stalls: Stalls::default() })
    }

    /// A packet comes; gives back what there is no room for, which is of the same class.
    #[must_use = "what has no room is dropped"]
    pub fn offer(&mut self, now: Timestamp, class: usize, packet: Packet<T>) -> Vec<T> {
        self.catch_up(now);
        let Packet { flow, length, item } = packet;
        let packet = Packet { flow, length, item: (length, item) };
        let dropped = self.scheduler.enqueue(self.clock.wire(), class, packet);
        dropped.into_iter().map(|(_, item)| item).collect()
    }

    /// The action to take now. A returned packet or gap frame counts as handed over.
    pub fn step(&mut self, now: Timestamp) -> Step<T> {
        self.catch_up(now);
        let ends = self.clock.machine();
        let ahead = if self.gaps.is_some() { IN_DEVICE } else { Duration::ZERO };
        if ends > now && ends.since(now) >= ahead {
            // Half of it may leave until it is filled up again.
            let until = Duration::from_nanos(ends.since(now).as_nanos() - ahead.as_nanos() / 2);
            return Step::Sleep(now + until);
        }
        match (self.scheduler.next(self.clock.wire()), self.gaps) {
            (Next::Departure(Departure { item: (length, item), class, .. }), _) => {
                self.clock.hand_over(length);
                Step::Packet(class, item)
            }
            (Next::Wait(until), Some(sizes)) => {
                let gap = sizes.next(self.clock.bytes_until(until));
                self.clock.hand_over(gap);
                Step::Gap(gap)
            }
            (Next::Wait(until), None) => Step::Sleep(self.clock.machine_at(until)),
            (Next::Idle, _) => Step::Idle,
        }
    }

    pub fn has_gap_frames(&self) -> bool {
        self.gaps.is_some()
    }

    /// How often the wire ran dry; without gap frames this does not matter.
    pub fn stalls(&self) -> Stalls {
        self.stalls
    }

    fn catch_up(&mut self, now: Timestamp) {
        let waits = self.gaps.is_some() && !self.is_empty();
        let dry = self.clock.catch_up(now, waits);
        if waits && dry > Duration::ZERO {
            self.stalls.count += 1;
            self.stalls.time = self.stalls.time + dry;
        }
    }

    fn is_empty(&self) -> bool {
        (0..self.scheduler.classes()).all(|class| self.scheduler.waiting(class) == Bytes::ZERO)
    }
}

impl GapSizes {
    /// The next frame of a gap, leaving enough for another one, or nothing.
    fn next(self, gap: Bytes) -> Bytes {
        let (gap, shortest, longest) = (gap.get(), self.shortest.get(), self.longest.get());
        if gap <= longest {
            return Bytes::new(gap.max(shortest));
        }
        let rest = gap - longest;
        Bytes::new(if rest < shortest { gap - shortest } else { longest }.max(shortest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Rate = Rate::bits_per_second(100_000_000);
    const SIZES: GapSizes = GapSizes { shortest: Bytes::new(84), longest: Bytes::new(1538) };
    const QUEUE: Bytes = Bytes::new(1 << 30);

    fn packet(bytes: u64, item: u32) -> Packet<u32> {
        Packet { flow: 0, length: Bytes::new(bytes), item }
    }

    fn pacer(rates: &[u64], gaps: Option<GapSizes>) -> Pacer<u32> {
        let rate = |bps: &u64| Some(Rate::bits_per_second(*bps));
        let class = |bps| Class { rate: rate(bps), queue: QUEUE };
        Pacer::new(LINE, &rates.iter().map(class).collect::<Vec<_>>(), gaps).unwrap()
    }

    /// The thread wakes up whenever it likes; what is on the wire stays the same, by the wire's time.
    #[test]
    fn classes_keep_their_rates_with_a_late_thread() {
        let rates = [10_000_000, 20_000_000, 40_000_000];
        let mut pacer = pacer(&rates, Some(SIZES));
        let start = Timestamp::from_nanos(123);
        for n in 0..14_000 {
            let length = 1000 + n % 500;
            let class = [0, 1, 1, 2, 2, 2, 2][n as usize % 7];
            assert!(pacer.offer(start, class, packet(u64::from(length), length)).is_empty());
        }
        let (mut now, mut wire, mut sent) = (start, 0, [0; 3]);
        for round in 0..500 {
            loop {
                match pacer.step(now) {
                    Step::Packet(class, length) => {
                        // It lags by no more than the others' largest packets, and a short gap frame.
                        let due = wire as f64 * rates[class] as f64 / 100e6;
                        let ahead = sent[class] as f64 - due;
                        assert!(
                            (-(2.0 * 1500.0 + 84.0) * rates[class] as f64 / 100e6 - 1.0..=1.0)
                                .contains(&ahead),
                            "{class}: {ahead}"
                        );
                        sent[class] += u64::from(length);
                        wire += u64::from(length);
                    }
                    Step::Gap(gap) => {
                        assert!((84..=1538).contains(&gap.get()));
                        wire += gap.get();
                    }
                    Step::Sleep(until) => {
                        assert!(until > now);
                        break;
                    }
                    Step::Idle => panic!("there is enough"),
                }
            }
            now = now + Duration::from_micros(if round % 7 == 0 { 3000 } else { 400 });
        }
        assert!(pacer.stalls().count > 50, "it was late on purpose");
    }

    #[test]
    fn gap_frames_bound_the_time_queued_in_the_device() {
        let mut pacer = pacer(&[10_000_000], Some(SIZES));
        for _ in 0..1000 {
            assert!(pacer.offer(Timestamp::ZERO, 0, packet(1538, 0)).is_empty());
        }
        let mut bytes = 0;
        let until = loop {
            match pacer.step(Timestamp::ZERO) {
                Step::Packet(..) => bytes += 1538,
                Step::Gap(gap) => bytes += gap.get(),
                Step::Sleep(until) => break until,
                Step::Idle => panic!("there is enough"),
            }
        };
        assert!((12_500..12_500 + 1538).contains(&bytes), "{bytes}: 1 ms");
        assert!(until >= Timestamp::from_nanos(500_000) && until < Timestamp::from_nanos(700_000));
    }

    #[test]
    fn packets_without_gap_frames_wait_for_their_time() {
        let mut pacer = pacer(&[10_000_000], None);
        let at = Timestamp::from_nanos;
        for n in 0..3 {
            assert!(pacer.offer(at(1000), 0, packet(1250, n)).is_empty());
        }
        assert_eq!(pacer.step(at(1000)), Step::Packet(0, 0));
        assert_eq!(pacer.step(at(1000)), Step::Sleep(at(101_000)), "the wire is taken");
        assert_eq!(pacer.step(at(101_000)), Step::Sleep(at(1_001_000)));
        assert_eq!(pacer.step(at(1_001_000)), Step::Packet(0, 1));
        assert_eq!(pacer.step(at(2_001_500)), Step::Packet(0, 2));
        assert_eq!(pacer.step(at(3_000_000)), Step::Idle);
        assert_eq!(pacer.stalls(), Stalls::default());
    }

    #[test]
    fn idle_time_gets_no_gap_frames() {
        let mut pacer = pacer(&[10_000_000], Some(SIZES));
        for n in 0..10_u32 {
            let now = Timestamp::from_nanos(u64::from(n) * 10_000_000);
            assert_eq!(pacer.step(now), Step::Idle);
            assert!(pacer.offer(now, 0, packet(1538, n)).is_empty());
            assert_eq!(pacer.step(now), Step::Packet(0, n));
        }
        assert_eq!(pacer.stalls(), Stalls::default());
    }

    #[test]
    fn gap_of_any_length_is_split_into_valid_frames() {
        for gap in 84..10_000 {
            let mut left = Bytes::new(gap);
            while left > Bytes::ZERO {
                let frame = SIZES.next(left);
                assert!((84..=1538).contains(&frame.get()) && frame <= left, "{gap}: {frame:?}");
                left = left.saturating_sub(frame);
            }
        }
        assert_eq!(SIZES.next(Bytes::new(1)), Bytes::new(84));
    }
}
