// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine: kernel, processor and memory.

use crate::sysctl;
use std::{fs, thread};

/// What this machine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: String,
    /// The processor's model; `unknown` where the kernel does not say.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory_kb = field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|value| value.split(' ').next()?.parse::<u64>().ok());
        Self {
            kernel: sysctl::read("kernel.osrelease").unwrap_or_default(),
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
            cores: thread::available_parallelism().map_or(1, |n| n.get() as u32),
            memory_bytes: memory_kb.unwrap_or_default() * 1024,
        }
    }
}
