// SPDX-License-Identifier: GPL-2.0-or-later
//! All records of a scenario in one file, for others: a zip file in the form of a Process Run Crate, that is, with one JSON file
//! (`ro-crate-metadata.json`) that says what is in it and how it was made.
//!
//! ```text
//! ro-crate-metadata.json   crate_metadata
//! scenario.toml            the scenario as it was written, where it is known
//! records/                 the folder of the records, as it is: with journals, logs, captures and records that do not count
//! ```
//! Source: RO-Crate 1.1; Process Run Crate 0.5 (<https://w3id.org/ro/wfrun/process/0.5>).
//!
//! Threats: an archive of unknown origin. Only manifests and summaries are read from it, up to a number and a length
//! (`MOST_RUNS`, `LONGEST`); nothing is unpacked, so names in it lead nowhere.

mod crate_metadata;

use crate::{error::ExperimentError, sweep::Sweep};
use record::{Manifest, Record, RunResults, Summary, find_records};
use scenario::Run;
use std::{
    borrow::Cow,
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Seek},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

/// The scenario as it was written, in a folder of records; hidden there, since only records are looked for.
pub const WRITTEN: &str = ".scenario.toml";
/// The same in an archive.
const SCENARIO: &str = "scenario.toml";
const METADATA: &str = "ro-crate-metadata.json";
const RECORDS: &str = "records";
const MANIFEST: &str = "manifest.json";
const SUMMARY: &str = "summary.json";
/// The most runs of an archive that is read.
const MOST_RUNS: usize = 100_000;
/// The longest manifest or summary in one.
const LONGEST: u64 = 64 << 20;

/// What an archive says of its making.
#[derive(Debug, Clone, Default)]
pub struct Description {
    /// Under which licence the records may be used: an address, or a text. Without one: that none is given.
    pub license: Option<String>,
    /// The program that may have made the records: of those by the same sources its SHA-256 is given.
    pub program: Option<PathBuf>,
    /// The hashes of its sources, by method.
    pub sources: Vec<String>,
}

/// Writes all records in a folder into a new file. Answers how many there are.
///
/// # Errors
/// There are none, an engine runs into the folder, the file exists, or a file cannot be read or written.
pub fn write(out: &Path, file: &Path, description: &Description) -> Result<usize, ExperimentError> {
    let folders = find_records(out)?;
    if folders.is_empty() {
        let text = format!("{}: there are no records", out.display());
        return Err(ExperimentError::Unsupported(text));
    }
    let mut records = Vec::with_capacity(folders.len());
    let mut above: Vec<&Path> = folders.iter().filter_map(|folder| folder.parent()).collect();
    above.dedup();
    for folder in above {
        let sweep = Sweep::read(folder).map_err(|e| ExperimentError::file("read", folder, e))?;
        if sweep.is_some_and(|sweep| sweep.is_running) {
            return Err(ExperimentError::Busy(folder.to_owned()));
        }
    }
    for folder in &folders {
        let within = folder.strip_prefix(out).unwrap_or(folder).to_owned();
        records.push((within, Record::results(folder)?.manifest));
    }
    let scenario = out.join(WRITTEN);
    let has_scenario = scenario.is_file();
    let metadata = crate_metadata::of(&records, has_scenario, description)?;
    let partial = file.with_extension("partial");
    let failed = |e| ExperimentError::file("write", file, e);
    if file.exists() {
        let text = format!("{}: there is something already: name another file", file.display());
        return Err(ExperimentError::Unsupported(text));
    }
    let written = Writer::create(&partial).and_then(|mut writer| {
        writer.text(METADATA, &metadata)?;
        if has_scenario {
            writer.file(SCENARIO, &scenario)?;
        }
        writer.folder(RECORDS, out)?;
        writer.finish()
    });
    let placed = written.and_then(|()| fs::rename(&partial, file));
    if placed.is_err() {
        // What went wrong is known already.
        let _ = fs::remove_file(&partial);
    }
    placed.map_err(failed)?;
    Ok(records.len())
}

struct Writer {
    zip: ZipWriter<BufWriter<File>>,
    /// The archive itself, which may lie in the folder: its device and inode.
    own: (u64, u64),
}

impl Writer {
    fn create(file: &Path) -> io::Result<Self> {
        let file = File::create(file)?;
        let metadata = file.metadata()?;
        let zip = ZipWriter::new(BufWriter::new(file));
        Ok(Self { zip, own: (metadata.dev(), metadata.ino()) })
    }

