// SPDX-License-Identifier: GPL-2.0-or-later
//! A table of any number of rows, each column of which is defined once: its name and what its cell in a row is. It is
//! written as CSV or as Parquet.

use record::parquet_table::{ColumnKind, ColumnValues, ROWS_IN_GROUP, TableWriter};
use std::{
    borrow::Cow,
    io::{self, Write},
    marker::PhantomData,
    ops::Range,
    rc::Rc,
};

/// A table that is ready to be written.
pub struct LongTable<'t> {
    name: &'static str,
    rows: usize,
    columns: Vec<Column<'t>>,
}

/// A column: its name, and its cells by the number of their row.
pub(crate) struct Column<'t> {
    pub name: String,
    cells: Cells<'t>,
}

type Cell<'t, T> = Box<dyn Fn(usize) -> T + 't>;

enum Cells<'t> {
    Texts(Cell<'t, Cow<'t, str>>),
    Integers(Cell<'t, i64>),
    Doubles(Cell<'t, f64>),
    OptionalDoubles(Cell<'t, Option<f64>>),
}

/// Makes columns of rows of one type.
pub(crate) struct ColumnsOf<'t, R>(Rc<[R]>, PhantomData<&'t R>);

impl<'t, R: 't> ColumnsOf<'t, R> {
    pub fn rows(rows: Vec<R>) -> Self {
        Self(rows.into(), PhantomData)
    }

    fn cell<T>(&self, cell: impl Fn(&R) -> T + 't) -> Cell<'t, T> {
        let rows = Rc::clone(&self.0);
        Box::new(move |n| cell(&rows[n]))
    }

    pub fn texts(&self, name: &str, cell: impl Fn(&R) -> Cow<'t, str> + 't) -> Column<'t> {
        Column { name: name.to_owned(), cells: Cells::Texts(self.cell(cell)) }
    }

    pub fn integers(&self, name: &str, cell: impl Fn(&R) -> i64 + 't) -> Column<'t> {
        Column { name: name.to_owned(), cells: Cells::Integers(self.cell(cell)) }
    }

    pub fn doubles(&self, name: &str, cell: impl Fn(&R) -> f64 + 't) -> Column<'t> {
        Column { name: name.to_owned(), cells: Cells::Doubles(self.cell(cell)) }
    }

    pub fn optional(&self, name: &str, cell: impl Fn(&R) -> Option<f64> + 't) -> Column<'t> {
        Column { name: name.to_owned(), cells: Cells::OptionalDoubles(self.cell(cell)) }
    }

    pub fn table(&self, name: &'static str, columns: [Vec<Column<'t>>; 3]) -> LongTable<'t> {
        LongTable { name, rows: self.0.len(), columns: columns.into_iter().flatten().collect() }
    }
}

impl LongTable<'_> {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Writes the table as CSV (RFC 4180), with the columns' names in the first line.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn csv(&self, into: impl Write) -> io::Result<()> {
        let mut csv = csv::Writer::from_writer(into);
        csv.write_record(self.columns.iter().map(|column| &column.name))?;
        for row in 0..self.rows {
            for column in &self.columns {
                csv.write_field(column.cells.text(row).as_bytes())?;
            }
            csv.write_record(None::<&[u8]>)?;
        }
        csv.flush()
    }

    /// Writes the table as a Parquet file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn parquet(&self, into: impl Write + Send) -> io::Result<()> {
        let columns = self.columns.iter().map(|one| (one.name.as_str(), one.cells.kind()));
        let mut table = TableWriter::new(into, self.name, &columns.collect::<Vec<_>>())?;
        for start in (0..self.rows).step_by(ROWS_IN_GROUP) {
            let rows = start..self.rows.min(start + ROWS_IN_GROUP);
            let values = self.columns.iter().map(|column| column.cells.values(rows.clone()));
            table.write(values.collect())?;
        }
        table.close()
    }
}

impl Cells<'_> {
    fn kind(&self) -> ColumnKind {
        match self {
            Self::Texts(_) => ColumnKind::Texts,
            Self::Integers(_) => ColumnKind::Integers,
            Self::Doubles(_) => ColumnKind::Doubles,
            Self::OptionalDoubles(_) => ColumnKind::OptionalDoubles,
        }
    }

    fn text(&self, row: usize) -> Cow<'_, str> {
        match self {
            Self::Texts(cell) => cell(row),
            Self::Integers(cell) => cell(row).to_string().into(),
            Self::Doubles(cell) => cell(row).to_string().into(),
            Self::OptionalDoubles(cell) => {
                cell(row).map_or_else(String::new, |value| value.to_string()).into()
            }
        }
    }

    fn values(&self, rows: Range<usize>) -> ColumnValues {
        match self {
            Self::Texts(cell) => {
                let mut runs: Vec<(String, usize)> = Vec::new();
                for text in rows.map(cell) {
                    match runs.last_mut() {
                        Some((last, count)) if *last == text => *count += 1,
                        _ => runs.push((text.into_owned(), 1)),
                    }
                }
                ColumnValues::Texts(runs)
            }
            Self::Integers(cell) => ColumnValues::Integers(rows.map(cell).collect()),
            Self::Doubles(cell) => ColumnValues::Doubles(rows.map(cell).collect()),
            Self::OptionalDoubles(cell) => ColumnValues::OptionalDoubles(rows.map(cell).collect()),
        }
    }
}
