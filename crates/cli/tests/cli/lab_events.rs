// SPDX-License-Identifier: GPL-2.0-or-later
//! Events of scenarios (`[[event]]`), by emulation and on hosts: a depot that is killed and starts again, and flows that wait for it.

use crate::{
    common::{call, one_of_two, refused, text},
    field_runs::Bed,
};
use record::{FlowSummary, LinkSummary, Manifest, Record, RunResults, find_records};
use std::{fs, path::Path};
use testkit::{Measured, credible, draft::Draft};

/// A flow that the depot's end breaks, one that starts when it is back, and one that starts after that.
fn scenario() -> Draft {
    Draft::new("events", "timeout=30s repeat=1")
        .node("server", "cc=bbr")
        .node("depot", "cc=bbr")
        .node("client", "cc=bbr")
        .link("server", "depot", "rate=20mbit delay=2ms")
        .link("depot", "client", "rate=20mbit delay=2ms")
        .flow("server", "client", "name=broken bytes=20MB cc=bbr via=[\"depot\"]")
        .flow("server", "client", "name=again bytes=500KB cc=bbr via=[\"depot\"]")
        .flow("server", "client", "name=direct bytes=200KB cc=bbr")
        .line("[[event]]\nname = \"crash\"\nat = \"1s\"\nkill = \"depot\"")
        .line("[[event]]\nname = \"back\"\nafter = \"broken\"\nat = \"300ms\"\nrestart = \"depot\"")
        .line("[[event]]\nname = \"retry\"\nafter = \"back\"\nstart = \"again\"")
        .line("[[event]]\nname = \"last\"\nafter = \"again\"\nat = \"200ms\"\nstart = \"direct\"")
}

/// Looks at the one record in a folder; times of hosts may differ by what their clocks are known to.
fn look_at(folder: &Path, said: &str) -> Manifest {
    let found = find_records(folder).unwrap();
    assert_eq!(found.len(), 1, "{said}");
    let RunResults { manifest, summary } = Record::results(&found[0]).unwrap();
    let clocks = manifest.hosts.values().map(|host| 2 * host.clock_error_ns).max();
    let apart_s = clocks.unwrap_or(0) as f64 / 1e9;
    let flow = |name: &str| summary.flows.iter().find(|flow| flow.name == name).unwrap();
    let (broken, again, direct) = (flow("broken"), flow("again"), flow("direct"));
    let names: Vec<&str> = manifest.events.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["crash", "back", "retry", "last"], "{said}");
    let at = |n: usize| manifest.events[n].at_s;
    assert!(broken.outcome.starts_with("failed with exit code"), "{broken:?}");
    assert!((500_000..10_000_000).contains(&broken.bytes), "{broken:?}");
    let is_complete = |flow: &FlowSummary| flow.outcome == "complete";
    assert!(is_complete(again) && is_complete(direct), "{again:?} {direct:?}");
    // Each in its order, whatever the machine's speed.
    for (earlier, later) in [
        (at(0), broken.end_s),
        (broken.end_s + 0.3, at(1)),
        (at(2), again.start_s),
        (again.end_s + 0.2, at(3)),
        (at(3), direct.start_s),
    ] {
        assert!(earlier <= later + apart_s, "{earlier} {later} {apart_s}: {:?}", manifest.events);
    }
    manifest
}

#[test]
fn depot_dies_and_returns_and_flows_wait_for_it() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.toml");
    fs::write(&file, scenario().to_string()).unwrap();
    let file = file.to_str().unwrap();
    let (code, said) = refused(&["sim", file]);
    assert!(code == 2 && said.contains("only methods emu and field have event crash"), "{said}");
    credible(|| {
        let out = tempfile::tempdir().unwrap();
        let output = call(&["lab", "run", file, "--out", out.path().to_str().unwrap()]);
        let said = text(&output.stderr);
        // A flow has failed, as it should.
        assert_eq!(output.status.code(), Some(1), "{said}");
        let manifest = look_at(out.path(), &said);
        let is_soon = manifest.events[0].at_s < 2.0;
        let wrong = (!is_soon).then(|| format!("{:?}", manifest.events));
        Measured { wrong: wrong.into_iter().collect(), faults: manifest.invalid_reasons }
    });
}

#[test]
fn events_of_one_host_reach_others() {
    let _turn = one_of_two();
    let draft = scenario();
    credible(|| {
        let bed = Bed::of(&draft, &draft);
        let (code, said) = bed.run(&[]);
        assert_eq!(code, Some(1), "{said}");
        let manifest = look_at(&bed.out.join("field"), &said);
        Measured { wrong: manifest.invalid_reasons, faults: bed.faults() }
    });
}

