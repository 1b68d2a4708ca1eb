// SPDX-License-Identifier: GPL-2.0-or-later
//! What tests over the emulator share.

pub mod emulated;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by each test that emulates: two cores don't run several emulators in real time, and the names
/// of congestion controls are the machine's.
pub fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    // A test that failed has not harmed what this guards.
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measures until nothing is wrong. What is wrong counts at once where the emulator says no fault of
/// its own; what keeps it from keeping up is often gone a moment later, so it has two more tries.
pub fn credible(measure: impl Fn() -> Measured) {
    for tries_left in (0..3).rev() {
        let Measured { wrong, faults } = measure();
        if wrong.is_empty() {
            return;
        }
        assert!(!faults.is_empty() && tries_left > 0, "{wrong:#?}\nand the emulator: {faults:#?}");
        println!("measured again: {wrong:#?}\nbecause {faults:#?}");
    }
}

/// What came out of a measurement.
pub struct Measured {
    /// What is not as it should be.
    pub wrong: Vec<String>,
    /// Why that may be the machine's doing.
    pub faults: Vec<String>,
}
