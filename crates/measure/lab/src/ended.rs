// SPDX-License-Identifier: GPL-2.0-or-later
//! How a flow's receiving end ended, whether it is a stock program or one of longhaul's own ([`crate::streams`]).

use scenario::Run;
use std::time::Instant;

/// How the receiving end of a flow ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// When it was started.
    pub start: Instant,
    /// When it had ended.
    pub end: Instant,
    /// In which way.
    pub how: Ending,
}

/// The ways to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// A program ended by itself: its exit code, `None` after a signal, and what it wrote to standard error.
    Exited(Option<i32>, String),
    /// longhaul's own receiver has all bytes.
    Whole,
    /// The run was over before.
    Cut,
    /// Another machine knows.
    Elsewhere,
    /// A connection of longhaul's own receiver failed.
    Failed(String),
}

impl Ended {
    /// Of a flow that had not begun when the run was over.
    pub fn before_its_start() -> Self {
        let now = Instant::now();
        Self { start: now, end: now, how: Ending::Cut }
    }

    /// Of a flow whose receiver is on another machine.
    pub fn elsewhere() -> Self {
        let now = Instant::now();
        Self { start: now, end: now, how: Ending::Elsewhere }
    }

    /// Whether the flow had begun when the run was over.
    pub fn has_begun(&self) -> bool {
        self.end > self.start
    }

    /// Whether all bytes should be there.
    pub fn is_whole(&self) -> bool {
        matches!(self.how, Ending::Whole | Ending::Exited(Some(0), _))
    }

    /// The exit code of a program that ended by itself.
    pub fn exit_code(&self) -> Option<i32> {
        match self.how {
            Ending::Exited(code, _) => code,
            Ending::Whole | Ending::Cut | Ending::Elsewhere | Ending::Failed(_) => None,
        }
    }

    /// The outcome in words, the same as a simulation's where both can have it. `bytes`: those of the flow, if it has
    /// an end. `sha256_ok`: whether what arrived is what was sent.
    pub fn outcome(&self, run: &Run, bytes: Option<u64>, sha256_ok: Option<bool>) -> String {
        match (&self.how, bytes, run.duration) {
            (Ending::Elsewhere, ..) => "received on another machine".to_owned(),
            (Ending::Cut, None, _) => "went on to the end of the run".to_owned(),
            (Ending::Cut, Some(_), None) => format!("cut at the time limit of {}", run.timeout),
            (Ending::Cut, Some(_), Some(duration)) => {
                format!("cut at the end of the run after {duration}")
            }
            (Ending::Failed(why), ..) => format!("failed: {why}"),
            (Ending::Exited(None, said), ..) => format!("ended by a signal: {said}"),
            (Ending::Exited(Some(code @ 1..), said), ..) => {
                format!("failed with exit code {code}: {said}")
            }
            _ if sha256_ok == Some(true) => "complete".to_owned(),
            _ => "what arrived is not what was sent".to_owned(),
        }
    }
}