/// A download meets a link that gets slow, farther away and is cut for a second, each after what came before.
#[test]
fn link_gets_slow_and_far_and_is_cut() {
    let _turn = one_of_two();
    let draft = Draft::new("a link that changes", "timeout=30s repeat=1 sample=50ms")
        .node("server", "cc=bbr")
        .node("client", "cc=bbr")
        .link("server", "client", "name=path rate=40mbit delay=5ms")
        .flow("server", "client", "name=first bytes=1MB cc=bbr")
        .flow("server", "client", "name=second bytes=3MB cc=bbr")
        .line("[[event]]\nname = \"slow\"\nafter = \"first\"\nchange = \"path\"\nrate = \"10mbit\"\ndelay = \"25ms\"")
        .line("[[event]]\nname = \"go\"\nafter = \"slow\"\nat = \"100ms\"\nstart = \"second\"")
        .line("[[event]]\nname = \"cut\"\nafter = \"go\"\nat = \"1s\"\nchange = \"path\"\ncut = true")
        .line("[[event]]\nname = \"join\"\nafter = \"cut\"\nat = \"1s\"\nchange = \"path\"\ncut = false");
    credible(|| {
        let RunResults { manifest, summary } = run_one(&draft, 0);
        let happened: Vec<&str> = manifest.events.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(happened, ["slow", "go", "cut", "join"]);
        let flow = |name: &str| summary.flows.iter().find(|flow| flow.name == name).unwrap();
        let (first, second) = (flow("first"), flow("second"));
        let rtt_ms = |flow: &FlowSummary| flow.hops[0].min_rtt_us.unwrap() / 1e3;
        let took_s = second.end_s - second.start_s;
        // 3 MB at 10 Mb/s take 2.4 s, and nothing passes for one.
        let seen = [
            ((9.9..13.0).contains(&rtt_ms(first)), format!("{} ms at first", rtt_ms(first))),
            ((49.9..56.0).contains(&rtt_ms(second)), format!("{} ms then", rtt_ms(second))),
            ((3.3..6.0).contains(&took_s), format!("the second took {took_s} s")),
        ];
        let wrong =
            seen.into_iter().filter(|(is_right, _)| !is_right).map(|(_, what)| what).collect();
        Measured { wrong, faults: manifest.invalid_reasons }
    });
}

/// A client leaves for another network: what it has begun ends, as its address is gone, and what it begins there takes the other link.
#[test]
fn client_that_moves_has_another_address_and_path() {
    let _turn = one_of_two();
    for family in ["ipv4", "ipv6"] {
        assert_moves(family);
    }
}

fn assert_moves(family: &str) {
    let draft = Draft::new("a client that moves", &format!("duration=5s repeat=1 family={family}"))
        .nodes(&["server", "hub", "laptop"])
        .link("server", "hub", "name=core rate=100mbit delay=1ms")
        .link("hub", "laptop", "name=wifi rate=20mbit delay=1ms")
        .link("server", "laptop", "name=mobile rate=10mbit delay=30ms")
        .flow("server", "laptop", "name=broken bytes=20MB")
        .flow("server", "laptop", "name=there bytes=500KB")
        .line("[[event]]\nname = \"leave\"\nat = \"1s\"\nmove = \"laptop\"\nto = \"mobile\"")
        .line("[[event]]\nname = \"go\"\nafter = \"leave\"\nat = \"500ms\"\nstart = \"there\"");
    credible(|| {
        let RunResults { manifest, summary } = run_one(&draft, 1);
        let flow = |name: &str| summary.flows.iter().find(|flow| flow.name == name).unwrap();
        let (broken, there) = (flow("broken"), flow("there"));
        assert_eq!(there.outcome, "complete", "{summary:?}");
        let crossed = |direction: &str| {
            let is_it = |link: &&LinkSummary| link.name == "mobile" && link.direction == direction;
            summary.links.iter().find(is_it).unwrap().bytes
        };
        assert!(crossed("forward") > 500_000 && crossed("backward") > 5_000, "{summary:?}");
        // The connection is found by its new address.
        let rtt_ms = there.hops[0].min_rtt_us.unwrap() / 1e3;
        assert!(rtt_ms > 59.9, "{rtt_ms} ms by the other link");
        // The first had 20 Mb/s for a second.
        let seen = [
            ((1_000_000..3_000_000).contains(&broken.bytes), format!("{} bytes", broken.bytes)),
            (rtt_ms < 66.0, format!("{rtt_ms} ms")),
        ];
        let wrong =
            seen.into_iter().filter(|(is_right, _)| !is_right).map(|(_, what)| what).collect();
        Measured { wrong, faults: manifest.invalid_reasons }
    });
}

/// The record of a scenario's only run, whose end cuts off that number of flows.
fn run_one(draft: &Draft, cut_off: usize) -> RunResults {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.toml");
    fs::write(&file, draft.to_string()).unwrap();
    let out = folder.path().join("out");
    let output = call(&["lab", "run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let said = text(&output.stderr);
    let found = find_records(&out).unwrap();
    assert_eq!(found.len(), 1, "{said}");
    let results = Record::results(&found[0]).unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!results.manifest.valid)), "{said}");
    let incomplete = results.summary.flows.iter().filter(|flow| flow.outcome != "complete");
    assert_eq!(incomplete.count(), cut_off, "{said}");
    results
}
