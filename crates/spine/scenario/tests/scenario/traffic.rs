// SPDX-License-Identifier: GPL-2.0-or-later
//! Traffic, the mix that background stands for, and congestion levels, against numbers by hand.

use longhaul_scenario::{Burst, FileSize, Heading, Run, Scenario, Source, Traffic};
use serde_json::json;
use units::{Bytes, Duration, Rate};

/// Three sources of 100 Mb/s each on either side of a link of 200 Mb/s there and 100 Mb/s back.
/// The link is written against the direction of the data.
const NETWORK: &str = r#"
title = "traffic"
duration = "10s"
[[node]]
name = "a#"
count = 3
cc = "reno"
[[node]]
name = "left"
[[node]]
name = "right"
[[node]]
name = "b#"
count = 3
[[link]]
between = ["a#", "left"]
count = 3
rate = "100mbit"
[[link]]
name = "neck"
between = ["right", "left"]
rate = "200mbit"
forward = { rate = "100mbit" }
mtu = 900
[[link]]
between = ["right", "b#"]
count = 3
rate = "100mbit"
"#;
const NECK: usize = 3;

fn parse(more: &str) -> Result<Run, String> {
    let text = format!("{NETWORK}{more}");
    let parsed = Scenario::parse(&text, "t.toml", &[""; 0]).map_err(|e| e.to_string());
    parsed.map(|mut scenario| scenario.runs.remove(0))
}

fn run(more: &str) -> Run {
    parse(more).unwrap_or_else(|e| panic!("{e}"))
}

fn traffic(more: &str) -> Traffic {
    run(&format!("[[traffic]]\nfrom = \"a1\"\nto = \"b1\"\n{more}")).traffic.remove(0)
}

fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-12, "{found}, not {expected}");
}

#[test]
fn flows_against_earlier_ones_default_to_reverse() {
    let flow = |from: &str, to: &str, more: &str| {
        format!("[[flow]]\nname = \"{from}{to}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{more}\n")
    };
    let reverse = |flows: &[String]| {
        let flows = run(&flows.concat()).flows.into_iter().filter(|flow| flow.reverse);
        flows.map(|flow| flow.name).collect::<Vec<_>>()
    };
    let (there, back) = (flow("a1", "b1", ""), flow("b2", "a2", ""));
    assert_eq!(reverse(&[there.clone(), back.clone()]), ["b2a2"]);
    assert_eq!(reverse(&[back.clone(), there.clone()]), ["a1b1"], "the first is compared");
    // It shares a link in their direction with those that go there: the links after a3.
    assert_eq!(reverse(&[there.clone(), flow("a2", "a3", ""), back.clone()]), ["b2a2"]);
    assert_eq!(reverse(&[there.clone(), flow("b2", "a2", "reverse = false")]), [""; 0]);
    assert_eq!(reverse(&[there, flow("a2", "b2", "reverse = true")]), ["a2b2"]);
}

#[test]
fn every_kind_has_its_defaults() {
    let cbr = traffic("kind = \"cbr\"\nrate = \"5mbit\"\n");
    assert_eq!((cbr.name.as_str(), cbr.cc.as_str()), ("traffic1", "reno"));
    let rate = Rate::bits_per_second(5_000_000);
    assert_eq!(cbr.source, Source::Cbr { rate, packet: 900 }, "1000 does not fit the path");
    let on_off = |on: &str| traffic(&format!("kind = \"on-off\"\non = \"{on}\"\noff = \"2s\"\n"));
    let off = Duration::from_secs(2);
    let time = Burst::Time(Duration::from_secs(10));
    assert_eq!(on_off("10s").source, Source::OnOff { on: time, off });
    let bytes = Burst::Bytes(Bytes::new(10 << 20));
    assert_eq!(on_off("10MB").source, Source::OnOff { on: bytes, off });
    // 12 KB of 8 bits at 9.8304 Mb/s are 100 a second.
    let web = traffic("kind = \"web\"\nload = \"9830400bit\"\n");
    let size =
        FileSize::Pareto { mean: Bytes::new(12_288), shape: 1.2, most: Bytes::new(100 << 20) };
    assert_eq!(web.source, Source::Files { per_second: 100.0, size });
    let ftp = traffic("kind = \"ftp\"\nper_second = 0.5\ncc = \"bbr\"\nstart = \"1s\"\n");
    let size = FileSize::Fixed(Bytes::new(10 << 20));
    assert_eq!(ftp.source, Source::Files { per_second: 0.5, size });
    assert_eq!((ftp.cc.as_str(), ftp.start), ("bbr", Duration::from_secs(1)));
}

