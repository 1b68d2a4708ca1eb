// SPDX-License-Identifier: GPL-2.0-or-later
//! Relative links of all documents lead to a file that exists, and to a heading that it has.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

/// Folders that hold no documents of the repository.
const LEFT_OUT: [&str; 4] = [".git", "target", "out", "node_modules"];

/// All documents at or below a folder.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if LEFT_OUT.iter().any(|left_out| name == *left_out) {
            continue;
        }
        if path.is_dir() {
            documents(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "md") {
            found.push(path);
        }
    }
}

/// The lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// A heading as web pages of repositories name it in links.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The targets of `](...)` in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Without `..` in it, so that equal paths are equal.
fn simplified(path: &Path) -> PathBuf {
    let mut simple = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(simple.pop()),
            Component::CurDir => {}
            part => simple.push(part),
        }
    }
    simple
}

#[test]
fn links_of_documents_lead_somewhere() {
    let root = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")).unwrap();
    let mut all = Vec::new();
    documents(&root, &mut all);
    let texts: BTreeMap<&Path, String> =
        all.iter().map(|path| (path.as_path(), fs::read_to_string(path).unwrap())).collect();
    let anchors = |text: &str| -> BTreeSet<String> {
        prose(text).filter(|line| line.starts_with('#')).map(anchor).collect()
    };
    let (mut checked, mut broken) = (0, Vec::new());
    for (path, text) in &texts {
        let relative = prose(text).flat_map(links).filter(|link| !link.contains("://"));
        for link in relative.filter(|link| !link.starts_with("mailto:")) {
            checked += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let to = match file {
                "" => path.to_path_buf(),
                file => simplified(&path.parent().unwrap().join(file)),
            };
            let has_heading = || {
                let text = texts.get(to.as_path());
                heading.is_empty() || text.is_none_or(|text| anchors(text).contains(heading))
            };
            if !to.exists() || !has_heading() {
                broken.push(format!("{}: {link}", path.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(checked > 200, "only {checked} links were found");
    assert_eq!(broken, [""; 0]);
}

#[test]
fn anchors_are_those_of_web_pages() {
    assert_eq!(
        anchor("## 10. Upgrades while transfers go on"),
        "10-upgrades-while-transfers-go-on"
    );
    assert_eq!(anchor("### `limits.memory`, in *bytes*"), "limitsmemory-in-bytes");
    let found: Vec<&str> = links("a [b](c.md#d) and [e](f) (g)").collect();
    assert_eq!(found, ["c.md#d", "f"]);
}
