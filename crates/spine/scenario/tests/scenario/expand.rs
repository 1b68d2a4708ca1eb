// SPDX-License-Identifier: GPL-2.0-or-later
//! What a scenario expands to: which runs, in which order, with which values.

#![allow(clippy::format_collect, reason = "short texts, built once")]

use longhaul_scenario::{Client, Diagnostics, Family, Loss, Queue, Run, Scenario};
use std::collections::BTreeSet;
use units::{Bytes, Duration, Rate};

const GOOD: &str = include_str!("refused/good.toml");

fn parse(overrides: &[&str]) -> Scenario {
    Scenario::parse(GOOD, "good.toml", overrides).unwrap_or_else(|e| panic!("{e}"))
}

fn ids(scenario: &Scenario) -> Vec<&str> {
    scenario.runs.iter().map(|r| r.id.as_str()).collect()
}

#[test]
fn repeats_are_outermost_and_ways_innermost() {
    let scenario = parse(&[]);
    let expected = [
        "direct,rtt=10ms,r01",
        "depot,rtt=10ms,r01",
        "direct,rtt=20ms,r01",
        "depot,rtt=20ms,r01",
        "direct,rtt=10ms,r02",
        "depot,rtt=10ms,r02",
        "direct,rtt=20ms,r02",
        "depot,rtt=20ms,r02",
    ];
    assert_eq!(ids(&scenario), expected);
    assert_eq!(scenario.axes[0].values, ["10ms", "20ms"]);
    assert_eq!(scenario.runs[6].repeat, 2);
    assert_eq!(scenario.runs[6].point[0].key, "vars.rtt");
    assert_eq!(scenario.runs[6].point[0].value, "20ms");
    assert_eq!(scenario.runs[2].links[0].forward.delay, Duration::from_millis(5));
    assert_eq!(scenario.runs[7].flows[0].via, ["depot"]);
}

#[test]
fn an_override_of_a_swept_key_replaces_the_axis() {
    let scenario = parse(&["vars.rtt=20ms", "repeat=1"]);
    // The axis stays, so that ids and references are those of the full sweep.
    assert_eq!(ids(&scenario), ["direct,rtt=20ms,r01", "depot,rtt=20ms,r01"]);
    assert!(scenario.runs.iter().all(|r| r.references.is_empty()));
    let scenario = parse(&["vars.rtt=10ms", "repeat=1"]);
    assert_eq!(scenario.runs[1].references.len(), 1);
}

#[test]
fn an_override_can_make_or_replace_an_axis() {
    let overrides =
        ["repeat=1", "sweep.vars.rtt=[\"5ms\"]", "sweep.flow.transfer.via=[[], [\"depot\"]]"];
    let scenario = parse(&overrides);
    let expected = [
        "direct,rtt=5ms,via=none,r01",
        "depot,rtt=5ms,via=none,r01",
        "direct,rtt=5ms,via=depot,r01",
        "depot,rtt=5ms,via=depot,r01",
    ];
    assert_eq!(ids(&scenario), expected);
}

const ZIPPED: [&str; 4] = [
    "repeat=1",
    "sweep.duration=[\"60s\", \"60s\", \"9s\"]",
    "sweep.vars.rtt=[\"10ms\", \"20ms\", \"30ms\"]",
    "sweep.zip=[[\"duration\", \"vars.rtt\"]]",
];

fn ids_with(overrides: &[&str]) -> Vec<String> {
    let scenario = parse(&[&ZIPPED, overrides].concat());
    let direct = scenario.runs.iter().filter(|run| run.id.starts_with("direct"));
    direct.map(|run| run.id.clone()).collect()
}

