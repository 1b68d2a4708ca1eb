// SPDX-License-Identifier: GPL-2.0-or-later
//! What holds for all crates: ARCHITECTURE.md says which may depend on which, and no file is too long
//! to read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};
use toml::{Table, Value};

/// Lines of a Rust file.
const LONGEST: usize = 600;
const HEADER: &str = "| Crate | For | Depends on |";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The words in backquotes of a cell.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The table of ARCHITECTURE.md: crates in its order, with what they may depend on.
fn listed() -> Vec<(String, BTreeSet<String>)> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows = page.lines().skip_while(|line| *line != HEADER).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [name, _, needs] = cells[..] else { panic!("three cells: {row}") };
        let name = quoted(name).pop().unwrap_or_else(|| panic!("no crate: {row}"));
        (name, quoted(needs).into_iter().collect())
    })
    .collect()
}

/// Where crates are.
const CRATES: [&str; 2] = ["crates", "python"];

/// The directory of each crate by its name.
pub fn folders() -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::from([("python".to_owned(), root().join("python"))]);
    let mut waiting = vec![root().join("crates")];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let path = entry.path();
            if path.join("Cargo.toml").exists() {
                found.insert(entry.file_name().into_string().unwrap(), path);
            } else if entry.file_type().unwrap().is_dir() {
                waiting.push(path);
            }
        }
    }
    found
}

/// Names of the workspace's crates by the names that other crates have for them.
fn by_key() -> BTreeMap<String, String> {
    let workspace = read(&root().join("Cargo.toml"));
    let shared = workspace["workspace"]["dependencies"].as_table().unwrap();
    let path = |(key, value): (&String, &Value)| {
        let path = value.get("path")?.as_str()?;
        Some((key.clone(), path.rsplit('/').next()?.to_owned()))
    };
    shared.iter().filter_map(path).collect()
}

fn read(manifest: &Path) -> Table {
    fs::read_to_string(manifest).unwrap().parse().unwrap()
}

/// The crates of the workspace among what a manifest names in these sections, also for some targets.
fn needed(manifest: &Table, sections: &[&str]) -> BTreeSet<String> {
    let by_key = by_key();
    let targets =
        manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = targets.filter_map(Value::as_table).chain([manifest]);
    let sections = tables.flat_map(|table| sections.iter().filter_map(|kind| table.get(*kind)));
    let keys = sections.filter_map(Value::as_table).flat_map(Table::keys);
    keys.filter_map(|key| by_key.get(key).cloned()).collect()
}

/// Dev-dependencies are left out: the depot's tests start an origin and redirectors, which
/// no depot is linked with.
fn linked_with(folder: &Path) -> BTreeSet<String> {
    needed(&read(&folder.join("Cargo.toml")), &["dependencies", "build-dependencies"])
}

#[test]
fn crates_depend_on_what_architecture_md_says() {
    let (listed, folders) = (listed(), folders());
    let mut above = BTreeSet::new();
    for (name, needs) in &listed {
        let folder = folders.get(name).unwrap_or_else(|| panic!("no crate {name}"));
        let found = linked_with(folder);
        assert_eq!(found, *needs, "{name}: Cargo.toml (left) and ARCHITECTURE.md (right)");
        assert!(needs.is_subset(&above), "{name} depends on a crate below it: {needs:?}");
        above.insert(name.clone());
    }
    let crates: BTreeSet<String> = folders.into_keys().collect();
    assert_eq!(crates, above, "crates (left) and the table (right)");
}

/// What moves data and what measures share a spine and do not know each other. An experiment in the lab runs real depots.
#[test]
fn halves_do_not_know_each_other() {
    let folders = folders();
    let half = |name: &String| {
        let parent = folders[name].parent().unwrap().file_name();
        parent.and_then(|name| name.to_str()).unwrap_or_default().to_owned()
    };
    for (name, folder) in &folders {
        let allowed: &[&str] = match half(name).as_str() {
            "spine" => &["spine"],
            "move" => &["spine", "move"],
            "measure" if name != "lab" => &["spine", "measure"],
            _ => continue,
        };
        for needed in linked_with(folder) {
            let needed_half = half(&needed);
            assert!(allowed.contains(&needed_half.as_str()), "{name} depends on {needed}");
        }
    }
}

pub fn each_rust_file(folder: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            each_rust_file(&path, visit);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            visit(&path);
        }
    }
}

#[test]
fn no_rust_file_is_longer_than_600_lines() {
    let mut long = Vec::new();
    for place in CRATES {
        each_rust_file(&root().join(place), &mut |file| {
            let lines = fs::read_to_string(file).unwrap().lines().count();
            if lines > LONGEST {
                long.push(format!("{}: {lines}", file.display()));
            }
        });
    }
    assert!(long.is_empty(), "more than {LONGEST} lines: {long:#?}");
}

/// The only part of such a crate with a clock: it stops a compiler that does not end.
const WITH_CLOCK: &str = "congestion/src/file/compile.rs";

#[test]
fn crates_without_a_clock_read_none() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let marked: Vec<String> =
        folders().into_keys().filter(|name| page.contains(&format!("| `{name}`* |"))).collect();
    assert!(marked.len() > 4, "{marked:?}");
    let mut found = Vec::new();
    for name in marked {
        each_rust_file(&folders()[&name].join("src"), &mut |file| {
            let text = fs::read_to_string(file).unwrap();
            let reads = ["Instant::now", "SystemTime::now"].iter().any(|now| text.contains(now));
            if reads && !file.ends_with(WITH_CLOCK) {
                found.push(file.display().to_string());
            }
        });
    }
    assert!(found.is_empty(), "a clock is an argument: {found:?}");
}
