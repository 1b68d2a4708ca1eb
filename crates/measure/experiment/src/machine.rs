// SPDX-License-Identifier: GPL-2.0-or-later
//! Machine of a run: kernel, processor, memory, versions of the programs.

use record::manifest::Machine;
use std::{collections::BTreeMap, process::Command};

/// This machine.
pub fn describe() -> Machine {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let memory_kb = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|value| value.split(' ').next()?.parse::<u64>().ok());
    Machine {
        kernel: host::sysctl::read("kernel.osrelease").unwrap_or_default(),
        cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
        cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        memory_bytes: memory_kb.unwrap_or_default() * 1024,
    }
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
