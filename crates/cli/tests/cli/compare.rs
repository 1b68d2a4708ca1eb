// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab compare` of small simulated runs: its numbers are those of `SciPy`, and what cannot be compared is refused.

use crate::common::{call, done, refused, text};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const SCENARIO: &str = r#"
title = "Compared"
duration = "3s"
repeat = 5
[vars]
rtt = "20ms"
[sweep]
vars.rtt = ["20ms", "40ms"]
[[node]]
name = "source"
[[node]]
name = "sink"
[[link]]
name = "haul"
between = ["source", "sink"]
rate = "20mbit"
delay = "${rtt} / 2"
loss = "0.3%"
[[flow]]
name = "bulk"
from = "source"
to = "sink"
[[variant]]
name = "reno"
set = { "flow.bulk.cc" = "reno" }
[[variant]]
name = "cubic"
set = { "flow.bulk.cc" = "cubic" }
"#;

/// Simulates a scenario into a directory of this name below `root`.
fn simulate(root: &Path, name: &str, scenario: &str, more: &[&str]) -> PathBuf {
    let file = root.join(format!("{name}.toml"));
    fs::write(&file, scenario).unwrap();
    let out = root.join(name);
    let words = ["sim", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    done(&[&words[..], more].concat());
    out
}

fn compared(words: &[&str]) -> Value {
    serde_json::from_slice(&call(&[&["lab", "compare", "--json"], words].concat()).stdout).unwrap()
}

const SCIPY: &str = r#"
import json, os, sys, scipy.stats
values = {}
for folder, _, files in os.walk(sys.argv[1]):
    if "manifest.json" in files:
        read = lambda name: json.load(open(os.path.join(folder, name)))
        manifest, summary = read("manifest.json"), read("summary.json")
        rtt = dict(map(tuple, manifest["point"]))["vars.rtt"]
        key = manifest["variant"]["name"], rtt
        for metric, value in summary["metrics"].items():
            if isinstance(value, (int, float)):
                values.setdefault((metric, *key), []).append(value)
rows = []
for cell in json.load(sys.stdin)["cells"]:
    rtt = dict(map(tuple, cell["parameters"]))["rtt"]
    for row in cell["differences"]:
        a, b = (values[row["metric"], row[side]["side"], rtt] for side in "ab")
        assert (row["a"]["runs"], row["b"]["runs"]) == (len(a), len(b))
        if row["welch"] is not None:
            rows.append((row, *scipy.stats.ttest_ind(b, a, equal_var=False),
                         *scipy.stats.mannwhitneyu(a, b, alternative="two-sided")))
near = lambda x, y: abs(x - y) <= 1e-8 * max(abs(y), 1e-6)
def holm(ps):
    order, corrected, least = sorted(range(len(ps)), key=ps.__getitem__), [0] * len(ps), 0
    for done, n in enumerate(order):
        least = max(least, min(1, ps[n] * (len(ps) - done)))
        corrected[n] = least
    return corrected
for test, at in (("welch", 1), ("mann_whitney", 3)):
    for row, p in zip(rows, holm([row[at + 1] for row in rows])):
        found = row[0][test]
        for name, expected in (("statistic", row[at]), ("p", row[at + 1]), ("p_corrected", p)):
            assert near(found[name], expected), (row[0]["metric"], test, name, found, expected)
for row, p in zip(rows, holm([row[2] for row in rows])):
    assert (row[0]["verdict"] == "different") == (p < 0.05), row[0]
print(len(rows))
"#;

#[test]
fn probabilities_of_records_are_those_of_scipy() {
    let root = tempfile::tempdir().unwrap();
    let out = simulate(root.path(), "both", SCENARIO, &[]);
    let out = out.to_str().unwrap();
    let document = call(&["lab", "compare", "--json", "--by", "variant", out]).stdout;
    let mut python = Command::new("/usr/bin/python3")
        .args(["-c", SCIPY, out])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed: apt install python3 python3-scipy");
    std::io::Write::write_all(&mut python.stdin.take().unwrap(), &document).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "they differ, or python3 has no SciPy: apt install python3-scipy"
    );
    let tests: usize = text(&output.stdout).trim().parse().unwrap();
    let document: Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(document["tests"], tests);
    assert!(tests >= 6, "{document}");
    // The scenario's variants differ in their congestion control alone.
    let by_control = compared(&["--by", "cc", out]);
    assert_eq!(by_control["cells"][0]["differences"], document["cells"][0]["differences"]);
}

