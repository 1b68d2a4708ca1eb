// SPDX-License-Identifier: GPL-2.0-or-later
//! Compiles the algorithms of `cc/`, each wrapped by `src/ffi.h`, into this crate.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

fn main() {
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let house = Path::new(&here).join("../../..");
    let algorithms = house.join("cc");
    println!("cargo::rerun-if-changed={}", algorithms.display());
    println!("cargo::rerun-if-changed=src/ffi.h");
    println!("cargo::rerun-if-changed=src/contract.h");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    embed_headers(&algorithms, &out);

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
            "#ifndef cc_{name}_kind\n#define cc_{name}_kind window\n#endif\n\
             #define FFI_PARAMS cc_{name}_params\nFFI_DEFINE({name})\n#undef FFI_PARAMS\n"
        );
    }
    let wrapped = format!(
        "{includes}#include \"ffi.h\"\n{definitions}\
         #define CC_WINDOW(name) FFI_LISTED(name, CC_WINDOW, window)\n\
         #define CC_RATE(name) FFI_LISTED(name, CC_RATE, rate)\n#include \"algorithms.h\"\n\
         #undef CC_WINDOW\n#undef CC_RATE\n\
         #define CC_WINDOW FFI_ENTRY\n#define CC_RATE FFI_ENTRY\n\
         const struct ffi_algorithm longhaul_cc_algorithms[] = {{\n#include \"algorithms.h\"\n}};\n\
         const u64 longhaul_cc_count = FFI_COUNT(longhaul_cc_algorithms);\n\
         u32 longhaul_cc_broken_rule(u32 rate, u32 hook, const struct cc_decision *before,\n\
         \tconst struct cc_decision *after)\n\
         {{\n\treturn ffi_broken_rule(rate, hook, before, after);\n}}\n"
    );
    let out = out.join("algorithms.c");
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

/// The headers of `cc/` as a table: a file of a user may include them where no repository is.
fn embed_headers(algorithms: &Path, out: &Path) {
    let entries = fs::read_dir(algorithms).expect("cc/ is a directory");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("cc/ is readable").path()).collect();
    names.retain(|path| path.extension().is_some_and(|ending| ending == "h"));
    names.sort();
    let mut table = String::from("pub const HEADERS: &[(&str, &str)] = &[\n");
    for path in names {
        let path = path.canonicalize().expect("it was just listed");
        let name = path.file_name().and_then(|name| name.to_str()).expect("plain names");
        let path = path.to_str().expect("a path that is text");
        table += &format!("    ({name:?}, include_str!({path:?})),\n");
    }
    fs::write(out.join("headers.rs"), table + "];\n").expect("OUT_DIR is writable");
}
