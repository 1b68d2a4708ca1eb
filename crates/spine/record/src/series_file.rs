// SPDX-License-Identifier: GPL-2.0-or-later
//! `series.parquet` and `bins.parquet`: tables of `run`, `variant`, `point`, `time_s`, `entity`, `quantity`, `value`,
//! `unit`. The bins of links' monitors are a table of their own, since they are most of a run's samples and readers of
//! the others would have to pass over them.
//!
//! Rows are sorted by entity, quantity (as texts, byte by byte) and time, so the text columns are long runs of the same
//! dictionary entry, and the times, which the curves share, fit into a dictionary too. The first three columns are the
//! same in every row: they tell runs apart whose files are read together.

use crate::{
    Curve, Entity, Error, Manifest, Quantity, Series,
    parquet_table::{self, ColumnKind, ColumnValues, ROWS_IN_GROUP, TableWriter},
};
use parquet::{
    data_type::{ByteArray, ByteArrayType, DoubleType},
    errors::ParquetError,
    file::reader::{FileReader, RowGroupReader, SerializedFileReader},
};
use std::{fs::File, io, path::Path};

const COLUMNS: [(&str, ColumnKind); 8] = [
    ("run", ColumnKind::Texts),
    ("variant", ColumnKind::Texts),
    ("point", ColumnKind::Texts),
    ("time_s", ColumnKind::Doubles),
    ("entity", ColumnKind::Texts),
    ("quantity", ColumnKind::Texts),
    ("value", ColumnKind::Doubles),
    ("unit", ColumnKind::Texts),
];

/// Writes the samples of these curves into a new file.
pub(crate) fn write<'s>(
    path: &Path,
    manifest: &Manifest,
    curves: impl Iterator<Item = (&'s Entity, Quantity, &'s Curve)>,
) -> Result<(), Error> {
    let written = File::create(path).and_then(|file| write_rows(file, manifest, curves));
    written.map_err(|source| Error::Write { path: path.to_owned(), source })
}

fn write_rows<'s>(
    file: File,
    manifest: &Manifest,
    curves: impl Iterator<Item = (&'s Entity, Quantity, &'s Curve)>,
) -> io::Result<()> {
    let mut table = TableWriter::new(file, "series", &COLUMNS)?;
    let mut rows = Rows::default();
    // By the texts, as readers of the file see them: `hop:file/10` comes before `hop:file/2`.
    let mut curves: Vec<_> = curves
        .map(|(entity, quantity, curve)| (entity.to_string(), quantity.name(), quantity, curve))
        .collect();
    curves.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    for (entity, name, quantity, curve) in curves {
        let mut done = 0;
        while done < curve.time_s.len() {
            let now = (curve.time_s.len() - done).min(ROWS_IN_GROUP - rows.time_s.len());
            rows.time_s.extend_from_slice(&curve.time_s[done..done + now]);
            rows.value.extend_from_slice(&curve.value[done..done + now]);
            rows.entity.push((entity.clone(), now));
            rows.quantity.push((name.to_owned(), now));
            rows.unit.push((quantity.unit().to_owned(), now));
            done += now;
            if rows.time_s.len() == ROWS_IN_GROUP {
                table.write(std::mem::take(&mut rows).columns(manifest))?;
            }
        }
    }
    if !rows.time_s.is_empty() {
        table.write(rows.columns(manifest))?;
    }
    table.close()
}

/// Rows to be written; each text with the number of rows that have it.
#[derive(Default)]
struct Rows {
    time_s: Vec<f64>,
    entity: Vec<(String, usize)>,
    quantity: Vec<(String, usize)>,
    value: Vec<f64>,
    unit: Vec<(String, usize)>,
}

impl Rows {
    fn columns(self, manifest: &Manifest) -> Vec<ColumnValues> {
        let mut columns = manifest.columns(self.time_s.len());
        columns.extend([
            ColumnValues::Doubles(self.time_s),
            ColumnValues::Texts(self.entity),
            ColumnValues::Texts(self.quantity),
            ColumnValues::Doubles(self.value),
            ColumnValues::Texts(self.unit),
        ]);
        columns
    }
}

/// Rows of the table as read, column by column.
struct Columns {
    time_s: Vec<f64>,
    entity: Vec<ByteArray>,
    quantity: Vec<ByteArray>,
    value: Vec<f64>,
    unit: Vec<ByteArray>,
}

impl Columns {
    fn read(group: &dyn RowGroupReader) -> Result<Self, ParquetError> {
        Ok(Self {
            time_s: parquet_table::read_all::<DoubleType>(group, "time_s")?,
            entity: parquet_table::read_all::<ByteArrayType>(group, "entity")?,
            quantity: parquet_table::read_all::<ByteArrayType>(group, "quantity")?,
            value: parquet_table::read_all::<DoubleType>(group, "value")?,
            unit: parquet_table::read_all::<ByteArrayType>(group, "unit")?,
        })
    }
}

/// Adds the samples of every entity and quantity that is known here.
pub(crate) fn read(path: &Path, series: &mut Series) -> Result<(), Error> {
    let file = File::open(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let read = read_rows(file, series);
    read.map_err(|e| Error::Series { path: path.to_owned(), reason: e.to_string() })
}

fn read_rows(file: File, series: &mut Series) -> Result<(), ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    for group in 0..reader.num_row_groups() {
        add_rows(series, &Columns::read(&*reader.get_row_group(group)?)?)?;
    }
    Ok(())
}

fn add_rows(series: &mut Series, rows: &Columns) -> Result<(), ParquetError> {
    let mut at = 0;
    while at < rows.time_s.len() {
        let (entity, quantity) = (&rows.entity[at], &rows.quantity[at]);
        let same = |i: &usize| rows.entity[*i] == *entity && rows.quantity[*i] == *quantity;
        let end = (at..rows.time_s.len()).take_while(same).count() + at;
        let known = Entity::parse(entity.as_utf8()?).zip(Quantity::parse(quantity.as_utf8()?));
        if let Some((entity, quantity)) = known {
            let unit = rows.unit[at].as_utf8()?;
            if unit != quantity.unit() {
                return Err(ParquetError::General(format!(
                    "{} is in \"{unit}\", expected \"{}\"",
                    quantity.name(),
                    quantity.unit()
                )));
            }
            let curve = series.curve_mut(&entity, quantity);
            curve.time_s.extend_from_slice(&rows.time_s[at..end]);
            curve.value.extend_from_slice(&rows.value[at..end]);
        }
        at = end;
    }
    Ok(())
}