    /// Parquet files and captures are large, and the former compressed already.
    fn begin(&mut self, name: &str) -> io::Result<()> {
        let is_compressed = Path::new(name).extension().is_some_and(|it| it == "parquet");
        let method =
            if is_compressed { CompressionMethod::Stored } else { CompressionMethod::Deflated };
        // Without times, so that the same records make the same archive.
        let options = SimpleFileOptions::DEFAULT.compression_method(method).large_file(true);
        self.zip.start_file(name, options).map_err(io::Error::other)
    }

    fn text(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.begin(name)?;
        io::Write::write_all(&mut self.zip, text.as_bytes())
    }

    fn file(&mut self, name: &str, file: &Path) -> io::Result<()> {
        self.begin(name)?;
        io::copy(&mut File::open(file)?, &mut self.zip).map(drop)
    }

    /// A folder with all that is in it, but for the scenario and the archive itself; links are left out.
    fn folder(&mut self, name: &str, folder: &Path) -> io::Result<()> {
        let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type()?);
            let own = entry.file_name();
            let within = format!("{name}/{}", own.to_string_lossy());
            if kind.is_dir() {
                self.folder(&within, &path)?;
            } else if kind.is_file() && own != WRITTEN && !self.is_own(&entry)? {
                self.file(&within, &path)?;
            }
        }
        Ok(())
    }

    fn is_own(&self, entry: &fs::DirEntry) -> io::Result<bool> {
        let metadata = entry.metadata()?;
        Ok((metadata.dev(), metadata.ino()) == self.own)
    }

    fn finish(self) -> io::Result<()> {
        let file = self.zip.finish().map_err(io::Error::other)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

/// What an archive holds, as far as it is needed to run it again.
#[derive(Debug)]
pub struct Archive {
    /// What each run came to, in the order of the archive.
    pub results: Vec<RunResults>,
    /// The runs.
    pub runs: Vec<Run>,
}

impl Archive {
    /// Whether a file begins as archives do.
    pub fn is_one(file: &Path) -> bool {
        let mut begin = [0; 4];
        let read = File::open(file).and_then(|mut file| file.read_exact(&mut begin));
        read.is_ok() && begin == *b"PK\x03\x04"
    }

    /// Reads an archive.
    ///
    /// # Errors
    /// It cannot be read, holds no records, or records of a newer longhaul.
    pub fn read(file: &Path) -> Result<Self, ExperimentError> {
        let failed = |e| ExperimentError::file("read", file, e);
        let opened = BufReader::new(File::open(file).map_err(failed)?);
        let mut zip = ZipArchive::new(opened).map_err(|e| failed(io::Error::other(e)))?;
        let is_manifest = |name: &String| {
            let hidden = name.split('/').any(|part| part.starts_with('.'));
            name.starts_with(RECORDS) && !hidden && name.ends_with(&format!("/{MANIFEST}"))
        };
        let names = zip.file_names().filter_map(Result::ok).map(Cow::into_owned);
        let manifests: Vec<String> = names.filter(is_manifest).take(MOST_RUNS).collect();
        let (mut results, mut runs) = (Vec::new(), Vec::new());
        for name in manifests {
            let folder = name.trim_end_matches(MANIFEST).to_owned();
            let manifest: Manifest = json(&mut zip, &name).map_err(failed)?;
            if manifest.schema > record::SCHEMA {
                let text = format!("{name} is of a newer longhaul");
                return Err(ExperimentError::Unsupported(text));
            }
            let summary: Summary = json(&mut zip, &format!("{folder}{SUMMARY}")).map_err(failed)?;
            let run = serde_json::from_value(manifest.scenario.clone());
            runs.push(run.map_err(|e| failed(io::Error::other(e)))?);
            results.push(RunResults { manifest, summary });
        }
        if runs.is_empty() {
            let text = format!("{}: it is no archive of records", file.display());
            return Err(ExperimentError::Unsupported(text));
        }
        Ok(Self { results, runs })
    }
}

fn json<T: serde::de::DeserializeOwned>(
    zip: &mut ZipArchive<impl Read + Seek>,
    name: &str,
) -> io::Result<T> {
    let named = |error: String| io::Error::other(format!("{name}: {error}"));
    let entry = zip.by_name(name).map_err(|error| named(error.to_string()))?;
    let mut text = Vec::new();
    entry.take(LONGEST).read_to_end(&mut text)?;
    serde_json::from_slice(&text).map_err(|error| named(error.to_string()))
}