#[test]
fn zipped_keys_take_their_values_pair_by_pair() {
    // The file sweeps rtt; a value that comes twice has the same name in both ids.
    assert_eq!(
        ids_with(&[]),
        [
            "direct,rtt=10ms,duration=60s,r01",
            "direct,rtt=20ms,duration=60s,r01",
            "direct,rtt=30ms,duration=9s,r01",
        ]
    );
    let run = &parse(&ZIPPED).runs[5];
    assert_eq!(run.duration, Some(Duration::from_millis(9_000)));
    assert_eq!(run.links[0].backward.delay, Duration::from_micros(7_500));
    // Keys that are not in the group make a grid with it.
    let grid = ids_with(&["sweep.seed=[1, 2]"]);
    assert_eq!(grid.len(), 6);
    assert_eq!(grid[1], "direct,rtt=10ms,duration=60s,seed=2,r01");
}

#[test]
fn an_override_of_a_zipped_key_keeps_its_pairs() {
    assert_eq!(ids_with(&["vars.rtt=30ms"]), ["direct,rtt=30ms,duration=9s,r01"]);
    assert_eq!(
        ids_with(&["duration=60s"]),
        ["direct,rtt=10ms,duration=60s,r01", "direct,rtt=20ms,duration=60s,r01"]
    );
}

#[test]
fn the_order_is_file_way_sweep_override() {
    let text = |variant: &str, sweep: &str| {
        format!(
            "title = \"t\"\ntimeout = \"1s\"\n[[node]]\nname = \"n\"\n\
             [[variant]]\nname = \"w\"\n[variant.set]\n{variant}\n[sweep]\n{sweep}\n"
        )
    };
    let timeout = |variant, sweep, overrides: &[&str]| {
        let scenario = Scenario::parse(&text(variant, sweep), "x", overrides).unwrap();
        scenario.runs[0].timeout.as_nanos() / 1_000_000_000
    };
    let (variant, sweep) = ("timeout = \"2s\"", "timeout = [\"3s\"]");
    assert_eq!(timeout("", "", &[]), 1);
    assert_eq!(timeout(variant, "", &[]), 2);
    assert_eq!(timeout(variant, sweep, &[]), 3);
    assert_eq!(timeout(variant, sweep, &["timeout=4s"]), 4);
    assert_eq!(timeout(variant, "", &["timeout=4s"]), 4);
    assert_eq!(timeout("", "", &["timeout=4s"]), 4);
}

#[test]
fn overrides_reach_every_kind_of_key() {
    let scenario = parse(&[
        "title=another",
        "seed=7",
        "family=ipv6",
        "node.client.cc=reno",
        "node.depot.sysctl.net.ipv4.tcp_sack=0",
        "link.client-depot.backward.delay=7ms",
        "link.depot-server.loss={ gilbert_elliott = { p = \"1%\", r = \"10%\", loss_bad = 0.5 } }",
        "flow.transfer.client=wget",
        "flow.transfer.cc=bbr",
    ]);
    let run = &scenario.runs[1];
    assert_eq!((run.title.as_str(), run.family), ("another", Family::Ipv6));
    assert_ne!(run.seed, parse(&[]).runs[1].seed);
    assert_eq!(run.node("client").unwrap().cc, "reno");
    assert_eq!(run.node("depot").unwrap().sysctl["net.ipv4.tcp_sack"], "0");
    assert_eq!(run.links[0].backward.delay, Duration::from_millis(7));
    assert_eq!(run.links[0].forward.delay, Duration::from_micros(2500));
    let probability = |p| units::Probability::new(p).unwrap();
    let loss = Loss::GilbertElliott {
        p: probability(0.01),
        r: probability(0.1),
        loss_bad: probability(0.5),
        loss_good: probability(0.0),
    };
    assert_eq!(run.links[1].forward.loss, loss);
    assert_eq!(run.flows[0].client, Some(Client::Wget));
    assert_eq!(run.flows[0].cc, ["bbr", "bbr"]);
}

