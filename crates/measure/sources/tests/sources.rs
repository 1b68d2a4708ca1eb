// SPDX-License-Identifier: GPL-2.0-or-later
//! What a record's hash of sources depends on: contents, along the dependency graph, and no names.

use longhaul_sources::Sources;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const MANIFEST: &str = r#"
[workspace]
members = ["crates/*"]
[workspace.dependencies]
run = { package = "x-run", path = "crates/run" }
store = { package = "x-store", path = "crates/store" }
page = { package = "x-page", path = "crates/page" }
left = "1"
"#;
const LOCK: &str = r#"
[[package]]
name = "left"
version = "1.0.0"
checksum = "aa"
dependencies = ["right 2.0.0"]
[[package]]
name = "right"
version = "1.0.0"
checksum = "bb"
[[package]]
name = "right"
version = "2.0.0"
checksum = "cc"
[[package]]
name = "x-run"
dependencies = ["left", "right 1.0.0", "x-store"]
[[package]]
name = "x-store"
[[package]]
name = "x-page"
dependencies = ["x-run"]
"#;
const RUN: &str = r#"
[package]
name = "x-run"
[dependencies]
store.workspace = true
[target.'cfg(unix)'.dependencies]
left.workspace = true
[dev-dependencies]
right = "1"
page.workspace = true
"#;

/// `run` needs `store` and, for its tests alone, `page`.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().expect("a temporary directory"));
        tree.write("Cargo.toml", MANIFEST);
        tree.write("Cargo.lock", LOCK);
        tree.write("crates/run/Cargo.toml", RUN);
        tree.write("crates/run/src/lib.rs", "use store::put;");
        tree.write("crates/store/Cargo.toml", "[package]\nname = \"x-store\"");
        tree.write("crates/store/src/lib.rs", "mod file;");
        tree.write("crates/store/src/file.rs", "pub fn put() {}");
        tree.write("crates/page/Cargo.toml", "[package]\nname = \"x-page\"");
        tree.write("crates/page/src/lib.rs", "pub fn page() {}");
        tree
    }

    fn path(&self, of: &str) -> PathBuf {
        self.0.path().join(of)
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, content).expect("a file");
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).expect("renamed");
    }

    fn replace(&self, path: &str, from: &str, to: &str) {
        let content = fs::read_to_string(self.path(path)).expect("a file");
        assert!(content.contains(from), "{path} has no {from}");
        self.write(path, &content.replace(from, to));
    }

    fn digest(&self) -> String {
        Sources::of(self.0.path(), &self.path("crates/run")).digest()
    }
}

#[test]
fn renamed_file_or_crate_leaves_the_hash() {
    let tree = Tree::new();
    let before = tree.digest();
    tree.rename("crates/store/src/file.rs", "crates/store/src/archive.rs");
    assert_eq!(tree.digest(), before, "a file renamed");

    tree.rename("crates/store", "crates/archive");
    for file in ["Cargo.toml", "Cargo.lock", "crates/archive/Cargo.toml"] {
        tree.replace(file, "x-store", "x-archive");
    }
    tree.replace("Cargo.toml", "store = {", "archive = {");
    tree.replace("Cargo.toml", "crates/store", "crates/archive");
    tree.replace("crates/run/Cargo.toml", "store.workspace", "archive.workspace");
    assert_eq!(tree.digest(), before, "a crate renamed");
}

#[test]
fn changed_dependency_changes_the_hash() {
    let changes = [
        ("crates/run/src/lib.rs", "use store::put;", "use store::get;"),
        ("crates/store/src/file.rs", "fn put", "fn get"),
        ("Cargo.lock", "checksum = \"aa\"", "checksum = \"dd\""),
        ("Cargo.lock", "checksum = \"cc\"", "checksum = \"dd\""),
    ];
    for (file, from, to) in changes {
        let tree = Tree::new();
        let before = tree.digest();
        tree.replace(file, from, to);
        assert_ne!(tree.digest(), before, "{to} in {file}");
    }
}

#[test]
fn crate_that_only_tests_use_leaves_the_hash() {
    let tree = Tree::new();
    let before = tree.digest();
    tree.replace("crates/page/src/lib.rs", "page()", "pages()");
    tree.write("crates/store/tests/all.rs", "#[test]");
    tree.replace("Cargo.lock", "checksum = \"bb\"", "checksum = \"dd\"");
    assert_eq!(tree.digest(), before);
}

#[test]
fn crate_split_off_is_found() {
    let tree = Tree::new();
    let before = tree.digest();
    tree.write(
        "crates/store/Cargo.toml",
        "[package]\nname = \"x-store\"\n[dependencies]\nx-new = { path = \"../new\" }",
    );
    tree.replace(
        "Cargo.lock",
        "name = \"x-store\"",
        "name = \"x-store\"\ndependencies = [\"x-new\"]\n[[package]]\nname = \"x-new\"",
    );
    tree.write("crates/new/Cargo.toml", "[package]\nname = \"x-new\"");
    fs::create_dir_all(tree.path("crates/new/src")).expect("a directory");
    tree.rename("crates/store/src/file.rs", "crates/new/src/lib.rs");
    assert_eq!(tree.digest(), before, "moved whole into a crate of its own");
    tree.replace("crates/new/src/lib.rs", "fn put", "fn get");
    assert_ne!(tree.digest(), before, "changed there");
}

#[test]
fn each_method_has_its_own_crates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let crates = |name: &str, except: &str| -> Vec<String> {
        let except = root.join(except).canonicalize().unwrap();
        let sources = Sources::without(&root, &root.join("crates/measure").join(name), &[except]);
        let names = sources.crates.iter().filter_map(|path| path.file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    };
    // As the build scripts of the two crates have it.
    let (simulated, emulated) = (crates("sim", "crates/spine/host"), crates("lab", "crates/cli"));
    let has = |list: &[String], name: &str| list.iter().any(|other| other == name);
    for name in ["experiment", "record", "scenario", "netmodel", "congestion", "units"] {
        assert!(has(&simulated, name) && has(&emulated, name), "{name}: both methods");
    }
    for name in ["lab", "depot", "host", "kernel", "protocol", "wan"] {
        assert!(!has(&simulated, name) && has(&emulated, name), "{name}: emulated runs");
    }
    assert!(has(&simulated, "sim") && !has(&emulated, "sim"), "sim: simulated runs");
    for name in ["cli", "report"] {
        assert!(!has(&simulated, name) && !has(&emulated, name), "{name}: no runs");
    }
}
