// SPDX-License-Identifier: GPL-2.0-or-later
//! The second implementation of sessions, in Python and written from docs/lsl.md, against itself and against
//! `longhaul send` and `recv`.

use crate::common::text;
use std::process::Command;

/// Debian's, which has numpy.
const PYTHON: &str = "/usr/bin/python3";

fn run(script: &str, arguments: &[&str]) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../interop");
    // Each check has limits of its own; this one is for what they forget.
    let output = Command::new("timeout")
        .args(["--kill-after=5", "400", PYTHON, script])
        .args(arguments)
        .current_dir(folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("timeout, of coreutils");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let hint = "apt install python3-numpy python3-cryptography";
    assert!(output.status.success(), "{}: {out}\n{err}\n{hint}", output.status);
    assert!(out.lines().any(|line| line.ends_with(" passed, 0 failed")), "{out}");
}

#[test]
fn second_implementation_agrees_with_itself() {
    run("test_lsl.py", &[]);
}

#[test]
fn second_implementation_and_longhaul_transfer_both_ways() {
    run("test_interop.py", &[env!("CARGO_BIN_EXE_longhaul")]);
}
