// SPDX-License-Identifier: GPL-2.0-or-later
//! A flow's `pacing`, `[pacing]` and `[[bottleneck]]`.

use longhaul_scenario::{Bottleneck, FlowPacing, PacingRtt, PacingSettings, Run, Scenario};
use units::Rate;

const CHAIN: &str = "title = \"t\"\n\
    [[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[node]]\nname = \"c\"\n\
    [[node]]\nname = \"d\"\n\
    [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1gbit\"\ndelay = \"1ms\"\n\
    [[link]]\nbetween = [\"b\", \"c\"]\nrate = \"1gbit\"\ndelay = \"1ms\"\n\
    [[link]]\nbetween = [\"b\", \"d\"]\ndelay = \"1ms\"\n\
    [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"c\"\nvia = [\"b\"]\nbytes = \"1MB\"\n";

fn parse(more: &str, overrides: &[&str]) -> Result<Vec<Run>, String> {
    let parsed = Scenario::parse(&format!("{CHAIN}{more}"), "t.toml", overrides);
    parsed.map(|scenario| scenario.runs).map_err(|error| error.to_string())
}

fn run(more: &str, overrides: &[&str]) -> Run {
    parse(more, overrides).unwrap_or_else(|error| panic!("{error}")).remove(0)
}

fn refusal(more: &str) -> String {
    parse(more, &[]).expect_err("it is wrong")
}

#[test]
fn each_hop_has_its_pacing() {
    let of = |more: &str, overrides: &[&str]| run(more, overrides).flows[0].pacing.clone();
    assert_eq!(of("", &[]), [FlowPacing::None; 2]);
    assert_eq!(of("pacing = \"gap\"", &[]), [FlowPacing::Gap; 2]);
    let rate = FlowPacing::Rate(Rate::bits_per_second(62_500_000 * 8));
    assert_eq!(of("pacing = [\"62.5mbps\", \"tcp\"]", &[]), [rate, FlowPacing::Tcp]);
    assert_eq!(of("", &["flow.f.pacing=edt"]), [FlowPacing::Edt; 2]);
    assert_eq!(
        of("", &["tcp.pacing=true"]),
        [FlowPacing::Tcp; 2],
        "the default of hops without `pacing`"
    );
    assert_eq!(of("pacing = \"none\"", &["tcp.pacing=true"]), [FlowPacing::None; 2]);
    let hops: Vec<_> = run("pacing = [\"gap\", \"tcp\"]", &[])
        .flows
        .iter()
        .flat_map(|flow| flow.hops().map(|hop| hop.pacing).collect::<Vec<_>>())
        .collect();
    assert_eq!(hops, [FlowPacing::Gap, FlowPacing::Tcp]);
}

#[test]
fn given_keys_override_the_named_estimator() {
    let link = PacingSettings::default();
    assert_eq!(run("", &[]).pacing, link);
    assert_eq!(
        (link.rtt, link.headers, link.recovery, link.max_rate, link.find_cap),
        (PacingRtt::Smallest, true, true, None, false)
    );
    assert_eq!((link.max_gap.get(), link.max_frame.get()), (65_536, 4096));
    let paper = PacingSettings {
        rtt: PacingRtt::Smoothed,
        headers: false,
        recovery: false,
        ..PacingSettings::default()
    };
    assert_eq!(run("[pacing]\nestimator = \"paper\"\n", &[]).pacing, paper);
    assert!(run("[pacing]\nfind_cap = true\n", &[]).pacing.estimator().find_cap);
    let keys = ["pacing.rtt=smoothed", "pacing.max_rate=500mbit", "pacing.max_gap=1MB"];
    let found = run("", &keys).pacing;
    assert_eq!((found.rtt, found.headers), (PacingRtt::Smoothed, true));
    assert_eq!(found.max_rate, Some(Rate::bits_per_second(500_000_000)));
    assert_eq!(found.max_gap.get(), 1 << 20);
}

#[test]
fn bottlenecks_are_classes_of_a_host() {
    let text =
        "[[bottleneck]]\nname = \"slow\"\nfrom = \"a\"\nto = [\"b\", \"c\"]\nrate = \"100mbit\"\n";
    let expected = Bottleneck {
        name: "slow".into(),
        from: "a".into(),
        to: vec!["b".into(), "c".into()],
        rate: Rate::bits_per_second(100_000_000),
    };
    assert_eq!(run(text, &[]).bottlenecks, [expected]);
    // A depot sends its part of a transfer itself.
    let depots = "[[bottleneck]]\nname = \"x\"\nfrom = \"b\"\nto = \"a\"\nrate = \"1mbit\"\n";
    assert_eq!(run(depots, &[]).bottlenecks[0].from, "b");
    let faster = run(text, &["bottleneck.slow.rate=200mbit"]).bottlenecks[0].rate;
    assert_eq!(faster, Rate::bits_per_second(200_000_000));
}

