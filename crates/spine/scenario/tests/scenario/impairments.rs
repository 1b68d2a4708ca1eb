// SPDX-License-Identifier: GPL-2.0-or-later
//! Impairments and rates that change: read, refused with their lines, and kept in a run's JSON.

use longhaul_scenario::{
    ChangingRate, JitterDistribution, LatePackets, LinkOutage, LinkPolicer, PacketJitter, Run,
    Scenario, load,
};
use std::path::Path;
use units::{Bytes, Duration, Rate};

fn text(link: &str) -> String {
    format!(
        "title = \"t\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n\
         name = \"l\"\n{link}\n[[flow]]\nfrom = \"a\"\nto = \"b\"\nbytes = \"1MB\"\n"
    )
}

fn run(link: &str) -> Run {
    let none: [&str; 0] = [];
    let scenario = Scenario::parse(&text(link), "x.toml", &none);
    scenario.unwrap_or_else(|error| panic!("{error}")).runs.remove(0)
}

fn refused(link: &str) -> String {
    let none: [&str; 0] = [];
    Scenario::parse(&text(link), "x.toml", &none).expect_err("it is refused").to_string()
}

#[test]
fn everything_is_read_and_kept() {
    let run = run(
        "rate = \"100mbit\"\nreorder = { probability = \"1%\", by = \"3ms\" }\nduplicate = \"0.1%\"\n\
         jitter = { distribution = \"normal\", mean = \"2ms\", deviation = \"1ms\", reorders = true }\n\
         outages = [{ from = \"1s\", for = \"50ms\", every = \"15s\", packets = \"wait\" }, { for = \"1ms\" }]\n\
         policer = { rate = \"50mbit\", burst = \"1MB\" }\nbackward = { jitter = \"5ms\" }",
    );
    let forward = &run.links[0].forward.impairments;
    let ms = Duration::from_millis;
    assert_eq!(
        forward.reorder,
        Some(LatePackets { probability: "1%".parse().unwrap(), by: ms(3) })
    );
    assert_eq!(forward.duplicate, "0.1%".parse().unwrap());
    let distribution = JitterDistribution::Normal { mean: ms(2), deviation: ms(1) };
    assert_eq!(forward.jitter, Some(PacketJitter { distribution, reorders: true }));
    let outage =
        LinkOutage { from: ms(1000), lasts: ms(50), every: Some(ms(15_000)), packets_wait: true };
    let other = LinkOutage { from: ms(0), lasts: ms(1), every: None, packets_wait: false };
    assert_eq!(forward.outages, [outage, other]);
    let rate = Rate::bits_per_second(50_000_000);
    assert_eq!(forward.policer, Some(LinkPolicer { rate, burst: Bytes::new(1 << 20) }));
    let distribution = JitterDistribution::Uniform { most: ms(5) };
    let backward = &run.links[0].backward.impairments;
    assert_eq!(backward.jitter, Some(PacketJitter { distribution, reorders: false }));
    assert_eq!(backward.reorder, forward.reorder);
    let json = serde_json::to_string(&run).unwrap();
    assert_eq!(serde_json::from_str::<Run>(&json).unwrap(), run, "{json}");
}

#[test]
fn link_without_impairments_has_none_in_its_json() {
    let json = serde_json::to_string(&run("rate = \"10mbit\"")).unwrap();
    assert!(!json.contains("impairments") && !json.contains("rate_over_time"), "{json}");
}

#[test]
fn steps_are_read_and_the_first_sizes_the_queue() {
    let run = run(
        "delay = \"50ms\"\nrate = { steps = [[\"0\", \"100mbit\"], [\"10s\", \"1gbit\"]], repeat = \"20s\" }",
    );
    let forward = &run.links[0].forward;
    assert_eq!(forward.rate, Some(Rate::bits_per_second(100_000_000)));
    let Some(ChangingRate::Steps(steps)) = &forward.rate_over_time else { panic!("{forward:?}") };
    assert_eq!((steps.steps().len(), steps.repeats()), (2, Some(Duration::from_secs(20))));
    let json = serde_json::to_string(&run).unwrap();
    assert_eq!(serde_json::from_str::<Run>(&json).unwrap(), run, "{json}");
}

fn load_with(folder: &Path, trace: &str, link: &str) -> Result<Run, String> {
    std::fs::write(folder.join("trace"), trace).unwrap();
    let file = folder.join("x.toml");
    std::fs::write(&file, text(link)).unwrap();
    let none: [&str; 0] = [];
    load(&file, &none).map(|mut scenario| scenario.runs.remove(0)).map_err(|e| e.to_string())
}

