// SPDX-License-Identifier: GPL-2.0-or-later
//! Hashes what decides a run's figures, for `src/program.rs`: the sources that bear on each method.

use sha2::{Digest, Sha256};
use std::{
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// Whatever the method.
const COMMON: [&str; 7] = [
    "cc",
    "Cargo.lock",
    "crates/congestion/src",
    "crates/lab/src",
    "crates/netmodel/src",
    "crates/scenario/src",
    "crates/units/src",
];
const SIMULATED: [&str; 1] = ["crates/sim/src"];
const EMULATED: [&str; 4] =
    ["crates/depot/src", "crates/kernel/src", "crates/session/src", "crates/wan/src"];

fn main() {
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let house = Path::new(&here).join("../..");
    for (method, more) in [("SIM", &SIMULATED[..]), ("EMU", &EMULATED[..])] {
        let mut hash = Sha256::new();
        for place in COMMON.iter().chain(more) {
            let place = house.join(place);
            println!("cargo::rerun-if-changed={}", place.display());
            add(&mut hash, &place, &house);
        }
        let mut digest = String::new();
        for byte in hash.finalize() {
            write!(digest, "{byte:02x}").expect("a string takes it");
        }
        println!("cargo::rustc-env=LONGHAUL_SOURCES_{method}={digest}");
    }
}

/// Names are hashed with contents, and lengths with both, so that no two trees read alike.
fn add(hash: &mut Sha256, path: &Path, house: &Path) {
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("a folder of sources");
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.expect("a folder of sources").path()).collect();
        paths.sort();
        for path in &paths {
            add(hash, path, house);
        }
        return;
    }
    let name = path.strip_prefix(house).expect("it is in the house").to_string_lossy().into_owned();
    let content = fs::read(path).expect("a source file");
    for part in [name.as_bytes(), &content] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
}
