// SPDX-License-Identifier: GPL-2.0-or-later
//! The JSON document: `{"connections": [...], "files": [...]}`, a line for each connection and file.

use crate::{analysis::Totals, summary::ConnectionSummary};
use serde::Serialize;
use std::io::{self, Write};
use units::text;

/// A connection with its file.
#[derive(Serialize)]
struct OfFile<'a> {
    file: &'a str,
    #[serde(flatten)]
    connection: &'a ConnectionSummary,
}

/// A file of a finished document.
#[derive(Debug, Serialize)]
struct File {
    #[serde(rename = "file")]
    name: String,
    #[serde(flatten)]
    totals: Totals,
    /// Why reading stopped before the end. `None`: it did not.
    error: Option<String>,
}

/// A document that is written as connections end.
pub struct JsonDocument<W> {
    into: W,
    files: Vec<File>,
    is_begun: bool,
}

impl<W: Write> JsonDocument<W> {
    /// Begins the document.
    ///
    /// # Errors
    /// It can't be written.
    pub fn new(mut into: W) -> io::Result<Self> {
        into.write_all(b"{\"connections\": [")?;
        Ok(Self { into, files: Vec::new(), is_begun: false })
    }

    /// Adds a connection of a file.
    ///
    /// # Errors
    /// It can't be written.
    pub fn add(&mut self, file: &str, connection: &ConnectionSummary) -> io::Result<()> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        self.item(is_first, &OfFile { file, connection })
    }

    /// Adds what was read of a file, with the error that ended it early.
    pub fn add_file(&mut self, file: &str, totals: Totals, error: Option<String>) {
        self.files.push(File { name: file.to_owned(), totals, error });
    }

    /// Ends the document.
    ///
    /// # Errors
    /// It can't be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.into.write_all(b"\n], \"files\": [")?;
        for (n, file) in std::mem::take(&mut self.files).iter().enumerate() {
            self.item(n == 0, file)?;
        }
        self.into.write_all(b"\n]}\n")?;
        self.into.flush()
    }

    fn item(&mut self, is_first: bool, item: &impl Serialize) -> io::Result<()> {
        let item = serde_json::to_string(item).map_err(io::Error::other)?;
        let comma = if is_first { "" } else { "," };
        write!(self.into, "{comma}\n{}", text::json(&item))
    }
}
