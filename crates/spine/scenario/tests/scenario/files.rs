// SPDX-License-Identifier: GPL-2.0-or-later
//! Every file in `scenarios/` is a scenario.

use longhaul_scenario::{Heading, Loss, Queue, Run, Scenario, load};
use std::path::{Path, PathBuf};
use units::{Bytes, Duration};

const NO_OVERRIDES: [&str; 0] = [];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios")
}

/// With every repeat as written.
fn read(name: &str, overrides: &[&str]) -> Scenario {
    let overrides = [overrides, &["vary=false"]].concat();
    load(&folder().join(name), &overrides).unwrap_or_else(|e| panic!("{e}"))
}

fn run<'s>(scenario: &'s Scenario, id: &str) -> &'s Run {
    let ids: Vec<&str> = scenario.runs.iter().map(|r| r.id.as_str()).collect();
    scenario.runs.iter().find(|r| r.id == id).unwrap_or_else(|| panic!("no {id} among {ids:?}"))
}

/// Equal up to the nanoseconds lost where a third is rounded.
fn nearly(a: Duration, b: Duration) -> bool {
    a.as_nanos().abs_diff(b.as_nanos()) < 6
}

#[test]
fn every_file_is_a_scenario_and_its_runs_have_their_own_ids() {
    let mut files = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            let scenario = load(&path, &NO_OVERRIDES).unwrap_or_else(|e| panic!("{e}"));
            let mut ids: Vec<&str> = scenario.runs.iter().map(|r| r.id.as_str()).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), scenario.runs.len(), "{}", path.display());
            files += 1;
        }
    }
    assert!(files >= 3, "{files} files in {}", folder().display());
}

#[test]
fn the_example_of_the_documentation_makes_four_runs() {
    let docs = include_str!("../../../../../docs/scenario.md");
    let example = docs.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let scenario = Scenario::parse(example, "docs/scenario.md", &NO_OVERRIDES)
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(scenario.runs.len(), 4);
}

/// What completes each fragment of the documentation to a scenario, and how many runs that has.
#[test]
fn fragments_of_the_documentation_are_taken() {
    let reference = include_str!("../../../../../docs/scenario-reference.md");
    let queues = include_str!("../../../../../docs/queues.md");
    let ends = "[[node]]\nname = \"left\"\n[[node]]\nname = \"right\"\n";
    let link = "[[link]]\nbetween = [\"left\", \"right\"]\nloss = \"${loss}\"\n";
    let flow = "[[flow]]\nfrom = \"left\"\nto = \"right\"\n";
    let chain = "[[node]]\nname = \"depot\"\n[[link]]\nbetween = [\"left\", \"depot\"]\n\
        [[link]]\nbetween = [\"depot\", \"right\"]\n\
        [[flow]]\nfrom = \"left\"\nto = \"right\"\nvia = [\"depot\"]\n";
    let laptop = "[[node]]\nname = \"laptop\"\n\
        [[link]]\nname = \"uplink\"\nbetween = [\"depot\", \"laptop\"]\nrate = \"50mbit\"\n\
        [[link]]\nname = \"mobile\"\nbetween = [\"right\", \"laptop\"]\n";
    let cases = [
        (
            reference,
            0,
            format!("[vars]\nsources = 3\n{ends}{flow}"),
            "[[link]]\nbetween = [\"left\", \"right\"]\n",
            1,
        ),
        (reference, 1, format!("{chain}{ends}{flow}{laptop}"), "", 1),
        (reference, 2, format!("[vars]\nloss = \"0\"\n{ends}{link}{flow}"), "", 3),
        (queues, 0, format!("{ends}{flow}"), "", 1),
    ];
    for (page, at, before, after, runs) in cases {
        let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let fragment = blocks.clone().nth(at).unwrap_or_else(|| panic!("no block {at}"));
        let text = format!("title = \"t\"\nduration = \"9s\"\n{before}{fragment}{after}");
        let scenario = Scenario::parse(&text, "fragment", &NO_OVERRIDES)
            .unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(scenario.runs.len(), runs, "{text}");
    }
}

