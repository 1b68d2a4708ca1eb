// SPDX-License-Identifier: GPL-2.0-or-later
//! Cells of the operators' tables are short: a longer explanation needs a heading of its own below the table.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Words of a cell.
const LONGEST: usize = 25;

/// Pages, and directories of pages.
const PAGES: [&str; 17] = [
    "agent.md",
    "certificates.md",
    "depot",
    "depot.md",
    "gateway.md",
    "get.md",
    "lsl.md",
    "operator.md",
    "performance.md",
    "protocol.md",
    "run.md",
    "security",
    "security.md",
    "send.md",
    "sizing.md",
    "store.md",
    "two-depots.md",
];

/// The cells with too many words, each by its line.
fn long_cells(page: &str) -> Vec<String> {
    let (mut in_code, mut long) = (false, Vec::new());
    for (number, line) in page.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code || !line.starts_with('|') {
            continue;
        }
        for cell in line.replace("\\|", "/").split('|') {
            let words = cell.split_whitespace().count();
            if words > LONGEST {
                long.push(format!("line {}: {words} words: {}", number + 1, cell.trim()));
            }
        }
    }
    long
}

fn files(path: PathBuf) -> Vec<PathBuf> {
    if path.is_dir() {
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect()
    } else {
        vec![path]
    }
}

#[test]
fn table_cells_of_operators_pages_are_short() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
    let mut long = Vec::new();
    for file in PAGES.iter().flat_map(|page| files(docs.join(page))) {
        let page = fs::read_to_string(&file).unwrap();
        long.extend(long_cells(&page).iter().map(|cell| format!("{}: {cell}", file.display())));
    }
    assert!(long.is_empty(), "more than {LONGEST} words: {long:#?}");
}

#[test]
fn words_are_counted_by_cell_and_outside_of_code() {
    let words = |count: usize| vec!["word"; count].join(" ");
    assert_eq!(long_cells(&format!("| {} | {} |", words(25), words(25))), [""; 0]);
    assert_eq!(long_cells(&format!("| a | {} |", words(26))).len(), 1);
    assert_eq!(long_cells(&format!("```text\n| {} |\n```", words(26))), [""; 0]);
}
