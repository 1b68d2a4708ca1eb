// SPDX-License-Identifier: GPL-2.0-or-later
//! Errors of a record's directory.

use std::{io, path::PathBuf};

/// A record that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or folder cannot be read: it is missing, or the caller may not.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file that could not be read.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The folder cannot be written: disk full, or the caller may not.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file that could not be written.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// There is a record already, and records are never overwritten: choose another folder.
    #[error("{} exists already; a record is never overwritten: choose another folder", .0.display())]
    Exists(PathBuf),
    /// A JSON file of the record is damaged or was written by something else.
    #[error("{} is not a record's file: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why, with line and column.
        source: serde_json::Error,
    },
    /// The record comes from a later longhaul: read it with that one.
    #[error(
        "{} has schema {found}, written by a newer longhaul; this one reads up to {known}: update it",
        path.display()
    )]
    Newer {
        /// The manifest.
        path: PathBuf,
        /// The schema it states.
        found: u32,
        /// The highest schema understood here.
        known: u32,
    },
    /// The table of traffic's files is damaged or not one of longhaul's.
    #[error("{} is not a record's table of files: {reason}", path.display())]
    Files {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The series' file is damaged or not one of longhaul's.
    #[error("{} is not a record's series: {reason}", path.display())]
    Series {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}
