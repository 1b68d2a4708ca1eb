// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's own CUBIC and longhaul's take the same time for the same transfer.

use crate::{
    common::{Measured, alone, credible},
    congestion::{Path, paths_of_their_own, traffic},
};
use congestion::Algorithm;
use kernel::cc::{self, Options};
use std::time::Duration;

const REPEATS: usize = 3;
const BYTES: u64 = 12_000_000;

#[test]
fn cubic_of_the_kernel_and_of_longhaul_take_the_same_time() {
    let _alone = alone();
    let cubic = Algorithm::find("cubic").unwrap();
    // With HyStart, as the kernel's.
    let params = &cubic.set("linux").unwrap().params;
    let loaded = cc::load(params, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    // Slow start that HyStart has to end, a queue that overflows without it, and a loss now and then:
    // less than the link's rate, so that the time is the algorithm's.
    let settings = "rate = \"200mbit\"\ndelay = \"30ms\"\nqueue = \"200p\"\n\
                    forward.loss = { periodic = 3000 }";
    let path = Path { name: "cubic", settings: settings.to_owned() };
    credible(|| {
        let mut faults = Vec::new();
        // A network for each, so that all lose the same packets.
        let mut time = |congestion: &str| {
            let wan = paths_of_their_own([&path].into_iter());
            let time = traffic::time_of(&wan, &path, congestion, BYTES).unwrap();
            faults.extend(wan.down().unwrap().health.faults());
            time
        };
        let (native, ours): (Vec<_>, Vec<_>) =
            (0..REPEATS).map(|_| (time("cubic"), time(loaded.name()))).unzip();
        println!("cubic {native:.2?}\nlh_cubic {ours:.2?}");
        let ratio = median(ours).as_secs_f64() / median(native).as_secs_f64();
        let wrong = (ratio - 1.0).abs() >= 0.1;
        let wrong = wrong.then(|| format!("lh_cubic takes {ratio:.3} of cubic's time"));
        Measured { wrong: wrong.into_iter().collect(), faults }
    });
}

/// Of an even number, the mean of the middle two.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2
}
