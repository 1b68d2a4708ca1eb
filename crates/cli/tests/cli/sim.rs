// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul sim`: records next to those of other methods, parallel runs, resumption and interruption. Needs no root.

use crate::common::{call, done, json, longhaul, refused, text};
use record::Record;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::SystemTime,
};
use testkit::until;

const SMALL: &str = r#"
title = "small"
timeout = "60s"
baseline = "direct"
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
[[link]]
between = ["depot", "server"]
rate = "50mbit"
delay = "20ms"
loss = "0.1%"
[[flow]]
name = "transfer"
from = "server"
to = "client"
bytes = "2MB"
[[variant]]
name = "direct"
[[variant]]
name = "depot"
set = { "flow.transfer.via" = ["depot"] }
"#;

/// Twelve flows without an end.
const MANY: &str = r#"
title = "many"
duration = "2s"
[[node]]
name = "source"
[[node]]
name = "sink"
[[link]]
name = "haul"
between = ["source", "sink"]
rate = "10mbit"
delay = "5ms"
[[flow]]
name = "bulk#"
count = 12
from = "source"
to = "sink"
"#;

/// Minutes of work, of few samples.
const LONG: &str = r#"
title = "long"
duration = "1000000s"
sample = "10s"
[[node]]
name = "source"
[[node]]
name = "sink"
[[link]]
between = ["source", "sink"]
rate = "100mbit"
delay = "5ms"
monitor = "10s"
[[flow]]
name = "bulk"
from = "source"
to = "sink"
"#;

