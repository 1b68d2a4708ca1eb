// SPDX-License-Identifier: GPL-2.0-or-later
//! Queues against theory: Poisson arrivals at a link (M/D/1), and the sawtooth of one Reno flow at a
//! taildrop queue.

use crate::common::{curve, forward, forward_link, mean_between, only, onsets, outcome, runs};
use record::Quantity;

fn close(what: &str, found: f64, theory: f64, tolerance: f64) {
    println!("{what}: {found:.5}, theory {theory:.5}: {:+.2} %", 100.0 * (found / theory - 1.0));
    assert!((found / theory - 1.0).abs() < tolerance, "{what}: {found}, theory {theory}");
}

/// Mean and standard error of the mean.
fn estimate(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

fn seed() -> u64 {
    let seed = std::env::var("LONGHAUL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("LONGHAUL_SEED={seed}");
    seed
}

/// Files of one segment each, without handshake, arrive as a Poisson process: each is one packet of
/// 1500 bytes, which a link of 12 Mb/s serves in 1 ms. So the link is an M/D/1 queue with mu = 1000/s
/// (Pollaczek, Khinchin): a packet waits rho / (2 mu (1 - rho)), and rho^2 / (2 (1 - rho)) wait.
///
/// In heavy traffic the mean over a time T has a variance of 2 rho / (mu T (1 - rho)^2) of its square
/// (reflected Brownian motion); T is such that 2 % are at least 4 standard errors, and the ten repeats
/// tell what they really are (a run prints them; 0.2 to 0.5 %). The empty start biases by one part in mu T (1 - rho)^2, far below.
fn poisson(rho: f64, seconds: u32, sample: &str) {
    const REPEATS: u32 = 10;
    let (seed, arrivals) = (seed(), 1000.0 * rho);
    let each = seconds / REPEATS;
    let runs = runs(&format!(
        r#"
        title = "M/D/1"
        repeat = {REPEATS}
        seed = {seed}
        duration = "{each}s"
        sample = "{sample}"
        [tcp]
        profile = "ns2"
        [[node]]
        name = "source"
        [[node]]
        name = "sink"
        [[link]]
        name = "link"
        between = ["source", "sink"]
        rate = "12mbit"
        delay = "1ms"
        queue = "1000000p"
        overhead = 0
        monitor = "1s"
        [[traffic]]
        from = "source"
        to = "sink"
        kind = "ftp"
        size = 1460
        per_second = {arrivals}
        "#
    ));
    let mut found = [const { Vec::new() }; 4];
    for outcome in runs.iter().map(outcome) {
        let link = forward_link(&outcome, "link");
        assert_eq!(link.queue_drops, 0);
        let queue = curve(&outcome, &forward("link"), Quantity::QueueBytes);
        found[0].push(link.utilisation.unwrap());
        found[1].push(link.queue_mean_delay_us.unwrap() / 1e6);
        found[2].push(mean_between(queue, 0.0, each.into()) / 1500.0);
        found[3].push(outcome.summary.metrics.file_completion_mean_s.unwrap());
    }
    let wait = rho / (2.0 * 1000.0 * (1.0 - rho));
    // A file waits, takes its millisecond, and then the link's.
    let theory = [rho, wait, rho * rho / (2.0 * (1.0 - rho)), wait + 0.001 + 0.001];
    for (what, found, theory) in [("utilisation", 0), ("wait", 1), ("queue", 2), ("file", 3)]
        .map(|(what, n)| (what, &found[n], theory[n]))
    {
        let (mean, error) = estimate(found);
        println!("rho = {rho}: standard error of {what}: {:.2} %", 100.0 * error / theory);
        close(&format!("rho = {rho}: {what}"), mean, theory, 0.02);
    }
}

#[test]
fn poisson_arrivals_at_30_percent() {
    poisson(0.3, 2500, "2ms");
}

#[test]
fn poisson_arrivals_at_60_percent() {
    poisson(0.6, 2500, "2ms");
}

#[test]
fn poisson_arrivals_at_80_percent() {
    poisson(0.8, 2500, "5ms");
}

#[test]
fn poisson_arrivals_at_90_percent() {
    poisson(0.9, 8000, "20ms");
}

/// The link of the sawtooth: 30 Mb/s, and 50 ms each variant. Packets of 1500 bytes.
const PACKETS_PER_S: f64 = 2500.0;
/// Includes the serialisation of a packet and of its acknowledgement, whose size is given in bytes.
fn base_rtt_s(acknowledgement: f64) -> f64 {
    0.1 + (1500.0 + acknowledgement) * 8.0 / 30e6
}

/// Averages over time.
#[derive(Debug, Clone, Copy)]
struct Saw {
    utilisation: f64,
    /// Packets that wait.
    queue: f64,
    period_s: f64,
}

/// The sawtooth in fluid form, integrated in steps of time. The window w sends w / RTT, of which the
/// link takes what it can; what is beyond the path's product waits, and makes the round trip longer.
///
/// - w grows by 1 a round trip until it is a packet more than path and buffer hold;
/// - the loss is found a round trip later;
/// - then w comes down to half, a segment for two that are delivered.
fn sawtooth(product: f64, buffer: f64) -> Saw {
    let step = 1e-4;
    let rtt_s = product / PACKETS_PER_S;
    let full = product + buffer + 1.0;
    let bottom = f64::midpoint(full, 1.0);
    let mut w = bottom;
    let (mut time, mut carried, mut waited, mut found_at) = (0.0, 0.0, 0.0, f64::INFINITY);
    loop {
        let queue = (w - product).clamp(0.0, buffer);
        let rtt = rtt_s + queue / PACKETS_PER_S;
        let rate = (w / rtt).min(PACKETS_PER_S);
        if w >= full && found_at.is_infinite() {
            found_at = time + rtt;
        }
        w += step * if time < found_at { 1.0 / rtt } else { -rate / 2.0 };
        time += step;
        carried += rate * step;
        waited += queue * step;
        if time > found_at && w <= bottom {
            break;
        }
    }
    Saw { utilisation: carried / time / PACKETS_PER_S, queue: waited / time, period_s: time }
}

/// One Reno flow over a queue of `buffer` packets, measured over whole periods after the third loss.
fn reno_over(profile: &str, buffer: u32, theory: Saw) -> Saw {
    const PERIODS: usize = 4;
    let duration = (theory.period_s * (PERIODS + 5) as f64).ceil();
    let outcome = only(&format!(
        r#"
        title = "Sawtooth"
        duration = "{duration}s"
        sample = "20ms"
        [tcp]
        profile = "{profile}"
        ack_every = 1
        ack_delay = "0"
        autotuning = false
        rcvbuf = "1GB"
        sndbuf = "1GB"
        initial_ssthresh = {ssthresh}
        [[node]]
        name = "source"
        cc = "lh_reno"
        [[node]]
        name = "sink"
        [[link]]
        name = "link"
        between = ["source", "sink"]
        rate = "30mbit"
        delay = "50ms"
        queue = "{buffer}p"
        overhead = 0
        monitor = "20ms"
        [[flow]]
        from = "source"
        to = "sink"
        "#,
        ssthresh = u32::midpoint(250, buffer),
    ));
    assert_eq!(outcome.summary.flows[0].timeouts, Some(0));
    let losses = onsets(curve(&outcome, &forward("link"), Quantity::Drops), 2.0);
    assert!(losses.len() > 2 + PERIODS, "{} losses in {duration} s", losses.len());
    let (from, to) = (losses[2], losses[2 + PERIODS]);
    let throughput = curve(&outcome, &forward("link"), Quantity::ThroughputBps);
    let queue = curve(&outcome, &forward("link"), Quantity::QueueBytes);
    Saw {
        utilisation: mean_between(throughput, from, to) / 30e6,
        queue: mean_between(queue, from, to) / 1500.0,
        period_s: (to - from) / PERIODS as f64,
    }
}

/// Buffers from a twentieth of the path's product (a burst of two needs some) to twice that.
fn sawteeth(profile: &str, acknowledgement: f64) {
    let product = PACKETS_PER_S * base_rtt_s(acknowledgement);
    for share in [0.05, 0.25, 0.5, 1.0, 2.0] {
        let buffer = (share * product).round();
        let theory = sawtooth(product, buffer);
        let found = reno_over(profile, buffer as u32, theory);
        let what = |what| format!("{profile}, buffer {share} of the product: {what}");
        close(&what("utilisation"), found.utilisation, theory.utilisation, 0.02);
        close(&what("period"), found.period_s, theory.period_s, 0.02);
        // A window that grows by one sends two at once, one of which waits for the other: a fifth of a
        // packet on average. In the smallest buffer, where one packet waits on average, that is more than 2 %.
        if share > 0.1 {
            close(&what("queue"), found.queue, theory.queue, 0.02);
        }
    }
}

#[test]
fn sawtooth_of_reno_as_ns2_has_it() {
    sawteeth("ns2", 40.0);
}

#[test]
fn sawtooth_of_reno_as_linux_has_it() {
    sawteeth("linux", 52.0);
}

/// The integration itself, where it is known: a buffer of the product and more keeps the link busy
/// (Appenzeller et al. 2004), and without any it idles for a quarter.
#[test]
fn the_fluid_sawtooth_has_its_known_limits() {
    assert!(sawtooth(250.0, 253.0).utilisation > 0.999);
    assert!((sawtooth(2000.0, 0.0).utilisation - 0.75).abs() < 0.005);
}

/// Several bottlenecks: FAST keeps alpha segments in all queues of a path together, so of three links in
/// a row, each shared with one more flow, the flow that crosses all of them gets a quarter
/// (proportional fairness, Low 2003).
#[test]
fn flow_over_three_bottlenecks_gets_proportional_share() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios/parking-lot.toml");
    let runs = runs(&std::fs::read_to_string(path).unwrap());
    let fast =
        runs.iter().find(|run| run.variant.as_ref().is_some_and(|variant| variant.name == "fast"));
    let outcome = outcome(fast.expect("the variant \"fast\""));
    let goodput = |name: &str| {
        let flow = outcome.summary.flows.iter().find(|flow| flow.name == name);
        flow.unwrap_or_else(|| panic!("no flow {name}")).goodput_bps.unwrap()
    };
    let long = goodput("long");
    for (short, link) in [("short1", "first"), ("short2", "second"), ("short3", "third")] {
        close(&format!("share of {link}"), long / (long + goodput(short)), 0.25, 0.02);
        let link = forward_link(&outcome, link);
        assert_eq!(link.queue_drops, 0);
        assert!(link.utilisation.unwrap() > 0.99, "{link:?}");
    }
}
