// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs that are stopped, killed, left out, listed, archived and made again. By simulation, so without root.

use crate::common::{call, done, json, longhaul, refused, text};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::Duration,
};
use testkit::{draft::Draft, until};

/// Twelve runs of some tenths of a second.
fn twelve(folder: &Path) -> String {
    let draft = Draft::new("twelve runs", "duration=10s repeat=6 baseline=reno")
        .nodes(&["a", "b"])
        .link("a", "b", "rate=100mbit delay=5ms loss=0.01%")
        .flow("a", "b", "name=bulk cc=reno")
        .line("[[variant]]\nname = \"reno\"\n[[variant]]\nname = \"cubic\"\nset = { \"flow.bulk.cc\" = \"cubic\" }");
    let file = folder.join("twelve.toml");
    fs::write(&file, draft.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn start(file: &str, out: &Path) -> Child {
    let mut command = longhaul();
    command.args(["sim", file, "--jobs", "1", "--out", out.to_str().unwrap()]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn status(out: &Path) -> Value {
    json(&["lab", "status", out.to_str().unwrap(), "--json"])[0].clone()
}

fn count(status: &Value, state: &str) -> usize {
    status["runs"].as_array().unwrap().iter().filter(|run| run["state"] == state).count()
}

/// What every run came to, and its samples.
fn results(out: &Path) -> BTreeMap<String, [Vec<u8>; 2]> {
    let runs = record::find_records(out).unwrap();
    let read = |folder: PathBuf| {
        let of = |name: &str| fs::read(folder.join(name)).unwrap();
        let series = record::Record::series(&folder).unwrap();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        (name, [of("summary.json"), format!("{series:?}").into_bytes()])
    };
    runs.into_iter().map(read).collect()
}

/// Kills at any moment of 20 engines; the one after them completes the sweep.
#[test]
fn killed_engine_is_continued_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let file = twelve(folder.path());
    let [undisturbed, out] = ["undisturbed", "out"].map(|name| folder.path().join(name));
    done(&["sim", &file, "--jobs", "1", "--out", undisturbed.to_str().unwrap()]);
    let mut state: u64 = 41;
    println!("seed {state}");
    for _ in 0..20 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut engine = start(&file, &out);
        thread::sleep(Duration::from_millis(20 + (state >> 33) % 500));
        engine.kill().unwrap();
        engine.wait().unwrap();
        if out.join("sim/.sweep.jsonl").exists() {
            let status = status(&out);
            assert_eq!((&status["running"], count(&status, "running")), (&Value::Bool(false), 0));
        }
    }
    done(&["sim", &file, "--jobs", "1", "--out", out.to_str().unwrap()]);
    assert_eq!(count(&status(&out), "done"), 12);
    assert!(results(&out) == results(&undisturbed), "the records differ");
    // None that counted was run again.
    let mut cut_off = 0;
    for run in results(&out).into_keys() {
        let shown = json(&["lab", "show", &run, out.to_str().unwrap(), "--json"]);
        let attempts = shown[0]["attempts"].as_array().unwrap();
        let valid = attempts.iter().position(|attempt| attempt["end"] == "valid");
        // Killed between record and journal: the record counts.
        assert!(valid.is_none_or(|at| at + 1 == attempts.len()), "{shown}");
        cut_off += attempts.iter().filter(|attempt| attempt["end"].is_null()).count();
    }
    assert!(cut_off > 0, "no run was cut off");
    let left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn runs_are_listed_shown_stopped_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let file = twelve(folder.path());
    let out = folder.path().join("out");
    let word = out.to_str().unwrap();
    let mut engine = start(&file, &out);
    until("a run is done", || {
        out.join("sim/.sweep.jsonl").exists() && count(&status(&out), "done") > 0
    });
    let running = status(&out);
    assert_eq!((&running["running"], &running["pid"]), (&Value::Bool(true), &engine.id().into()));
    let busy = call(&["sim", &file, "--out", word]);
    assert!(text(&busy.stderr).contains("another longhaul runs into"), "{}", text(&busy.stderr));
    done(&["lab", "stop", word]);
    assert!(!engine.wait().unwrap().success());
    let stopped = status(&out);
    assert!(stopped["error"].as_str().unwrap().contains("interrupted"), "{stopped}");
    assert!(count(&stopped, "waiting") > 0);
    let shown = done(&["lab", "status", word]);
    assert!(shown.contains("twelve runs: sim, stopped since 20"), "{shown}");
    let listed = done(&["lab", "list", folder.path().to_str().unwrap()]);
    assert!(listed.contains("/out/sim") && listed.contains("12"), "{listed}");
    let again = refused(&["lab", "stop", word]);
    assert!(again.0 == 1 && again.1.contains("nothing runs into"), "{again:?}");
    done(&["sim", &file, "--out", word]);
    let shown = done(&["lab", "show", "cubic,r06", word]);
    for part in
        ["cubic,r06: sim, done in", "attempt 1: valid", "configuration", "execution", "archive"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    for (words, part) in [
        (&["lab", "show", "cubic,r07", word][..], "no run \"cubic,r07\""),
        (&["lab", "status", folder.path().to_str().unwrap()], "no lab run has records there"),
    ] {
        let (code, said) = refused(words);
        assert!(code == 2 && said.contains(part), "{said}");
    }
}

#[test]
fn repeats_stop_when_their_interval_is_narrow() {
    let folder = tempfile::tempdir().unwrap();
    let file = twelve(folder.path());
    let out = folder.path().join("out");
    let words = ["sim", &file, "--jobs", "1", "--until", "40%", "--out", out.to_str().unwrap()];
    let output = call(&words);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("left out: 3 repeats give the mean within"), "{said}");
    assert!(said.contains("so far") && said.contains("95 % interval of 3 repeats"), "{said}");
    assert_eq!(count(&status(&out), "left_out"), 6, "{said}");
    let (code, said) = refused(&["sim", &file, "--until", "0"]);
    assert!(code == 2 && said.contains("a share above 0"), "{said}");
}

#[test]
fn archive_is_run_again_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let file = twelve(folder.path());
    let [out, again] =
        ["out", "again"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    done(&["sim", &file, "--out", &out]);
    done(&["lab", "archive", &out]);
    let archive = format!("{out}.crate.zip");
    fs::remove_file(&file).unwrap();
    let ran = done(&["lab", "run", &archive, "--out", &again, "--variant", "reno"]);
    assert!(ran.contains("of the archive") && ran.contains("identical"), "{ran}");
    assert!(
        results(Path::new(&again)).iter().all(|(run, it)| results(Path::new(&out))[run] == *it)
    );
    let modelled = json(&["lab", "run", &archive, "--method", "model", "--out", &again, "--json"]);
    let differences = &modelled["differences"];
    assert_eq!(differences["results"].as_array().unwrap().len(), 2, "{differences}");
    let environment = differences["environment"].to_string();
    assert!(environment.contains("method: model, was sim"), "{environment}");
    for (words, part) in [
        (&["lab", "run", &archive, "--set", "repeat=2"][..], "an archive says what was run"),
        (&["lab", "run", &archive, "--variant", "bbr"], "it has: "),
        (&["lab", "archive", &out], "there is something already"),
    ] {
        let (_, said) = refused(words);
        assert!(said.contains(part), "{said}");
    }
    fs::write(&archive, "PK\u{3}\u{4}").unwrap();
    let (_, said) = refused(&["lab", "run", &archive]);
    assert!(said.contains("could not read"), "{said}");
}
