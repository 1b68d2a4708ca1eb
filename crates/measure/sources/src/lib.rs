// SPDX-License-Identifier: GPL-2.0-or-later
//! The sources that a crate is made of, and one hash of their contents.
//!
//! From a crate's Cargo.toml the walk goes along the `path` dependencies of the workspace, and from
//! there along Cargo.lock to libraries. Dev-dependencies are left out: they are in no binary. Contents
//! are hashed one by one and the hashes are sorted, so neither the name of a file nor that of a crate
//! has a part in the result.
//! Limits: what a file includes from outside its crate's `src` has to be added with [`Sources::add`].
//! Features and compiler flags are not hashed.

use sha2::{Digest, Sha256};
use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};
use toml::{Table, Value};

/// For a build script: has the crate rebuilt when its sources change, and gives it their hash as `LONGHAUL_SOURCES`.
pub fn print(root: &Path, sources: &Sources) {
    for path in sources.watched() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    for manifest in ["Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(manifest).display());
    }
    println!("cargo::rustc-env=LONGHAUL_SOURCES={}", sources.digest());
}

/// What decides a result: directories of crates, further files, and libraries.
#[derive(Debug, Default)]
pub struct Sources {
    /// The directory of each crate, without `.` and `..`.
    pub crates: BTreeSet<PathBuf>,
    /// Name, version and checksum of each library, as in Cargo.lock.
    pub libraries: BTreeSet<String>,
    more: Vec<PathBuf>,
}

impl Sources {
    /// Everything that the crate in a directory is linked with, the crate included.
    pub fn of(root: &Path, krate: &Path) -> Self {
        Self::without(root, krate, &[])
    }

    /// The same, but the walk does not enter the crates in `except`.
    pub fn without(root: &Path, krate: &Path, except: &[PathBuf]) -> Self {
        let mut sources = Self::default();
        sources.walk(&Workspace::open(root), &canonical(krate), except);
        sources
    }

    /// Adds a file or directory from outside the crates.
    pub fn add(&mut self, path: PathBuf) {
        self.more.push(path);
    }

    fn walk(&mut self, workspace: &Workspace, krate: &Path, except: &[PathBuf]) {
        if except.iter().any(|other| other == krate) || !self.crates.insert(krate.to_owned()) {
            return;
        }
        let manifest = read(&krate.join("Cargo.toml"));
        let named = workspace.dependencies(krate, &manifest);
        let locked = workspace.locked(text(&manifest["package"], "name"));
        for (package, path) in named {
            if let Some(path) = path {
                self.walk(workspace, &path, except);
            } else {
                let of_crate = workspace.needs(locked);
                let library = of_crate.into_iter().find(|other| text(other, "name") == package);
                self.walk_library(workspace, library.unwrap_or_else(|| absent(&package)));
            }
        }
    }

    fn walk_library(&mut self, workspace: &Workspace, library: &Value) {
        let checksum = library.get("checksum").and_then(Value::as_str).unwrap_or_default();
        let entry = format!("{} {} {checksum}", text(library, "name"), text(library, "version"));
        if self.libraries.insert(entry) {
            for next in workspace.needs(library) {
                self.walk_library(workspace, next);
            }
        }
    }

    /// What a change of the hash can come from: files and directories, for `rerun-if-changed`.
    pub fn watched(&self) -> Vec<PathBuf> {
        let manifests = self.crates.iter().map(|krate| krate.join("Cargo.toml"));
        self.roots().into_iter().chain(manifests).collect()
    }

    /// Contents only: build scripts count, as they decide how C is compiled.
    fn roots(&self) -> Vec<PathBuf> {
        let parts = ["src", "build.rs", "build"];
        let of_crates =
            self.crates.iter().flat_map(|krate| parts.map(|part| krate.join(part)).into_iter());
        of_crates.filter(|path| path.exists()).chain(self.more.iter().cloned()).collect()
    }

    /// SHA-256 in hexadecimal.
    pub fn digest(&self) -> String {
        let mut hashes: Vec<_> = self.libraries.iter().map(Sha256::digest).collect();
        for path in self.roots() {
            each_file(&path, &mut |file| {
                let content = fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
                hashes.push(Sha256::digest(content));
            });
        }
        hashes.sort_unstable();
        let all = hashes.iter().fold(Sha256::new(), Sha256::chain_update);
        all.finalize().iter().fold(String::new(), |mut digits, byte| {
            write!(digits, "{byte:02x}").expect("a string takes it");
            digits
        })
    }
}

/// The manifest and the lock file of a workspace.
struct Workspace {
    root: PathBuf,
    shared: Table,
    packages: Vec<Value>,
}

impl Workspace {
    fn open(root: &Path) -> Self {
        let manifest = read(&root.join("Cargo.toml"));
        let shared = manifest["workspace"].get("dependencies").and_then(Value::as_table);
        let lock = read(&root.join("Cargo.lock"));
        Self {
            root: canonical(root),
            shared: shared.cloned().unwrap_or_default(),
            packages: lock["package"].as_array().expect("Cargo.lock lists packages").clone(),
        }
    }

    /// The package's name of each dependency of a crate, and where it is if it is in the workspace.
    fn dependencies(&self, krate: &Path, manifest: &Table) -> Vec<(String, Option<PathBuf>)> {
        let targets = manifest.get("target").and_then(Value::as_table);
        let targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
        let mut found = Vec::new();
        for table in targets.chain([manifest]) {
            for kind in ["dependencies", "build-dependencies"] {
                let listed = table.get(kind).and_then(Value::as_table);
                for (key, value) in listed.into_iter().flatten() {
                    let inherited = value.get("workspace").is_some();
                    let (value, base) = if inherited {
                        (&self.shared[key], self.root.as_path())
                    } else {
                        (value, krate)
                    };
                    let package = value.get("package").and_then(Value::as_str).unwrap_or(key);
                    let path = value.get("path").and_then(Value::as_str);
                    found.push((package.to_owned(), path.map(|path| canonical(&base.join(path)))));
                }
            }
        }
        found
    }

    fn locked(&self, name: &str) -> &Value {
        let mut packages = self.packages.iter();
        packages.find(|package| text(package, "name") == name).unwrap_or_else(|| absent(name))
    }

    /// The packages that one in Cargo.lock needs: `name`, or `name version` where there are several.
    fn needs(&self, package: &Value) -> Vec<&Value> {
        let listed = package.get("dependencies").and_then(Value::as_array);
        let entries = listed.into_iter().flatten().filter_map(Value::as_str);
        entries
            .map(|entry| {
                let mut words = entry.split(' ');
                let (name, version) = (words.next().unwrap_or_default(), words.next());
                let mut packages = self.packages.iter();
                packages
                    .find(|package| {
                        text(package, "name") == name
                            && version.is_none_or(|version| text(package, "version") == version)
                    })
                    .unwrap_or_else(|| absent(entry))
            })
            .collect()
    }
}

fn absent(name: &str) -> ! {
    panic!("Cargo.lock has no {name}: run cargo without --locked once")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn read(path: &Path) -> Table {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn each_file(path: &Path, visit: &mut impl FnMut(&Path)) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a directory of sources") {
            each_file(&entry.expect("a directory of sources").path(), visit);
        }
    } else {
        visit(path);
    }
}
