// SPDX-License-Identifier: GPL-2.0-or-later
//! docs/figures.md, followed word by word: every command runs, and every picture that it names is there and whole.
//! Takes no rights.

use crate::common::{longhaul, text};
use std::{fs, os::unix::fs::symlink, path::Path};

/// The longest that the page may be: it is looked things up in.
const MOST_LINES: usize = 120;

/// The commands between fences, without their comments.
fn commands(page: &str) -> Vec<Vec<String>> {
    let fenced = page.split("```").skip(1).step_by(2);
    let lines = fenced.filter_map(|block| block.strip_prefix("sh\n")).flat_map(str::lines);
    let words = lines.map(|line| line.split('#').next().unwrap_or_default().split_whitespace());
    words.map(|words| words.map(str::to_owned).collect()).collect()
}

#[test]
fn every_command_of_the_page_makes_its_picture() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(repository.join("docs/figures.md")).unwrap();
    assert!(page.lines().count() < MOST_LINES);
    let folder = tempfile::tempdir().unwrap();
    symlink(repository.join("scenarios").canonicalize().unwrap(), folder.path().join("scenarios"))
        .unwrap();
    let commands = commands(&page);
    let mut pictures = 0;
    for words in &commands {
        assert_eq!(words[0], "longhaul", "{words:?}");
        let output = longhaul().args(&words[1..]).current_dir(&folder).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        let named = words.iter().position(|word| word == "--output");
        let Some(file) = named.and_then(|at| words.get(at + 1)) else { continue };
        assert_picture(&folder.path().join(file));
        pictures += 1;
    }
    assert!(pictures >= 4 && commands.len() > pictures, "{commands:?}");
}

fn assert_picture(file: &Path) {
    if file.extension().is_some_and(|ending| ending == "png") {
        let image = fs::read(file).unwrap();
        assert!(
            image.starts_with(b"\x89PNG\r\n\x1a\n") && image.len() > 10_000,
            "{}",
            file.display()
        );
        return;
    }
    let drawing = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let parsed = roxmltree::Document::parse(&drawing).unwrap();
    // Lines have a point for each value or moment, and boxes four sides.
    let lines = parsed.descendants().filter(|node| {
        let points = node.attribute("d").map_or(0, |d| d.matches(['L', 'V']).count());
        points >= 4 || node.attribute("class") == Some("box")
    });
    assert!(lines.count() > 0, "{}: nothing is drawn", file.display());
}
