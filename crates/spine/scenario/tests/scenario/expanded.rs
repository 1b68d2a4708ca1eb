// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs that come expanded: all that a scenario can expand to is taken, and nothing else.

use longhaul_scenario::{Run, Scenario, load, load_runs};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{fs, path::Path};

fn good() -> Scenario {
    let text = include_str!("refused/good.toml");
    Scenario::parse(text, "good.toml", &[""; 0]).unwrap_or_else(|error| panic!("{error}"))
}

/// The runs as JSON, changed, and read again.
fn changed(change: impl Fn(&mut Vec<Value>)) -> Result<Scenario, String> {
    let runs = good().runs;
    let mut values: Vec<Value> = runs.iter().map(|run| json!(run)).collect();
    change(&mut values);
    let runs: Vec<Run> = serde_json::from_value(json!(values)).map_err(|e| e.to_string())?;
    Scenario::of_runs(runs)
}

#[test]
fn runs_of_every_scenario_are_taken() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let (mut files, scratch) = (0, tempfile::tempdir().unwrap());
    for folder in [folder.clone(), folder.join("benchmark")] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let scenario = load(&path, &[""; 0]).unwrap_or_else(|error| panic!("{error}"));
            let file = scratch.path().join("runs.json");
            fs::write(&file, serde_json::to_string(&scenario.runs).unwrap()).unwrap();
            let again = load_runs(&file).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            assert_eq!(again.runs, scenario.runs, "{path:?}");
            files += 1;
        }
    }
    assert!(files > 20, "{files}");
}

#[test]
fn runs_that_no_scenario_expands_to_are_refused() {
    assert!(changed(|_| {}).is_ok());
    let long = "x".repeat(201);
    for id in ["", ".", "..", "../../etc/cron.d/x", "a/b", "a\0b", "a\nb", ".hidden", &long] {
        let refused = changed(|runs| runs[0]["id"] = json!(id));
        assert!(refused.is_err_and(|why| why.contains("file")), "{id:?}");
    }
    let keys =
        ["kernel.core_pattern", "net/../kernel/core_pattern", "net..x", "net.", "", "net.a b"];
    for key in keys {
        let refused = changed(|runs| runs[0]["nodes"][0]["sysctl"] = json!({ key: "1" }));
        assert!(refused.is_err_and(|why| why.contains("kernel setting")), "{key:?}");
    }
    let settings = json!({ "net.ipv4.tcp_sack": "0\n1" });
    assert!(changed(|runs| runs[0]["nodes"][0]["sysctl"] = settings.clone()).is_err());
    for place in ["/nodes/0/name", "/links/0/name", "/links/0/a", "/flows/0/name", "/flows/0/from"]
    {
        for name in ["", "../x", "Nowhere", "nowhere;reboot", "no where"] {
            let refused = changed(|runs| *runs[0].pointer_mut(place).unwrap() = json!(name));
            assert!(refused.is_err(), "{place} {name:?}");
        }
    }
    for name in ["cubic; rm", "../x", "", "averylongcontrolname"] {
        assert!(changed(|runs| runs[0]["nodes"][0]["cc"] = json!(name)).is_err(), "{name:?}");
    }
    assert!(changed(|runs| runs[0]["flows"][0]["cc"] = json!([])).is_err());
    assert!(changed(|runs| runs[0]["flows"][0]["after"] = json!("nothing")).is_err());
    assert!(changed(|runs| runs.push(runs[0].clone())).is_err_and(|why| why.contains("twice")));
    let nodes = |runs: &mut Vec<Value>| {
        let node = runs[0]["nodes"][0].clone();
        let many = (0..2000).map(|n| {
            let mut one = node.clone();
            one["name"] = json!(format!("n{n}"));
            one
        });
        runs[0]["nodes"] = many.collect();
    };
    assert!(changed(nodes).is_err());
}

#[test]
fn file_of_anything_else_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("runs.json");
    for text in ["", "{}", "[1]", "[{\"id\": \"x\"}]", "null"] {
        fs::write(&file, text).unwrap();
        let refused = load_runs(&file).unwrap_err().to_string();
        assert!(refused.contains("runs.json") && refused.contains("lab check --json"), "{refused}");
    }
    assert!(load_runs(&scratch.path().join("nowhere")).unwrap_err().to_string().contains("read"));
}

proptest! {
    /// Never a panic, whatever a few bytes are changed to.
    #[test]
    fn any_text_is_answered(places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut text = serde_json::to_vec(&good().runs[..1]).unwrap();
        for (place, byte) in places {
            let at = place.index(text.len());
            text[at] = byte;
        }
        if let Ok(runs) = serde_json::from_slice::<Vec<Run>>(&text) {
            let _ = Scenario::of_runs(runs).map(|scenario| scenario.runs[0].routes());
        }
    }
}
