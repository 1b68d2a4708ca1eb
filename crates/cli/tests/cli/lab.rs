// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab` and `longhaul report`: resuming, interruption, and what is refused.

use crate::common::{
    NetworkNamespaces, alone, call, done, longhaul, measured, one_of_two, processes_with, refused,
    scenario, text,
};
use std::{
    collections::BTreeMap,
    path::Path,
    process::{Child, Stdio},
};
use testkit::until;

/// Small and quick: one depot, IPv6, a lossy link, a queue of packets.
const SMALL: &str = r#"
title = "small"
family = "ipv6"
timeout = "30s"
[[node]]
name = "client"
[[node]]
name = "depot"
[[node]]
name = "server"
[[link]]
between = ["client", "depot"]
rate = "50mbit"
delay = "5ms"
queue = "200p"
max_burst = "0"
[[link]]
between = ["depot", "server"]
rate = "50mbit"
delay = "5ms"
loss = { periodic = 50 }
mtu = 9000
[[flow]]
name = "transfer"
from = "server"
to = "client"
via = ["depot"]
bytes = "2MB"
[[variant]]
name = "lead"
set = { "flow.transfer.signalling" = "lead" }
[[variant]]
name = "fetch"
"#;

fn small(folder: &Path) -> (String, String) {
    let file = folder.join("small.toml");
    std::fs::write(&file, SMALL).unwrap();
    (file.to_str().unwrap().to_owned(), folder.join("out").to_str().unwrap().to_owned())
}

#[test]
fn a_run_over_ipv6_is_recorded_reported_and_not_run_again() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = small(folder.path());
    let first = measured(&["lab", "run", &file, "--json", "--out", &out]);
    for run in first["runs"].as_array().unwrap() {
        assert_eq!(run["sha256_ok"], true, "{run}");
    }
    let record = record::Record::open(&Path::new(&out).join("lead,r01")).unwrap();
    assert!(record.manifest.sockets.iter().all(|s| s.local.starts_with("[fd6c:")));
    let lossy = &record.summary.links[3];
    assert_eq!((lossy.name.as_str(), lossy.direction.as_str()), ("depot-server", "backward"));
    assert_eq!(lossy.losses, lossy.segments / 50, "every 50th segment is lost");
    assert!(lossy.losses > 0 && lossy.segments < 1000, "segments of 9000 bytes: {lossy:?}");

    // A busy machine may have made a run that does not count: here resuming is looked at.
    for id in ["lead,r01", "fetch,r01"] {
        let path = Path::new(&out).join(id).join("manifest.json");
        let manifest = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, manifest.replace("\"valid\": false", "\"valid\": true")).unwrap();
    }
    let written = |id: &str| {
        let path = Path::new(&out).join(id).join("manifest.json");
        std::fs::metadata(&path).unwrap().modified().unwrap()
    };
    let before = [written("lead,r01"), written("fetch,r01")];
    let again = measured(&["lab", "run", &file, "--json", "--out", &out]);
    assert_eq!(again["runs"].as_array().unwrap().len(), 2);
    assert_eq!(before, [written("lead,r01"), written("fetch,r01")], "nothing was run again");
    let other = ["--keep", "--out", &out, "--set", "flow.transfer.bytes=1MB"];
    let (code, said) = refused(&[&["lab", "run", &file][..], &other].concat());
    assert!(code == 2 && said.contains("leave out --keep"), "{said}");
    assert_eq!(before, [written("lead,r01"), written("fetch,r01")], "nothing is overwritten");

    let report = call(&["report", &out]);
    let page = text(&report.stdout);
    assert!(std::fs::read_to_string(page.trim()).unwrap().contains("small"), "{page}");
}

