// SPDX-License-Identifier: GPL-2.0-or-later
//! What queue disciplines do to transfers.

use crate::common::{forward_link, only, outcome};
use longhaul_sim::Outcome;
use std::{collections::BTreeMap, path::Path};

/// Flows with these congestion controls over 50 Mb/s and 40 ms, through a queue of two bandwidth-delay products.
fn run(discipline: &str, flows: &[&str], further: &str) -> Outcome {
    let flow = |cc: &&str| {
        format!("[[flow]]\nfrom = \"source\"\nto = \"sink\"\ncc = \"{cc}\"\nstart = \"0s\"\n")
    };
    let flows: String = flows.iter().map(flow).collect();
    only(&format!(
        r#"
        title = "Queues"
        duration = "30s"
        {further}
        [[node]]
        name = "source"
        [[node]]
        name = "router"
        [[node]]
        name = "sink"
        [[link]]
        between = ["source", "router"]
        rate = "1gbit"
        delay = "1ms"
        [[link]]
        between = ["router", "sink"]
        rate = "50mbit"
        delay = "19ms"
        queue = "2bdp"
        forward = {{ discipline = {discipline} }}
        {flows}
        "#
    ))
}

fn wait_ms(outcome: &Outcome) -> f64 {
    forward_link(outcome, "router-sink").queue_mean_delay_us.unwrap() / 1e3
}

#[test]
fn cubic_fills_taildrop_and_meets_delay_target_elsewhere() {
    let flows = ["lh_cubic"; 4];
    let of = |discipline: &str| {
        let outcome = run(discipline, &flows, "");
        let link = forward_link(&outcome, "router-sink");
        let found = (wait_ms(&outcome), link.utilisation.unwrap(), link.early_drops);
        println!("{discipline}: {found:?}");
        found
    };
    let (wait, used, early) = of("\"taildrop\"");
    assert!((50.0..80.0).contains(&wait) && used > 0.95 && early == 0, "the queue has 80 ms");
    let (wait, used, early) = of("\"red\"");
    assert!((2.0..30.0).contains(&wait) && used > 0.90 && early > 0, "min is 6.7 ms, max 20 ms");
    let (wait, used, early) = of("\"pie\"");
    assert!((8.0..20.0).contains(&wait) && used > 0.95 && early > 0, "the target is 15 ms");
    for discipline in ["\"codel\"", "\"fq_codel\""] {
        let (wait, used, early) = of(discipline);
        assert!((2.0..10.0).contains(&wait) && used > 0.90 && early > 0, "the target is 5 ms");
    }
    let (wait, ..) = of("{ kind = \"codel\", target = \"20ms\", interval = \"400ms\" }");
    assert!((12.0..40.0).contains(&wait), "four times the target");
}

#[test]
fn ecn_flow_is_marked_and_retransmits_nothing() {
    for kind in ["red", "pie", "codel", "fq_codel"] {
        let of = |ecn: bool| {
            let discipline = format!("{{ kind = \"{kind}\", ecn = {ecn} }}");
            let outcome =
                run(&discipline, &["lh_cubic"; 2], "tcp = { ecn = true, hystart = true }");
            let link = forward_link(&outcome, "router-sink").clone();
            let again: u64 = outcome.summary.flows.iter().filter_map(|f| f.retransmits).sum();
            println!("{kind}, ecn {ecn}: {link:?}, {again} sent again");
            (link, again, wait_ms(&outcome))
        };
        let (marked, again, wait) = of(true);
        assert!(marked.marks > 0, "{kind}");
        // RED and PIE drop beyond what marks are for.
        if kind.ends_with("codel") {
            assert_eq!((marked.queue_drops, again), (0, 0), "{kind}");
        }
        let (dropped, again, unmarked) = of(false);
        assert!(dropped.marks == 0 && dropped.early_drops > 0 && again > 0, "{kind}");
        assert!((0.5..2.0).contains(&(wait / unmarked)), "{kind}: {wait} ms and {unmarked} ms");
    }
}

