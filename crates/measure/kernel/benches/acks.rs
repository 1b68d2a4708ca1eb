// SPDX-License-Identifier: GPL-2.0-or-later
//! What an acknowledgement costs in each congestion control, in the kernel and in a program.
//!
//! In the kernel: transfers over loopback in a network namespace of their own, with small packets,
//! each acknowledged at once, and a window held at 64 segments, so that the algorithm always has a
//! full window to grow. The kernel times each hook; the time of an adapter that does nothing, on
//! the same hooks, is taken off. Repeats are interleaved, and the median counts.
//!
//! In a program: the same functions called in a loop, with a loss once in 10 000 acknowledgements.
//!
//! `--json` prints one JSON document; `--quick` measures once and briefly, to show that it runs. Needs root.

#[path = "../tests/kernel/common.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod common;

use common::{Pair, in_own_network, ip, loaded};
use congestion::{Ack, Algorithm, Attach, Control, Decision};
use longhaul_kernel::{
    BpfStatistics,
    cc::{self, Loaded, Options},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    hint::black_box,
    time::{Duration, Instant},
};

/// How often and how long each control is measured.
struct Effort {
    repeats: usize,
    period: Duration,
}

impl Effort {
    const FULL: Self = Self { repeats: 7, period: Duration::from_millis(400) };
    const QUICK: Self = Self { repeats: 1, period: Duration::from_millis(10) };
}

/// The hooks that an acknowledgement calls.
const HOOKS: [&str; 3] = ["cong_control", "cong_avoid", "pkts_acked"];

/// Nanoseconds a call, by hook, in each repeat; and acknowledgements a second.
#[derive(Default)]
struct Cost {
    hooks: BTreeMap<String, Vec<f64>>,
    rates: Vec<f64>,
}

impl Cost {
    /// Of those hooks that `like` has: an empty adapter may have one more than an algorithm.
    fn ns(&self, like: &Self) -> f64 {
        let ours = self.hooks.iter().filter(|(hook, _)| like.hooks.contains_key(*hook));
        ours.map(|(_, repeats)| median(repeats)).sum()
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn main() {
    let given = |option: &str| std::env::args().any(|argument| argument == option);
    let json = given("--json");
    let effort = if given("--quick") { Effort::QUICK } else { Effort::FULL };
    let repeats = effort.repeats;
    let _on = BpfStatistics::enable().expect("this benchmark runs as root");
    let mut empty = [Attach::Window, Attach::Rate].map(|attach| (attach, Cost::default()));
    let mut costs: Vec<_> = Algorithm::all().iter().map(|a| (a, Cost::default())).collect();
    for repeat in 1..=repeats {
        eprintln!("repeat {repeat} of {repeats}");
        for (attach, cost) in &mut empty {
            measure(&cc::load_empty(*attach).expect("it loads"), effort.period, cost);
        }
        for (algorithm, cost) in &mut costs {
            let options = Options { initial_ssthresh: Some(10), ..Options::default() };
            measure(&loaded(algorithm.name, &options), effort.period, cost);
        }
    }
    let base = |attach| &empty.iter().find(|(other, _)| *other == attach).expect("both kinds").1;
    let rows: Vec<_> =
        costs.iter().map(|(a, cost)| row(a, cost, base(a.attach), repeats)).collect();
    if json {
        println!("{:#}", json!({ "repeats": repeats, "algorithms": rows }));
    } else {
        print(&rows, repeats);
    }
}

/// Transfers for a while, and reads what the hooks have cost.
fn measure(held: &Loaded, period: Duration, cost: &mut Cost) {
    let took = in_own_network(|| {
        ip(&["link", "set", "lo", "mtu", "576", "gso_max_segs", "1"]);
        let route = "route replace local 127.0.0.1 dev lo table local src 127.0.0.1 quickack 1 \
                     initcwnd 64 cwnd lock 64";
        ip(&route.split_whitespace().collect::<Vec<_>>());
        let pair = Pair::connect(held.name());
        let started = Instant::now();
        while started.elapsed() < period {
            pair.transfer(16_000_000);
        }
        started.elapsed()
    });
    for runs in held.runs().expect("the kernel tells") {
        if HOOKS.contains(&runs.hook.as_str()) && runs.count > 0 {
            let ns = runs.time.as_nanos() as f64 / runs.count as f64;
            cost.hooks.entry(runs.hook.clone()).or_default().push(ns);
            // Called for every acknowledgement, whatever it acknowledges.
            if runs.hook != "pkts_acked" {
                cost.rates.push(runs.count as f64 / took.as_secs_f64());
            }
        }
    }
}

fn row(algorithm: &Algorithm, cost: &Cost, empty: &Cost, repeats: usize) -> Value {
    let (kernel, base) = (cost.ns(cost), empty.ns(cost));
    let user: Vec<f64> = (0..repeats).map(|_| user_ns(algorithm)).collect();
    json!({
        "name": algorithm.name,
        "kernel_ns_above_empty": rounded(kernel - base),
        "kernel_ns": rounded(kernel),
        "empty_ns": rounded(base),
        "ack_events_per_s": median(&cost.rates).round(),
        "user_ns": rounded(median(&user)),
    })
}

fn rounded(ns: f64) -> f64 {
    (ns * 10.0).round() / 10.0
}

/// Nanoseconds for an acknowledgement of one segment, in a program.
fn user_ns(algorithm: &Algorithm) -> f64 {
    const ACKS: u32 = 1_000_000;
    let mut ack = Ack {
        now_us: 1_000_000,
        delivery_rate: 12_500_000,
        acked: 1,
        rtt_us: 100_000,
        min_rtt_us: 100_000,
        in_flight: 999,
        prior_in_flight: 1_000,
        mss: 1448,
        flags: Ack::CWND_LIMITED,
        ..Ack::default()
    };
    let mut decision = Decision { cwnd: 1_000, ssthresh: 500, ..Decision::default() };
    let mut control = Control::new(algorithm.default_set(), &ack, &mut decision);
    let started = Instant::now();
    for n in 1..=ACKS {
        ack.now_us += 100;
        ack.delivered += 1;
        ack.prior_delivered = ack.delivered.saturating_sub(1_000);
        control.rtt(black_box(&ack), &mut decision);
        control.ack(black_box(&ack), &mut decision);
        if n % 10_000 == 0 {
            control.loss(&ack, &mut decision);
            decision.cwnd = decision.cwnd.min(decision.ssthresh);
        }
    }
    black_box(decision);
    started.elapsed().as_nanos() as f64 / f64::from(ACKS)
}

fn print(rows: &[Value], repeats: usize) {
    println!("ns for an acknowledgement, median of {repeats}");
    println!("              kernel, above an empty program    in a program    acks/s measured");
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:<12}  {:>31.0}  {:>14.0}  {:>17.0}",
            row["name"].as_str().unwrap_or_default(),
            number("kernel_ns_above_empty"),
            number("user_ns"),
            number("ack_events_per_s"),
        );
    }
}
