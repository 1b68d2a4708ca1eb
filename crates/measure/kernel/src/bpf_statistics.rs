// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's own count of how long programs run.

use crate::{Error, sys};
use std::{os::fd::OwnedFd, time::Duration};

/// While this lives, the kernel counts and times the runs of BPF programs. That itself costs some
/// ten nanoseconds a run, all programs alike.
#[derive(Debug)]
pub struct BpfStatistics {
    _on: OwnedFd,
}

impl BpfStatistics {
    /// Turns them on, for this process's life at most. The machine's setting
    /// (`kernel.bpf_stats_enabled`) is left alone.
    ///
    /// # Errors
    /// Not permitted.
    pub fn enable() -> Result<Self, Error> {
        let on = sys::enable_statistics().map_err(|e| Error::system("time BPF programs", e))?;
        Ok(Self { _on: on })
    }
}

/// Run time of one hook of a congestion control while [`BpfStatistics`] were on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRuns {
    /// `cong_avoid`, `pkts_acked` ...
    pub hook: String,
    /// How often it ran.
    pub count: u64,
    /// For how long in all.
    pub time: Duration,
}