#[test]
fn a_run_is_its_json() {
    let text = "pacing = [\"62.5mbps\", \"gap\"]\n[pacing]\nmax_rate = \"1mbit\"\n\
                [[bottleneck]]\nname = \"slow\"\nfrom = \"a\"\nto = \"b\"\nrate = \"100mbit\"\n";
    let run = run(text, &[]);
    let json = serde_json::to_value(&run).unwrap();
    assert_eq!(json["flows"][0]["pacing"], serde_json::json!([{ "rate_bps": 500_000_000 }, "gap"]));
    assert_eq!(serde_json::from_value::<Run>(json).unwrap(), run);
}

#[test]
fn contradictory_pacing_is_refused_by_name() {
    let bottleneck = |from: &str, to: &str, rate: &str| {
        let table = format!("name = \"x\"\nfrom = \"{from}\"\nto = {to}\nrate = \"{rate}\"\n");
        refusal(&format!("[[bottleneck]]\n{table}"))
    };
    let from_d = |pacing: &str| {
        let flow = "[[flow]]\nname = \"g\"\nfrom = \"d\"\nto = \"a\"\nbytes = \"1MB\"\n";
        refusal(&format!("{flow}pacing = \"{pacing}\"\n"))
    };
    for (said, expected) in [
        (refusal("pacing = \"gaps\""), "\"gaps\" is not none, gap, edt, tcp or a rate"),
        (refusal("pacing = [\"gap\"]"), "flow \"f\", pacing: 1 given for 2 hops"),
        (refusal("pacing = \"0mbit\""), "\"0mbit\" is not none"),
        (from_d("gap"), "link \"b-d\", the first from \"d\", has no rate"),
        (from_d("edt"), "the first from \"d\", has no rate"),
        (from_d("1mbit"), "flow \"g\", pacing: link \"b-d\", the first from \"d\", has no rate"),
        (
            refusal("pacing = [\"2gbit\", \"none\"]"),
            "flow \"f\", pacing: 2gbit is more than link \"a-b\", the first from \"a\", carries (1gbit)",
        ),
        (refusal("[pacing]\nestimator = \"best\"\n"), "\"best\" is not link or paper"),
        (refusal("[pacing]\nrtt = \"mean\"\n"), "\"mean\" is not smallest or smoothed"),
        (refusal("[pacing]\nmax_gap = \"0\"\n"), "is not a size above zero"),
        (refusal("[pacing]\nrate = \"1mbit\"\n"), "unknown key \"rate\""),
        (bottleneck("z", "\"b\"", "1mbit"), "bottleneck \"x\": there is no node \"z\""),
        (bottleneck("a", "[\"q\"]", "1mbit"), "bottleneck \"x\": there is no node \"q\""),
        (bottleneck("a", "\"a\"", "1mbit"), "\"a\" can't be behind itself"),
        (
            bottleneck("a", "[\"b\", \"b\"]", "1mbit"),
            "\"b\" is behind another one of \"a\" already",
        ),
        (bottleneck("a", "\"b\"", "2gbit"), "2gbit is more than link \"a-b\""),
        (bottleneck("d", "\"b\"", "1mbit"), "link \"b-d\", the first to \"b\", has no rate"),
        (
            bottleneck("b", "[\"a\", \"d\"]", "1mbit"),
            "link \"b-d\", the first to \"d\", has no rate",
        ),
    ] {
        assert!(said.contains(expected), "{said}\nlacks: {expected}");
    }
    let other = "[[flow]]\nname = \"g\"\nfrom = \"c\"\nto = \"a\"\nbytes = \"1MB\"\n\
        [[bottleneck]]\nname = \"x\"\nfrom = \"b\"\nto = \"a\"\nrate = \"1mbit\"\n";
    let said = refusal(other);
    let expected =
        "what \"c\" sends to \"a\" crosses \"b\", which has classes only for what it sends";
    assert!(said.contains(expected), "{said}");
    let twice = "[[bottleneck]]\nname = \"x\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1mbit\"\n";
    assert!(refusal(&twice.repeat(2)).contains("there is already a bottleneck \"x\""));
}