#[test]
fn each_direction_has_its_own() {
    let link = &parse(&[]).runs[0].links[0];
    assert_eq!(link.forward.rate, Some(Rate::bits_per_second(5_000_000)));
    assert_eq!(link.backward.rate, Some(Rate::bits_per_second(10_000_000)));
    assert_eq!(link.forward.loss, Loss::Periodic { every: 5000 });
    assert_eq!(link.backward.loss, Loss::Periodic { every: 5000 });
}

#[test]
fn seeds_are_of_the_repeat_alone() {
    let scenario = parse(&[]);
    let seeds_of = |repeat| -> BTreeSet<u64> {
        scenario.runs.iter().filter(|r| r.repeat == repeat).map(|r| r.seed).collect()
    };
    assert_eq!(seeds_of(1).len(), 1);
    assert_eq!(seeds_of(2).len(), 1);
    assert_ne!(seeds_of(1), seeds_of(2));
    // More repeats or another sweep leave the ones there were as they are.
    assert_eq!(parse(&["repeat=5", "vars.rtt=7ms"]).runs[0].seed, scenario.runs[0].seed);
}

#[test]
fn references_go_to_their_way_and_point() {
    for run in parse(&[]).runs {
        let expected = run.id.starts_with("depot,rtt=10ms");
        assert_eq!(!run.references.is_empty(), expected, "{}", run.id);
    }
}

#[test]
fn ids_stay_apart_and_fit_a_file_name() {
    let text = |sweep: &str| {
        let nodes: String = (0..9).map(|n| format!("[[node]]\nname = \"n{n}\"\n")).collect();
        format!("title = \"t\"\n{nodes}[sweep]\n{sweep}")
    };
    let parse = |sweep: &str| Scenario::parse(&text(sweep), "x", &[""; 0]).unwrap();

    let same_end = parse("\"node.n0.cc\" = [\"reno\"]\n\"node.n1.cc\" = [\"reno\"]");
    assert_eq!(ids(&same_end), ["node.n0.cc=reno,node.n1.cc=reno,r01"]);

    let look_alike = parse("\"node.n0.tcp_rmem_max\" = [\"1 KB\", \"1KB\", \"1  KB\"]");
    assert_eq!(
        ids(&look_alike),
        ["tcp_rmem_max=1-KB,r01", "tcp_rmem_max=1KB,r01", "tcp_rmem_max=1-KB~3,r01"]
    );

    let long: String = (0..9)
        .map(|n| format!("\"node.n{n}.tcp_rmem_max\" = [\"100000000000 * 1 / 3\"]\n"))
        .collect();
    assert_eq!(ids(&parse(&long)), ["p0001,r01"]);
}

#[test]
fn a_run_is_the_same_json_each_time_and_reads_back() {
    let runs = || parse(&["link.client-depot.delay=333ns", "link.depot-server.queue=500p"]).runs;
    for (run, again) in runs().iter().zip(runs()) {
        let json = serde_json::to_string(run).unwrap();
        assert_eq!(json, serde_json::to_string(&again).unwrap());
        assert_eq!(serde_json::from_str::<Run>(&json).unwrap(), again);
    }
}

