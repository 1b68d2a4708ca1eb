// SPDX-License-Identifier: GPL-2.0-or-later
//! How long a sender has waited for what it sends: the disk, or the program behind a pipe.

use session::Stored;
use std::{
    io::{self, Read},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Time spent in reads, one after another.
#[derive(Debug, Default)]
pub(super) struct SourceClock {
    ended_us: AtomicU64,
    /// When the read under way has begun.
    since: Mutex<Option<Instant>>,
}

impl SourceClock {
    /// All of it so far, with the read under way.
    pub(super) fn spent(&self) -> Duration {
        let under_way = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let under_way = under_way.map_or(Duration::ZERO, |since| since.elapsed());
        Duration::from_micros(self.ended_us.load(Relaxed)) + under_way
    }

    /// Counts the time of a read.
    fn time<T>(&self, read: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
        let result = read();
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(0);
        self.ended_us.fetch_add(us, Relaxed);
        result
    }
}

/// Stored content whose reads are timed.
#[derive(Debug)]
pub(super) struct TimedStored {
    pub inner: Arc<dyn Stored>,
    pub clock: Arc<SourceClock>,
}

impl Stored for TimedStored {
    fn length(&self) -> u64 {
        self.inner.length()
    }

    fn grows(&self) -> bool {
        self.inner.grows()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.clock.time(|| self.inner.read_at(offset, buffer))
    }
}

/// A pipe whose reads are timed.
pub(super) struct TimedPipe {
    pub inner: Box<dyn Read + Send>,
    pub clock: Arc<SourceClock>,
}

impl Read for TimedPipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.clock.time(|| self.inner.read(buffer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Slow(Duration);

    impl Stored for Slow {
        fn length(&self) -> u64 {
            1
        }
        fn read_at(&self, _: u64, buffer: &mut [u8]) -> io::Result<()> {
            std::thread::sleep(self.0);
            buffer.fill(7);
            Ok(())
        }
    }

    #[test]
    fn reads_are_passed_on_and_timed() {
        let clock = Arc::new(SourceClock::default());
        let time = Duration::from_millis(3);
        let stored = TimedStored { inner: Arc::new(Slow(time)), clock: Arc::clone(&clock) };
        let mut buffer = [0; 2];
        stored.read_at(0, &mut buffer).unwrap();
        assert_eq!((buffer, stored.length()), ([7, 7], 1));
        assert!(clock.spent() >= time);
        let mut pipe = TimedPipe { inner: Box::new(&b"ab"[..]), clock: Arc::clone(&clock) };
        assert_eq!(pipe.read(&mut buffer).unwrap(), 2);
        assert_eq!(&buffer, b"ab");
    }
}