#[test]
fn traces_are_read_beside_the_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let csv = "# measured\nseconds,rate\n0,20000000\n\n2.5,5mbit\r\n";
    let run = load_with(folder.path(), csv, "rate = { csv = \"trace\", repeat = \"4s\" }").unwrap();
    let Some(ChangingRate::Steps(steps)) = &run.links[0].forward.rate_over_time else { panic!() };
    let expected = [(0, 20_000_000), (2500, 5_000_000)]
        .map(|(ms, bps)| (Duration::from_millis(ms), Rate::bits_per_second(bps)));
    assert_eq!(steps.steps(), expected);

    let run = load_with(folder.path(), "1\n1\n3\n", "rate = { mahimahi = \"trace\" }").unwrap();
    let Some(ChangingRate::Opportunities(trace)) = &run.links[0].backward.rate_over_time else {
        panic!()
    };
    assert_eq!(trace.millis(), [1, 1, 3]);
    assert_eq!(run.links[0].forward.rate, Some(Rate::bits_per_second(12_000_000)));
}

#[test]
fn bad_traces_are_refused_with_line_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let csv = "rate = { csv = \"trace\", hold = true }";
    let mahimahi = "rate = { mahimahi = \"trace\" }";
    for (trace, link, expected) in [
        ("0,1mbit\n1,0\n", csv, "trace:2: a rate of 0: \"outages\" says when nothing passes"),
        ("0,1mbit\n2,2mbit\n1,1mbit\n", csv, "trace:3: its time is before, or the same as,"),
        (
            "0,1mbit\n2,fast\n",
            csv,
            "trace:2: \"2,fast\" is not a time in seconds, a comma and a rate",
        ),
        ("0,1mbit\n-2,5\n", csv, "trace:2: \"-2,5\" is not a time"),
        ("0,1mbit\nnan,5\n", csv, "trace:2: \"nan,5\" is not a time"),
        ("3,1mbit\n", csv, "trace:1: it does not begin at 0 s"),
        ("", csv, "trace is empty"),
        ("0,1mbit\n", "rate = { csv = \"trace\" }", "a trace ends: give \"repeat\""),
        (
            "0,1mbit\n5,2mbit\n",
            "rate = { csv = \"trace\", repeat = \"5s\" }",
            "it repeats before its last entry",
        ),
        ("1\n3\n2\n", mahimahi, "trace:3: its time is before that of the line above"),
        ("1\nx\n", mahimahi, "trace:2: \"x\" is not a number of milliseconds"),
        ("1\n-1\n", mahimahi, "trace:2: \"-1\" is not a number of milliseconds"),
        ("0\n0\n", mahimahi, "it ends at 0 ms"),
        ("1\n", "rate = { mahimahi = \"nowhere\" }", "nowhere can't be read"),
        ("1\n", "rate = { mahimahi = \"/dev/zero\" }", "/dev/zero has more than 4 MB"),
        ("\u{0}\n", mahimahi, "trace:1: "),
    ] {
        let said = load_with(folder.path(), trace, link).expect_err(expected);
        assert!(said.contains("x.toml:9: link \"l\", rate: "), "{said}");
        assert!(said.contains(expected), "{expected}: {said}");
    }
    std::fs::write(folder.path().join("trace"), [0xff, b'\n']).unwrap();
    let file = folder.path().join("y.toml");
    std::fs::write(&file, text(mahimahi)).unwrap();
    let none: [&str; 0] = [];
    let said = load(&file, &none).expect_err("no text").to_string();
    assert!(said.contains("can't be read"), "{said}");
}

#[test]
fn senseless_impairments_are_refused_with_their_lines() {
    for (link, expected) in [
        (
            "outages = [{ for = \"5s\", every = \"5s\" }]",
            "x.toml:9: link \"l\": outages leave no time",
        ),
        ("outages = [{ from = \"5s\" }]", "x.toml:9: outages 1: \"for\" is missing"),
        ("outages = [{ for = \"0s\" }]", "for: \"0s\" is not a time above zero"),
        (
            "outages = [{ for = \"1s\", packets = \"hold\" }]",
            "\"hold\" is not \"wait\" (in the queue) or \"lost\"",
        ),
        (
            "policer = { rate = \"1mbit\", burst = \"1000\" }",
            "a policer needs a rate and a burst of at least one packet",
        ),
        ("policer = { rate = \"1mbit\" }", "\"burst\" is missing"),
        ("reorder = { probability = \"2\", by = \"1ms\" }", "\"2\" is not a probability"),
        ("reorder = { probability = \"1%\" }", "\"by\" is missing"),
        ("reorder = \"1%\"", "\"1%\" is not a table"),
        ("duplicate = \"1.5\"", "\"1.5\" is not a probability"),
        ("jitter = \"fast\"", "\"fast\" is not a time"),
        (
            "jitter = { distribution = \"pareto\" }",
            "\"pareto\" is not \"uniform\", \"exponential\" or \"normal\"",
        ),
        ("jitter = { mean = \"1ms\" }", "\"most\" is missing"),
        ("rate = { steps = [] }", "rate: it is empty"),
        ("rate = { steps = [[\"1s\", \"1mbit\"]] }", "it does not begin at 0 s"),
        ("rate = { steps = [[\"0\", \"0mbit\"]] }", "\"0mbit\" is not a rate"),
        ("rate = { }", "exactly one of steps, csv, mahimahi is expected"),
        ("rate = { steps = [[\"0\", \"1mbit\"]], colour = 1 }", "unknown key \"colour\""),
    ] {
        let said = refused(link);
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
