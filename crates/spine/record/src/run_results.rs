// SPDX-License-Identifier: GPL-2.0-or-later
//! A run's record without its series, which are most of it.

use crate::{Manifest, RunVerdict, Summary};

/// A run's manifest and summary. Those of hundreds of runs fit into memory, their series might not.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResults {
    /// The run, its machine, its settings, and whether it is valid.
    pub manifest: Manifest,
    /// The results.
    pub summary: Summary,
}

impl RunResults {
    /// The verdict on the whole run.
    pub fn verdict(&self) -> RunVerdict {
        RunVerdict::of(self.manifest.valid, &self.summary.flows)
    }
}
