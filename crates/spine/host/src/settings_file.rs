// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings in a TOML file that is read again when it changes.

use serde::de::DeserializeOwned;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};
use units::suggest;

/// Size limit of a file in bytes.
const LONGEST: u64 = 1 << 20;
/// Interval between checks of a file.
pub const LOOK: Duration = Duration::from_secs(1);

/// What is wrong with the settings.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// Time of the last change and length. One of them differs between two versions of a file.
type Stamp = Option<(SystemTime, u64)>;

fn stamp(file: &Path) -> Stamp {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Settings, and the file that they follow if there is one.
#[derive(Debug)]
pub struct Settings<C> {
    file: Option<PathBuf>,
    state: Mutex<State<C>>,
}

#[derive(Debug)]
struct State<C> {
    current: Arc<C>,
    seen: Stamp,
}

impl<C> Settings<C> {
    /// These, as the file had them if there is one.
    pub fn new(current: C, file: Option<PathBuf>) -> Self {
        let seen = file.as_deref().and_then(stamp);
        Self { file, state: Mutex::new(State { current: Arc::new(current), seen }) }
    }

    /// The settings at present.
    pub fn get(&self) -> Arc<C> {
        Arc::clone(&self.state().current)
    }

    /// Reads the file again if it has changed, and answers the settings before. A file that cannot be used changes nothing.
    pub fn reread(&self, read: fn(&Path) -> Result<C, ConfigError>) -> Option<Arc<C>> {
        let file = self.file.as_deref()?;
        let now = stamp(file);
        if std::mem::replace(&mut self.state().seen, now) == now {
            return None;
        }
        match read(file) {
            Ok(config) => {
                let before = std::mem::replace(&mut self.state().current, Arc::new(config));
                tracing::info!("read {} again", file.display());
                Some(before)
            }
            Err(error) => {
                tracing::error!("{error}; going on with the settings of before");
                None
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a document and makes settings of it.
///
/// # Errors
/// The text names the file, and the line if one line is wrong.
pub fn read<D: DeserializeOwned, C>(
    file: &Path,
    make: impl FnOnce(D) -> Result<C, String>,
) -> Result<C, ConfigError> {
    let fails = |why: &dyn std::fmt::Display| ConfigError(format!("{}: {why}", file.display()));
    let metadata = fs::metadata(file).map_err(|error| fails(&error))?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return Err(fails(&"it is not a regular file of at most 1 MB"));
    }
    let text = fs::read_to_string(file).map_err(|error| fails(&error))?;
    let document = toml::from_str(&text).map_err(|error| {
        let why = format!("{}{}", error.message(), suggest::of_message(error.message()));
        match error.span() {
            Some(span) => {
                let line = text[..span.start].matches('\n').count() + 1;
                ConfigError(format!("{}:{line}: {why}", file.display()))
            }
            None => fails(&why),
        }
    })?;
    make(document).map_err(|why| fails(&why))
}
