// SPDX-License-Identifier: GPL-2.0-or-later
//! Measurements over the emulator, repeated where it did not keep up.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// What came out of a measurement.
pub struct Measured {
    /// What is not as it should be.
    pub wrong: Vec<String>,
    /// Why that may be the machine's doing.
    pub faults: Vec<String>,
}

/// For how long a measurement is repeated. A machine that lends its processors to others may be held up for minutes.
const PATIENCE: Duration = Duration::from_secs(900);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A look at what the host takes.
const LOOK: Duration = Duration::from_secs(3);
/// Ticks of 10 ms that the host may take in that time.
const TAKEN: u64 = 6;
/// Ticks that the host may take per second of a measurement.
const TAKEN_PER_SECOND: f64 = 2.0;

/// Measures until nothing is wrong. Something wrong fails at once where the emulator reports no fault of
/// its own and the host took no processor time, and when patience is at its end.
pub fn credible(measure: impl Fn() -> Measured) {
    let begun = Instant::now();
    for tries in 1.. {
        let (started, before) = (Instant::now(), taken_by_host());
        let Measured { wrong, mut faults } = measure();
        if wrong.is_empty() {
            return;
        }
        faults.extend(host_took(taken_by_host().saturating_sub(before), started.elapsed()));
        let is_the_end = faults.is_empty() || begun.elapsed() > PATIENCE;
        assert!(!is_the_end, "{wrong:#?}\nand the emulator: {faults:#?}");
        println!("try {tries}: {wrong:#?}\nbecause {faults:#?}");
        pause(Duration::from_secs(tries * tries).min(LONGEST_PAUSE / 2));
    }
}

fn host_took(ticks: u64, elapsed: Duration) -> Option<String> {
    let is_much = ticks as f64 > TAKEN_PER_SECOND * elapsed.as_secs_f64();
    is_much.then(|| format!("the host took {ticks} ticks in {elapsed:.1?}"))
}

/// Waits, and then for a moment in which the host leaves this machine its processors, if one comes soon.
fn pause(least: Duration) {
    let begun = Instant::now();
    thread::sleep(least);
    while begun.elapsed() < LONGEST_PAUSE {
        let before = taken_by_host();
        thread::sleep(LOOK);
        if taken_by_host().saturating_sub(before) <= TAKEN {
            return;
        }
    }
}

/// Ticks for which something was ready to run and the host ran another machine ("steal" of `/proc/stat`); none of a machine
/// that does not know.
fn taken_by_host() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = text.lines().next().and_then(|line| line.split_whitespace().nth(8));
    all.and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}
