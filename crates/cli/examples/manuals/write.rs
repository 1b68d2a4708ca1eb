// SPDX-License-Identifier: GPL-2.0-or-later
//! Manual pages and completions, from the arguments that the binary itself parses.

use clap_complete::Shell;
use std::{fs, io, path::Path};

/// Writes `man/longhaul.1`, `man/longhaul-COMMAND.1` and so on, and `completions/longhaul.bash`,
/// `_longhaul` and `longhaul.fish`, below a directory.
pub fn write(directory: &Path) -> io::Result<()> {
    let man = directory.join("man");
    fs::create_dir_all(&man)?;
    clap_mangen::generate_to(longhaul_cli::command(), &man)?;
    let completions = directory.join("completions");
    fs::create_dir_all(&completions)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut longhaul_cli::command(), "longhaul", &completions)?;
    }
    Ok(())
}