#[test]
fn fq_codel_gives_cubic_and_bbr_equal_parts() {
    let parts = |discipline: &str| {
        let outcome = run(discipline, &["lh_cubic", "lh_bbr"], "");
        let [cubic, bbr] = [0, 1].map(|n| outcome.summary.flows[n].goodput_bps.unwrap() / 1e6);
        println!("{discipline}: cubic {cubic:.2}, bbr {bbr:.2}");
        (cubic, bbr)
    };
    let (cubic, bbr) = parts("\"fq_codel\"");
    assert!((cubic / bbr - 1.0).abs() < 0.1 && cubic + bbr > 45.0);
    // In one queue it is BBR's, whichever discipline it has.
    for discipline in ["\"codel\"", "\"pie\""] {
        let (cubic, bbr) = parts(discipline);
        assert!(bbr > 2.0 * cubic, "{discipline}");
    }
}

/// What `docs/queues.md` and the scenario's header say of it.
#[test]
fn queue_comparison_matches_the_documentation() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/queue-disciplines.toml");
    let scenario = scenario::load(&path, &[] as &[&str]).unwrap();
    let mut found = BTreeMap::new();
    for run in &scenario.runs {
        let outcome = outcome(run);
        let variant = run.variant.as_ref().map(|variant| variant.name.clone()).unwrap_or_default();
        let [first, second] = [0, 1].map(|n| outcome.summary.flows[n].goodput_bps.unwrap() / 1e6);
        let link = forward_link(&outcome, "bottleneck");
        let (wait, used) = (link.queue_mean_delay_us.unwrap() / 1e3, link.utilisation.unwrap());
        let at =
            run.point.iter().map(|setting| setting.value.as_str()).collect::<Vec<_>>().join(" ");
        println!("{variant}, {at}: {first:.1} + {second:.1} Mb/s, {wait:.1} ms, {used:.3}");
        assert!(used >= 0.925, "{variant}, {at}");
        found.insert((variant, at), (first, second, wait));
    }
    assert_eq!(found.len(), 20);
    let of = |variant: &str, at: &str| found[&(variant.to_owned(), at.to_owned())];
    for other in ["cubic", "bbr"] {
        for variant in ["taildrop", "red"] {
            let waits = ["1bdp", "4bdp"].map(|queue| of(variant, &format!("{other} {queue}")).2);
            assert!(waits[1] > 3.0 * waits[0], "{variant}: {waits:?}");
        }
        for (variant, least, most) in [("pie", 12.5, 16.5), ("codel", 2.5, 8.5)] {
            for queue in ["1bdp", "4bdp"] {
                let wait = of(variant, &format!("{other} {queue}")).2;
                assert!((least..most).contains(&wait), "{variant}: {wait}");
            }
        }
    }
    for variant in ["pie", "codel", "fq-codel"] {
        assert_eq!(of(variant, "cubic 1bdp"), of(variant, "cubic 4bdp"), "the limit is never met");
    }
    for variant in ["taildrop", "red", "pie", "codel"] {
        for queue in ["1bdp", "4bdp"] {
            let (cubic, ..) = of(variant, &format!("bbr {queue}"));
            assert_eq!(
                cubic < 100.0 / 7.0,
                (variant, queue) != ("taildrop", "4bdp"),
                "{variant}: {cubic}"
            );
        }
    }
    for queue in ["1bdp", "4bdp"] {
        let (cubic, bbr, _) = of("fq-codel", &format!("bbr {queue}"));
        assert!((cubic / bbr - 1.0).abs() < 0.06, "{cubic} and {bbr}");
    }
}

#[test]
fn looking_changes_nothing() {
    for kind in ["red", "pie", "codel", "fq_codel"] {
        let of = |sample: &str| {
            let further = format!("sample = \"{sample}\"");
            let outcome = run(&format!("\"{kind}\""), &["lh_cubic", "lh_reno"], &further);
            (outcome.summary.flows, outcome.summary.links)
        };
        assert!(of("1ms") == of("10s"), "{kind}");
    }
}
