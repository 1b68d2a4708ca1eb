// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the lines about requests go: to standard error, or to a file ([`super::lines`]).
//!
//! Lines of text on standard error look like those of `tracing` before and after them, and its filter
//! counts. They do not go through it: it would read each character again.

use super::{
    line::Line,
    lines::{Lines, StderrLog},
};
use crate::config::{AccessTo, Log, LogFormat};
use host::User;
use std::{io, path::PathBuf};

/// The access log's file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("`log.access`: cannot open the access log {path}: {}", cause(error))]
pub struct AccessLogError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub error: io::Error,
}

/// Why a file cannot be opened; with the user, where rights are lacking.
fn cause(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{error}: {} may not write there", User::current())
        }
        io::ErrorKind::ReadOnlyFilesystem => format!(
            "{error}. Under longhaul-depot.service add LogsDirectory=longhaul to the unit, and write to /var/log/longhaul"
        ),
        _ => error.to_string(),
    }
}

/// The access log.
#[derive(Debug)]
pub(crate) struct AccessLog {
    to: AccessTo,
    format: LogFormat,
    stderr: StderrLog,
    file: Option<Lines>,
}

impl AccessLog {
    /// Opens the file, if it is to be one.
    pub(crate) fn open(log: &Log, stderr: StderrLog) -> Result<Self, AccessLogError> {
        let (to, format) = (log.access.clone(), log.format);
        let file = match &to {
            AccessTo::Stderr => None,
            AccessTo::File(path) => {
                let error = |error| AccessLogError { path: path.clone(), error };
                Some(Lines::to_file(path).map_err(error)?)
            }
        };
        Ok(Self { to, format, stderr, file })
    }

    /// Writes a line, or drops it; never waits.
    pub(crate) fn write(&self, line: &Line<'_>) {
        let text = || match self.format {
            LogFormat::Text => line.text() + "\n",
            LogFormat::Json => line.json() + "\n",
        };
        match &self.file {
            Some(file) => file.write(text()),
            None if line.is_wanted() => self.stderr.line(text()),
            None => {}
        }
    }

    /// Reopens the file, after a log rotation has renamed it.
    pub(crate) fn reopen(&self) {
        if let Some(file) = &self.file {
            file.reopen();
        }
    }

    /// Where it goes.
    pub(crate) fn to(&self) -> String {
        self.to.to_string()
    }

    /// Lines lost so far, of the file and of standard error.
    pub(crate) fn dropped(&self) -> u64 {
        self.stderr.dropped() + self.file.as_ref().map_or(0, Lines::dropped)
    }

    /// Waits until what was written so far is, or for a second. Nothing is written after that.
    pub(crate) fn finish(&self) {
        if let Some(file) = &self.file {
            file.finish();
        }
    }
}
