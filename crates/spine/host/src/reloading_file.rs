// SPDX-License-Identifier: GPL-2.0-or-later
//! What is made of files, and made again when they change: keys and certificates are renewed while
//! a daemon runs.

use crate::User;
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::{Duration, Instant, SystemTime},
};

/// A file that cannot be used. The fault is with the file, or with who named it.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {reason}", prefix(*setting), file.display())]
pub struct FileError {
    /// The setting that names it, as in `tls.key`; `None` if it is not known.
    setting: Option<&'static str>,
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub reason: String,
    /// Whether it is not there.
    gone: bool,
}

impl FileError {
    /// What is wrong with a file.
    pub fn new(file: &Path, reason: &impl ToString) -> Self {
        Self { setting: None, file: file.to_owned(), reason: reason.to_string(), gone: false }
    }

    /// A file cannot be read. Where rights are lacking, the message names the user that lacks them.
    pub fn io(file: &Path, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::PermissionDenied {
            let reason = format!(
                "{error}: {} may not read it. Let that user read the file and search its directories",
                User::current()
            );
            return Self::new(file, &reason);
        }
        Self { gone: error.kind() == io::ErrorKind::NotFound, ..Self::new(file, error) }
    }
}

fn prefix(setting: Option<&str>) -> String {
    setting.map_or_else(String::new, |setting| format!("`{setting}`: "))
}

/// A file that a setting names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingFile {
    /// The setting, as in `tls.key`.
    pub setting: &'static str,
    /// The file.
    pub path: PathBuf,
}

impl SettingFile {
    /// A file and the setting that names it.
    pub fn new(setting: &'static str, path: &Path) -> Self {
        Self { setting, path: path.to_owned() }
    }
}

/// How it is made. Reads all the files there are to it.
type Make<T> = fn(&[PathBuf]) -> Result<T, FileError>;

/// Something made of files.
#[derive(Debug)]
pub struct ReloadingFile<T> {
    /// What it is, for the log.
    what: &'static str,
    /// The settings that name the files, in the same order.
    settings: Vec<&'static str>,
    files: Vec<PathBuf>,
    make: Make<T>,
    /// What it is once its file is there no more; what it was, if nothing is said.
    gone: Option<fn() -> T>,
    /// What the log says of it.
    show: fn(&T) -> String,
    made: RwLock<Made<T>>,
}

#[derive(Debug)]
struct Made<T> {
    value: Arc<T>,
    /// The state of each file then; none where there was no such file.
    stamps: Vec<Option<Stamp>>,
    /// When it was made.
    when: SystemTime,
    /// Why it could not be made the last time, and when that was said.
    failed: Option<(String, Instant)>,
}

/// How often a file that cannot be used is tried again and spoken of: it may have been to say that somebody is trusted no more.
const AGAIN: Duration = Duration::from_secs(60);

