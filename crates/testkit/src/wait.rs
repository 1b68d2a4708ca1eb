// SPDX-License-Identifier: GPL-2.0-or-later
//! States that nothing reports.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// The longest wait, of a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something holds, by looking again and again; a test that waits in vain fails with `what`.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain for: {what}");
        sleep(Duration::from_millis(10));
    }
}