/// Through a depot, and then at once over the connections that the first flow has left.
#[test]
fn depot_fetches_from_a_program_with_a_rate() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rated.toml");
    let rated = SMALL.replace("bytes = \"2MB\"", "bytes = \"2MB\"\napp_rate = \"10mbit\"");
    let second = "[[flow]]\nname = \"second\"\nfrom = \"server\"\nto = \"client\"\nvia = [\"depot\"]\n\
                  bytes = \"2MB\"\nafter = \"transfer\"\n";
    let text = rated
        .replace("[[variant]]\nname = \"lead\"", &format!("{second}[[variant]]\nname = \"lead\""));
    std::fs::write(&file, text).unwrap();
    let out = folder.path().join("out").to_str().unwrap().to_owned();
    let runs = measured(&["lab", "run", file.to_str().unwrap(), "--json", "--out", &out]);
    for run in runs["runs"].as_array().unwrap() {
        assert_eq!(run["sha256_ok"], true, "{run}");
        let record = record::Record::open(&Path::new(&out).join(run["id"].as_str().unwrap()));
        let flows = record.unwrap().summary.flows;
        assert_eq!(flows[1].outcome, "complete", "{run}");
        // No program is ahead of its rate: 2 MB take 1.678 s, less the first millisecond.
        assert!(flows[0].seconds.unwrap() > 1.676, "{} s", flows[0].seconds.unwrap());
        let limited = flows[0].hops.iter().map(|hop| hop.limited.unwrap().largest());
        assert!(limited.eq([record::Limit::Application; 2]), "{:?}", flows[0].hops);
    }
}

/// A run that would last a minute, in a folder of its own; ended with the test, however that ends.
struct LongRun {
    folder: tempfile::TempDir,
    child: Child,
}

