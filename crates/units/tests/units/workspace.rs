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
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
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

/// Directories of the workspace's crates by the names that other crates have for them.
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
#[test]
fn crates_depend_on_what_architecture_md_says() {
    let listed = listed();
    let mut above = BTreeSet::new();
    for (name, needs) in &listed {
        let manifest = read(&root().join("crates").join(name).join("Cargo.toml"));
        let found = needed(&manifest, &["dependencies", "build-dependencies"]);
        assert_eq!(found, *needs, "{name}: Cargo.toml (left) and ARCHITECTURE.md (right)");
        assert!(needs.is_subset(&above), "{name} depends on a crate below it: {needs:?}");
        above.insert(name.clone());
    }
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap());
    let crates = crates.filter(|entry| entry.path().join("Cargo.toml").exists());
    let crates: BTreeSet<String> =
        crates.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(crates, above, "crates (left) and the table (right)");
}

fn each_rust_file(folder: &Path, visit: &mut impl FnMut(&Path)) {
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
    each_rust_file(&root().join("crates"), &mut |file| {
        let lines = fs::read_to_string(file).unwrap().lines().count();
        if lines > LONGEST {
            long.push(format!("{}: {lines}", file.display()));
        }
    });
    assert!(long.is_empty(), "more than {LONGEST} lines: {long:#?}");
}

/// Examples in documentation that the compiler is to try, and pages that may have some, as `file:line`.
fn examples(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let mut is_inside = false;
    let mut found = vec![];
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        if line.contains("doc = include_str!(") {
            found.push(format!("{}:{number}", file.display()));
        }
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(kind) = comment.and_then(|comment| comment.trim_start().strip_prefix("```"))
        else {
            continue;
        };
        is_inside = !is_inside;
        let words = ["", "rust", "no_run", "should_panic", "compile_fail", "ignore"];
        if is_inside && words.contains(&kind.split(',').next().unwrap()) {
            found.push(format!("{}:{number}", file.display()));
        }
    }
    found
}

/// To look for examples takes the time of a build, so crates without any say that they have none.
#[test]
fn no_example_is_left_untried() {
    for (name, _) in listed() {
        let folder = root().join("crates").join(&name);
        let library = read(&folder.join("Cargo.toml")).remove("lib");
        let is_tried = library.is_none_or(|library| library.get("doctest").is_none());
        let mut found = vec![];
        each_rust_file(&folder.join("src"), &mut |file| found.extend(examples(file)));
        assert_eq!(is_tried, !found.is_empty(), "{name}: `doctest` in Cargo.toml, and {found:?}");
    }
}
