// SPDX-License-Identifier: GPL-2.0-or-later
//! The folder of a record: written whole or not at all, read back, found.

use crate::{
    Error, Manifest, OfferedFiles, RunResults, SCHEMA, Series, Summary, parquet_table, series_file,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

const MANIFEST: &str = "manifest.json";
const SERIES: &str = "series.parquet";
const BINS: &str = "bins.parquet";
const FILES: &str = "files.parquet";
const SUMMARY: &str = "summary.json";

/// A run's record.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The run, its machine, its settings, and whether the result is valid.
    pub manifest: Manifest,
    /// The samples over time.
    pub series: Series,
    /// The files that traffic offered; there is a file of them only where there are any.
    pub files: OfferedFiles,
    /// The results.
    pub summary: Summary,
}

impl Record {
    /// Reads a record's folder.
    ///
    /// # Errors
    /// A file is missing or damaged, or the record comes from a newer longhaul.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let RunResults { manifest, summary } = Self::results(dir)?;
        Ok(Self { manifest, series: Self::series(dir)?, files: Self::files(dir)?, summary })
    }

    /// Reads the series of a record's folder alone, with the bins of links' monitors.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub fn series(dir: &Path) -> Result<Series, Error> {
        let mut series = Series::default();
        series_file::read(&dir.join(SERIES), &mut series)?;
        // Records of schemas 1 and 2 have the bins among the others.
        let bins = dir.join(BINS);
        if bins.exists() {
            series_file::read(&bins, &mut series)?;
        }
        Ok(series)
    }

    /// Reads the files that traffic offered; none in records from before they were kept.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn files(dir: &Path) -> Result<OfferedFiles, Error> {
        OfferedFiles::read(&dir.join(FILES))
    }

    /// Reads the manifest and the summary of a record's folder: all but the series, which are most of it.
    ///
    /// # Errors
    /// A file is missing or damaged, or the record comes from a newer longhaul.
    pub fn results(dir: &Path) -> Result<RunResults, Error> {
        let manifest = read_manifest(&dir.join(MANIFEST))?;
        Ok(RunResults { manifest, summary: read_json(&dir.join(SUMMARY))? })
    }

    /// The same of a record whose tables are there to their ends. Their values are not read, which would take most of the time.
    ///
    /// # Errors
    /// As for [`Record::results`], or a table is missing or cut off.
    pub fn results_if_whole(dir: &Path) -> Result<RunResults, Error> {
        let results = Self::results(dir)?;
        // Records of schemas 1 and 2 have no bins, and those without traffic no files.
        let optional = [BINS, FILES].map(|name| dir.join(name)).into_iter();
        for path in optional.filter(|path| path.exists()).chain([dir.join(SERIES)]) {
            parquet_table::check_end(&path)
                .map_err(|error| Error::Series { path, reason: error.to_string() })?;
        }
        Ok(results)
    }

    /// Writes the record into the new folder `dir`, making the folders above it where needed.
    ///
    /// The folder appears under its name only when it is complete: a run that is killed leaves a
    /// hidden `.NAME.partial-PID` next to it, which [`find_records`] passes over.
    ///
    /// # Errors
    /// The folder exists with something in it, or it cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let failed = |source| Error::Write { path: dir.to_owned(), source };
        let name = dir.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let parent = dir.parent().unwrap_or(Path::new(""));
        if !parent.as_os_str().is_empty() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let partial = format!(".{}.partial-{}", name.to_string_lossy(), std::process::id());
        let partial = parent.join(partial);
        fs::create_dir(&partial)
            .map_err(|source| Error::Write { path: partial.clone(), source })?;
        let written = self.write_files(&partial).and_then(|()| {
            fs::rename(&partial, dir).map_err(|source| match source.kind() {
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory => {
                    Error::Exists(dir.to_owned())
                }
                _ => failed(source),
            })
        });
        if written.is_err() {
            // What went wrong is known already; a leftover that cannot go is hidden and harmless.
            let _ = fs::remove_dir_all(&partial);
        }
        written
    }

    fn write_files(&self, dir: &Path) -> Result<(), Error> {
        write_json(&dir.join(MANIFEST), &self.manifest)?;
        for (name, is_bins) in [(SERIES, false), (BINS, true)] {
            let curves = self.series.curves().filter(|(_, what, _)| what.is_binned() == is_bins);
            series_file::write(&dir.join(name), &self.manifest, curves)?;
        }
        if !self.files.rows.is_empty() {
            self.files.write(&dir.join(FILES), &self.manifest)?;
        }
        write_json(&dir.join(SUMMARY), &self.summary)
    }
}

impl From<Record> for RunResults {
    fn from(Record { manifest, summary, .. }: Record) -> Self {
        Self { manifest, summary }
    }
}

/// The folders of all records at and below `dir`, sorted by path. Hidden folders are passed over.
///
/// # Errors
/// A folder cannot be read.
pub fn find_records(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        if dir.join(MANIFEST).is_file() {
            found.push(dir);
            continue;
        }
        let failed = |source| Error::Read { path: dir.clone(), source };
        for entry in fs::read_dir(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            // `file_type` does not follow links, so a link to a folder above makes no circle.
            if !hidden && entry.file_type().map_err(failed)?.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn read_manifest(path: &Path) -> Result<Manifest, Error> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let text = read_text(path)?;
    // The version first: what a newer manifest looks like beyond it is not known.
    let Version { schema } = parse_json(path, &text)?;
    if schema > SCHEMA {
        return Err(Error::Newer { path: path.to_owned(), found: schema, known: SCHEMA });
    }
    parse_json(path, &text)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    parse_json(path, &read_text(path)?)
}

fn read_text(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn parse_json<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(text).map_err(|source| Error::Json { path: path.to_owned(), source })
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|source| Error::Json { path: path.to_owned(), source })?;
    text.push(b'\n');
    fs::write(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
}
