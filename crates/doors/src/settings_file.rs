// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings in a TOML file that is read again when it changes.

use serde::de::DeserializeOwned;
use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

/// Size limit of a file in bytes.
const LONGEST: u64 = 1 << 20;
/// Interval between checks of a file.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// What is wrong with the settings.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// Time of the last change and length. Both differ between two versions of a file.
pub(crate) fn stamp(file: &Path) -> Option<(SystemTime, u64)> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Reads a document and makes settings of it.
///
/// # Errors
/// The text names the file, and the line if one line is wrong.
pub(crate) fn read<D: DeserializeOwned, C>(
    file: &Path,
    make: impl FnOnce(D) -> Result<C, String>,
) -> Result<C, ConfigError> {
    let fails = |why: &dyn std::fmt::Display| ConfigError(format!("{}: {why}", file.display()));
    let metadata = fs::metadata(file).map_err(|error| fails(&error))?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return Err(fails(&"it is not a regular file of at most 1 MB"));
    }
    let text = fs::read_to_string(file).map_err(|error| fails(&error))?;
    let document = toml::from_str(&text).map_err(|error| match error.span() {
        Some(span) => {
            let line = text[..span.start].matches('\n').count() + 1;
            ConfigError(format!("{}:{line}: {}", file.display(), error.message()))
        }
        None => fails(&error.message()),
    })?;
    make(document).map_err(|why| fails(&why))
}