/// A scenario in a folder of its own.
struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    fn new(scenario: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("scenario.toml"), scenario).unwrap();
        Self { folder }
    }

    fn file(&self) -> String {
        self.folder.path().join("scenario.toml").to_str().unwrap().to_owned()
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// A command's words with the file and a folder for its records.
    fn words<'w>(&self, command: &[&'w str], out: &Path, more: &[&'w str]) -> Vec<String> {
        let own = [self.file(), "--out".to_owned(), out.to_str().unwrap().to_owned()];
        let words = command.iter().map(ToString::to_string).chain(own);
        words.chain(more.iter().map(ToString::to_string)).collect()
    }

    fn sim(&self, more: &[&str]) -> serde_json::Value {
        self.sim_into(&self.out(), more)
    }

    fn sim_into(&self, out: &Path, more: &[&str]) -> serde_json::Value {
        let words = self.words(&["sim"], out, &[more, &["--json"]].concat());
        json(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn refused(&self, command: &[&str], more: &[&str]) -> String {
        let words = self.words(command, &self.out(), more);
        let (code, said) = refused(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(code, 2, "{said}");
        said
    }

    fn record(&self, id: &str) -> Record {
        Record::open(&self.out().join("sim").join(id)).unwrap()
    }

    fn written(&self, id: &str) -> SystemTime {
        let manifest = self.out().join("sim").join(id).join("manifest.json");
        fs::metadata(manifest).unwrap().modified().unwrap()
    }
}

/// A client is a program, and a simulation has none: the transfer is the same.
#[test]
fn ignored_client_of_a_flow_is_reported_once() {
    let lab = Lab::new(SMALL);
    let plain = lab.sim_into(&lab.folder.path().join("plain"), &[]);
    let out = lab.out();
    let set = ["--set", r#"sweep.flow.transfer.client=["curl", "wget"]"#, "--json"];
    let words = lab.words(&["sim"], &out, &set);
    let output = call(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("client: no program takes part in a simulation").count(), 1, "{said}");
    let with: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (plain, with) = (plain["runs"].as_array().unwrap(), with["runs"].as_array().unwrap());
    assert_eq!((plain.len(), with.len()), (2, 4));
    for run in with {
        let same = plain.iter().find(|other| other["variant"] == run["variant"]).unwrap();
        assert_eq!((&run["client"], &run["seconds"]), (&serde_json::Value::Null, &same["seconds"]));
    }
}

#[test]
fn runs_are_recorded_reported_and_not_run_again() {
    let lab = Lab::new(SMALL);
    let document = lab.sim(&[]);
    let runs = document["runs"].as_array().unwrap();
    let ids: Vec<_> = runs.iter().map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["direct,r01", "depot,r01"], "the order of the runs");
    for run in runs {
        assert_eq!(run["bytes"], 2 * 1024 * 1024, "{run}");
        assert_eq!(run["standing"], "complete", "{run}");
        assert_eq!(run["method"], "sim", "{run}");
    }
    let record = lab.record("depot,r01");
    let manifest = &record.manifest;
    assert_eq!(manifest.method, "sim");
    assert!(manifest.valid && manifest.emulator.is_none() && manifest.sockets.is_empty());
    assert_eq!(manifest.versions.keys().collect::<Vec<_>>(), ["longhaul"]);
    assert!(manifest.predicted.is_some() && manifest.machine.is_some());
    assert!(manifest.congestion_controls["cubic"].parameters.contains_key("beta"));
    let simulator = manifest.simulator.as_ref().unwrap();
    assert!(simulator.events > 1000 && simulator.simulated_s > 0.3, "{simulator:?}");

    let before = [lab.written("direct,r01"), lab.written("depot,r01")];
    assert_eq!(lab.sim(&[])["runs"], document["runs"]);
    assert_eq!(before, [lab.written("direct,r01"), lab.written("depot,r01")], "run again");
    let said = lab.refused(&["sim"], &["--keep", "--set", "flow.transfer.bytes=1MB"]);
    assert!(said.contains("leave out --keep"), "{said}");

    let page = done(&["report", lab.out().to_str().unwrap()]);
    assert!(fs::read_to_string(page.trim()).unwrap().contains("small"), "{page}");
    let left: Vec<_> = fs::read_dir(lab.folder.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 2, "the scenario and the records, no working folder: {left:?}");
}

/// After an edit of one variant its run is replaced, and the other's stays.
#[test]
fn changed_runs_are_replaced_and_others_kept() {
    let lab = Lab::new(SMALL);
    lab.sim(&[]);
    let before = lab.written("direct,r01");
    fs::write(
        lab.file(),
        SMALL.replace("[\"depot\"] }", "[\"depot\"], \"node.depot.cc\" = \"reno\" }"),
    )
    .unwrap();
    lab.sim(&[]);
    assert_eq!(before, lab.written("direct,r01"), "it is the same as before");
    assert_eq!(lab.record("depot,r01").manifest.scenario["nodes"][1]["cc"], "reno");
    let document = lab.sim(&["--set", "flow.transfer.bytes=1MB"]);
    for run in document["runs"].as_array().unwrap() {
        assert_eq!(run["bytes"], 1024 * 1024, "{run}");
    }
    assert_ne!(before, lab.written("direct,r01"));
}

#[test]
fn invalid_record_is_replaced() {
    let lab = Lab::new(SMALL);
    lab.sim(&["--variant", "direct"]);
    let manifest = lab.out().join("sim/direct,r01/manifest.json");
    let whole = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, whole.replace("\"valid\": true", "\"valid\": false")).unwrap();
    assert!(!lab.record("direct,r01").manifest.valid);
    lab.sim(&["--variant", "direct"]);
    assert!(lab.record("direct,r01").manifest.valid);
}

/// What another longhaul has computed may be wrong or out of date.
#[test]
fn record_of_another_build_is_run_again_unless_kept() {
    let lab = Lab::new(SMALL);
    lab.sim(&["--variant", "direct"]);
    let manifest = lab.out().join("sim/direct,r01/manifest.json");
    let mine = lab.record("direct,r01").manifest.sources.unwrap();
    assert!(mine.len() == 64 && mine.chars().all(|c| c.is_ascii_hexdigit()), "{mine}");
    let foreign = "0".repeat(64);
    let make_foreign = || {
        let whole = fs::read_to_string(&manifest).unwrap();
        fs::write(&manifest, whole.replace(&mine, &foreign)).unwrap();
    };
    let sources = |more: &[&str]| {
        lab.sim(&[&["--variant", "direct"], more].concat());
        lab.record("direct,r01").manifest.sources.unwrap()
    };
    make_foreign();
    assert_eq!(sources(&["--any-program"]), foreign);
    assert_eq!(sources(&[]), mine);
    make_foreign();
    assert_eq!(sources(&["--again"]), mine);

    let before = lab.written("direct,r01");
    sources(&["--any-program"]);
    assert_eq!(lab.written("direct,r01"), before);
    sources(&["--again"]);
    assert_ne!(lab.written("direct,r01"), before, "on record by this program, and run again");
}

#[test]
fn results_do_not_depend_on_the_number_of_jobs() {
    let lab = Lab::new(SMALL);
    let outs = ["1", "2"].map(|jobs| {
        let out = lab.folder.path().join(jobs);
        lab.sim_into(&out, &["--jobs", jobs, "--repeat", "2"]);
        out.join("sim")
    });
    for id in ["direct,r01", "depot,r01", "direct,r02", "depot,r02"] {
        for file in ["summary.json", "series.parquet", "bins.parquet"] {
            let [one, two] = [&outs[0], &outs[1]].map(|out| fs::read(out.join(id).join(file)));
            let (one, two) = (one.unwrap(), two.unwrap());
            assert!(!one.is_empty() && one == two, "{id}/{file} differs");
        }
    }
    let seeds = ["direct,r01", "direct,r02"]
        .map(|id| Record::open(&outs[0].join(id)).unwrap().manifest.seed);
    assert_ne!(seeds[0], seeds[1]);
}

#[test]
fn another_methods_record_is_not_taken_for_this_ones() {
    let lab = Lab::new(SMALL);
    lab.sim(&["--variant", "direct"]);
    let place = lab.out().join("direct,r01");
    fs::rename(lab.out().join("sim/direct,r01"), &place).unwrap();
    // The emulator names the program: in all else it would be the same run.
    let manifest = fs::read_to_string(place.join("manifest.json")).unwrap();
    let named = manifest.replace("\"client\": null", "\"client\": \"curl\"");
    fs::write(place.join("manifest.json"), named).unwrap();
    let said = lab.refused(&["lab", "run"], &["--variant", "direct"]);
    assert!(said.contains("direct,r01 holds this run by another method"), "{said}");
    lab.sim(&["--variant", "direct"]);
    assert_eq!(lab.record("direct,r01").manifest.method, "sim");
}

#[test]
fn a_table_shows_how_far_repeats_spread() {
    let lab = Lab::new(&SMALL.replace("delay = \"5ms\"", "delay = \"5ms\"\nloss = \"1%\""));
    let words = lab.words(&["sim"], &lab.out(), &["--variant", "direct", "--repeat", "3"]);
    let output = call(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let out = text(&output.stdout);
    let goodputs = (1..=3)
        .map(|n| lab.record(&format!("direct,r{n:02}")).summary.flows[0].goodput_bps.unwrap());
    let mut goodputs: Vec<f64> = goodputs.map(|bps| bps / 1e6).collect();
    goodputs.sort_by(f64::total_cmp);
    let [least, median, most] = goodputs[..] else { panic!("three runs: {goodputs:?}") };
    let shown = format!("{median:.1} Mb/s ({least:.1}–{most:.1})");
    assert!(least < most && out.contains(&shown), "{shown}: {out}");
    let cell = &lab.sim(&["--variant", "direct", "--repeat", "3"])["medians"][0];
    for (key, mbps) in [("least", least), ("median", median), ("most", most)] {
        let bps = cell[format!("{key}_goodput_bps")].as_f64().unwrap();
        assert!((bps / 1e6 - mbps).abs() < 1e-9, "{key}: {cell}");
    }
}

#[test]
fn many_flows_are_summed_in_one_line() {
    let lab = Lab::new(MANY);
    let words = lab.words(&["sim"], &lab.out(), &[]);
    let output = call(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    assert_eq!(out.lines().count(), 2, "a heading and a run: {out}");
    assert!(out.contains("Jain"), "{out}");
    assert!(err.contains("12 flows") && err.contains("events"), "{err}");
    let total = &lab.sim(&[])["totals"][0];
    assert_eq!(total["flows"], 12, "{total}");
    let goodput_bps = total["median_goodput_bps"].as_f64().unwrap();
    assert!((5e6..10e6).contains(&goodput_bps), "of 10 Mb/s: {total}");
}

/// Files over a link, and no flow.
const TRAFFIC: &str = r#"
title = "traffic alone"
duration = "5s"
repeat = 2
[[node]]
name = "source"
[[node]]
name = "sink"
[[link]]
between = ["source", "sink"]
rate = "10mbit"
delay = "5ms"
[[traffic]]
name = "web#"
count = 1
from = "source"
to = "sink"
kind = "web"
load = "3mbit"
[[traffic]]
name = "voice"
from = "source"
to = "sink"
kind = "cbr"
rate = "1mbit"
"#;

#[test]
fn a_run_of_traffic_alone_has_a_row_for_each_source() {
    let lab = Lab::new(TRAFFIC);
    let words = lab.words(&["sim"], &lab.out(), &[]);
    let output = call(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 3, "a heading and two sources: {out}");
    assert_eq!(lines[0][2..6], ["traffic", "runs", "files", "complete"], "{out}");
    assert_eq!((lines[1][1], lines[1][2], lines[2][1]), ("web1", "2", "voice"), "{out}");
    assert!(err.contains(" files  web1"), "{err}");
    let traffic = &lab.sim(&[])["traffic"];
    let [one, other] = ["r01", "r02"].map(|id| lab.record(id).summary.traffic.remove(0));
    let (web, voice) = (&traffic[0], &traffic[1]);
    assert_eq!((&web["source"], &web["runs"]), (&"web1".into(), &2.into()), "{web}");
    let offered = [one.files_offered.unwrap(), other.files_offered.unwrap()];
    assert_eq!(web["least_files_offered"], *offered.iter().min().unwrap() as f64, "{web}");
    let p99 = f64::midpoint(one.completion_p99_s.unwrap(), other.completion_p99_s.unwrap());
    assert!((web["median_completion_p99_s"].as_f64().unwrap() - p99).abs() < 1e-9, "{web}");
    assert!(voice["median_files_offered"].is_null(), "{voice}");
    assert!((voice["median_goodput_bps"].as_f64().unwrap() - 1e6).abs() < 5e4, "{voice}");

    // Files are in a table of their own, and those of the two repeats differ.
    let [files, others] = ["r01", "r02"].map(|id| lab.record(id).files);
    assert_eq!(files.rows.len() as u64, one.files_offered.unwrap());
    assert_ne!(files, others);
    // Of many sources, what they did together.
    let lab = Lab::new(&TRAFFIC.replace("count = 1", "count = 20"));
    let many = lab.words(&["sim"], &lab.out(), &[]);
    let output = call(&many.iter().map(String::as_str).collect::<Vec<_>>());
    let out = text(&output.stdout);
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(out.contains("21 sources"), "{out}");
}

/// A simulation under way, killed with the test.
struct LongRun {
    lab: Lab,
    child: Child,
}

impl LongRun {
    /// Starts it, and waits until it is at work.
    fn start() -> Self {
        let lab = Lab::new(LONG);
        let child = longhaul()
            .args(lab.words(&["sim"], &lab.out(), &[]))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let run = Self { lab, child };
        until("the simulation to be under way", || run.ticks() > 30);
        run
    }

    /// Hundredths of a second of processor time that it has had.
    fn ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        after_name.split_whitespace().nth(11).unwrap().parse().unwrap()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// What is on record is readable, goes some way, and does not count.
    fn assert_partial(&self, reason: &str) {
        let record = self.lab.record("r01");
        assert!(!record.manifest.valid);
        let reasons = &record.manifest.invalid_reasons;
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert!(reasons[0].starts_with(reason), "{reasons:?}");
        assert!(reasons[0].ends_with(" s of 1000000.0 s"), "{reasons:?}");
        let flow = &record.summary.flows[0];
        assert!(flow.bytes > 1_000_000 && flow.goodput_bps.unwrap() < 100e6, "{flow:?}");
        done(&["report", self.lab.out().to_str().unwrap()]);
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ctrl_c_leaves_a_record_as_far_as_it_went() {
    for signal in ["INT", "TERM"] {
        let mut run = LongRun::start();
        run.signal(signal);
        assert_eq!(run.child.wait().unwrap().code(), Some(1));
        run.assert_partial("stopped at ");
        let left = fs::read_dir(run.lab.folder.path()).unwrap().count();
        assert_eq!(left, 2, "the scenario and the records, no working folder");
    }
}

#[test]
fn kill_9_leaves_what_was_written_last() {
    let mut run = LongRun::start();
    let record = run.lab.out().join("sim/r01");
    until("a record of what there is so far", || record.exists());
    run.signal("KILL");
    run.child.wait().unwrap();
    run.assert_partial("not finished: written at ");
}

#[test]
fn unsupported_feature_is_refused_before_the_run() {
    let lab = Lab::new(SMALL);
    for (key, expected) in
        [("tcp.initial_window=2", "[tcp]"), ("flow.transfer.cc=lh_warp", "there are: ")]
    {
        let said = lab.refused(&["lab", "run"], &["--set", key]);
        assert!(said.contains(expected), "{key}: {said}");
        let checked = ["lab", "check", &lab.file(), "--method", "emu", "--set", key];
        let (code, said) = refused(&checked);
        assert!(code == 2 && said.contains(expected), "{key}: {said}");
    }
    for cc in ["lh_warp", "warp"] {
        let said = lab.refused(&["sim"], &["--set", &format!("flow.transfer.cc={cc}")]);
        assert!(said.contains(cc) && said.contains("htcp, "), "{said}");
    }
    let said = lab.refused(&["lab", "run"], &["--jobs", "2"]);
    assert!(said.contains("slow each other down"), "{said}");
    assert!(!lab.out().exists(), "nothing took place");
}

#[test]
fn parameters_of_congestion_controls_are_checked_and_recorded() {
    let with = |congestion: &str| Lab::new(&format!("{SMALL}[[congestion]]\n{congestion}"));
    for (congestion, expected) in [
        ("name = \"lh_warp\"", "there are: "),
        ("name = \"lh_htcp\"\nset = \"parchment\"", "there is no parameter set \"parchment\""),
        ("name = \"lh_htcp\"\nparameters = { warp = 1 }", "there is no parameter \"warp\""),
    ] {
        let lab = with(congestion);
        for command in [&["lab", "run"][..], &["sim"]] {
            let said = lab.refused(command, &[]);
            assert!(said.contains(expected), "{congestion}: {said}");
        }
    }
    let native = with("name = \"cubic\"\nset = \"paper\"").refused(&["lab", "run"], &[]);
    assert!(native.contains("lh_cubic"), "{native}");

    let lab = with("name = \"lh_htcp\"\nset = \"paper\"");
    lab.sim(&["--variant", "direct", "--set", "flow.transfer.cc=lh_htcp"]);
    let manifest = lab.record("direct,r01").manifest;
    assert_eq!(manifest.congestion_controls.keys().collect::<Vec<_>>(), ["lh_htcp"]);
    let set = manifest.congestion_controls["lh_htcp"].parameter_set.as_deref();
    assert_eq!(set, Some("paper"));
    assert_eq!(manifest.predicted, None, "closed forms are for default parameters");
}

#[test]
fn repeats_vary_and_identical_ones_are_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.toml");
    fs::write(
        &file,
        r#"
        title = "two"
        repeat = 3
        timeout = "5s"
        [[node]]
        name = "a"
        [[node]]
        name = "b"
        [[link]]
        between = ["a", "b"]
        rate = "20mbit"
        delay = "10ms"
        [[flow]]
        name = "x#"
        count = 2
        from = "a"
        to = "b"
        bytes = "100MB"
        "#,
    )
    .unwrap();
    let sim = |out: &str, vary: &str| {
        let out = folder.path().join(out);
        let words = ["sim", file.to_str().unwrap(), "--set", vary, "--out", out.to_str().unwrap()];
        let output = call(&words);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let varied = sim("varied", "vary=true");
    assert!(varied.contains("repeats after the first vary"), "{varied}");
    assert!(!varied.contains("give identical results"), "{varied}");
    let same = sim("same", "vary=false");
    assert!(!same.contains("repeats after the first vary"), "{same}");
    assert!(same.contains("warning: the 3 repeats give identical results"), "{same}");
}

#[test]
fn limiting_socket_buffer_is_named_with_its_setting() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("buffers.toml");
    let out = work.path().join("out");
    for (receiver, expected) in [
        ("32MB", "raise the sender's tcp_wmem_max"),
        ("200KB", "raise the receiver's tcp_rmem_max"),
    ] {
        let scenario = format!(
            "title = \"b\"\nduration = \"5s\"\n\
             [[node]]\nname = \"server\"\n[[node]]\nname = \"client\"\ntcp_rmem_max = \"{receiver}\"\n\
             [[link]]\nbetween = [\"server\", \"client\"]\nrate = \"1gbit\"\ndelay = \"40ms\"\n\
             [[flow]]\nname = \"f\"\nfrom = \"server\"\nto = \"client\"\n"
        );
        fs::write(&file, scenario).unwrap();
        let arguments = ["sim", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let checked = text(&call(&["lab", "check", file.to_str().unwrap()]).stderr);
        assert!(checked.contains("warning: node \"server\": tcp_wmem_max of 4MB"), "{checked}");
        let table = done(&arguments);
        assert!(table.contains(expected), "{table}");
        done(&["report", out.to_str().unwrap()]);
        let page = fs::read_to_string(out.join("report.html")).unwrap();
        assert!(page.contains(expected), "{expected}");
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn intervals_of_all_metrics_are_printed_on_request() {
    let work = tempfile::tempdir().unwrap();
    let (file, out) = (work.path().join("many.toml"), work.path().join("out"));
    fs::write(&file, MANY).unwrap();
    let run = ["sim", file.to_str().unwrap(), "--repeat", "3", "--out", out.to_str().unwrap()];
    let table = done(&run);
    assert!(table.contains("Jain") && !table.contains("95 % interval"), "{table}");
    let table = done(&[&run[..], &["--ci"]].concat());
    assert!(table.contains("95 % interval") && table.contains("queueing_delay_us"), "{table}");
    let document = json(&[&run[..], &["--json"]].concat());
    let intervals = document["intervals"].as_array().unwrap();
    let goodput = intervals.iter().find(|i| i["flow"].is_null() && i["metric"] == "goodput_bps");
    assert_eq!(goodput.unwrap()["runs"], 3);
}
