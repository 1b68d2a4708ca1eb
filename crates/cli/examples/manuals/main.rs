// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes what a package ships beside the binary: a manual page for each command, and completions for
//! bash, zsh and fish. `cargo run --package longhaul-cli --example manuals -- DIRECTORY`

mod write;

use std::{path::Path, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [directory] = &arguments[..] else {
        eprintln!("usage: manuals DIRECTORY");
        return ExitCode::from(2);
    };
    match write::write(Path::new(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("manuals: {}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}
