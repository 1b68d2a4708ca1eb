// SPDX-License-Identifier: GPL-2.0-or-later
//! `[log]`: where the lines about requests go.

use serde::{Deserialize, Serialize};
use std::{fmt, path::PathBuf};

/// Where the lines about requests go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// To standard error, or a file.
    pub access: AccessTo,
    /// How they are written.
    pub format: LogFormat,
}

/// Where the lines about requests go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum AccessTo {
    /// To standard error, among all others.
    #[default]
    Stderr,
    /// To a file, which is appended to.
    File(PathBuf),
}

/// How the lines about requests are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// As all others are.
    #[default]
    Text,
    /// A JSON object each.
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
