// SPDX-License-Identifier: GPL-2.0-or-later
//! Archives: written, read, damaged.

use super::scripted::{Outcome, Scripted, run_into, runs};
use longhaul_experiment::archive::{Archive, Description, WRITTEN, write};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};
use zip::ZipArchive;

/// Records of two runs, of which one does not count.
fn records(folder: &Path) -> PathBuf {
    let out = folder.join("out");
    let method = Scripted::new(2, |id, _| match id {
        "slow,r01" => Outcome::Valid(9e6),
        _ => Outcome::Invalid,
    });
    run_into(&out, &runs(1), &method).unwrap();
    fs::write(out.join(WRITTEN), "title = \"two variants\"\n").unwrap();
    out
}

fn description() -> Description {
    Description {
        license: Some("https://creativecommons.org/licenses/by/4.0/".to_owned()),
        program: Some("/proc/self/exe".into()),
        sources: vec!["5c".to_owned()],
    }
}

fn text(file: &Path, name: &str) -> String {
    let mut zip = ZipArchive::new(File::open(file).unwrap()).unwrap();
    let mut text = String::new();
    zip.by_name(name).unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn archive_is_a_process_run_crate() {
    let folder = tempfile::tempdir().unwrap();
    let out = records(folder.path());
    let file = folder.path().join("two.crate.zip");
    assert_eq!(write(&out, &file, &description()).unwrap(), 2);
    let document: Value = serde_json::from_str(&text(&file, "ro-crate-metadata.json")).unwrap();
    assert_eq!(document["@context"], "https://w3id.org/ro/crate/1.1/context");
    let graph = document["@graph"].as_array().unwrap();
    let entity = |id: &str| {
        let found: Vec<&Value> = graph.iter().filter(|it| it["@id"] == id).collect();
        assert_eq!(found.len(), 1, "{id} is described once");
        found[0].clone()
    };
    let is = |value: &Value, id: &str| value["@id"] == id;
    let descriptor = entity("ro-crate-metadata.json");
    assert!(is(&descriptor["about"], "./") && descriptor["@type"] == "CreativeWork");
    assert!(is(&descriptor["conformsTo"], "https://w3id.org/ro/crate/1.1"));
    let root = entity("./");
    assert!(is(&root["conformsTo"], "https://w3id.org/ro/wfrun/process/0.5"));
    for required in ["name", "description", "datePublished", "license"] {
        assert!(!root[required].is_null(), "{required}");
    }
    let mut zip = ZipArchive::new(File::open(&file).unwrap()).unwrap();
    let names: Vec<String> = zip.file_names().map(|name| name.unwrap().into_owned()).collect();
    // All parts are described, and are there.
    let parts = root["hasPart"].as_array().unwrap();
    assert_eq!(parts.len(), 3);
    for part in parts {
        let id = part["@id"].as_str().unwrap();
        assert!(names.iter().any(|name| name == id || name.starts_with(id)), "{id}: {names:?}");
        entity(id);
    }
    let actions = root["mentions"].as_array().unwrap();
    assert_eq!(actions.len(), 2);
    for action in actions {
        let action = entity(action["@id"].as_str().unwrap());
        assert_eq!(action["@type"], "CreateAction");
        assert!(action["startTime"].as_str().unwrap().ends_with('Z'));
        let program = entity(action["instrument"]["@id"].as_str().unwrap());
        assert_eq!(program["@type"], "SoftwareApplication");
        let hash = program["identifier"].as_str().unwrap();
        assert_eq!(hash.len(), "sha256:".len() + 64);
        entity(action["result"][0]["@id"].as_str().unwrap());
        let is_valid = action["name"] == "slow,r01";
        let status = if is_valid { "CompletedActionStatus" } else { "FailedActionStatus" };
        assert!(action["actionStatus"]["@id"].as_str().unwrap().ends_with(status));
        assert_eq!(action["error"].as_str(), (!is_valid).then_some("late"));
    }
    // Journal, logs and records that do not count are there, too.
    for name in [".sweep.jsonl", "slow,r01/logs/server.log", ".failed/fast,r01.1/manifest.json"] {
        zip.by_name(&format!("records/scripted/{name}")).unwrap();
    }
    assert_eq!(text(&file, "scenario.toml"), "title = \"two variants\"\n");
    let archive = Archive::read(&file).unwrap();
    let ids: Vec<&str> = archive.runs.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(
        ids,
        ["fast,r01", "slow,r01"],
        "those that count, and the last of those that do not"
    );
    assert_eq!(archive.runs[1], runs(1)[0]);
}

/// Written into the folder that it holds, under another name of that folder.
#[test]
fn archive_does_not_hold_itself() {
    let folder = tempfile::tempdir().unwrap();
    let out = records(folder.path());
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&out, &link).unwrap();
    let file = link.join("all.zip");
    assert_eq!(write(&out, &file, &Description::default()).unwrap(), 2);
    let mut zip = ZipArchive::new(File::open(&file).unwrap()).unwrap();
    assert!(zip.by_name("records/all.partial").is_err() && zip.by_name("records/all.zip").is_err());
}

#[test]
fn archives_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let out = records(folder.path());
    let file = folder.path().join("a.zip");
    write(&out, &file, &Description::default()).unwrap();
    let again = write(&out, &file, &Description::default()).unwrap_err();
    assert!(again.to_string().contains("there is something already"), "{again}");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let none = write(&empty, &folder.path().join("b.zip"), &Description::default()).unwrap_err();
    assert!(none.to_string().contains("there are no records"), "{none}");
    assert!(!folder.path().join("b.zip").exists() && !folder.path().join("b.partial").exists());
    // Cut short, or with changed bytes.
    let whole = fs::read(&file).unwrap();
    assert!(Archive::is_one(&file) && !Archive::is_one(&out.join(WRITTEN)));
    let damaged = folder.path().join("damaged.zip");
    let mut random = rand_of(7);
    for _ in 0..60 {
        let mut bytes = whole.clone();
        if random().is_multiple_of(2) {
            bytes.truncate(random() as usize % whole.len());
        } else {
            for _ in 0..20 {
                let at = random() as usize % bytes.len();
                bytes[at] ^= random() as u8 | 1;
            }
        }
        fs::write(&damaged, bytes).unwrap();
        // Whatever it says, it ends.
        let _ = Archive::read(&damaged).map_err(|error| error.to_string());
    }
    fs::write(&damaged, b"PK\x03\x04 and nothing else").unwrap();
    assert!(Archive::read(&damaged).is_err());
}

/// Numbers of a generator (xorshift64) of this seed.
fn rand_of(seed: u64) -> impl FnMut() -> u64 {
    println!("seed {seed}");
    let mut state = seed;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}