#[test]
fn json_keys_carry_units_and_read_back() {
    let source = |more: &str| {
        let found = traffic(more);
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(serde_json::from_value::<Traffic>(json.clone()).unwrap(), found);
        json["source"].clone()
    };
    let cbr = json!({ "kind": "cbr", "rate_bps": 5_000_000, "packet_bytes": 100 });
    assert_eq!(source("kind = \"cbr\"\nrate = \"5mbit\"\npacket = 100\n"), cbr);
    let on_off = json!({ "kind": "on_off", "on_us": 10_000_000, "off_us": 2000 });
    assert_eq!(source("kind = \"on-off\"\non = \"10s\"\noff = \"2ms\"\n"), on_off);
    let on_off = json!({ "kind": "on_off", "on_bytes": 1024, "off_us": 2000 });
    assert_eq!(source("kind = \"on-off\"\non = \"1KB\"\noff = \"2ms\"\n"), on_off);
    let ftp = json!({ "kind": "files", "per_second": 0.1, "size": { "bytes": 10_485_760 } });
    assert_eq!(source("kind = \"ftp\"\nper_second = 0.1\n"), ftp);
    let size = json!({ "mean_bytes": 12_288, "shape": 1.5, "most_bytes": 1_048_576 });
    let web = json!({ "kind": "files", "per_second": 3.0, "size": { "pareto": size } });
    assert_eq!(source("kind = \"web\"\nper_second = 3\nshape = 1.5\nmost = \"1MB\"\n"), web);
}

#[test]
fn background_is_the_papers_mix_in_each_direction() {
    let run = run("[[background]]\nlink = \"neck\"\nfrom = \"a1\"\nto = \"b1\"\nshare = \"50%\"\n");
    let names: Vec<&str> = run.traffic.iter().map(|t| t.name.as_str()).collect();
    let kinds = ["forward-cbr", "forward-ftp", "forward-web", "backward-cbr", "backward-ftp"];
    let kinds: Vec<String> =
        kinds.into_iter().chain(["backward-web"]).map(|k| format!("background1-{k}")).collect();
    assert_eq!(names, kinds);
    // The data from a1 crosses the neck backward, at 200 Mb/s; what comes back has 100 Mb/s.
    for (traffic, capacity) in run.traffic.chunks(3).zip([200e6, 100e6]) {
        let forward = capacity > 150e6;
        let (from, cc) = if forward { ("a1", "reno") } else { ("b1", "cubic") };
        assert!(traffic.iter().all(|t| t.from == from && t.cc == cc));
        let rate = Rate::bits_per_second((capacity * 0.5 * 0.20) as u64);
        assert_eq!(traffic[0].source, Source::Cbr { rate, packet: 900 });
        for (traffic, part) in traffic[1..].iter().zip([0.24, 0.56]) {
            let Source::Files { per_second, size } = traffic.source else { panic!("{traffic:?}") };
            close(per_second * 8.0 * size.mean().get() as f64, capacity * 0.5 * part);
        }
    }
}

#[test]
fn background_covers_its_nodes_and_omits_zero_traffic() {
    let background = |more: &str| {
        let nodes = "from = [\"a1\", \"a2\", \"a3\"]\nto = [\"b1\", \"b2\"]\n";
        run(&format!("[[background]]\nlink = \"neck\"\n{nodes}share = \"10%\"\n{more}")).traffic
    };
    let found = background("mix = { cbr = \"100%\" }\ndirections = \"forward\"\n");
    let ends: Vec<_> =
        found.iter().map(|t| (t.name.as_str(), t.from.as_str(), t.to.as_str())).collect();
    let expected = [
        ("background1-forward-cbr1", "a1", "b1"),
        ("background1-forward-cbr2", "a2", "b2"),
        ("background1-forward-cbr3", "a3", "b1"),
    ];
    assert_eq!(ends, expected);
    // A third of 20 Mb/s each.
    let rate = Rate::bits_per_second(6_666_667);
    assert!(found.iter().all(|t| t.source == Source::Cbr { rate, packet: 900 }));
    assert_eq!(background("sources = 5\n").len(), 5 * 3 * 2);
    assert_eq!(background("").len(), 3 * 3 * 2);
}

