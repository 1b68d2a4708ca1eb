// SPDX-License-Identifier: GPL-2.0-or-later
//! Capacities of networks as in scenarios.

use super::*;
use scenario::Scenario;

/// The paths of a scenario of those links (ends, rate) and flows (nodes from source to sink).
fn paths(links: &[(&str, &str, &str)], flows: &[&[&str]]) -> Paths {
    let mut nodes: Vec<&str> = links.iter().flat_map(|(a, b, _)| [*a, *b]).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut text = "title = \"t\"\nduration = \"1s\"\n".to_owned();
    for node in nodes {
        text += &format!("[[node]]\nname = \"{node}\"\n");
    }
    for (a, b, rate) in links {
        let rate = if rate.is_empty() { String::new() } else { format!("rate = \"{rate}\"\n") };
        text += &format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\ndelay = \"1ms\"\n{rate}");
    }
    for (n, flow) in flows.iter().enumerate() {
        let (from, via, to) = (flow[0], &flow[1..flow.len() - 1], flow[flow.len() - 1]);
        text += &format!(
            "[[flow]]\nname = \"f{n}\"\nfrom = \"{from}\"\nto = \"{to}\"\nvia = {via:?}\n"
        );
    }
    let run = Scenario::parse(&text, "capacity", &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
    of_scenario(&serde_json::to_value(&run.runs[0]).unwrap())
}

fn of_scenario(scenario: &serde_json::Value) -> Paths {
    let manifest = serde_json::json!({
        "schema": 1, "id": "r", "title": "t", "repeat": 1, "seed": 1, "method": "sim",
        "started": "2026-01-01T00:00:00Z", "valid": true, "scenario": scenario,
    });
    Paths::of(&serde_json::from_value(manifest).unwrap())
}

/// The sum in Mb/s, and whether it is one link's rate, of the flows with these numbers.
fn capacity(paths: &Paths, flows: &[usize]) -> Option<(f64, bool)> {
    let names: Vec<String> = flows.iter().map(|n| format!("f{n}")).collect();
    let capacity = paths.capacity(names.iter().map(String::as_str))?;
    Some((capacity.bps / 1e6, capacity.of_one_link))
}

#[test]
fn behind_one_bottleneck() {
    let links = [
        ("a", "left", "1mbit"),
        ("b", "left", "1mbit"),
        ("c", "left", "1mbit"),
        ("left", "sink", "2mbit"),
    ];
    let paths = paths(&links, &[&["a", "sink"], &["b", "sink"], &["c", "sink"], &["a", "sink"]]);
    assert_eq!(capacity(&paths, &[0, 1, 2]), Some((2.0, true)));
    assert_eq!(capacity(&paths, &[0]), Some((1.0, true)), "its own link");
    assert_eq!(capacity(&paths, &[0, 3]), Some((1.0, true)), "two flows of one node");
    // Two links of 1 Mb/s: as much as the shared one, which is a link that all cross.
    assert_eq!(capacity(&paths, &[0, 1]), Some((2.0, true)));
}

#[test]
fn without_a_link_that_all_share() {
    let links = [("a", "b", "1mbit"), ("b", "c", "3mbit"), ("d", "e", "5mbit")];
    let paths = paths(&links, &[&["a", "b"], &["b", "c"], &["a", "c"], &["d", "e"], &["e", "d"]]);
    assert_eq!(capacity(&paths, &[0, 1, 2]), Some((4.0, false)), "the long one would cost both");
    assert_eq!(capacity(&paths, &[3, 4]), Some((10.0, false)), "there and back are two");
}

#[test]
fn chains_that_come_back_and_links_without_rate() {
    let links = [("x", "a", ""), ("a", "b", "4mbit"), ("b", "c", "9mbit"), ("c", "d", "")];
    let paths = paths(&links, &[&["a", "b"], &["a", "b", "x", "c"], &["c", "d"], &["b", "d"]]);
    assert_eq!(capacity(&paths, &[1]), Some((2.0, false)), "from a to b twice");
    assert_eq!(capacity(&paths, &[0, 1]), Some((4.0, false)), "each byte of the other costs two");
    assert_eq!(capacity(&paths, &[2]), None, "nothing bounds it");
    assert_eq!(capacity(&paths, &[1, 2]), None);
    assert_eq!(capacity(&paths, &[3]), Some((9.0, true)));
    assert_eq!(capacity(&paths, &[7]), None, "no such flow");
    assert!(paths.capacity([]).is_none());
}

#[test]
fn record_without_network_has_no_capacity() {
    for scenario in [serde_json::json!(null), serde_json::json!({ "links": 3 })] {
        assert!(of_scenario(&scenario).capacity(["f0"]).is_none());
    }
}
