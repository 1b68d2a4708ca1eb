// SPDX-License-Identifier: GPL-2.0-or-later
//! Measurements over the emulator, repeated where it did not keep up.

/// What came out of a measurement.
pub struct Measured {
    /// What is not as it should be.
    pub wrong: Vec<String>,
    /// Why that may be the machine's doing.
    pub faults: Vec<String>,
}

/// Measures until nothing is wrong. Something wrong fails at once where the emulator reports no fault of
/// its own; what keeps it from keeping up is often gone a moment later, so it has four more tries.
pub fn credible(measure: impl Fn() -> Measured) {
    for tries_left in (0..5).rev() {
        let Measured { wrong, faults } = measure();
        if wrong.is_empty() {
            return;
        }
        assert!(!faults.is_empty() && tries_left > 0, "{wrong:#?}\nand the emulator: {faults:#?}");
        println!("measured again: {wrong:#?}\nbecause {faults:#?}");
    }
}
