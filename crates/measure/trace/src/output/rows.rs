// SPDX-License-Identifier: GPL-2.0-or-later
//! Rows in CSV and Parquet.

use super::columns::{COLUMNS, Row, Value};
use crate::summary::ConnectionSummary;
use record::parquet_table::{ColumnKind, ColumnValues, TableWriter};
use std::io::{self, Write};

/// Rows of Parquet that are held as columns at a time.
const ROWS_IN_GROUP: usize = 1 << 14;

/// Writes a row for each direction of each connection.
pub trait RowWriter {
    /// Adds a connection of a file.
    ///
    /// # Errors
    /// It can't be written.
    fn add(&mut self, file: &str, connection: &ConnectionSummary) -> io::Result<()>;

    /// Writes what is left.
    ///
    /// # Errors
    /// It can't be written.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// CSV with a line of names first (RFC 4180). Unknown values are empty.
pub struct CsvRows<W: Write>(csv::Writer<W>);

impl<W: Write> CsvRows<W> {
    /// Writes the line of names.
    ///
    /// # Errors
    /// It can't be written.
    pub fn new(into: W) -> io::Result<Self> {
        let mut csv = csv::Writer::from_writer(into);
        csv.write_record(super::column_names())?;
        Ok(Self(csv))
    }
}

impl<W: Write> RowWriter for CsvRows<W> {
    fn add(&mut self, file: &str, connection: &ConnectionSummary) -> io::Result<()> {
        for direction in &connection.directions {
            let row = Row { file, connection, direction };
            for (_, value) in COLUMNS {
                let optional =
                    |number: Option<f64>| number.map_or(String::new(), |n| n.to_string());
                let text = match value {
                    Value::Text(of) => of(&row),
                    Value::Integer(of) => of(&row).to_string().into(),
                    Value::OptionalInteger(of) => {
                        of(&row).map_or(String::new(), |n| n.to_string()).into()
                    }
                    Value::Real(of) => of(&row).to_string().into(),
                    Value::OptionalReal(of) => optional(of(&row)).into(),
                };
                self.0.write_field(text.as_bytes())?;
            }
            self.0.write_record(None::<&[u8]>)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.0.flush()
    }
}

/// A Parquet table. Unknown values are null, unknown texts empty.
pub struct ParquetRows<W: Write + Send> {
    table: TableWriter<W>,
    rows: Vec<(String, ConnectionSummary)>,
}

impl<W: Write + Send> ParquetRows<W> {
    /// Begins the table.
    ///
    /// # Errors
    /// It can't be written.
    pub fn new(into: W) -> io::Result<Self> {
        let columns = COLUMNS.map(|(name, value)| (name, kind(value)));
        Ok(Self { table: TableWriter::new(into, "connections", &columns)?, rows: Vec::new() })
    }

    fn write_group(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.rows);
        let rows: Vec<Row<'_>> = held
            .iter()
            .flat_map(|(file, connection)| {
                connection.directions.iter().map(move |direction| Row {
                    file,
                    connection,
                    direction,
                })
            })
            .collect();
        self.table.write(COLUMNS.iter().map(|(_, value)| column(*value, &rows)).collect())
    }
}

impl<W: Write + Send> RowWriter for ParquetRows<W> {
    fn add(&mut self, file: &str, connection: &ConnectionSummary) -> io::Result<()> {
        self.rows.push((file.to_owned(), connection.clone()));
        if 2 * self.rows.len() == ROWS_IN_GROUP { self.write_group() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if !self.rows.is_empty() {
            self.write_group()?;
        }
        self.table.close()
    }
}

fn kind(value: Value) -> ColumnKind {
    match value {
        Value::Text(_) => ColumnKind::Texts,
        Value::Integer(_) => ColumnKind::Integers,
        Value::OptionalInteger(_) => ColumnKind::OptionalIntegers,
        Value::Real(_) => ColumnKind::Doubles,
        Value::OptionalReal(_) => ColumnKind::OptionalDoubles,
    }
}

fn column(value: Value, rows: &[Row<'_>]) -> ColumnValues {
    // No counter of a capture comes near 2^63.
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    match value {
        Value::Text(of) => {
            ColumnValues::Texts(rows.iter().map(|row| (of(row).into_owned(), 1)).collect())
        }
        Value::Integer(of) => {
            ColumnValues::Integers(rows.iter().map(|row| signed(of(row))).collect())
        }
        Value::OptionalInteger(of) => {
            ColumnValues::OptionalIntegers(rows.iter().map(|row| of(row).map(signed)).collect())
        }
        Value::Real(of) => ColumnValues::Doubles(rows.iter().map(of).collect()),
        Value::OptionalReal(of) => ColumnValues::OptionalDoubles(rows.iter().map(of).collect()),
    }
}