impl<T> ReloadingFile<T> {
    /// Makes it for the first time.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn new(
        what: &'static str,
        files: Vec<SettingFile>,
        make: Make<T>,
        show: fn(&T) -> String,
    ) -> Result<Self, FileError> {
        let (settings, files): (Vec<_>, Vec<_>) =
            files.into_iter().map(|file| (file.setting, file.path)).unzip();
        // Before they are read: a write in between is seen the next time.
        let stamps = stamps(&files);
        let made = make(&files).map_err(|error| named(error, &settings, &files));
        let value = Arc::new(made?);
        let made = RwLock::new(Made { value, stamps, when: SystemTime::now(), failed: None });
        Ok(Self { what, settings, files, make, gone: None, show, made })
    }

    /// Says what it is once its file is there no more.
    #[must_use]
    pub fn or_else_gone(self, gone: fn() -> T) -> Self {
        Self { gone: Some(gone), ..self }
    }

    /// The file that it is called by.
    pub fn file(&self) -> &Path {
        self.files.first().map_or(Path::new("-"), PathBuf::as_path)
    }

    /// As it is now.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.made().value)
    }

    /// Makes it again if one of the files has changed. What there was stays if that fails.
    pub fn refresh(&self) {
        self.refresh_if(|_, _| Ok(()));
    }

    /// The same, where `accepts` judges what was made after what there was. What it refuses is tried again later, as it
    /// may be a matter of time.
    pub fn refresh_if(&self, accepts: impl Fn(&T, &T) -> Result<(), FileError>) {
        let stamps = stamps(&self.files);
        let is_same = self.made().stamps == stamps;
        if is_same && !self.is_due_again() {
            return;
        }
        let before = self.get();
        let made = (self.make)(&self.files).and_then(|new| accepts(&before, &new).map(|()| new));
        let result = made.map_err(|error| named(error, &self.settings, &self.files));
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        made.stamps = stamps;
        match result {
            Err(error) if is_same => {
                let error = error.to_string();
                tracing::warn!(error, "the {} cannot be read again", self.what);
                made.failed = Some((error, Instant::now()));
            }
            Ok(value) => {
                let (file, now) = (self.files[0].display(), (self.show)(&value));
                tracing::info!(%file, now, "{} read again", self.what);
                (made.value, made.when, made.failed) = (Arc::new(value), SystemTime::now(), None);
            }
            Err(error) => {
                let (what, gone) = (self.what, self.gone.filter(|_| error.gone));
                let error = error.to_string();
                if let Some(gone) = gone {
                    tracing::warn!(error, "there are no {what} until their file is back");
                    made.value = Arc::new(gone());
                } else {
                    tracing::warn!(error, "the {what} stay as they were");
                }
                made.failed = Some((error, Instant::now()));
            }
        }
    }

    /// Whether a file that cannot be used is to be tried again, and spoken of.
    fn is_due_again(&self) -> bool {
        self.made().failed.as_ref().is_some_and(|(_, said)| said.elapsed() >= AGAIN)
    }

    /// Why it could not be made the last time, if it could not.
    pub fn failure(&self) -> Option<String> {
        self.made().failed.as_ref().map(|(error, _)| error.clone())
    }

    fn made(&self) -> RwLockReadGuard<'_, Made<T>> {
        self.made.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it went when it was made last: what it is, whether that worked, and when it last did.
    pub fn last_read(&self) -> (&'static str, bool, SystemTime) {
        let made = self.made();
        (self.what, made.failed.is_none(), made.when)
    }
}

/// The same with the setting that names the file.
fn named(error: FileError, settings: &[&'static str], files: &[PathBuf]) -> FileError {
    let at = files.iter().position(|file| *file == error.file);
    FileError { setting: at.map(|at| settings[at]), ..error }
}

/// What tells one state of a file from another. The time alone does not: it counts in ticks of a few
/// milliseconds, and tools that copy files may keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    inode: u64,
    size: u64,
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |file| {
        let meta = fs::metadata(file).ok()?;
        Some(Stamp { modified: meta.modified().ok(), inode: meta.ino(), size: meta.size() })
    };
    files.iter().map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn number(files: &[PathBuf]) -> Result<u32, FileError> {
        let text = fs::read_to_string(&files[0]).map_err(|e| FileError::new(&files[0], &e))?;
        text.parse().map_err(|e| FileError::new(&files[0], &e))
    }

    #[test]
    fn what_a_file_says_counts_once_it_makes_sense() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("number");
        let files = || vec![SettingFile::new("a.number", &file)];
        let error = ReloadingFile::new("numbers", files(), number, u32::to_string).unwrap_err();
        let expected = format!("`a.number`: {}: No such file", file.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
        // The clock of files may be coarser than this test is slow.
        let write = |text: &str, second: u64| {
            fs::write(&file, text).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            fs::File::options().append(true).open(&file).unwrap().set_modified(time).unwrap();
        };
        write("1", 1);
        let watched = ReloadingFile::new("numbers", files(), number, u32::to_string).unwrap();
        for (text, second, value) in [("2", 2, 2), ("two", 3, 2), ("3", 4, 3)] {
            write(text, second);
            watched.refresh();
            assert_eq!(*watched.get(), value, "{text}");
        }
        fs::remove_file(&file).unwrap();
        watched.refresh();
        assert_eq!(*watched.get(), 3);
    }
}
