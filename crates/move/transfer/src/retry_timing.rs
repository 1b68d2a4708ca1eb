// SPDX-License-Identifier: GPL-2.0-or-later
//! Time: how fast to read, when too little comes, and the chance in waits before another attempt.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};
use units::{Bytes, Rate};

/// A limit of what all transfers of a client take together, kept by not reading.
#[derive(Debug)]
pub(crate) struct RateLimit {
    rate: Rate,
    /// When all that was taken is paid for.
    paid: Mutex<Instant>,
}

impl RateLimit {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, paid: Mutex::new(Instant::now()) }
    }

    /// How many bytes to take at once, so that a slow rate is a steady one: those of 50 ms.
    pub(crate) fn piece(&self) -> usize {
        usize::try_from(self.rate.bps() / 8 / 20).unwrap_or(usize::MAX).clamp(512, 1 << 20)
    }

    /// Books `bytes` bytes. Returns how long to wait until they are due.
    pub(crate) fn take(&self, bytes: usize) -> Duration {
        let time = self.rate.time_for(Bytes::new(bytes as u64)).unwrap_or_default();
        let now = Instant::now();
        let mut paid = self.paid.lock().expect("no panic while it is held");
        *paid = (*paid).max(now) + Duration::from(time);
        *paid - now
    }
}

/// Watches over how much comes while a transfer waits for the network.
#[derive(Debug)]
pub(crate) struct StallWatch {
    time: Duration,
    least: u64,
    waited: Duration,
    came: u64,
}

impl StallWatch {
    /// At least `rate` over each `time` spent waiting.
    pub(crate) fn new(time: Duration, rate: Rate) -> Self {
        let least = rate.times(time.into()).get();
        Self { time, least, waited: Duration::ZERO, came: 0 }
    }

    /// The longest wait for the next bytes.
    pub(crate) fn patience(&self) -> Duration {
        self.time
    }

    /// Notes that `bytes` came after a wait.
    ///
    /// # Errors
    /// Too little came: how many bytes.
    pub(crate) fn came(&mut self, bytes: usize, waited: Duration) -> Result<(), u64> {
        self.came += bytes as u64;
        self.waited += waited;
        if self.waited < self.time {
            return Ok(());
        }
        let came = std::mem::take(&mut self.came);
        self.waited = Duration::ZERO;
        if came < self.least { Err(came) } else { Ok(()) }
    }
}

/// A number from 0 to 1.
pub(crate) fn chance() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness all clients wait equally long, which is acceptable.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_drip_is_a_stall() {
        let rate = Rate::bits_per_second(8000);
        let mut watch = StallWatch::new(Duration::from_secs(10), rate);
        for _ in 0..9 {
            assert_eq!(watch.came(100, Duration::from_secs(1)), Ok(()));
        }
        assert_eq!(watch.came(100, Duration::from_secs(1)), Err(1000));
        let mut watch = StallWatch::new(Duration::from_secs(10), rate);
        for _ in 0..30 {
            assert_eq!(watch.came(1001, Duration::from_secs(1)), Ok(()));
        }
    }

    #[test]
    fn own_rate_limit_is_not_a_stall() {
        // Nothing is waited for where bytes are there already.
        let mut watch = StallWatch::new(Duration::from_secs(10), Rate::bits_per_second(8000));
        for _ in 0..1000 {
            assert_eq!(watch.came(1, Duration::ZERO), Ok(()));
        }
    }
}
