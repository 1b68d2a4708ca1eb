// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab run --method model`: predictions as records, flows without one, pages of both, and refusals. Needs no root.

use crate::common::{done, json, refused};
use record::{Record, RunVerdict};
use std::{fs, path::Path};

const SCENARIO: &str = r#"
title = "predicted"
duration = "10s"
baseline = "reno"
[[node]]
name = "source"
[[node]]
name = "sink"
[[link]]
name = "haul"
between = ["source", "sink"]
rate = "50mbit"
delay = "10ms"
loss = "0.1%"
[[flow]]
name = "file"
from = "source"
to = "sink"
[[variant]]
name = "reno"
set = { "flow.file.cc" = "reno" }
[[variant]]
name = "fast"
set = { "flow.file.cc" = "lh_fast" }
"#;

fn scenario(folder: &Path, text: &str) -> String {
    let file = folder.join("scenario.toml");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn predictions_are_records_and_missing_ones_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = scenario(folder.path(), SCENARIO);
    let out = folder.path().join("out");
    let words = ["lab", "run", &file, "--method", "model", "--out", out.to_str().unwrap()];
    let document = json(&[&words[..], &["--json"]].concat());
    let [reno, fast] = &document["runs"].as_array().unwrap()[..] else { panic!("{document}") };
    assert!(reno["goodput_bps"].as_f64().unwrap() > 1e7, "{reno}");
    assert!(
        reno["prediction"]["low_bps"].as_f64() < reno["prediction"]["high_bps"].as_f64(),
        "{reno}"
    );
    assert_eq!(
        (reno["method"].as_str(), reno["standing"].as_str()),
        (Some("model"), Some("complete"))
    );
    assert!(fast["goodput_bps"].is_null() && fast["standing"] == "unpredicted", "{fast}");
    assert!(
        document["medians"][1]["unpredicted"].as_str().unwrap().contains("queue's delay"),
        "{document}"
    );

    let record = Record::open(&out.join("model/fast,r01")).unwrap();
    assert_eq!(RunVerdict::of(true, &record.summary.flows), RunVerdict::Unpredicted);
    assert!(record.manifest.valid && record.series.is_empty());

    // A table of both, a page beside simulated runs, a figure.
    let table = done(&words);
    assert!(table.contains("no prediction: fast"), "{table}");
    done(&["sim", &file, "--variant", "reno", "--out", out.to_str().unwrap()]);
    let page = folder.path().join("page.html");
    done(&["report", out.to_str().unwrap(), "--out", page.to_str().unwrap()]);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("no prediction: fast") && !page.contains("NaN"), "the page says why");
    let figure = folder.path().join("figure.svg");
    done(&["figure", out.to_str().unwrap(), "--output", figure.to_str().unwrap()]);
    assert!(!fs::read_to_string(figure).unwrap().contains("NaN"));
}

#[test]
fn what_no_form_has_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    for (link, more, cause) in [
        ("rate = { steps = [[\"0s\", \"50mbit\"], [\"2s\", \"15mbit\"]] }", "", "its rate changes"),
        ("rate = \"50mbit\"\njitter = \"5ms\"", "", "jitter"),
        ("rate = \"50mbit\"\npolicer = { rate = \"30mbit\", burst = \"100KB\" }", "", "policer"),
        (
            "rate = \"50mbit\"",
            "[[traffic]]\nkind = \"cbr\"\nfrom = \"source\"\nto = \"sink\"\nrate = \"1mbit\"\n",
            "traffic",
        ),
    ] {
        let text = SCENARIO.replace("rate = \"50mbit\"", link).replace(
            "[[variant]]\nname = \"reno\"",
            &format!("{more}[[variant]]\nname = \"reno\""),
        );
        let file = scenario(folder.path(), &text);
        let (status, said) = refused(&["lab", "run", &file, "--method", "model"]);
        assert!(status == 2 && said.contains(cause) && said.contains("--method sim"), "{said}");
    }
}

#[test]
fn lab_check_prints_predictions() {
    let folder = tempfile::tempdir().unwrap();
    let file = scenario(folder.path(), SCENARIO);
    let said = done(&["lab", "check", &file]);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[1].starts_with("  reno,r01  ") && lines[1].contains(" Mb/s by Reno"), "{said}");
    assert_eq!(lines[2], "  fast,r01", "{said}");
}
