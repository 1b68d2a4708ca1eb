// SPDX-License-Identifier: GPL-2.0-or-later
//! `[log]`: destination and format of the access log.

use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf};

/// Destination and format of the access log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Standard error or a file.
    pub access: AccessTo,
    /// Their format.
    pub format: LogFormat,
}

/// The destination of the access log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum AccessTo {
    /// Standard error, with all other lines.
    #[default]
    Stderr,
    /// A file, which is appended to.
    File(PathBuf),
}

/// The format of the access log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// The text format of all other lines.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl From<String> for AccessTo {
    fn from(text: String) -> Self {
        if text == "stderr" { Self::Stderr } else { Self::File(text.into()) }
    }
}

impl From<AccessTo> for String {
    fn from(to: AccessTo) -> Self {
        to.to_string()
    }
}

impl fmt::Display for AccessTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stderr => f.write_str("stderr"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}
