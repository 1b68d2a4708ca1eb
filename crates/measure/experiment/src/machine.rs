// SPDX-License-Identifier: GPL-2.0-or-later
//! Machine of a run: kernel, processor, memory, versions of the programs.

use record::manifest::Machine;
use std::{collections::BTreeMap, process::Command};

/// This machine.
pub fn describe() -> Machine {
    let host::Machine { kernel, cpu, cores, memory_bytes } = host::Machine::this();
    Machine { kernel, cpu, cores, memory_bytes }
}

/// The versions of the programs that take part, as they print them, and longhaul's own.
pub fn versions(programs: impl Iterator<Item = &'static str>) -> BTreeMap<String, String> {
    let mut versions: BTreeMap<String, String> = programs
        .filter_map(|program| {
            let argument = if program == "nginx" { "-v" } else { "--version" };
            let output = Command::new(program).arg(argument).output().ok()?;
            // nginx prints its version on standard error.
            let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
            let text = String::from_utf8_lossy(&text);
            Some((program.to_owned(), text.lines().next()?.trim().to_owned()))
        })
        .collect();
    versions.insert("longhaul".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    versions
}
