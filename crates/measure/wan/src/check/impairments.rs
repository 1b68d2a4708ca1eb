// SPDX-License-Identifier: GPL-2.0-or-later
//! What links do beyond queue and loss, measured at the ends: by numbered datagrams that know when they were sent, and
//! for rates by TCP.

use super::{
    ImpairmentRow, binomial,
    measurements::{self, NO_SEED, SEGMENT_FRAME, SEGMENT_PAYLOAD},
    traffic::{self, Arrival},
};
use crate::WanError;
use std::time::Duration;

/// Datagrams of a measurement: ten each millisecond.
const SENT: u64 = 20_000;
const GROUP: u64 = 10;
/// Bytes of their payload; with headers and the link's overhead 142.
const LENGTH: usize = 100;
const ON_LINK: f64 = 142.0;
/// One way, in milliseconds.
const DELAY_MS: f64 = 10.0;
/// Probability that a row about chance fails by chance.
const OUTSIDE: f64 = 1e-4;

/// A link's keys, what is measured of it, and its bounds.
struct Case {
    what: &'static str,
    keys: &'static str,
    unit: &'static str,
    expected: f64,
    interval: [f64; 2],
    measure: fn(&[Arrival]) -> f64,
}

/// All measurements of impairments.
pub fn impairments(mut progress: impl FnMut(&str)) -> Result<Vec<ImpairmentRow>, WanError> {
    let mut rows = Vec::new();
    for case in cases() {
        progress(case.what);
        rows.push(measured(&case)?);
    }
    progress("rate that changes");
    rows.push(changing_rate()?);
    Ok(rows)
}

fn cases() -> [Case; 7] {
    let binomial = |p: f64| binomial::interval(SENT, p, OUTSIDE).map(|count| count as f64);
    // The emulator's own delays, and the standard error of a median.
    let times = |ms: f64| [ms * 0.96 - 0.1, ms * 1.04 + 0.5];
    let seconds = SENT as f64 / GROUP as f64 / 1000.0;
    let policed = 1e6 * seconds / 8.0 / ON_LINK + 20_480.0 / ON_LINK;
    [
        Case {
            what: "late packets",
            keys: "reorder = { probability = \"3%\", by = \"5ms\" }",
            unit: "overtaken",
            expected: 600.0,
            interval: binomial(0.03),
            measure: |arrivals| overtaken(arrivals) as f64,
        },
        Case {
            what: "copies",
            keys: "duplicate = \"1%\"",
            unit: "copies",
            expected: 200.0,
            interval: binomial(0.01),
            measure: |arrivals| arrivals.len() as f64 - distinct(arrivals) as f64,
        },
        Case {
            what: "exponential jitter, median",
            keys: "jitter = { distribution = \"exponential\", mean = \"5ms\", reorders = true }",
            unit: "ms",
            expected: 5.0 * std::f64::consts::LN_2,
            interval: times(5.0 * std::f64::consts::LN_2),
            measure: |arrivals| quantile(arrivals, 0.5),
        },
        Case {
            what: "exponential jitter, 90 %",
            keys: "jitter = { distribution = \"exponential\", mean = \"5ms\", reorders = true }",
            unit: "ms",
            expected: 5.0 * std::f64::consts::LN_10,
            interval: times(5.0 * std::f64::consts::LN_10),
            measure: |arrivals| quantile(arrivals, 0.9),
        },
        Case {
            what: "jitter that keeps the order",
            keys: "jitter = \"20ms\"",
            unit: "overtaken",
            expected: 0.0,
            interval: [0.0, 0.0],
            measure: |arrivals| overtaken(arrivals) as f64,
        },
        Case {
            what: "outages of 100 ms in 500 ms",
            keys: "outages = [{ from = \"100ms\", for = \"100ms\", every = \"500ms\" }]",
            unit: "lost",
            expected: SENT as f64 / 5.0,
            // A group of datagrams at each edge, and one that is sent a little late.
            interval: [SENT as f64 / 5.0 - 160.0, SENT as f64 / 5.0 + 160.0],
            measure: |arrivals| SENT as f64 - distinct(arrivals) as f64,
        },
        Case {
            what: "policer of 1 Mb/s",
            keys: "policer = { rate = \"1mbit\", burst = \"20KB\" }",
            unit: "passed",
            expected: policed,
            interval: [policed * 0.99, policed * 1.01],
            measure: |arrivals| arrivals.len() as f64,
        },
    ]
}

fn measured(case: &Case) -> Result<ImpairmentRow, WanError> {
    let link = format!("rate = \"1gbit\"\ndelay = \"{DELAY_MS}ms\"\nqueue = \"100MB\"");
    let seed = measurements::fresh_seed();
    let wan = measurements::line_of(1, &format!("{link}\nforward = {{ {} }}", case.keys), seed)?;
    let arrivals = traffic::numbered(&wan, "n0", "n1", SENT, LENGTH, GROUP)?;
    let emulator = wan.down()?.health;
    let measured = (case.measure)(&arrivals);
    let [least, most] = case.interval;
    Ok(ImpairmentRow {
        impairment: case.what,
        unit: case.unit,
        expected: case.expected,
        interval: case.interval,
        measured,
        seed,
        ok: (least..=most).contains(&measured) && emulator.faults().is_empty(),
        emulator,
    })
}

/// Datagrams that came after one that was sent later.
fn overtaken(arrivals: &[Arrival]) -> usize {
    let mut latest = 0;
    let is_overtaken = |arrival: &&Arrival| {
        let before = latest;
        latest = latest.max(arrival.number);
        arrival.number < before
    };
    arrivals.iter().filter(is_overtaken).count()
}

fn distinct(arrivals: &[Arrival]) -> usize {
    let mut numbers: Vec<_> = arrivals.iter().map(|arrival| arrival.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.len()
}

/// Of the delay beyond the link's own, in milliseconds.
fn quantile(arrivals: &[Arrival], share: f64) -> f64 {
    let mut delays: Vec<_> = arrivals.iter().map(|arrival| arrival.delay).collect();
    delays.sort_unstable();
    let Some(last) = delays.len().checked_sub(1) else { return f64::INFINITY };
    delays[(last as f64 * share).round() as usize].as_secs_f64() * 1e3 - DELAY_MS
}

/// TCP over a rate that changes four times a second.
fn changing_rate() -> Result<ImpairmentRow, WanError> {
    const MEAN_MBPS: f64 = 60.0;
    let steps = "{ steps = [[\"0s\", \"100mbit\"], [\"250ms\", \"20mbit\"]], repeat = \"500ms\" }";
    let link = format!("delay = \"5ms\"\nqueue = \"100MB\"\nrate = {steps}");
    let wan = measurements::line_of(1, &link, NO_SEED)?;
    let sleep = || {
        std::thread::sleep(Duration::from_secs(4));
        Ok(())
    };
    let ((), arrived) = traffic::tcp_while(&wan, "n0", "n1", None, Duration::from_secs(1), sleep)?;
    let emulator = wan.down()?.health;
    let frames = SEGMENT_FRAME as f64 / SEGMENT_PAYLOAD as f64;
    let measured = arrived.bytes as f64 * 8.0 / arrived.seconds * frames / 1e6;
    let interval = [MEAN_MBPS * 0.98, MEAN_MBPS * 1.02];
    Ok(ImpairmentRow {
        impairment: "rate of 100 and 20 Mb/s in turn",
        unit: "Mb/s",
        expected: MEAN_MBPS,
        interval,
        measured,
        seed: NO_SEED,
        ok: (interval[0]..=interval[1]).contains(&measured) && emulator.faults().is_empty(),
        emulator,
    })
}
