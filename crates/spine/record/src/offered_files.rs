// SPDX-License-Identifier: GPL-2.0-or-later
//! `files.parquet`: the files that traffic offered, each with its start, size and completion time.
//!
//! Traffic may offer millions of files. A run's record keeps at most [`OfferedFiles::MAX_ROWS`] of them, of all
//! sources together: all if there are no more, otherwise a sample in which each file is equally likely
//! to be, so that quantiles of the sample are those of all files, up to random error.

use crate::{
    Error, Manifest,
    parquet_table::{self, ColumnKind, ColumnValues, ROWS_IN_GROUP, TableWriter},
};
use parquet::{
    data_type::{ByteArrayType, DoubleType, Int64Type},
    errors::ParquetError,
    file::reader::{FileReader, SerializedFileReader},
};
use std::{fs::File, path::Path, sync::Arc};

/// The files that a run's traffic offered, or a sample of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OfferedFiles {
    /// Sorted by the sources' names, byte by byte, and then by number.
    pub rows: Vec<OfferedFile>,
}

/// A file that traffic offered.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedFile {
    /// The traffic's name.
    pub source: Arc<str>,
    /// Counts the source's files, from 1.
    pub number: u64,
    /// When its client started, in seconds since the run's start.
    pub start_s: f64,
    /// Its size; `None` where the run was over before the file was asked for.
    pub size_bytes: Option<u64>,
    /// From that start until the client had all of it, in seconds; `None` where the run was over before.
    pub completion_s: Option<f64>,
}

const COLUMNS: [(&str, ColumnKind); 8] = [
    ("run", ColumnKind::Texts),
    ("variant", ColumnKind::Texts),
    ("point", ColumnKind::Texts),
    ("source", ColumnKind::Texts),
    ("file", ColumnKind::Integers),
    ("start_s", ColumnKind::Doubles),
    ("size_bytes", ColumnKind::OptionalIntegers),
    ("completion_s", ColumnKind::OptionalDoubles),
];

impl OfferedFiles {
    /// The most files that a record keeps.
    pub const MAX_ROWS: usize = 1_000_000;

    /// The files of one source.
    pub fn of_source(&self, source: &str) -> &[OfferedFile] {
        let from = self.rows.partition_point(|file| *file.source < *source);
        let to = self.rows.partition_point(|file| *file.source <= *source);
        &self.rows[from..to]
    }

    /// Completion times of those that ended, in seconds.
    pub fn completion_times_s(files: &[OfferedFile]) -> Vec<f64> {
        files.iter().filter_map(|file| file.completion_s).collect()
    }

    pub(crate) fn write(&self, path: &Path, manifest: &Manifest) -> Result<(), Error> {
        let failed = |source| Error::Write { path: path.to_owned(), source };
        let file = File::create(path).map_err(failed)?;
        let mut table = TableWriter::new(file, "files", &COLUMNS).map_err(failed)?;
        for rows in self.rows.chunks(ROWS_IN_GROUP) {
            let mut columns = manifest.columns(rows.len());
            let sources = rows.chunk_by(|a, b| a.source == b.source);
            columns.extend([
                ColumnValues::Texts(
                    sources.map(|of| (of[0].source.to_string(), of.len())).collect(),
                ),
                ColumnValues::Integers(rows.iter().map(|row| row.number.cast_signed()).collect()),
                ColumnValues::Doubles(rows.iter().map(|row| row.start_s).collect()),
                ColumnValues::OptionalIntegers(
                    rows.iter().map(|row| Some(row.size_bytes?.cast_signed())).collect(),
                ),
                ColumnValues::OptionalDoubles(rows.iter().map(|row| row.completion_s).collect()),
            ]);
            table.write(columns).map_err(failed)?;
        }
        table.close().map_err(failed)
    }

    /// Reads the files; none where there is no such file.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(source) => return Err(Error::Read { path: path.to_owned(), source }),
        };
        read_rows(file)
            .map_err(|error| Error::Files { path: path.to_owned(), reason: error.to_string() })
    }
}

fn read_rows(file: File) -> Result<OfferedFiles, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let mut files = OfferedFiles::default();
    for group in 0..reader.num_row_groups() {
        let group = &*reader.get_row_group(group)?;
        let sources = parquet_table::read_all::<ByteArrayType>(group, "source")?;
        let numbers = parquet_table::read_all::<Int64Type>(group, "file")?;
        let starts = parquet_table::read_all::<DoubleType>(group, "start_s")?;
        let sizes = parquet_table::read_optional::<Int64Type>(group, "size_bytes")?;
        let completions = parquet_table::read_optional::<DoubleType>(group, "completion_s")?;
        let rows = sources.iter().zip(numbers).zip(starts).zip(sizes).zip(completions);
        let mut last = Arc::<str>::from("");
        for ((((source, number), start_s), size), completion_s) in rows {
            if *source.as_utf8()? != *last {
                last = source.as_utf8()?.into();
            }
            files.rows.push(OfferedFile {
                source: Arc::clone(&last),
                number: number.cast_unsigned(),
                start_s,
                size_bytes: size.map(i64::cast_unsigned),
                completion_s,
            });
        }
    }
    Ok(files)
}