impl LongRun {
    /// Starts it, and waits until its transfer has begun.
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = longhaul()
            .args(["lab", "run", &scenario("demo.toml"), "--variant", "cold"])
            .args(["--set", "vars.size=200MB", "--set", "vars.rate=10mbit", "--set", "timeout=60s"])
            .arg("--out")
            .arg(folder.path().join("out"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let run = Self { folder, child };
        until("the client to start", || {
            run.processes().values().any(|line| line.starts_with("curl"))
        });
        run
    }

    fn name(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    fn processes(&self) -> BTreeMap<u32, String> {
        processes_with(self.name())
    }

    fn namespaces(&self) -> NetworkNamespaces {
        let namespaces = NetworkNamespaces::of_processes_with(self.name());
        assert!(namespaces.len() >= 3, "nginx, depots and curl: {}", namespaces.len());
        namespaces
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ctrl_c_leaves_no_process_no_namespace_and_no_file() {
    let _alone = alone();
    let mut run = LongRun::start();
    let namespaces = run.namespaces();
    run.signal("INT");
    assert_eq!(run.child.wait().unwrap().code(), Some(1));
    assert_eq!(run.processes(), BTreeMap::new());
    until("its namespaces to go", || !namespaces.are_in_use());
    let folder = run.folder.path();
    let left: Vec<_> =
        std::fs::read_dir(folder.join("out")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, [".sweep.jsonl"], "no half record");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1, "no working folder");
}

#[test]
fn kill_9_leaves_nothing_that_stops_the_next_run() {
    let _alone = alone();
    let mut run = LongRun::start();
    let namespaces = run.namespaces();
    run.signal("KILL");
    run.child.wait().unwrap();
    until("the run's programs to die with it", || run.processes().is_empty());
    until("its namespaces to go", || !namespaces.are_in_use());
    drop(namespaces);
    let (file, out) = small(run.folder.path());
    measured(&["lab", "run", &file, "--json", "--out", &out, "--variant", "fetch"]);
    let left: Vec<_> = std::fs::read_dir(run.folder.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 2, "the scenario and the records, no working folder: {left:?}");
}

#[test]
fn faulty_scenario_is_refused_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    for (from, to, expected) in [
        ("rate = \"50mbit\"", "rate = \"-1gbit\"", "a rate with its unit"),
        ("rate = \"50mbit\"", "rate = \"50 horses\"", "a rate with its unit"),
        ("queue = \"200p\"", "quue = \"200p\"", "queue"),
        ("between = [\"client\", \"depot\"]", "between = [\"client\", \"moon\"]", "moon"),
    ] {
        std::fs::write(&file, SMALL.replacen(from, to, 1)).unwrap();
        let line = SMALL.lines().position(|l| l == from).unwrap() + 1;
        for verb in ["check", "run"] {
            let (code, said) = refused(&["lab", verb, file.to_str().unwrap()]);
            assert_eq!(code, 2, "{said}");
            assert!(said.contains(&format!("bad.toml:{line}: ")), "line {line}: {said}");
            assert!(said.contains(expected), "{said}");
        }
    }
    let (code, said) = refused(&["lab", "run", "/nowhere.toml"]);
    assert_eq!(code, 2, "{said}");
    let (code, said) = refused(&["lab", "run", &scenario("demo.toml"), "--variant", "by-pigeon"]);
    assert!(code == 2 && said.contains("direct-bbr"), "{said}");
    let (code, said) = refused(&["report", folder.path().to_str().unwrap()]);
    assert!(code == 1 && said.contains("no record"), "{said}");
}

#[test]
fn a_congestion_control_that_the_kernel_lacks_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = small(folder.path());
    let (code, said) =
        refused(&["lab", "run", &file, "--out", &out, "--set", "flow.transfer.cc=quibic"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("quibic") && said.contains("cubic"), "{said}");
}

/// A check takes neither rights nor a network, and refuses what a run would.
#[test]
fn check_names_unknown_congestion_controls() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = small(folder.path());
    for (set, expected) in [
        ("flow.transfer.cc=cubik", ["congestion control \"cubik\"; it has: ", "modprobe"]),
        ("node.client.cc=cubik", ["congestion control \"cubik\"; it has: ", "modprobe"]),
    ] {
        let (code, said) = refused(&["lab", "check", &file, "--method", "emu", "--set", set]);
        assert_eq!(code, 3, "{set}: {said}");
        assert!(expected.iter().all(|part| said.contains(part)), "{set}: {said}");
    }
    let set = "flow.transfer.cc=lh_cubik";
    let (code, said) = refused(&["lab", "check", &file, "--method", "emu", "--set", set]);
    assert!(code == 2 && said.contains("did you mean \"cubic\"?"), "{said}");
    let there = ["--set", "flow.transfer.cc=lh_cubic", "--set", "family=ipv4"];
    done(&[["lab", "check", &file, "--method", "emu"].as_slice(), &there].concat());
}

/// Without a method, a name is refused that neither longhaul nor this kernel has, unless it is allowed.
#[test]
fn check_refuses_unknown_congestion_controls_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = small(folder.path());
    let check = |set: &str, more: &[&str]| {
        let checked = call(&[&["lab", "check", &file, "--set", set], more].concat());
        (checked.status.code(), text(&checked.stderr))
    };
    for set in ["flow.transfer.cc=cubik", "node.client.cc=cubik"] {
        let (code, said) = check(set, &[]);
        let expected = ["did you mean \"cubic\"?", "kernel has: ", "lab check --allow-cc cubik"];
        assert_eq!(code, Some(2), "{set}: {said}");
        assert!(expected.iter().all(|part| said.contains(part)), "{set}: {said}");
        assert_eq!(check(set, &["--allow-cc", "cubik"]).0, Some(0), "{set}");
        assert_eq!(check(set, &["--allow-cc", "other"]).0, Some(2), "{set}");
    }
    let (code, said) = check("flow.transfer.cc=lh_cubik", &["--allow-cc", "lh_cubik"]);
    assert!(code == Some(2) && !said.contains("--allow-cc"), "longhaul brings its own: {said}");
    for name in ["cubic", "bbr", "lh_fast"] {
        assert_eq!(check(&format!("flow.transfer.cc={name}"), &[]).0, Some(0), "{name}");
    }
}

/// No kernel has FAST TCP, and longhaul has it by another name.
#[test]
fn emulation_names_longhauls_own_for_a_congestion_control_that_the_kernel_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    std::fs::write(&file, SMALL).unwrap();
    let file = file.to_str().unwrap();
    let (_, said) =
        refused(&["lab", "check", file, "--method", "emu", "--set", "flow.transfer.cc=fast"]);
    assert!(said.contains("no congestion control \"fast\""), "{said}");
    assert!(said.contains("longhaul brings its own: cc = \"lh_fast\""), "{said}");
}

