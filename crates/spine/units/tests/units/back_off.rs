// SPDX-License-Identifier: GPL-2.0-or-later
//! Waits between attempts, against waits that are doubled one after the other.

use longhaul_units::BackOff;
use proptest::prelude::*;
use std::time::Duration;

#[test]
fn waits_double_up_to_the_longest() {
    let back_off = BackOff::new(Duration::from_secs(1), Duration::from_secs(30));
    let waits = [0, 1, 2, 3, 6, 7, 1000, u32::MAX].map(|n| back_off.after(n).as_secs());
    assert_eq!(waits, [0, 1, 2, 4, 30, 30, 30, 30]);
    assert_eq!(back_off.jittered(3, 0.0), Duration::from_secs(2));
    assert_eq!(back_off.jittered(3, 1.0), Duration::from_secs(4));
}

proptest! {
    #[test]
    fn each_wait_is_the_one_before_doubled(first_ms in 0u64..100_000, longest_ms in 0u64..10_000_000) {
        let (first, longest) = (Duration::from_millis(first_ms), Duration::from_millis(longest_ms));
        let back_off = BackOff::new(first, longest);
        let mut wait = first.min(longest);
        for failures in 1..100 {
            prop_assert_eq!(back_off.after(failures), wait);
            wait = (wait * 2).min(longest);
        }
    }

    #[test]
    fn jitter_takes_at_most_half(failures: u32, first_ms in 0u64..100_000, chance in 0.0f64..=1.0) {
        let back_off = BackOff::new(Duration::from_millis(first_ms), Duration::from_secs(300));
        let (whole, wait) = (back_off.after(failures), back_off.jittered(failures, chance));
        prop_assert!(wait >= whole / 2 && wait <= whole, "{:?} of {:?}", wait, whole);
    }
}
