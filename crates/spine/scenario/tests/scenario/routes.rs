// SPDX-License-Identifier: GPL-2.0-or-later
//! Paths: by hand, and against every path there is in small random networks.

#![allow(clippy::format_collect, reason = "short texts, built once")]

use longhaul_scenario::{Heading, Link, Queue, Routes, Run, Scenario};
use proptest::prelude::*;
use units::Duration;

/// A run of nodes a, b, ... and links (ends, delay there, delay back, in milliseconds).
fn run(nodes: usize, links: &[(usize, usize, u8, u8)]) -> Run {
    with_rates(nodes, links, "")
}

fn with_rates(nodes: usize, links: &[(usize, usize, u8, u8)], rate: &str) -> Run {
    let name = |n: usize| char::from(b'a' + n as u8);
    let nodes: String = (0..nodes).map(|n| format!("[[node]]\nname = \"{}\"\n", name(n))).collect();
    let link = |(at, (a, b, there, back)): (usize, &(usize, usize, u8, u8))| {
        let (a, b) = (name(*a), name(*b));
        format!(
            "[[link]]\nname = \"l{at}\"\nbetween = [\"{a}\", \"{b}\"]\n\
             {rate}delay = \"{there}ms\"\nbackward = {{ delay = \"{back}ms\" }}\n"
        )
    };
    let links: String = links.iter().enumerate().map(link).collect();
    let text = format!("title = \"t\"\n{nodes}{links}");
    Scenario::parse(&text, "routes", &[""; 0]).unwrap_or_else(|e| panic!("{e}")).runs.remove(0)
}

#[test]
fn routes_prefer_short_delay_then_fewer_hops_then_name() {
    // a - b - d and a - c - d alike; a - d directly but slower; c - b at no cost.
    let run = run(
        4,
        &[(0, 2, 1, 1), (2, 3, 1, 1), (0, 1, 1, 1), (1, 3, 1, 1), (0, 3, 3, 3), (1, 2, 0, 0)],
    );
    let routes = run.routes();
    assert_eq!(routes.path("a", "d"), Some(vec![2, 3]), "by b, the smaller name");
    assert_eq!(routes.path("d", "a"), Some(vec![3, 2]));
    assert_eq!(routes.next_hop("a", "d"), Some(2));
    assert_eq!(routes.rtt("a", "d"), Some(Duration::from_millis(4)));
    assert_eq!(routes.path("a", "a"), Some(vec![]));
    assert_eq!(routes.rtt("a", "a"), Some(Duration::ZERO));
    assert_eq!(routes.next_hop("a", "a"), None);
    assert_eq!(routes.path("a", "unknown"), None);
}

#[test]
fn parallel_links_prefer_speed_then_smaller_name() {
    let routes = run(2, &[(0, 1, 5, 1), (1, 0, 1, 5), (0, 1, 1, 9)]).routes();
    assert_eq!(routes.path("a", "b"), Some(vec![2]), "l2 takes 1 ms from a to b");
    assert_eq!(routes.path("b", "a"), Some(vec![0]), "l0 and l1 take 1 ms from b to a");
    assert_eq!(routes.rtt("b", "a"), Some(Duration::from_millis(2)));
}

#[test]
fn nodes_without_links_are_out_of_reach() {
    let routes = run(3, &[(0, 1, 1, 1)]).routes();
    assert_eq!((routes.path("a", "c"), routes.rtt("a", "c")), (None, None));
}

/// Delay and hops of the best of all simple paths, by trying them all.
fn best(
    links: &[Link],
    from: &str,
    to: &str,
    passed: &mut Vec<String>,
) -> Option<(Duration, usize)> {
    if from == to {
        return Some((Duration::ZERO, 0));
    }
    passed.push(from.to_owned());
    let ends = |l: &Link| {
        [(l.a.clone(), l.b.clone(), l.forward.delay), (l.b.clone(), l.a.clone(), l.backward.delay)]
    };
    let mut found = None;
    for (a, b, delay) in links.iter().flat_map(ends) {
        if a == from
            && !passed.contains(&b)
            && let Some((rest, hops)) = best(links, &b, to, passed)
        {
            let cost = (delay + rest, hops + 1);
            found = Some(found.map_or(cost, |f: (Duration, usize)| f.min(cost)));
        }
    }
    passed.pop();
    found
}

fn walk(run: &Run, routes: &Routes, from: &str, to: &str) -> Option<(Duration, usize)> {
    let path = routes.path(from, to)?;
    let headings: Vec<Heading> = routes.legs(from, to)?.iter().map(|leg| leg.heading).collect();
    assert_eq!(path.first().copied(), routes.next_hop(from, to));
    let mut at = from;
    let mut delay = Duration::ZERO;
    for (link, heading) in path.iter().map(|l| &run.links[*l]).zip(headings) {
        let forward = link.a == at;
        assert_eq!(forward, heading == Heading::Forward);
        assert!(forward || link.b == at, "{} does not start at {at}", link.name);
        delay = delay + if forward { link.forward.delay } else { link.backward.delay };
        at = if forward { &link.b } else { &link.a };
    }
    assert_eq!(at, to);
    Some((delay, path.len()))
}

proptest! {
    #[test]
    fn queues_are_of_the_longest_round_trip_across_a_link(
        links in prop::collection::vec((0..6_usize, 0..6_usize, 0..4_u8, 0..4_u8), 0..9)
    ) {
        let links: Vec<_> = links.into_iter().filter(|l| l.0 != l.1).collect();
        let run = with_rates(6, &links, "rate = \"1tbit\"\n");
        let routes = run.routes();
        let mut longest = vec![Duration::ZERO; run.links.len()];
        for from in &run.nodes {
            for to in &run.nodes {
                let rtt = routes.rtt(&from.name, &to.name).unwrap_or_default();
                for link in routes.path(&from.name, &to.name).unwrap_or_default() {
                    longest[link] = longest[link].max(rtt);
                }
            }
        }
        for (link, longest) in run.links.iter().zip(longest) {
            let rate = units::Rate::bits_per_second(1_000_000_000_000);
            let floor = units::Bytes::new(151_400);
            let expected = Some(Queue::Bytes(rate.times(longest).max(floor)));
            prop_assert_eq!(link.forward.queue, expected, "{}", link.name);
        }
    }

    #[test]
    fn no_path_is_better(
        links in prop::collection::vec((0..6_usize, 0..6_usize, 0..4_u8, 0..4_u8), 0..9)
    ) {
        let links: Vec<_> = links.into_iter().filter(|l| l.0 != l.1).collect();
        let run = run(6, &links);
        let routes = run.routes();
        for from in &run.nodes {
            for to in &run.nodes {
                let (from, to) = (from.name.as_str(), to.name.as_str());
                let best = best(&run.links, from, to, &mut Vec::new());
                prop_assert_eq!(walk(&run, &routes, from, to), best, "{} to {}", from, to);
            }
        }
    }
}
