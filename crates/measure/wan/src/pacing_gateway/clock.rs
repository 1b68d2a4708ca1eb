// SPDX-License-Identifier: GPL-2.0-or-later
//! The wire's own clock: where the wire will be when everything handed to the device has left.
//!
//! It counts bytes instead of the machine's time, so the gateway's schedule is correct on
//! the wire however late its thread wakes up. Two offsets tie it to the machine's time: the time in
//! which nothing waited counts on both, the time in which the wire ran dry although something waited
//! on the machine's only. After such a stall the schedule goes on where it was, without a burst.

use units::{Bytes, Duration, Rate, Timestamp};

/// A byte in units of 1e-9 bits, of which a rate transmits its value in bit/s per nanosecond.
const BYTE: u128 = 8_000_000_000;

#[derive(Debug, Clone)]
pub struct WireClock {
    line: Rate,
    /// Bytes handed over since the clock was last set.
    bytes: u64,
    /// The times of the wire's clock and of the machine's at that moment.
    wire: Timestamp,
    machine: Timestamp,
}

impl WireClock {
    pub fn new(line: Rate) -> Self {
        Self { line, bytes: 0, wire: Timestamp::ZERO, machine: Timestamp::ZERO }
    }

    /// Time of the wire's clock when everything handed over has left.
    pub fn wire(&self) -> Timestamp {
        self.wire + self.taken()
    }

    /// Time of the machine's clock at that moment.
    pub fn machine(&self) -> Timestamp {
        self.machine + self.taken()
    }

    /// When the machine's clock shows what the wire's does at `wire`, if nothing stalls.
    pub fn machine_at(&self, wire: Timestamp) -> Timestamp {
        self.machine + wire.since(self.wire)
    }

    fn taken(&self) -> Duration {
        let nanos = u128::from(self.bytes) * BYTE / u128::from(self.line.bps());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// So much is handed over.
    pub fn hand_over(&mut self, bytes: Bytes) {
        self.bytes += bytes.get();
    }

    /// How many whole bytes reach at least to a time of the wire's.
    pub fn bytes_until(&self, wire: Timestamp) -> Bytes {
        let nanos = u128::from(wire.since(self.wire).as_nanos());
        let bytes = (nanos * u128::from(self.line.bps())).div_ceil(BYTE);
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX).saturating_sub(self.bytes))
    }

    /// The machine's clock shows `now`; if the wire had nothing to send by then, for how long.
    pub fn catch_up(&mut self, now: Timestamp, something_waits: bool) -> Duration {
        let dry = now.since(self.machine());
        if dry > Duration::ZERO {
            self.wire = if something_waits { self.wire() } else { self.wire() + dry };
            (self.machine, self.bytes) = (now, 0);
        }
        dry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_nanoseconds_do_not_accumulate() {
        // A byte takes 8/3 ns.
        let mut clock = WireClock::new(Rate::bits_per_second(3_000_000_000));
        for _ in 0..3_000_000 {
            clock.hand_over(Bytes::new(1));
        }
        assert_eq!(clock.wire().as_nanos(), 8_000_000);
        assert_eq!(clock.bytes_until(clock.wire()), Bytes::ZERO);
        let next = Timestamp::from_nanos(8_000_001);
        assert_eq!(clock.bytes_until(next), Bytes::new(1), "it reaches there at least");
    }

    #[test]
    fn wire_clock_counts_idling_but_not_stalls() {
        let mut clock = WireClock::new(Rate::bits_per_second(8_000_000_000));
        clock.hand_over(Bytes::new(1000));
        let at = Timestamp::from_nanos;
        assert_eq!(clock.catch_up(at(900), true), Duration::ZERO, "it is still busy");
        assert_eq!(clock.catch_up(at(1500), true), Duration::from_nanos(500));
        assert_eq!((clock.wire(), clock.machine()), (at(1000), at(1500)));
        assert_eq!(clock.catch_up(at(1800), false), Duration::from_nanos(300));
        assert_eq!((clock.wire(), clock.machine()), (at(1300), at(1800)));
        assert_eq!(clock.machine_at(at(1310)), at(1810));
    }
}
