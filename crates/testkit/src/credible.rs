// SPDX-License-Identifier: GPL-2.0-or-later
//! Measurements over the emulator, repeated where it did not keep up.

use std::{thread, time::Duration};

/// What came out of a measurement.
pub struct Measured {
    /// What is not as it should be.
    pub wrong: Vec<String>,
    /// Why that may be the machine's doing.
    pub faults: Vec<String>,
}

/// The pauses before further tries, in seconds: a machine is held up for moments, or for minutes.
const PAUSES: [u64; 6] = [0, 2, 10, 30, 60, 60];

/// Measures until nothing is wrong. Something wrong fails at once where the emulator reports no fault of
/// its own, and after the last try.
pub fn credible(measure: impl Fn() -> Measured) {
    let mut pauses = PAUSES.into_iter();
    loop {
        let Measured { wrong, faults } = measure();
        if wrong.is_empty() {
            return;
        }
        let pause = pauses.next().filter(|_| !faults.is_empty());
        let Some(pause) = pause else { panic!("{wrong:#?}\nand the emulator: {faults:#?}") };
        println!("measured again after {pause} s: {wrong:#?}\nbecause {faults:#?}");
        thread::sleep(Duration::from_secs(pause));
    }
}