#[test]
fn unsupported_features_are_all_listed_one_per_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    let bad = format!(
        "duration = \"5s\"\n{SMALL}\n[[traffic]]\nfrom = \"server\"\nto = \"client\"\nkind = \"cbr\"\n\
         rate = \"1mbit\"\n[tcp]\nhystart = false\n"
    );
    std::fs::write(&file, bad).unwrap();
    let out = folder.path().join("out");
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    let emu: &[&str] =
        &["[tcp] other than ecn: ", "this kernel has no congestion control \"cubik\""];
    let sim: &[&str] = &[
        "congestion control cubik: ",
        "the kernel setting net.core.somaxconn is not simulated",
        "the kernel setting net.ipv4.tcp_sack is not simulated",
    ];
    let settings = [
        "family=ipv4",
        "flow.transfer.streams=2",
        "flow.transfer.cc=cubik",
        "node.client.sysctl.net.core.somaxconn=1",
        "node.server.sysctl.net.ipv4.tcp_sack=0",
    ];
    let settings = settings.map(|set| ["--set", set]).concat();
    let settings = settings.as_slice();
    for (command, expected) in [
        (["lab", "check", file, "--method", "emu"].as_slice(), emu),
        (&["lab", "run", file, "--method", "emu", "--out", out], emu),
        (&["lab", "check", file, "--method", "sim"], sim),
        (&["sim", file, "--out", out], sim),
    ] {
        let (code, said) = refused(&[command, settings].concat());
        assert_eq!(code, 2, "{said}");
        for part in expected {
            let lines = said.lines().filter(|line| line.contains(part)).count();
            assert_eq!(lines, 1, "{command:?}: {part}: {said}");
        }
        assert_eq!(said.lines().count(), expected.len(), "{command:?}: {said}");
    }
}

/// A chain that carries a file, and half a second later another over the same connections.
const KEPT: &str = r#"
title = "kept"
timeout = "60s"
[[node]]
name = "client"
[[node]]
name = "near"
[[node]]
name = "far"
[[node]]
name = "server"
[[link]]
between = ["client", "near"]
rate = "50mbit"
delay = "1ms"
[[link]]
between = ["near", "far"]
rate = "50mbit"
delay = "20ms"
[[link]]
between = ["far", "server"]
rate = "50mbit"
delay = "1ms"
[[flow]]
name = "first"
from = "server"
to = "client"
via = ["far", "near"]
bytes = "3MB"
warm = 2
[[flow]]
name = "second"
from = "server"
to = "client"
via = ["far", "near"]
bytes = "1MB"
warm = 2
after = "first"
start = "500ms"
[[variant]]
name = "chain"
[[variant]]
name = "site"
set = { "flow.first.site" = true, "flow.second.site" = true }
"#;

#[test]
fn a_flow_after_another_goes_over_the_connections_that_it_left() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kept.toml");
    std::fs::write(&file, KEPT).unwrap();
    let out = folder.path().join("out");
    let (file, out_text) = (file.to_str().unwrap(), out.to_str().unwrap());
    let document = measured(&["lab", "run", file, "--json", "--out", out_text]);
    for run in document["runs"].as_array().unwrap() {
        assert_eq!(run["sha256_ok"], true, "{run}");
    }
    for variant in ["chain", "site"] {
        let record = record::Record::open(&out.join(format!("{variant},r01"))).unwrap();
        let [first, second] = &record.summary.flows[..] else { panic!("two flows") };
        assert!(second.start_s >= first.end_s + 0.5, "{variant}");
        for (flow, bytes) in [(first, 3 << 20), (second, 1 << 20)] {
            for hop in &flow.hops {
                // With a head, and on the hop between the depots what they say to each other first.
                let carried = hop.bytes.unwrap();
                let more = if flow.name == "first" && hop.index == 1 { 3 << 20 } else { 4096 };
                // The client's own connection is gone before its last bytes are sampled.
                let least = if hop.index == 2 { bytes / 2 } else { bytes };
                assert!((least..bytes + more).contains(&carried), "{variant}: {hop:?}");
            }
        }
        let ports = |flow: &str, hop: u32| -> Vec<String> {
            let sockets = record.manifest.sockets.iter();
            let of_hop = sockets.filter(|socket| socket.flow == flow && socket.hop == hop);
            of_hop.map(|socket| socket.peer.clone()).collect()
        };
        let (left, taken) = (ports("first", 1), ports("second", 1));
        let is_kept = taken.iter().all(|peer| left.contains(peer));
        assert!(is_kept, "{variant}: left {left:?}, taken {taken:?}");
    }
    let other = folder.path().join("prepared");
    let set = "flow.first.prepares=true";
    let prepared = ["lab", "run", file, "--json", "--out", other.to_str().unwrap(), "--set", set];
    let document = measured(&prepared);
    let flows = document["runs"].as_array().unwrap().iter().map(|run| run["flow"].as_str());
    assert_eq!(
        flows.collect::<Vec<_>>(),
        [Some("second"); 2],
        "a flow that prepares is not in the results"
    );
    let simulated = folder.path().join("simulated");
    let simulated = ["sim", file, "--json", "--out", simulated.to_str().unwrap(), "--set", set];
    let results = |document: &serde_json::Value| -> Vec<serde_json::Value> {
        let keys = ["variant", "flow", "bytes", "outcome"];
        let runs = document["runs"].as_array().unwrap().iter();
        runs.map(|run| keys.iter().map(|key| run[key].clone()).collect()).collect()
    };
    assert_eq!(results(&measured(&simulated)), results(&document), "the methods take the same");
}

