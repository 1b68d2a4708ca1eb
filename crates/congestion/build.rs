// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles the algorithms of `cc/`, each wrapped by `src/ffi.h`, into this crate.

use std::{env, fs, path::Path};

fn main() {
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let house = Path::new(&here).join("../..");
    let algorithms = house.join("cc");
    println!("cargo::rerun-if-changed={}", algorithms.display());
    println!("cargo::rerun-if-changed=src/ffi.h");

    let listed = fs::read_to_string(algorithms.join("algorithms.h")).expect("cc/algorithms.h");
    let entries = listed.lines().filter(|line| line.starts_with("CC_"));
    let names = entries.map(|line| {
        let name = line.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
        name.unwrap_or_else(|| {
            panic!("cc/algorithms.h: \"{line}\" is not CC_WINDOW(name) or CC_RATE(name)")
        })
    });
    let mut includes = String::new();
    let mut definitions = String::new();
    for name in names {
        includes += &format!("#include \"{name}.h\"\n");
        definitions += &format!(
            "#define FFI_PARAMS cc_{name}_params\nFFI_DEFINE({name})\n#undef FFI_PARAMS\n"
        );
    }
    let wrapped = format!(
        "{includes}#include \"ffi.h\"\n{definitions}\
         #define CC_WINDOW(name) FFI_ENTRY(name, 0)\n#define CC_RATE(name) FFI_ENTRY(name, 1)\n\
         const struct ffi_algorithm longhaul_cc_algorithms[] = {{\n#include \"algorithms.h\"\n}};\n\
         const size_t longhaul_cc_count = FFI_COUNT(longhaul_cc_algorithms);\n"
    );
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("algorithms.c");
    fs::write(&out, wrapped).expect("OUT_DIR is writable");
    cc::Build::new()
        .file(&out)
        .include(&algorithms)
        .include("src")
        .opt_level(2) // also in tests, which run millions of acknowledgements
        .flag("-Wno-unused-parameter")
        .warnings_into_errors(true)
        .compile("longhaul_cc");
}
