// SPDX-License-Identifier: GPL-2.0-or-later
//! Hashes what decides a simulated run's figures, for records: everything that this crate is linked with, but for `host`, of which
//! `experiment` needs the signals.

use sources::Sources;
use std::{env, path::Path};

fn main() {
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&here).join("../../..");
    let host = root.join("crates/spine/host").canonicalize().expect("the workspace has it");
    let mut linked = Sources::without(&root, Path::new(&here), &[host]);
    // The congestion controls, which crates compile from there.
    linked.add(root.join("cc"));
    sources::print(&root, &linked);
}
