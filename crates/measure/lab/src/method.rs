// SPDX-License-Identifier: GPL-2.0-or-later
//! The methods that run a scenario.

use scenario::Run;
use std::path::{Path, PathBuf};

/// How a run takes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Real kernel TCP and real programs over an emulated network, in real time.
    Emu,
    /// TCP endpoints and links in virtual time.
    Sim,
}

impl Method {
    /// As on record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Emu => "emu",
            Self::Sim => "sim",
        }
    }

    /// Whether runs don't disturb each other when they take place at the same time.
    pub fn side_by_side(self) -> bool {
        self == Self::Sim
    }

    /// Where a run's record lies in a scenario's folder. Methods lie side by side in it, so that one
    /// page can show them.
    pub fn folder(self, out: &Path, run: &Run) -> PathBuf {
        match self {
            Self::Emu => out.join(&run.id),
            Self::Sim => out.join(self.name()).join(&run.id),
        }
    }
}
