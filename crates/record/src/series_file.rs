// SPDX-License-Identifier: GPL-2.0-or-later
//! `series.parquet`: a table of `time_s`, `entity`, `quantity`, `value`, `unit`.
//!
//! Rows are sorted by entity, quantity (as texts, byte by byte) and time, so the text columns are long runs of the same
//! dictionary entry, and the times, which the curves share, fit into a dictionary too.

use crate::{Entity, Error, Quantity, Series};
use parquet::{
    basic::{Compression, Encoding, ZstdLevel},
    column::writer::ColumnWriter,
    data_type::{ByteArray, ByteArrayType, DataType, DoubleType},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        reader::{FileReader, RowGroupReader, SerializedFileReader},
        writer::SerializedFileWriter,
    },
    schema::parser::parse_message_type,
};
use std::{fs::File, io::Write, path::Path, sync::Arc};

const SCHEMA: &str = "message series {
    required double time_s;
    required binary entity (utf8);
    required binary quantity (utf8);
    required double value;
    required binary unit (utf8);
}";

/// Rows held as columns at a time, in writing and in reading.
const ROWS_IN_GROUP: usize = 1 << 18;

/// Writes all samples into a new file.
pub(crate) fn write(path: &Path, series: &Series) -> Result<(), Error> {
    let file =
        File::create(path).map_err(|source| Error::Write { path: path.to_owned(), source })?;
    write_rows(file, series).map_err(|e| Error::Write {
        path: path.to_owned(),
        source: std::io::Error::other(e.to_string()),
    })
}

fn write_rows(file: File, series: &Series) -> Result<(), ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        // For columns whose dictionary grows too large: the bytes of like magnitude together.
        .set_column_encoding("time_s".into(), Encoding::BYTE_STREAM_SPLIT)
        .set_column_encoding("value".into(), Encoding::BYTE_STREAM_SPLIT)
        .build();
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut columns = Columns::default();
    // By the texts, as readers of the file see them: `hop:file/10` comes before `hop:file/2`.
    let mut curves: Vec<_> = series
        .curves()
        .map(|(entity, quantity, curve)| (entity.to_string(), quantity.name(), quantity, curve))
        .collect();
    curves.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    for (entity, name, quantity, curve) in curves {
        let entity = ByteArray::from(entity.into_bytes());
        let name = ByteArray::from(name.as_bytes().to_vec());
        let unit = ByteArray::from(quantity.unit().as_bytes().to_vec());
        for (time_s, value) in curve.time_s.iter().zip(&curve.value) {
            columns.time_s.push(*time_s);
            columns.entity.push(entity.clone());
            columns.quantity.push(name.clone());
            columns.value.push(*value);
            columns.unit.push(unit.clone());
            if columns.time_s.len() == ROWS_IN_GROUP {
                columns.write(&mut writer)?;
            }
        }
    }
    if !columns.time_s.is_empty() {
        columns.write(&mut writer)?;
    }
    writer.close()?;
    Ok(())
}

/// Rows of the table, column by column.
#[derive(Default)]
struct Columns {
    time_s: Vec<f64>,
    entity: Vec<ByteArray>,
    quantity: Vec<ByteArray>,
    value: Vec<f64>,
    unit: Vec<ByteArray>,
}

impl Columns {
    /// Writes the rows as one group and forgets them.
    fn write<W: Write + Send>(
        &mut self,
        writer: &mut SerializedFileWriter<W>,
    ) -> Result<(), ParquetError> {
        let mut doubles =
            [std::mem::take(&mut self.time_s), std::mem::take(&mut self.value)].into_iter();
        let mut texts = [
            std::mem::take(&mut self.entity),
            std::mem::take(&mut self.quantity),
            std::mem::take(&mut self.unit),
        ]
        .into_iter();
        let mut group = writer.next_row_group()?;
        // The schema's order: each kind's columns come in the order of the lists above.
        while let Some(mut column) = group.next_column()? {
            match column.untyped() {
                ColumnWriter::DoubleColumnWriter(c) => {
                    c.write_batch(&doubles.next().unwrap_or_default(), None, None)?
                }
                ColumnWriter::ByteArrayColumnWriter(c) => {
                    c.write_batch(&texts.next().unwrap_or_default(), None, None)?
                }
                _ => unreachable!("the schema has no other type"),
            };
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    fn read(group: &dyn RowGroupReader) -> Result<Self, ParquetError> {
        // By name, so that a later column in between does no harm.
        Ok(Self {
            time_s: read_column::<DoubleType>(group, "time_s")?,
            entity: read_column::<ByteArrayType>(group, "entity")?,
            quantity: read_column::<ByteArrayType>(group, "quantity")?,
            value: read_column::<DoubleType>(group, "value")?,
            unit: read_column::<ByteArrayType>(group, "unit")?,
        })
    }
}

/// Reads the samples of every entity and quantity that is known here.
pub(crate) fn read(path: &Path) -> Result<Series, Error> {
    let file = File::open(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    read_rows(file).map_err(|e| Error::Series { path: path.to_owned(), reason: e.to_string() })
}

fn read_rows(file: File) -> Result<Series, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let mut series = Series::default();
    for group in 0..reader.num_row_groups() {
        add_rows(&mut series, &Columns::read(&*reader.get_row_group(group)?)?)?;
    }
    Ok(series)
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

fn read_column<T: DataType>(
    group: &dyn RowGroupReader,
    name: &str,
) -> Result<Vec<T::T>, ParquetError> {
    let rows = group.metadata().num_rows() as usize;
    let index = group
        .metadata()
        .columns()
        .iter()
        .position(|column| column.column_descr().name() == name)
        .ok_or_else(|| ParquetError::General(format!("there is no column \"{name}\"")))?;
    let mut reader = T::get_column_reader(group.get_column_reader(index)?)
        .ok_or_else(|| ParquetError::General(format!("column \"{name}\" has another type")))?;
    let mut values = Vec::with_capacity(rows);
    while values.len() < rows {
        let (read, ..) = reader.read_records(rows - values.len(), None, None, &mut values)?;
        if read == 0 {
            return Err(ParquetError::General(format!("column \"{name}\" ends early")));
        }
    }
    Ok(values)
}