#[test]
fn json_keys_carry_units() {
    let scenario = parse(&["link.depot-server.rate=1gbit", "vars.rtt=21ms"]);
    let json = serde_json::to_value(&scenario.runs[1]).unwrap();
    let expected = serde_json::json!({
        "id": "depot,rtt=21ms,r01",
        "title": "everything",
        "source": null,
        "variant": { "name": "depot", "label": "depot" },
        "baseline": "direct",
        "point": [{ "key": "vars.rtt", "value": "21ms" }],
        "repeat": 1,
        "seed": scenario.runs[1].seed,
        "timeout_s": 60,
        "family": "ipv4",
        "references": [],
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&json[key], value, "{key}");
    }
    assert_eq!(
        json["links"][1],
        serde_json::json!({
            "name": "depot-server", "a": "depot", "b": "server",
            "forward": {
                // 1 Gb/s x 21 ms
                "rate_bps": 1_000_000_000, "delay_us": 5250, "loss": { "kind": "none" },
                "queue_bytes": 2_625_000, "mtu_bytes": 1500, "max_burst_us": 250,
                "monitor_us": 500, "spacing": true,
                "overhead_bytes": 14
            },
            "backward": {
                "rate_bps": 1_000_000_000, "delay_us": 5250, "loss": { "kind": "none" },
                "queue_bytes": 2_625_000, "mtu_bytes": 1500, "max_burst_us": 250,
                "monitor_us": 500, "spacing": true,
                "overhead_bytes": 14
            }
        })
    );
    assert_eq!(
        json["flows"][0],
        serde_json::json!({
            "name": "transfer", "from": "server", "to": "client", "via": ["depot"],
            "cc": ["reno", "reno"], "pacing": ["none", "none"], "bytes": 1_048_576, "streams": 1, "start_us": 0, "client": null, "signalling": "fetch",
            "sndbuf_bytes": null, "rcvbuf_bytes": null
        })
    );
    assert_eq!(
        json["nodes"][1],
        serde_json::json!({
            // Four times 1 Gb/s x 10.5 ms to the server: to the client it is slower.
            "name": "depot", "cc": "cubic", "tcp_rmem_max_bytes": 5_250_000,
            "tcp_wmem_max_bytes": null, "sysctl": { "net.ipv4.tcp_sack": "1" }
        })
    );
}

/// A line of nodes with a branch: a - b - c, b - d. One-way delays 10, 20 and 30 ms, the last with
/// 50 ms on its way back.
fn branch(links: [&str; 3]) -> Result<Scenario, Diagnostics> {
    branch_with(links, &["node.b.tcp_rmem_max=2bdp", "node.a.tcp_rmem_max=0.5bdp"])
}

fn branch_with(links: [&str; 3], overrides: &[&str]) -> Result<Scenario, Diagnostics> {
    let [ab, bc, bd] = links;
    let nodes: String =
        ["a", "b", "c", "d"].map(|n| format!("[[node]]\nname = \"{n}\"\n")).concat();
    let text = format!(
        "title = \"branch\"\n{nodes}\
         [[link]]\nbetween = [\"a\", \"b\"]\ndelay = \"10ms\"\n{ab}\n\
         [[link]]\nbetween = [\"b\", \"c\"]\ndelay = \"20ms\"\n{bc}\n\
         [[link]]\nbetween = [\"b\", \"d\"]\ndelay = \"30ms\"\nbackward = {{ delay = \"50ms\" }}\n{bd}\n"
    );
    Scenario::parse(&text, "branch", overrides)
}

#[test]
fn queues_and_buffers_by_hand() {
    let scenario =
        branch(["rate = \"100mbit\"", "rate = \"1gbit\"\nqueue = \"0.5bdp\"", "rate = \"1gbit\""])
            .unwrap();
    let run = &scenario.runs[0];
    let queue = |link: usize| match run.links[link].forward.queue {
        Some(Queue::Bytes(bytes)) => bytes.get(),
        other => panic!("{other:?}"),
    };
    // a-b is crossed by a-d: 2 x 10 + 30 + 50 = 100 ms; b-c and b-d by c-d: 2 x 20 + 80 = 120 ms.
    assert_eq!(queue(0), 1_250_000);
    assert_eq!(queue(1), 7_500_000);
    assert_eq!(queue(2), 15_000_000);
    // b is on the way from c to d, a only at the end of the slow one.
    assert_eq!(run.node("b").unwrap().tcp_rmem_max, Some(Bytes::new(30_000_000)));
    assert_eq!(run.node("a").unwrap().tcp_rmem_max, Some(Bytes::new(625_000)));
}

