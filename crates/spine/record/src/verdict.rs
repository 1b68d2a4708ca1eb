// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a run or a transfer is valid, and so part of medians: one rule for every table and page.

use crate::FlowSummary;
use serde::{Deserialize, Serialize};

/// How a transfer ended, and whether it is part of medians.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunVerdict {
    /// It ended by itself, as it should.
    Complete,
    /// The time limit cut it off. Medians include it, with what had arrived by then.
    Cut,
    /// The method has no prediction of it. No median includes it.
    Unpredicted,
    /// It ended by itself, but not as it should. No median includes it.
    Failed,
    /// The run is invalid, whatever came out. No median includes it.
    Invalid,
}

impl RunVerdict {
    /// The verdict on some flows of a run that is valid or not: the worst of theirs.
    pub fn of<'a>(valid: bool, flows: impl IntoIterator<Item = &'a FlowSummary>) -> Self {
        let mut verdict = if valid { Self::Complete } else { Self::Invalid };
        for flow in flows {
            verdict = match verdict {
                Self::Complete | Self::Cut | Self::Unpredicted if flow.failed() => Self::Failed,
                Self::Complete | Self::Cut if flow.is_unpredicted() => Self::Unpredicted,
                Self::Complete if flow.timed_out => Self::Cut,
                other => other,
            };
        }
        verdict
    }

    /// The name in documents and tables for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Cut => "cut",
            Self::Unpredicted => "unpredicted",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
        }
    }

    /// Whether medians include the transfer.
    pub fn in_medians(self) -> bool {
        matches!(self, Self::Complete | Self::Cut)
    }
}
