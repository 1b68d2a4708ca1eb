// SPDX-License-Identifier: GPL-2.0-or-later
//! Events of scenarios (`[[event]]`), by emulation and on hosts: a depot that is killed and starts again, and flows that wait for it.

use crate::{
    common::{call, one_of_two, refused, text},
    field_runs::Bed,
};
use record::{FlowSummary, Manifest, Record, RunResults, find_records};
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
