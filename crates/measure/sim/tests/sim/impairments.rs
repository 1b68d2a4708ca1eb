// SPDX-License-Identifier: GPL-2.0-or-later
//! What links do to packets, seen in whole runs: by counts of datagrams, and by what TCP makes of it.

use crate::common::{forward_link, only};
use longhaul_sim::Outcome;
use record::LinkSummary;

/// Datagrams of 1000 bytes at 8 Mb/s, so 1000 a second, over a link of 20 Mb/s for 60 s.
fn datagrams(link: &str) -> LinkSummary {
    let outcome = only(&format!(
        r#"
        title = "datagrams"
        duration = "60s"
        [[node]]
        name = "a"
        [[node]]
        name = "b"
        [[link]]
        name = "path"
        between = ["a", "b"]
        rate = "20mbit"
        delay = "10ms"
        forward = {{ {link} }}
        [[traffic]]
        kind = "cbr"
        from = "a"
        to = "b"
        rate = "8mbit"
        packet = 1000
        "#
    ));
    forward_link(&outcome, "path").clone()
}

/// One CUBIC flow for 60 s.
fn flow(link: &str) -> Outcome {
    only(&format!(
        r#"
        title = "flow"
        duration = "60s"
        [[node]]
        name = "a"
        tcp_wmem_max = "16MB"
        [[node]]
        name = "b"
        tcp_rmem_max = "16MB"
        [[link]]
        name = "path"
        between = ["a", "b"]
        rate = "20mbit"
        delay = "10ms"
        {link}
        [[flow]]
        from = "a"
        to = "b"
        "#
    ))
}

fn goodput_mbps(outcome: &Outcome) -> f64 {
    outcome.summary.flows[0].goodput_bps.unwrap() / 1e6
}

/// Within four standard deviations of a binomial count.
fn assert_share(count: u64, of: u64, p: f64) {
    let expected = of as f64 * p;
    let margin = 4.0 * (expected * (1.0 - p)).sqrt();
    assert!((count as f64 - expected).abs() < margin, "{count} of {of}, and not {p}");
}

#[test]
fn shares_are_those_of_the_scenario() {
    let link = datagrams("reorder = { probability = \"3%\", by = \"5ms\" }, duplicate = \"1%\"");
    assert!((59_900..=60_001).contains(&link.segments), "{}", link.segments);
    assert_share(link.late, link.segments, 0.03);
    assert_share(link.copies, link.segments, 0.01);
}

#[test]
fn outages_take_their_part_of_the_time() {
    // A second of every six; 20 s are two of ten.
    let link = datagrams("outages = [{ from = \"1s\", for = \"1s\", every = \"6s\" }]");
    assert_eq!(link.losses, link.outage_losses);
    assert!((9_998..=10_002).contains(&link.losses), "{}", link.losses);
    let link = datagrams(
        "queue = \"10000p\", outages = [{ from = \"1s\", for = \"1s\", every = \"6s\", packets = \"wait\" }]",
    );
    assert_eq!((link.losses, link.queue_drops), (0, 0));
    let most = link.queue_max_bytes.unwrap();
    assert!((1_000_000..1_030_000).contains(&most), "a second's worth waited: {most}");
}

#[test]
fn policer_passes_its_rate() {
    let link = datagrams("policer = { rate = \"4mbit\", burst = \"10KB\" }");
    let passed = link.bytes as f64 * 8.0 / 60.0 / 4e6;
    assert!((0.99..1.01).contains(&passed), "{passed} of the rate");
    assert!(link.policed > 29_000 && link.queue_drops == 0, "{}", link.policed);
}

#[test]
fn tcp_follows_a_rate_that_changes() {
    // 20 Mb/s and 5 Mb/s in turn are 12.5 Mb/s.
    let steps = "{ steps = [[\"0s\", \"20mbit\"], [\"10s\", \"5mbit\"]], repeat = \"20s\" }";
    let outcome = flow(&format!("forward = {{ rate = {steps} }}"));
    let used = forward_link(&outcome, "path").bytes as f64 * 8.0 / 60.0 / 1e6;
    assert!((12.0..12.6).contains(&used), "{used} Mb/s on the link");
    let mbps = goodput_mbps(&outcome);
    assert!((11.0..12.2).contains(&mbps), "{mbps} Mb/s");
}

#[test]
fn jitter_that_keeps_the_order_loses_nothing() {
    let jitter = "{ distribution = \"exponential\", mean = \"2ms\" }";
    let outcome = flow(&format!("queue = \"4bdp\"\nforward = {{ jitter = {jitter} }}"));
    let mbps = goodput_mbps(&outcome);
    assert!(mbps > 18.0, "{mbps} Mb/s");
}

#[test]
fn runs_with_impairments_are_repeatable() {
    let link = "forward = { reorder = { probability = \"1%\", by = \"3ms\" }, duplicate = \"1%\", \
                jitter = \"1ms\" }\nbackward = { duplicate = \"5%\", jitter = { most = \"4ms\", reorders = true } }";
    let [one, other] = [flow(link), flow(link)];
    assert_eq!(one.summary, other.summary);
    assert!(goodput_mbps(&one) > 1.0, "{} Mb/s", goodput_mbps(&one));
}