/// Of equal things, with other seeds: what differs is chance, and the table calls it so.
#[test]
fn other_seeds_differ_by_chance() {
    let root = tempfile::tempdir().unwrap();
    let a = simulate(root.path(), "a", SCENARIO, &["--set", "seed=1"]);
    let b = simulate(root.path(), "b", SCENARIO, &["--set", "seed=99"]);
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let document = compared(&[a, b]);
    assert_eq!(document["sides"], serde_json::json!(["a", "b"]));
    let cells = document["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4, "two variants at two round trips");
    for difference in cells.iter().flat_map(|cell| cell["differences"].as_array().unwrap()) {
        assert!(
            ["chance", "same"].contains(&difference["verdict"].as_str().unwrap()),
            "{difference}"
        );
    }
    let table = text(&call(&["lab", "compare", a, b]).stdout);
    assert!(table.contains("variant=reno, rtt=40ms") && table.contains(" chance"), "{table}");
    assert!(table.contains("corrected by Holm"), "{table}");
    // The page and the files that it links to.
    let out = root.path().join("page");
    let said = call(&["lab", "compare", a, b, "--out", out.to_str().unwrap()]).stderr;
    assert!(text(&said).contains("compare.html"), "{}", text(&said));
    let page = fs::read_to_string(out.join("compare.html")).unwrap();
    let links: Vec<&str> =
        page.split("<a href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links.len(), 2 + 4 * 5, "throughput, window, round trip, queue, repeats: {links:?}");
    assert!(links.iter().all(|file| out.join(file).is_file()), "{links:?}");
    // Method and sweep are the same, so there is one side by them.
    let (code, said) = refused(&["lab", "compare", a, b, "--by", "method"]);
    assert!(code == 2 && said.contains("all runs are of one method, sim"), "{code}: {said}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let run = |name: &str, more: &[&str]| {
        let small = ["--variant", "reno", "--set", "duration=1s", "--set", "repeat=2"];
        let out = simulate(root.path(), name, SCENARIO, &[&small[..], more].concat());
        out.to_str().unwrap().to_owned()
    };
    let (a, b) = (run("a", &[]), run("b", &["--set", "seed=7"]));
    let refused = |dirs: &[&str], words: &[&str]| {
        let (code, said) = refused(&[&["lab", "compare"], dirs, words].concat());
        assert_eq!(code, 2, "{said}");
        said
    };
    let said = refused(&[&a, &a], &[]);
    assert!(said.contains("is named twice") && said.contains("Name each directory once"), "{said}");
    let said = refused(&[&a, &format!("{a}/sim")], &[]);
    assert!(said.contains("none below another"), "{said}");
    let empty = root.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let said = refused(&[&a, empty.to_str().unwrap()], &[]);
    assert!(said.contains("there is no record at or below") && said.contains("Name one"), "{said}");
    let said = refused(&[&a], &[]);
    assert!(said.contains("nothing to compare. Name another directory"), "{said}");
    let said = refused(&[&a, &b], &["--metric", "nosuch"]);
    assert!(said.contains("no two sides have a value of \"nosuch\""), "{said}");
    let once = run("once", &["--repeat", "1"]);
    let said = refused(&[&a, &once], &[]);
    assert!(said.contains("once has one valid run") && said.contains("--repeat 5"), "{said}");
    let far = run("far", &["--set", "sweep.vars.rtt=[\"70ms\"]"]);
    let said = refused(&[&a, &far], &[]);
    assert!(said.contains("\"rtt\" is 20ms for a and 70ms for far"), "{said}");
}
