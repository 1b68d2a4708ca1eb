// SPDX-License-Identifier: GPL-2.0-or-later
//! What the contract of `cc/` refuses at compile time.

use crate::common::clang;
use std::{fs, path::Path, process::Command};

/// Compiles an algorithm with that much state; what the compiler says if it refuses.
fn compile(mut compiler: Command, words: u32) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a writable folder");
    let source = folder.path().join("big.c");
    let text = format!(
        "#include \"cc.h\"\nstruct cc_big {{ u64 words[{words}]; }};\nCC_ALGORITHM(big);\n"
    );
    fs::write(&source, text).expect("a writable folder");
    let cc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../cc");
    let output = compiler
        .arg("-I")
        .arg(cc)
        .args(["-Wall", "-Werror", "-c"])
        .arg(&source)
        .arg("-o")
        .arg(folder.path().join("big.o"))
        .output()
        .expect("a compiler");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn oversized_state_is_refused_by_both_compilers() {
    for compiler in [clang as fn() -> Command, || Command::new("cc")] {
        compile(compiler(), 13).expect("104 bytes are what there is");
        let said = compile(compiler(), 14).expect_err("112 bytes are too many");
        for part in ["struct cc_big", "larger than the 104 bytes", "the kernel gives"] {
            assert!(said.contains(part), "{part:?} is missing:\n{said}");
        }
    }
}
