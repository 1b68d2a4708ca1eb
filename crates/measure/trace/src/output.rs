// SPDX-License-Identifier: GPL-2.0-or-later
//! Summaries as documents for programs: a row for each direction of each connection, in CSV or Parquet; a JSON document.
//! All are written as connections end, so none has to be held.

mod columns;
mod json;
mod rows;

pub use columns::column_names;
pub use json::JsonDocument;
pub use rows::{CsvRows, ParquetRows, RowWriter};
