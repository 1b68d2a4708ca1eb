// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles `cc/pace.h`, wrapped by `src/pacing/ffi.c`, into this crate.

use std::{env, path::Path};

fn main() {
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let shared = Path::new(&here).join("../../../cc");
    for header in ["cc.h", "pace.h"] {
        println!("cargo::rerun-if-changed={}", shared.join(header).display());
    }
    println!("cargo::rerun-if-changed=src/pacing/ffi.c");
    cc::Build::new()
        .file("src/pacing/ffi.c")
        .include(&shared)
        .opt_level(2) // also in tests, which pace millions of packets
        .warnings_into_errors(true)
        .compile("longhaul_pace");
}
