// SPDX-License-Identifier: GPL-2.0-or-later
//! One table that stands for many things, and what each of them draws for itself.

use longhaul_scenario::{Queue, Run, Scenario};
use units::{Bytes, Duration, Rate};

/// N sources and N sinks around one link: paper 002, figure 1.
const DUMBBELL: &str = r#"
title = "dumbbell"
repeat = 2
vary = false

[vars]
pairs = 3
jitter = "0"

[[node]]
name = "source#"
count = "${pairs}"
[[node]]
name = "left"
[[node]]
name = "right"
[[node]]
name = "sink#"
count = "${pairs}"

[[link]]
between = ["source#", "left"]
count = "${pairs}"
rate = "1gbit"
delay = "1ms"
delay_spread = "${jitter}"
[[link]]
between = ["left", "right"]
rate = "1gbit"
delay = "8ms"
[[link]]
between = ["right", "sink#"]
count = "${pairs}"
rate = "1gbit"
delay = "1ms"

[[flow]]
from = "source#"
to = "sink#"
count = "${pairs}"
bytes = "1MB"
jitter = "${jitter}"
"#;

fn parse(text: &str, overrides: &[&str]) -> Vec<Run> {
    Scenario::parse(text, "dumbbell.toml", overrides).unwrap_or_else(|e| panic!("{e}")).runs
}

#[test]
fn the_number_is_in_every_name() {
    let run = &parse(DUMBBELL, &[])[0];
    let nodes: Vec<&str> = run.nodes.iter().map(|n| n.name.as_str()).collect();
    let expected = ["source1", "source2", "source3", "left", "right", "sink1", "sink2", "sink3"];
    assert_eq!(nodes, expected);
    let links: Vec<&str> = run.links.iter().map(|l| l.name.as_str()).collect();
    let expected = [
        "source1-left",
        "source2-left",
        "source3-left",
        "left-right",
        "right-sink1",
        "right-sink2",
        "right-sink3",
    ];
    assert_eq!(links, expected);
    let flows: Vec<_> =
        run.flows.iter().map(|f| (f.name.as_str(), f.from.as_str(), f.to.as_str())).collect();
    let expected = [
        ("flow1-1", "source1", "sink1"),
        ("flow1-2", "source2", "sink2"),
        ("flow1-3", "source3", "sink3"),
    ];
    assert_eq!(flows, expected);
}

#[test]
fn keys_name_all_of_them_by_the_name_with_the_sign() {
    let variants = "[[variant]]\nname = \"w\"\nset = { \"node.source#.cc\" = \"reno\" }\n\
                [sweep]\n\"vars.pairs\" = [1, 4]\n\"link.source#-left.rate\" = [\"10mbit\"]\n";
    let runs = parse(&format!("{DUMBBELL}{variants}"), &["flow.flow1-#.start=3s"]);
    assert_eq!(runs.iter().map(|r| r.flows.len()).collect::<Vec<_>>(), [1, 4, 1, 4]);
    for run in runs {
        assert_eq!(run.node("source1").unwrap().cc, "reno");
        assert_eq!(run.links[0].forward.rate, Some(Rate::bits_per_second(10_000_000)));
        assert!(run.flows.iter().all(|f| f.cc == ["reno"]));
        assert!(run.flows.iter().all(|f| f.start == Duration::from_secs(3)));
    }
}

#[test]
fn count_of_zero_is_accepted() {
    let traffic = "[[node]]\nname = \"other#\"\ncount = 0\n[[link]]\nbetween = [\"other#\", \"left\"]\n\
                   count = 0\n[[traffic]]\nname = \"t#\"\ncount = 0\nfrom = \"other#\"\nto = \"right\"\n\
                   kind = \"cbr\"\nrate = \"1mbit\"\n[[variant]]\nname = \"w\"\n\
                   set = { \"node.other#.cc\" = \"reno\" }\n";
    let run = &parse(&format!("{DUMBBELL}{traffic}"), &[])[0];
    let without = &parse(DUMBBELL, &[])[0];
    assert_eq!(
        (&run.nodes, &run.links, &run.traffic),
        (&without.nodes, &without.links, &without.traffic)
    );
}

#[test]
fn depots_are_numbered_too() {
    let text = format!(
        "{DUMBBELL}[[node]]\nname = \"depot#\"\ncount = 3\n\
         [[link]]\nbetween = [\"depot#\", \"left\"]\ncount = 3\n"
    );
    let run = &parse(&text, &["flow.flow1-#.via=[\"depot#\"]"])[0];
    let via: Vec<_> = run.flows.iter().map(|f| f.via[0].as_str()).collect();
    assert_eq!(via, ["depot1", "depot2", "depot3"]);
}

#[test]
fn dumbbell_expands_to_256_pairs() {
    let run = &parse(DUMBBELL, &["vars.pairs=256"])[0];
    assert_eq!((run.nodes.len(), run.links.len(), run.flows.len()), (514, 513, 256));
    assert_eq!(run.routes().rtt("source256", "sink256"), Some(Duration::from_millis(20)));
    // 1 Gb/s x 20 ms.
    let queue = Some(Queue::Bytes(Bytes::new(2_500_000)));
    assert!(run.links.iter().all(|l| l.forward.queue == queue && l.backward.queue == queue));
}

#[test]
fn counted_items_draw_separately_and_alike_in_all_variants() {
    let variants =
        "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nset = { \"vars.pairs\" = 4 }\n";
    let text = format!("{DUMBBELL}{variants}");
    let runs = parse(&text, &["vars.jitter=5ms"]);
    let draws = |run: &Run| -> Vec<u64> {
        let extra = run.links[..3]
            .iter()
            .map(|l| {
                let there = l.forward.delay.saturating_sub(Duration::from_millis(1));
                let back = l.backward.delay.saturating_sub(Duration::from_millis(1));
                assert_eq!(there, back, "{}", l.name);
                there
            })
            .chain(run.flows[..3].iter().map(|f| f.start));
        extra.map(Duration::as_nanos).collect()
    };
    let drawn: Vec<Vec<u64>> = runs.iter().map(draws).collect();
    let [first_a, first_b, second_a, second_b] = drawn.as_slice() else { panic!("{drawn:?}") };
    assert_eq!(first_a, first_b, "a variant that adds a source");
    assert_eq!(second_a, second_b);
    let mut all = [first_a.as_slice(), second_a].concat();
    assert!(all.iter().all(|d| *d < 5_000_000), "{all:?}");
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 12, "no draw like another: {all:?}");
    assert_eq!(parse(&text, &["vars.jitter=5ms"]), runs, "and the same each time");
}

#[test]
fn queues_are_sized_without_the_draw() {
    let queue = |overrides| parse(DUMBBELL, overrides)[0].links[3].forward.queue;
    assert_eq!(queue(&["vars.jitter=50ms"]), queue(&[]));
}
