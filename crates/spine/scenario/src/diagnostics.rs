// SPDX-License-Identifier: GPL-2.0-or-later
//! Errors in a scenario, with their locations.

use std::{
    cell::{Cell, RefCell},
    fmt,
    sync::Arc,
};

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// The file as a whole.
    File(Arc<str>),
    /// A line of the file.
    Line {
        /// The file's name as it was given.
        file: Arc<str>,
        /// The first line is 1.
        line: usize,
    },
    /// An override from the command line, `key=value`.
    Override(Arc<str>),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => f.write_str(file),
            Self::Line { file, line } => write!(f, "{file}:{line}"),
            Self::Override(text) => write!(f, "--set {text}"),
        }
    }
}

/// One error in a scenario, reported so that its writer can fix it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where to fix it.
    pub location: Location,
    /// The value found and the expected values.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

/// Why a scenario was refused: one problem a line, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Diagnostics(Vec<Problem>);

impl Diagnostics {
    /// A single problem.
    pub(crate) fn one(location: Location, message: impl Into<String>) -> Self {
        Self(vec![Problem { location, message: message.into() }])
    }

    /// At least one.
    pub fn problems(&self) -> &[Problem] {
        &self.0
    }
}

/// Collects problems while a scenario is read.
///
/// The same file is read once for each variant and point, so the same problem is met many times and
/// kept once.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    kept: RefCell<Vec<Problem>>,
    reports: Cell<usize>,
}

impl Problems {
    /// More would not be read by anyone, and a large sweep could make one for each of its points.
    const LIMIT: usize = 50;

    pub fn report(&self, location: &Location, message: impl Into<String>) {
        let problem = Problem { location: location.clone(), message: message.into() };
        self.reports.set(self.reports.get() + 1);
        let mut problems = self.kept.borrow_mut();
        if problems.len() < Self::LIMIT && !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.kept.borrow().is_empty()
    }

    /// How often something was reported, be it kept or not.
    pub fn reports(&self) -> usize {
        self.reports.get()
    }

    pub fn is_full(&self) -> bool {
        self.kept.borrow().len() >= Self::LIMIT
    }

    /// Everything reported so far, if anything was.
    pub fn into_result(self) -> Result<(), Diagnostics> {
        let mut problems = self.kept.into_inner();
        problems.sort();
        if problems.is_empty() { Ok(()) } else { Err(Diagnostics(problems)) }
    }
}
