// SPDX-License-Identifier: GPL-2.0-or-later
//! Hashes what decides the figures of a run on real hosts, for records: everything that this crate is linked with. `report` and `cli`
//! print what is on record and decide no figure; neither is a dependency.

use sources::Sources;
use std::{env, path::Path};

fn main() {
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&here).join("../../..");
    let mut linked = Sources::of(&root, Path::new(&here));
    // The congestion controls, which crates compile from there.
    linked.add(root.join("cc"));
    sources::print(&root, &linked);
}
