// SPDX-License-Identifier: GPL-2.0-or-later
//! Time that all processors of the machine have been busy.

use std::{fs, io, time::Duration};

/// Fields of the first line of `/proc/stat` that are work: user, nice, system, irq, softirq. Guests are in the first two.
const BUSY: [usize; 5] = [0, 1, 2, 5, 6];

/// Time that the processors have worked since the machine's start, whatever for; of a virtual machine, without what its host
/// took for others.
///
/// # Errors
/// The kernel does not show it (`/proc/stat`).
pub fn processor_time() -> io::Result<Duration> {
    let text = fs::read_to_string("/proc/stat")?;
    let unknown = || io::Error::new(io::ErrorKind::InvalidData, "no processor times in /proc/stat");
    let ticks = busy_ticks(&text).ok_or_else(unknown)?;
    let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    Ok(Duration::from_secs_f64(seconds))
}

fn busy_ticks(text: &str) -> Option<u64> {
    let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
    BUSY.iter().map(|field| ticks.get(*field)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_and_idling_is_not() {
        let text = "cpu  100 20 30 4000 500 6 7 80 90 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_ticks(text), Some(100 + 20 + 30 + 6 + 7));
        for text in ["", "cpu", "cpu 1 2 x 4 5 6 7", "cpu 1 2 3", "intr 1 2 3 4 5 6 7"] {
            assert_eq!(busy_ticks(text), None, "{text}");
        }
    }

    #[test]
    fn work_adds_to_it() {
        let before = processor_time().unwrap();
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(100) {
            std::hint::spin_loop();
        }
        assert!(processor_time().unwrap() > before);
    }
}
