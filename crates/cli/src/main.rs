// SPDX-License-Identifier: GPL-2.0-or-later
//! The binary `longhaul`. Its commands are in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul_cli::run()
}
