// SPDX-License-Identifier: GPL-2.0-or-later
//! ARCHITECTURE.md and the decision records name files that exist, and the index lists every record.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Maximum words of a decision record.
const MAX_WORDS: usize = 250;
/// Files whose names the documents may cut at the front.
const SOURCES: [&str; 3] = ["crates", "python", "cc"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            files(&entry, found);
        } else {
            found.push(entry);
        }
    }
}

/// Decision records, without their index.
fn records() -> Vec<PathBuf> {
    let mut records = Vec::new();
    files(&root().join("docs/adr"), &mut records);
    records.retain(|path| path.file_name().unwrap() != "README.md");
    records
}

/// Source files in backquotes, without placeholders.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| {
        let is_source = [".rs", ".h", ".c", ".js"].iter().any(|end| word.ends_with(end));
        is_source && !word.contains("NAME") && !word.contains(['{', ' ']) && *word != "my.h"
    })
}

#[test]
fn named_source_files_exist() {
    let mut sources = Vec::new();
    for directory in SOURCES {
        files(&root().join(directory), &mut sources);
    }
    let (mut checked, mut missing) = (0, Vec::new());
    for page in records().into_iter().chain([root().join("ARCHITECTURE.md")]) {
        let text = fs::read_to_string(&page).unwrap();
        for name in named(&text) {
            checked += 1;
            if !sources.iter().any(|source| source.ends_with(name)) {
                missing.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(checked > 50, "only {checked} names were found");
    assert_eq!(missing, [""; 0]);
}

#[test]
fn decision_records_are_short_and_listed() {
    let index = fs::read_to_string(root().join("docs/adr/README.md")).unwrap();
    let records = records();
    assert!(records.len() > 15, "{records:?}");
    for path in records {
        let text = fs::read_to_string(&path).unwrap();
        let words = text.split_whitespace().count();
        assert!(words <= MAX_WORDS, "{}: {words} words", path.display());
        let date = text.lines().find_map(|line| line.strip_prefix("Date: "));
        let date = date.unwrap_or_else(|| panic!("{}: no date", path.display()));
        let name = path.file_name().unwrap().to_str().unwrap();
        let row = format!("({name}) | {date} |");
        assert!(index.contains(&row), "docs/adr/README.md lacks {row}");
    }
}