#[test]
fn the_demo_is_the_path_it_promises() {
    let scenario = read("demo.toml", &[]);
    assert_eq!(scenario.runs.len(), 54, "six variants, three sizes, three repeats");
    let run = run(&scenario, "cold,size=10MB,r01");
    assert_eq!(run.routes().rtt("client", "server"), Some(Duration::from_millis(90)));
    let delays: Vec<u64> = run.links.iter().map(|l| l.forward.delay.as_nanos()).collect();
    assert_eq!(delays, [3_000_000, 39_000_000, 3_000_000]);
    let lossy: Vec<bool> = run.links.iter().map(|l| l.backward.loss != Loss::None).collect();
    assert_eq!(lossy, [false, true, false]);
    // 1 Gb/s x 90 ms = 11.25 MB on every link, and four times that for the depots' buffers.
    let queue = Some(Queue::Bytes(Bytes::new(11_250_000)));
    assert!(run.links.iter().all(|l| l.forward.queue == queue && l.backward.queue == queue));
    for depot in ["depot1", "depot2"] {
        let node = run.node(depot).unwrap();
        assert_eq!(node.tcp_rmem_max, Some(Bytes::new(45_000_000)));
        assert_eq!(node.tcp_wmem_max, Some(Bytes::new(45_000_000)));
    }
    assert_eq!(run.node("server").unwrap().tcp_wmem_max, None);

    let hops: Vec<_> = run.flows[0].hops().map(|h| (h.from, h.to, h.cc)).collect();
    let expected =
        [("server", "depot2", "cubic"), ("depot2", "depot1", "bbr"), ("depot1", "client", "cubic")];
    assert_eq!(hops, expected);
}

#[test]
fn only_one_way_of_the_demo_changes_an_end() {
    let scenario = read("demo.toml", &[]);
    for run in &scenario.runs {
        let variant = &run.variant.as_ref().unwrap().name;
        let ends = ["client", "server"].map(|end| run.node(end).unwrap().cc.as_str());
        assert_eq!(
            ends,
            if variant == "direct-bbr" { ["cubic", "bbr"] } else { ["cubic", "cubic"] }
        );
        let first = run.flows[0].hops().next().unwrap();
        assert_eq!(first.cc, run.node("server").unwrap().cc);
    }
}

#[test]
fn the_demo_scales_by_its_options() {
    let options = ["vars.size=10MB", "vars.rtt=50ms", "vars.rate=100mbit", "repeat=3"];
    let scenario = read("demo.toml", &options);
    assert_eq!(scenario.runs.len(), 18);
    let run = run(&scenario, "direct,size=10MB,r03");
    assert_eq!(run.flows[0].bytes, Some(Bytes::new(10 << 20)));
    assert_eq!(run.links[1].forward.delay, Duration::from_millis(19));
    // 100 Mb/s x 50 ms = 625 kB.
    assert_eq!(run.links[0].forward.queue, Some(Queue::Bytes(Bytes::new(625_000))));
}

#[test]
fn figure_8_puts_the_delay_where_the_paper_does() {
    let scenario = read("000-figure-08.toml", &[]);
    assert_eq!(scenario.runs.len(), 3 * 5 * 10);
    for run in &scenario.runs {
        let rtt: Duration = run.point[0].value.parse().unwrap();
        let routes = run.routes();
        assert!(nearly(routes.rtt("client", "server").unwrap(), rtt), "{}", run.id);
        let hops = run.flows[0].hops();
        let longest = hops.map(|h| routes.rtt(h.from, h.to).unwrap()).max().unwrap();
        let segments = run.flows[0].via.len() as u64 + 1;
        assert!(nearly(longest.saturating_mul(segments), rtt), "{}: {longest}", run.id);
        assert!(run.nodes.iter().all(|n| n.tcp_rmem_max == Some(Bytes::new(4_194_304))));
        assert_eq!(run.flows[0].cc, vec!["cubic"; run.flows[0].via.len() + 1]);
        let expected = match (run.flows[0].via.len(), run.point[0].value.as_str()) {
            (1, "70ms" | "90ms") => vec![2.0],
            (2, "70ms" | "90ms") => vec![3.0],
            _ => vec![],
        };
        let gains: Vec<f64> = run.references.iter().map(|r| r.gain).collect();
        assert_eq!(gains, expected, "{}", run.id);
    }
}