#[test]
fn zero_share_means_no_traffic() {
    let none = run("[[background]]\nlink = \"neck\"\nfrom = \"a1\"\nto = \"b1\"\nshare = \"0%\"\n");
    assert!(none.traffic.is_empty());
}

#[test]
fn traffic_alone_needs_a_duration() {
    let text = NETWORK.replace("duration = \"10s\"\n", "");
    let flow = "[[flow]]\nfrom = \"a1\"\nto = \"b1\"\n";
    let traffic = "[[traffic]]\nfrom = \"a1\"\nto = \"b1\"\nkind = \"ftp\"\nper_second = 1\n";
    let result = |more: &str, overrides: &[&str]| {
        let parsed = Scenario::parse(&format!("{text}{more}"), "t.toml", overrides);
        parsed.map(|_| ()).map_err(|e| e.to_string())
    };
    let never = "it never ends: give the run a \"duration\", or a flow with \"bytes\"";
    let line = text.lines().count() + 1;
    assert_eq!(result(traffic, &[]), Err(format!("t.toml:{line}: traffic \"traffic1\": {never}")));
    assert_eq!(result(traffic, &["duration=1s"]), Ok(()));
    let both = format!("{flow}{traffic}");
    assert_eq!(result(&both, &["flow.flow1.bytes=1MB"]), Ok(()));
    let flow = format!("t.toml:{line}: flow \"flow1\": give \"bytes\", or the run a \"duration\"");
    assert_eq!(result(&both, &[]), Err(flow));
}

#[test]
fn congestion_levels_by_hand() {
    let on_off = |from: &str, to: &str, on: &str| {
        format!(
            "[[traffic]]\nfrom = \"{from}\"\nto = \"{to}\"\nkind = \"on-off\"\non = \"{on}\"\n\
             off = \"1s\"\n"
        )
    };
    let flow = |from: &str, to: &str| format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\n");
    let levels = |more: &str| {
        let run = run(more);
        let routes = run.routes();
        [Heading::Backward, Heading::Forward].map(|h| run.congestion_level(&routes, NECK, h))
    };
    assert_eq!(levels(""), [Some(0.0), Some(0.0)]);
    // Definition 1: three sources of 100 Mb/s into 200 Mb/s, one into 100 Mb/s.
    let flows = ["a1", "a2", "a3"].map(|a| flow(a, "b1")).concat() + &flow("b1", "a1");
    assert_eq!(levels(&flows), [Some(1.5), Some(1.0)]);
    // A source counts once, however many flows it has; what does not cross does not count.
    let again = flow("a1", "b1") + &flow("a1", "b2") + &flow("a1", "a2");
    assert_eq!(levels(&again), [Some(0.5), Some(0.0)]);
    // Definition 2: on for 3 s of 4, and for the 0.25 s of 1.25 that 3 125 000 bytes take at 100 Mb/s.
    let bursts = on_off("a1", "b1", "3s") + &on_off("b1", "a1", "3125000");
    assert_eq!(levels(&bursts), [Some(0.375), Some(0.2)]);
    // A flow next to the bursts of the same source is always on; background is not a source.
    let cbr = "[[traffic]]\nfrom = \"a2\"\nto = \"b2\"\nkind = \"cbr\"\nrate = \"9mbit\"\n";
    assert_eq!(levels(&(bursts + &flow("a1", "b1") + cbr)), [Some(0.5), Some(0.2)]);
}

#[test]
fn a_level_follows_the_data_through_depots_and_needs_rates() {
    let flow = "[[flow]]\nfrom = \"a1\"\nto = \"b1\"\nvia = [\"a2\"]\n";
    let free = "[[node]]\nname = \"free\"\n[[link]]\nbetween = [\"free\", \"left\"]\n";
    let level = |more: &str, link, heading| {
        let run = run(more);
        run.congestion_level(&run.routes(), link, heading)
    };
    assert_eq!(level(flow, NECK, Heading::Backward), Some(0.5));
    // Into the depot and out again: its link carries the data in both directions.
    assert_eq!(level(flow, 1, Heading::Backward), Some(1.0));
    assert_eq!(level(flow, 1, Heading::Forward), Some(1.0));
    let free_flow = format!("{free}[[flow]]\nfrom = \"free\"\nto = \"b1\"\n");
    assert_eq!(level(&free_flow, NECK, Heading::Backward), None, "its access has no rate");
    assert_eq!(level(&free_flow, 7, Heading::Forward), None, "the link has no rate");
    assert_eq!(level(flow, 99, Heading::Forward), None, "there is no such link");
}