/// 100 Mb/s x 120 ms between c and d, whatever their own links have; a has 10 Mb/s x 100 ms to d.
#[test]
fn buffers_go_by_the_slowest_link_of_a_path() {
    for fast in ["rate = \"10gbit\"", ""] {
        let scenario = branch(["rate = \"10mbit\"", "rate = \"100mbit\"", fast]);
        let run = &scenario.unwrap().runs[0];
        let buffer = |node: &str| run.node(node).unwrap().tcp_rmem_max;
        // Alone from b to d there is 10 Gb/s x 80 ms.
        let of_b = if fast.is_empty() { 3_000_000 } else { 200_000_000 };
        assert_eq!(buffer("b"), Some(Bytes::new(of_b)), "{fast}");
        // Half of 10 Mb/s x 100 ms is less than 100 packets of 1500 + 14.
        assert_eq!(buffer("a"), Some(Bytes::new(151_400)), "{fast}");
    }
    // The way back may be the slower one: the larger product is what is needed.
    let one_sided = "rate = \"100mbit\"\nbackward = { rate = \"10mbit\" }";
    let run = branch([one_sided, "", ""]).unwrap().runs.remove(0);
    assert_eq!(run.node("a").unwrap().tcp_rmem_max, Some(Bytes::new(625_000)));
}

/// `auto` has room for the product and the queue of the slowest link, twice for recovery and twice for the kernel's
/// overhead; a path without a queue to speak of still holds one.
#[test]
fn automatic_buffers_hold_product_and_queue() {
    let rmem = |links: [&str; 3], node: &str| {
        let overrides = ["node.b.tcp_rmem_max=auto", "node.d.tcp_rmem_max=auto"];
        let scenario = branch_with(links, &overrides).unwrap();
        scenario.runs[0].node(node).unwrap().tcp_rmem_max.unwrap().get()
    };
    // 100 Mb/s x 120 ms from c to d, where the queue is as long; twice that, and 500 packets of 1500 + 14 bytes.
    let product = 1_500_000;
    let of = |queue: &str| rmem(["", &format!("rate = \"100mbit\"\n{queue}"), ""], "b");
    assert_eq!(of(""), 4 * (product + product));
    assert_eq!(of("queue = \"2bdp\""), 4 * (product + 2 * product));
    assert_eq!(of("queue = \"500p\""), 4 * (product + 500 * 1514));
    assert_eq!(of("queue = \"64KB\""), 4 * (product + 65_536));
    // From a to d the slow link's queue counts: the fast one behind it, without a queue, has the larger product.
    let links = ["rate = \"10mbit\"\nqueue = \"9MB\"", "", "rate = \"100mbit\"\nqueue = \"1p\""];
    assert_eq!(rmem(links, "d"), 4 * (125_000 + (9 << 20)));
    let text = "title = \"short\"\n[[node]]\nname = \"a\"\ntcp_rmem_max = \"4bdp\"\n[[node]]\nname = \"b\"\n\
                tcp_rmem_max = \"auto\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1gbit\"\n";
    let short = &Scenario::parse(text, "short", &[] as &[&str]).unwrap().runs[0];
    let [given, auto] = ["a", "b"].map(|n| short.node(n).unwrap().tcp_rmem_max.unwrap().get());
    assert_eq!((given, auto), (151_400, 4 * 151_400), "without delay, a hundred packets");
}

#[test]
fn queues_have_a_floor_and_no_rate_means_no_queue() {
    let scenario = branch([
        "rate = \"1mbit\"",
        "queue = \"2bdp\"",
        "rate = \"1gbit\"\nqueue = \"3p\"\nmtu = 9000",
    ]);
    let run = &scenario.unwrap().runs[0];
    // 1 Mb/s x 100 ms is 12 500 bytes, less than 100 packets of 1500 + 14.
    assert_eq!(run.links[0].forward.queue, Some(Queue::Bytes(Bytes::new(151_400))));
    assert_eq!(run.links[1].forward.queue, None);
    assert_eq!(run.links[2].backward.queue, Some(Queue::Packets(3)));
}

