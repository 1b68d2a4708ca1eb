// SPDX-License-Identifier: GPL-2.0-or-later
//! Errors as the exceptions of `longhaul.errors`, which is where users find what each means.

use ::scenario::{Diagnostics, Location};
use experiment::ExperimentError;
use pyo3::{exceptions::PyOSError, prelude::*, sync::PyOnceLock, types::PyType};
use std::{io, path::Path};
use units::{ClassifyFailure, FailureClass};

/// An exception of the package.
#[derive(Clone, Copy)]
pub enum Kind {
    Longhaul,
    Scenario,
    Unsupported,
    Record,
    Capture,
    CongestionControl,
    Transfer,
    Version,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Longhaul => "LonghaulError",
            Self::Scenario => "ScenarioError",
            Self::Unsupported => "UnsupportedError",
            Self::Record => "RecordError",
            Self::Capture => "CaptureError",
            Self::CongestionControl => "CongestionControlError",
            Self::Transfer => "TransferError",
            Self::Version => "VersionError",
        }
    }

    fn class(self, py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASSES: [PyOnceLock<Py<PyType>>; 8] = [const { PyOnceLock::new() }; 8];
        CLASSES[self as usize].import(py, "longhaul.errors", self.name())
    }

    /// The exception with this text.
    pub fn error(self, py: Python<'_>, text: impl ToString) -> PyErr {
        match self.class(py) {
            Ok(class) => PyErr::from_type(class.clone(), (text.to_string(),)),
            Err(missing) => missing,
        }
    }
}

/// A file that could not be read.
pub fn of_system(path: &Path, error: &io::Error) -> PyErr {
    let number = error.raw_os_error().unwrap_or_default();
    PyOSError::new_err((number, error.to_string(), path.display().to_string()))
}

/// Why a scenario was refused, problem by problem: place, line, and what is wrong.
pub fn of_scenario(py: Python<'_>, refused: &Diagnostics) -> PyErr {
    let problems = refused.problems().iter().map(|problem| {
        let line = match &problem.location {
            Location::Line { line, .. } => Some(*line),
            Location::File(_) | Location::Override(_) => None,
        };
        (problem.location.to_string(), line, problem.message.clone())
    });
    let problems: Vec<_> = problems.collect();
    match Kind::Scenario.class(py) {
        Ok(class) => PyErr::from_type(class.clone(), (refused.to_string(), problems)),
        Err(missing) => missing,
    }
}

/// Why a run did not take place.
pub fn of_experiment(py: Python<'_>, error: &ExperimentError) -> PyErr {
    let kind = match error {
        ExperimentError::Record(_) => Kind::Record,
        ExperimentError::Fault { .. } => Kind::CongestionControl,
        other => match other.failure_class() {
            FailureClass::Lacks | FailureClass::Usage => Kind::Unsupported,
            _ => Kind::Longhaul,
        },
    };
    kind.error(py, error)
}
