// SPDX-License-Identifier: GPL-2.0-or-later
//! Hashes what decides a predicted run's figures, for records: everything that this crate is linked with, except
//! `host`, of which `experiment` needs the signals.

use sources::Sources;
use std::{env, path::Path};

fn main() {
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&here).join("../../..");
    let host = root.join("crates/spine/host").canonicalize().expect("the workspace has it");
    sources::print(&root, &Sources::without(&root, Path::new(&here), &[host]));
}