#[test]
fn a_problem_of_some_runs_names_them() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = small(folder.path());
    let sweep = "sweep.flow.transfer.client=[\"curl\", \"aria2\"]";
    let rated = "flow.transfer.app_rate=1mbit";
    let settings = ["--set", sweep, "--set", rated, "--set", "repeat=1"];
    let (_, said) =
        refused(&[&["lab", "check", &file, "--method", "emu"], settings.as_slice()].concat());
    assert!(
        said.contains("client=aria2") && said.contains(" more: method emu can't do flow"),
        "{said}"
    );
}

#[test]
fn many_flows_with_the_same_problem_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("many.toml");
    let five = "name = \"transfer#\"\ncount = 5\nclient = \"aria2\"\napp_rate = \"1mbit\"\n";
    let many = SMALL.replace("name = \"transfer\"\n", five);
    std::fs::write(&file, many.split("[[variant]]").next().unwrap()).unwrap();
    let file = file.to_str().unwrap();
    let (_, said) = refused(&["lab", "check", file, "--method", "emu", "--set", "family=ipv4"]);
    assert!(said.contains("can't do flow transfer1 and 4 more: app_rate"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn unknown_variant_without_variants_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plain.toml");
    let plain = SMALL.split("[[variant]]").next().unwrap().replace("baseline = \"fetch\"\n", "");
    std::fs::write(&file, plain).unwrap();
    let file = file.to_str().unwrap();
    for command in
        [["sim", file, "--variant", "foo"].as_slice(), &["wan", "up", file, "--variant", "foo"]]
    {
        let (code, said) = refused(command);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("has no variant \"foo\": it has no variants"), "{said}");
    }
}

#[test]
fn the_papers_scenarios_run() {
    let _turn = one_of_two();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    for (file, point) in [
        ("000-figure-08.toml", r#"sweep.vars.rtt=["30ms"]"#),
        ("000-figure-10.toml", r#"sweep.vars.loss=["0.1%"]"#),
    ] {
        let document = measured(&[
            "lab",
            "run",
            &scenario(file),
            "--json",
            "--repeat",
            "1",
            "--out",
            out,
            "--set",
            point,
            "--set",
            "vars.size=4MB",
            "--set",
            "vars.rate=100mbit",
        ]);
        let runs = document["runs"].as_array().unwrap();
        let variants: Vec<_> = runs.iter().map(|run| run["variant"].as_str().unwrap()).collect();
        assert_eq!(variants, ["direct", "one-depot", "two-depots"]);
        for (hops, run) in (1..).zip(runs) {
            assert_eq!(run["sha256_ok"], true, "{run}");
            assert_eq!(run["congestion_control"].as_array().unwrap().len(), hops);
        }
        let medians = document["medians"].as_array().unwrap();
        assert!(medians.iter().all(|cell| cell["runs"] == 0 || cell["median_seconds"].is_f64()));
    }
}