#[test]
fn figure_10_spreads_the_loss_by_equation_4() {
    let scenario = read("000-figure-10.toml", &[]);
    assert_eq!(scenario.runs.len(), 3 * 4 * 10);
    for run in &scenario.runs {
        let loss: units::Probability = run.point[0].value.parse().unwrap();
        let kept: f64 = run
            .links
            .iter()
            .map(|l| match l.forward.loss {
                Loss::Uniform { probability } => 1.0 - probability.get(),
                _ => 1.0,
            })
            .product();
        assert!((1.0 - kept - loss.get()).abs() < 1e-12, "{}: {kept}", run.id);
        let lossy = run.links.iter().filter(|l| l.forward.loss != Loss::None).count();
        assert_eq!(lossy, run.flows[0].via.len().max(1) + 1, "{}", run.id);
        let rtt = run.routes().rtt("client", "server").unwrap();
        assert!(nearly(rtt, Duration::from_millis(10)), "{}: {rtt}", run.id);
    }
}

#[test]
fn figure_9_changes_only_the_depots_congestion_control() {
    let scenario = read("000-figure-09.toml", &[]);
    for variant in ["reno", "cubic", "highspeed"] {
        let run = run(&scenario, &format!("{variant},rtt=50ms,r01"));
        assert_eq!(run.routes().rtt("client", "server"), Some(Duration::from_millis(50)));
        assert_eq!(run.routes().rtt("depot1", "depot2"), Some(Duration::from_millis(44)));
        let lossy: Vec<bool> = run.links.iter().map(|l| l.backward.loss != Loss::None).collect();
        assert_eq!(lossy, [false, true, false]);
        let far = if variant == "highspeed" { "lh_highspeed" } else { variant };
        let hops: Vec<_> = run.flows[0].hops().map(|h| (h.from, h.cc)).collect();
        assert_eq!(hops, [("server", "reno"), ("depot2", far), ("depot1", "reno")]);
    }
}

#[test]
fn paper_002_crosses_seven_algorithms_with_three_backgrounds() {
    for (name, points) in
        [("002-figure-2.toml", 8), ("002-figure-3.toml", 5), ("002-figure-4.toml", 4)]
    {
        let scenario = read(name, &[]);
        assert_eq!(scenario.runs.len(), 7 * 3 * points, "{name}");
        for run in &scenario.runs {
            let sender = run.node(&run.flows[0].from).unwrap();
            let paper = run.congestion.iter().find(|entry| entry.name == sender.cc).unwrap();
            assert_eq!(paper.set.as_deref(), Some("paper"), "{name}, {}", sender.cc);
            assert!(run.flows.iter().all(|flow| flow.cc == [sender.cc.as_str()]), "{name}");
            let bottleneck = run.links.iter().find(|link| link.name == "bottleneck").unwrap();
            assert_eq!(bottleneck.forward.queue, Some(Queue::Packets(2500)), "{name}");
            assert_eq!(run.traffic.len(), 2 * 3, "{name}: three kinds, both ways");
        }
    }
    let run = read("002-figure-4.toml", &["vars.delay=200ms"]).runs.remove(0);
    let rtt = run.routes().rtt("source1", "sink1").unwrap().as_secs_f64();
    assert!(
        (0.404..0.408).contains(&rtt),
        "twice 200 ms, and 1 to 2 ms on each host's link: {rtt}"
    );
}

#[test]
fn paper_004_has_its_congestion_levels() {
    let level = |run: &Run, heading| {
        let bottleneck = run.links.iter().position(|link| link.name == "bottleneck").unwrap();
        run.congestion_level(&run.routes(), bottleneck, heading).unwrap()
    };
    let nearly = |a: f64, b: f64| (a - b).abs() < 1e-6;
    let comparison = read("004-12x1g.toml", &[]);
    for run in &comparison.runs {
        assert_eq!(run.duration, Some(Duration::from_secs(3 * 82)), "the slide has about 250 s");
        assert!(nearly(level(run, Heading::Forward), 1.2));
    }
    let streams = read("004-parallel-streams.toml", &[]);
    assert!(streams.runs.iter().all(|run| nearly(level(run, Heading::Forward), 1.1)));
    let files = read("004-3000mb.toml", &[]);
    let most = files.runs.last().unwrap();
    assert!(nearly(level(most, Heading::Forward), 2.1));
    let reverse = |run: &Run| (level(run, Heading::Backward) * 10.0).round() as u32;
    let mut levels: Vec<u32> = files.runs.iter().map(reverse).collect();
    levels.dedup();
    assert_eq!(levels, [0, 9, 11, 15]);
    assert!(files.runs[0].flows.iter().all(|flow| flow.bytes == Some(Bytes::new(3000 << 20))));
}
