// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's own CUBIC and longhaul's take the same time for the same transfer.

use crate::{Path, alone, paths_of_their_own, traffic};
use congestion::Algorithm;
use kernel::cc::{self, Options};
use std::time::Duration;

const REPEATS: usize = 10;
const BYTES: u64 = 20_000_000;

#[test]
fn cubic_of_the_kernel_and_of_longhaul_take_the_same_time() {
    let _alone = alone();
    let cubic = Algorithm::find("cubic").unwrap();
    // With HyStart, as the kernel's.
    let params = &cubic.set("linux").unwrap().params;
    let loaded = cc::load(params, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let settings = "rate = \"100mbit\"\ndelay = \"20ms\"".to_owned();
    let path = Path { name: "cubic", settings };
    let wan = paths_of_their_own([&path].into_iter());

    let (mut native, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        native.push(traffic::time_of(&wan, &path, "cubic", BYTES).unwrap());
        ours.push(traffic::time_of(&wan, &path, loaded.name(), BYTES).unwrap());
    }
    let faults = wan.down().unwrap().health.faults();
    assert!(faults.is_empty(), "{faults:?}");
    println!("cubic {native:.2?}\nlh_cubic {ours:.2?}");
    let ratio = median(ours).as_secs_f64() / median(native).as_secs_f64();
    assert!((ratio - 1.0).abs() < 0.1, "lh_cubic takes {ratio:.3} of cubic's time");
}

/// Of an even number, the mean of the middle two.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2
}
