// SPDX-License-Identifier: GPL-2.0-or-later
//! Hashes what decides a run's figures, one hash for each method, for records.
//!
//! - `SIM`: this crate's own files, and everything that `sim` is linked with. Other dependencies of this crate
//!   take no part in a simulation.
//! - `EMU`: everything that this crate is linked with, except what only `sim` brings in.
//!
//! `report` and `cli` print what is on record and decide no figure; neither is a dependency. A crate
//! that is split off from one of these, or renamed, is found by its Cargo.toml.

#[path = "build/sources.rs"]
mod sources;

use std::{env, path::Path};

fn main() {
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let lab = Path::new(&here);
    for (method, sources) in sources::of_methods(lab) {
        for path in sources.watched() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        println!("cargo::rustc-env=LONGHAUL_SOURCES_{method}={}", sources.digest());
    }
    for manifest in ["Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", lab.join("../../..").join(manifest).display());
    }
}
