// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul bench`: scores, from the command to the page; killed and continued; wrong usage.

use crate::common::{call, done, json, longhaul, refused, text};
use benchmark::Card;
use std::{fs, process::Stdio, thread, time::Duration};

/// Tasks of seconds.
const TASKS: [&str; 4] = ["--task", "short", "--task", "outage"];

#[test]
fn tasks_are_run_and_scored_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("bench");
    let out = out.to_str().unwrap();
    let run = [&["bench", "run", "--quick", "--cc", "lh_cubic", "--out", out], &TASKS[..]].concat();
    let output = call(&run);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let heads = ["congestion control", "whole", "alone", "conditions"];
    assert!(heads.iter().all(|head| printed.contains(head)), "{printed}");
    assert!(printed.contains("lh_reno") && printed.contains("lh_cubic"), "{printed}");
    let page = fs::read_to_string(folder.path().join("bench/card.html")).unwrap();
    assert!(page.contains("lh_cubic") && !page.contains("<script"));
    let card: Card = serde_json::from_value(json(&["bench", "show", out, "--json"])).unwrap();
    assert_eq!(card.candidates, ["lh_reno", "lh_cubic"]);
    let names: Vec<&str> = card.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["short", "outage"]);
    assert!(card.tasks.iter().all(|task| task.measures[0].scores[1].by_seed.len() == 4));
    // The same again, from what is on record.
    let again: Card = serde_json::from_value(json(&[&run[..], &["--json"]].concat())).unwrap();
    assert_eq!(again, card);
    let shown = done(&["bench", "show", out, "--task", "short"]);
    assert!(shown.contains("short: a file of 100 KB") && shown.contains("ms"), "{shown}");
    assert_eq!(done(&["bench", "show", out, "--csv"]).lines().count(), 1 + 2 * 3);
    let compared = done(&["bench", "compare", out, "--cc", "lh_reno", "--cc", "lh_cubic", "--all"]);
    assert!(compared.contains("recovery_s") && compared.contains("completion_s"), "{compared}");
    let same = done(&["bench", "compare", out, out]);
    assert!(same.contains("6 measures differ by no more than chance"), "{same}");
}

#[test]
fn own_algorithm_gets_its_card_by_one_command() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.h");
    let reno = include_str!("../../../../cc/reno.h");
    fs::write(&file, reno.replace("reno", "mine")).unwrap();
    let out = folder.path().join("bench");
    let words = ["bench", "run", "--quick", "--seeds", "2", "--cc", file.to_str().unwrap()];
    let card: Card = serde_json::from_value(json(
        &[&words[..], &["--out", out.to_str().unwrap(), "--json"], &TASKS[..2]].concat(),
    ))
    .unwrap();
    assert_eq!(card.candidates, ["lh_reno", "lh_mine"]);
    let scores = &card.tasks[0].measures[0].scores;
    assert_eq!(scores[0].by_seed, scores[1].by_seed, "it is Reno");
}

#[test]
fn killed_benchmark_continues_without_repeating_runs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("bench");
    let words = [
        &["bench", "run", "--quick", "--cc", "lh_cubic", "--out", out.to_str().unwrap()],
        &["--task", "wireless", "--task", "policer", "--jobs", "1"][..],
    ]
    .concat();
    let records = || walk(&out).len();
    for n in 1..=3 {
        let mut child = longhaul().args(&words).stdout(Stdio::null()).spawn().unwrap();
        while records() < 3 * n && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(2));
        }
        let _ = child.kill();
        child.wait().unwrap();
    }
    let before = walk(&out);
    assert!(before.len() >= 3, "{before:?}");
    let output = call(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let after = walk(&out);
    assert_eq!(after.len(), 2 * 2 * 4);
    for (path, modified) in before {
        assert!(after.contains(&(path.clone(), modified)), "{path} was run twice");
    }
    let undisturbed = folder.path().join("other");
    let mut other = words.clone();
    other[6] = undisturbed.to_str().unwrap();
    assert!(call(&other).status.success());
    let card = |out: &std::path::Path| fs::read_to_string(out.join("card.json")).unwrap();
    assert_eq!(card(&out), card(&undisturbed));
}

/// All summaries below a folder, with their times.
fn walk(folder: &std::path::Path) -> Vec<(String, std::time::SystemTime)> {
    let Ok(records) = record::find_records(folder) else { return Vec::new() };
    let file = |record: &std::path::PathBuf| {
        let modified = fs::metadata(record.join("summary.json")).unwrap().modified().unwrap();
        (record.display().to_string(), modified)
    };
    records.iter().map(file).collect()
}

#[test]
fn wrong_usage_is_explained() {
    for (words, part) in [
        (&["run", "--task", "bulky"][..], "there is no task \"bulky\""),
        (&["run", "--cc", "lh_none", "--task", "short"][..], "lh_none"),
        (&["run", "--cc", "./none.h"][..], "none.h"),
        (&["run", "--via", "7"][..], "7 chains of depots"),
        (&["run", "--cc", "bbr,bbr"][..], "bbr is named twice"),
        (&["run", "--method", "emu", "--jobs", "2"][..], "--jobs 2"),
        (&["run", "--seeds", "0"][..], "--seeds"),
        (&["show", "/none"][..], "bench run makes it"),
        (&["show", "/dev/null"][..], "no scores of bench run"),
        (&["compare", "/none"][..], "bench run makes it"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut all = vec!["bench"];
        all.extend(words);
        let out = folder.path().to_str().unwrap();
        if words[0] == "run" {
            all.extend(["--quick", "--out", out]);
        }
        let (code, said) = refused(&all);
        assert!(code != 0 && said.contains(part), "{words:?}: {code} {said}");
    }
}