/// A host at each end of two routers, between which a queue is.
fn varied(top: &str) -> Scenario {
    let text = format!(
        r#"
        title = "Repeats"
        repeat = 50
        {top}
        [[node]]
        name = "server"
        [[node]]
        name = "left"
        [[node]]
        name = "right"
        [[node]]
        name = "client"
        [[link]]
        between = ["server", "left"]
        [[link]]
        between = ["left", "right"]
        delay = "20ms"
        rate = "10mbit"
        [[link]]
        name = "short"
        between = ["right", "client"]
        delay = "1us"
        jitter = "0"
        [[flow]]
        name = "plain"
        from = "server"
        to = "client"
        bytes = "1MB"
        start = "1s"
        [[flow]]
        name = "with-jitter"
        from = "server"
        to = "client"
        bytes = "1MB"
        jitter = "1s"
        "#
    );
    Scenario::parse(&text, "varied.toml", &[""; 0]).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn repeats_after_the_first_vary_by_starts_and_hosts() {
    let scenario = varied("");
    assert!(scenario.vary);
    let written = Duration::from_secs(1);
    let round_trip = Duration::from_nanos(40_002_000);
    let host_time = Duration::from_micros(10);
    let mut starts = BTreeSet::new();
    let mut delays = BTreeSet::new();
    for run in &scenario.runs {
        let start = run.flows[0].start;
        let [to_left, between, to_client] = [0, 1, 2].map(|link| run.links[link].forward.delay);
        starts.insert(start);
        delays.insert(to_left);
        assert!((written..written + round_trip).contains(&start), "{start}");
        assert!(to_left < host_time, "{to_left}");
        assert_eq!(run.links[0].backward.delay, to_left, "both directions");
        assert_eq!(between, Duration::from_millis(20), "no host has this link alone");
        assert!((Duration::from_micros(1)..Duration::from_micros(11)).contains(&to_client));
    }
    assert_eq!(
        (scenario.runs[0].flows[0].start, scenario.runs[0].links[0].forward.delay),
        (written, Duration::ZERO)
    );
    assert!(starts.len() > 45 && delays.len() > 45, "each is drawn separately");
    assert!(*starts.last().unwrap() > written + Duration::from_millis(35), "up to a round trip");
}

#[test]
fn explicit_jitter_replaces_default_variation() {
    let (varied, same) = (varied(""), varied("vary = false"));
    assert!(!same.vary);
    for (one, other) in varied.runs.iter().zip(&same.runs) {
        assert_eq!(one.flows[1].start, other.flows[1].start);
        assert_eq!(other.flows[0].start, Duration::from_secs(1));
        assert_eq!(other.links, same.runs[0].links);
    }
}

#[test]
fn a_first_repeat_is_as_written_however_many_follow() {
    let written = varied("vary = false").runs;
    assert_eq!(varied("").runs[0], written[0]);
}

#[test]
fn rate_of_a_program_is_swept_and_on_record() {
    let sweep =
        ["sweep.flow.transfer.app_rate=[\"5mbit\", \"20mbit\"]", "vars.rtt=10ms", "repeat=1"];
    let scenario = parse(&sweep);
    let rates: Vec<_> = scenario.runs.iter().map(|run| run.flows[0].app_rate).collect();
    let [slow, fast] = [5_000_000, 20_000_000].map(|bps| Some(Rate::bits_per_second(bps)));
    assert_eq!(rates, [slow, slow, fast, fast]);
    let json = serde_json::to_value(&scenario.runs[0]).unwrap();
    assert_eq!(json["flows"][0]["app_rate_bps"], 5_000_000);
    assert_eq!(serde_json::from_value::<Run>(json).unwrap(), scenario.runs[0]);
    // A run without one is the run that records made before there was the key tell of.
    let json = serde_json::to_value(&parse(&[]).runs[0]).unwrap();
    assert!(json["flows"][0].get("app_rate_bps").is_none(), "{json}");
}
