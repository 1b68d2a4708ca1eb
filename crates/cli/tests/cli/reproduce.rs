// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul reproduce`: the ledger of the papers, and rows that are run.

use crate::common::{call, done, json, refused, text};

#[test]
fn ledger_is_listed_by_paper() {
    let all = done(&["reproduce"]);
    assert!(all.lines().count() > 40 && !all.contains("]("), "{all}");
    let rows = json(&["reproduce", "001", "--json"]);
    let rows = rows.as_array().unwrap();
    assert!(rows.iter().all(|row| row["paper"] == "001") && rows.len() >= 10);
    assert!(rows.iter().any(|row| row["item"] == "III" && row["result"] == "differs"));
    assert!(done(&["reproduce", "003"]).contains("Florida"));
}

#[test]
fn quick_run_prints_paper_and_own_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let ran = json(&["reproduce", "000", "4", "--out", out, "--json"]);
    let numbers = ran["numbers"].as_array().unwrap();
    let papers: Vec<f64> = numbers.iter().map(|it| it["paper"].as_f64().unwrap()).collect();
    assert_eq!(papers, [2.0, 3.0], "{ran}");
    for number in numbers {
        let ratio = number["ratio"].as_f64().unwrap();
        assert!((0.8..1.1).contains(&ratio), "{number}");
    }
    let output = call(&["reproduce", "001", "6", "--out", out]);
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(printed.contains("paper 001, 6: rate by gap"), "{printed}");
    assert!(printed.contains("prints no numbers of it; 10 runs are on record"), "{printed}");
}

#[test]
fn rows_that_cannot_run_give_the_reason() {
    for (words, part) in [
        (&["005"][..], "there is no paper \"005\""),
        (&["001", "77"][..], "paper 001 has no row \"77\""),
        (&["000", "1"][..], "no scenario makes it: signalling"),
        (&["001", "V"][..], "no scenario makes it: gap frames"),
        (&["001", "III emulated"][..], "--full, which takes 12 min"),
        (&["--full"][..], "FIGURE"),
    ] {
        let (code, said) = refused(&[&["reproduce"], words].concat());
        assert!(code == 2 && said.contains(part), "{words:?}: {code} {said}");
    }
}
