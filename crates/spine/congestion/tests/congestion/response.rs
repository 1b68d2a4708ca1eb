// SPDX-License-Identifier: GPL-2.0-or-later
//! The C code against the closed forms: one loss in `1/p` segments, unlimited bandwidth, one
//! acknowledgement a segment. FACTS: RFC 3649 section 5, RFC 9438 section 5.

use longhaul_congestion::{
    Algorithm, Params,
    path::{Epoch, PeriodicLoss, average_window},
    response,
};
use units::{Duration, Probability, Rate};

/// The epochs of an algorithm after a loss at `start`.
fn epochs(params: &Params, every: u64, rtt: Duration, start: f64, count: usize) -> Vec<Epoch> {
    let start = start.round() as u32;
    PeriodicLoss { every, rtt, start, delivery_rate: None }.run(params, count)
}

fn default_set(name: &str) -> Params {
    Algorithm::find(name).unwrap().default_set().clone()
}

fn one_in(every: u64) -> Probability {
    Probability::new(1.0 / every as f64).unwrap()
}

fn close(name: &str, every: u64, found: f64, form: f64, tolerance: f64) {
    println!(
        "{name}: p = 1/{every}: {found:.1}, form {form:.1}: {:+.2} %",
        100.0 * (found / form - 1.0)
    );
    assert!((found / form - 1.0).abs() < tolerance, "{name}: p = 1/{every}: {found}, form {form}");
}

const FAR: Duration = Duration::from_millis(100);
const NEAR: Duration = Duration::from_millis(10);

/// How far an average may be from its form, which has windows grow smoothly. The window falls to a whole
/// segment, up to 1 lower, which an epoch of given length turns into `kept / (1 - kept^2)` at its peak;
/// it is read as one; and what is in flight is the window of a round trip ago, half of `growth` behind
/// on average. A further 1 % is for what the forms round.
fn whole_segments(kept: f64, growth: f64, window: f64) -> f64 {
    0.01 + (1.0 + kept / (1.0 - kept * kept) + growth / 2.0) / window
}

/// Average windows of RFC 3649 tables 1 and 3, and of RFC 9438 tables 1 and 2 (100 ms and 10 ms), for
/// one loss in `10^3` to `10^7`.
const RENO: [f64; 5] = [38.0, 120.0, 379.0, 1200.0, 3795.0];
const HIGHSPEED: [f64; 5] = [38.0, 263.0, 1795.0, 12_280.0, 83_981.0];
const CUBIC_FAR: [f64; 5] = [38.0, 187.0, 1054.0, 5926.0, 33_325.0];
const CUBIC_NEAR: [f64; 5] = [38.0, 120.0, 379.0, 1200.0, 5926.0];
const EVERY: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Reno halves its distance to the periodic saw in each epoch.
#[test]
fn reno() {
    for (every, table) in EVERY.into_iter().zip(RENO) {
        let epochs = epochs(&default_set("reno"), every, FAR, table * 4.0 / 3.0, 12);
        close("reno", every, average_window(&epochs[6..]), table, 0.05);
    }
}

#[test]
fn highspeed() {
    for (every, table) in EVERY.into_iter().zip(HIGHSPEED) {
        let epochs = epochs(&default_set("highspeed"), every, FAR, table * 1.1, 30);
        close("highspeed", every, average_window(&epochs[20..]), table, 0.05);
    }
}

/// Without fast convergence, started at the peak of the form (its average is 0.925 of that): its
/// periodic saw is only neutrally stable.
fn cubic(rtt: Duration, table: [f64; 5]) {
    let params = default_set("cubic").with("fast_convergence", 0).unwrap();
    for (every, table) in EVERY.into_iter().zip(table) {
        let epochs = epochs(&params, every, rtt, table / 0.925, 50);
        close("cubic", every, average_window(&epochs), table, 0.06);
    }
}

#[test]
fn cubic_far() {
    cubic(FAR, CUBIC_FAR);
}

#[test]
fn cubic_near() {
    cubic(NEAR, CUBIC_NEAR);
}

/// MIMD: each epoch brings the window an eighth nearer to the periodic saw.
#[test]
fn scalable() {
    for every in [1_000, 10_000, 100_000, 1_000_000] {
        let form = response::scalable(one_in(every));
        let epochs = epochs(&default_set("scalable"), every, FAR, form * 1.07, 60);
        let tolerance = whole_segments(0.875, 0.01 * form, form);
        close("scalable", every, average_window(&epochs[40..]), form, tolerance);
    }
}

#[test]
fn htcp() {
    for rtt in [FAR, NEAR] {
        for every in [1_000, 10_000, 100_000, 1_000_000] {
            let form = response::htcp(response::HTCP_KEPT, one_in(every), rtt);
            let epochs = epochs(&default_set("htcp"), every, rtt, form * 1.1, 60);
            let tolerance = whole_segments(0.8, 1.0, form);
            close("htcp", every, average_window(&epochs[30..]), form, tolerance);
        }
    }
}

/// Between the highest and the lowest saw that repeats itself, started near the peak of the highest.
#[test]
fn bic() {
    let params = default_set("bic").with("fast_convergence", 0).unwrap();
    for every in [1_000, 10_000, 100_000, 1_000_000] {
        let form = response::bic(one_in(every));
        let epochs = epochs(&params, every, FAR, form * 1.05, 50);
        let (average, round_trips) = (average_window(&epochs), every as f64 / form);
        println!("bic: p = 1/{every}: {average:.1}, form {form:.1}, {round_trips:.1} round trips");
        let slack = whole_segments(0.8, 1.0, form);
        let (low, high) = (form * (1.0 - 5.0 / round_trips - slack), form * (1.0 + slack));
        assert!((low..high).contains(&average), "p = 1/{every}: {average}, {low} to {high}");
    }
}

/// The capacity of the link goes into Libra's growth: 1 Gb/s here. k1 = 2, capacity in Mb/s, T0 = T1 =
/// 1 s (set paper).
#[test]
fn libra() {
    let gigabit = Rate::bits_per_second(1_000_000_000);
    let second = Duration::from_secs(1);
    let with = response::Libra { alpha: 2.0 * 1000.0, t0: second, t1: second };
    for rtt in [FAR, NEAR] {
        for every in [1_000, 10_000, 100_000, 1_000_000] {
            let form = response::libra(with, one_in(every), rtt);
            let path = PeriodicLoss {
                every,
                rtt,
                start: (form * 4.0 / 3.0) as u32,
                delivery_rate: Some(gigabit),
            };
            let epochs =
                path.run(&Algorithm::find("libra").unwrap().set("paper").unwrap().params, 20);
            let growth = 2000.0 * rtt.as_secs_f64().powi(2) / (rtt.as_secs_f64() + 1.0);
            let tolerance = whole_segments(0.5, growth, form);
            close("libra", every, average_window(&epochs[10..]), form, tolerance);
        }
    }
}
