// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables as Parquet files: zstd, texts as dictionaries, and doubles that no dictionary suits split by
//! bytes of like magnitude.

use parquet::{
    basic::{Compression, ConvertedType, Encoding, LogicalType, Repetition, Type, ZstdLevel},
    column::writer::{ColumnWriter, ColumnWriterImpl},
    data_type::{ByteArray, DataType},
    errors::ParquetError,
    file::{
        properties::WriterProperties, reader::RowGroupReader, reader::SerializedFileReader,
        writer::SerializedColumnWriter, writer::SerializedFileWriter,
    },
    schema::types::{self, ColumnPath},
};
use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

/// Rows that are held as columns at a time, in writing and in reading.
pub const ROWS_IN_GROUP: usize = 1 << 18;

/// Texts that are written at a time: a long run of the same text is never held whole.
const TEXTS_AT_A_TIME: usize = 1024;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Doubles, null where there is none.
    OptionalDoubles,
    /// Doubles, all there.
    Doubles,
    /// Integers, null where there is none.
    OptionalIntegers,
    /// Integers, all there.
    Integers,
    /// Texts, all there.
    Texts,
}

impl ColumnKind {
    fn column(self, name: &str) -> Result<types::TypePtr, ParquetError> {
        let physical = match self {
            Self::OptionalDoubles | Self::Doubles => Type::DOUBLE,
            Self::OptionalIntegers | Self::Integers => Type::INT64,
            Self::Texts => Type::BYTE_ARRAY,
        };
        let repetition = match self {
            Self::OptionalDoubles | Self::OptionalIntegers => Repetition::OPTIONAL,
            Self::Doubles | Self::Integers | Self::Texts => Repetition::REQUIRED,
        };
        let mut column =
            types::Type::primitive_type_builder(name, physical).with_repetition(repetition);
        if self == Self::Texts {
            column = column
                .with_converted_type(ConvertedType::UTF8)
                .with_logical_type(Some(LogicalType::String));
        }
        Ok(Arc::new(column.build()?))
    }
}

/// A column of some rows.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnValues {
    /// For [`ColumnKind::OptionalDoubles`].
    OptionalDoubles(Vec<Option<f64>>),
    /// For [`ColumnKind::Doubles`].
    Doubles(Vec<f64>),
    /// For [`ColumnKind::OptionalIntegers`].
    OptionalIntegers(Vec<Option<i64>>),
    /// For [`ColumnKind::Integers`].
    Integers(Vec<i64>),
    /// For [`ColumnKind::Texts`]: each with the number of rows, one after another, that have it.
    Texts(Vec<(String, usize)>),
}

/// A table that is being written.
pub struct TableWriter<W: Write + Send>(SerializedFileWriter<W>);

impl<W: Write + Send> TableWriter<W> {
    /// A table of these columns, with no rows as yet.
    ///
    /// # Errors
    /// Two columns have the same name, or it cannot be written.
    pub fn new(into: W, table: &str, columns: &[(&str, ColumnKind)]) -> io::Result<Self> {
        Self::create(into, table, columns).map_err(io::Error::other)
    }

    fn create(into: W, table: &str, columns: &[(&str, ColumnKind)]) -> Result<Self, ParquetError> {
        let mut properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?));
        for (name, _) in columns.iter().filter(|(_, kind)| kind.is_of_doubles()) {
            let path = ColumnPath::new(vec![(*name).to_owned()]);
            properties = properties.set_column_encoding(path, Encoding::BYTE_STREAM_SPLIT);
        }
        let fields = columns.iter().map(|(name, kind)| kind.column(name));
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let schema = types::Type::group_type_builder(table).with_fields(fields).build()?;
        let properties = Arc::new(properties.build());
        Ok(Self(SerializedFileWriter::new(into, Arc::new(schema), properties)?))
    }

    /// Adds rows: the columns in the table's order, all of the same length.
    ///
    /// # Errors
    /// It cannot be written.
    ///
    /// # Panics
    /// If a column is of another kind than the table's.
    pub fn write(&mut self, columns: Vec<ColumnValues>) -> io::Result<()> {
        self.write_group(columns).map_err(io::Error::other)
    }

    fn write_group(&mut self, columns: Vec<ColumnValues>) -> Result<(), ParquetError> {
        let mut group = self.0.next_row_group()?;
        for values in columns {
            let mut column = group.next_column()?.expect("as many columns as the table has");
            values.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Ends the table.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn close(self) -> io::Result<()> {
        self.0.close().map_err(io::Error::other)?;
        Ok(())
    }
}

impl ColumnKind {
    fn is_of_doubles(self) -> bool {
        matches!(self, Self::OptionalDoubles | Self::Doubles)
    }
}

impl ColumnValues {
    fn write(self, column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match (self, column.untyped()) {
            (Self::Doubles(values), ColumnWriter::DoubleColumnWriter(into)) => {
                into.write_batch(&values, None, None)?;
            }
            (Self::OptionalDoubles(values), ColumnWriter::DoubleColumnWriter(into)) => {
                write_optional(into, values)?;
            }
            (Self::Integers(values), ColumnWriter::Int64ColumnWriter(into)) => {
                into.write_batch(&values, None, None)?;
            }
            (Self::OptionalIntegers(values), ColumnWriter::Int64ColumnWriter(into)) => {
                write_optional(into, values)?;
            }
            (Self::Texts(runs), ColumnWriter::ByteArrayColumnWriter(into)) => {
                for (text, rows) in runs {
                    let text = ByteArray::from(text.into_bytes());
                    let texts = vec![text; rows.min(TEXTS_AT_A_TIME)];
                    for from in (0..rows).step_by(TEXTS_AT_A_TIME) {
                        let now = (rows - from).min(TEXTS_AT_A_TIME);
                        into.write_batch(&texts[..now], None, None)?;
                    }
                }
            }
            _ => panic!("the column is of another kind than the table's"),
        }
        Ok(())
    }
}

fn write_optional<T: DataType>(
    into: &mut ColumnWriterImpl<'_, T>,
    values: Vec<Option<T::T>>,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let known: Vec<T::T> = values.into_iter().flatten().collect();
    into.write_batch(&known, Some(&levels), None)?;
    Ok(())
}

/// Reads the description of a table, which is at the end of its file.
pub(crate) fn check_end(path: &Path) -> Result<(), ParquetError> {
    SerializedFileReader::new(File::open(path)?).map(drop)
}

/// The values of a column that has all of them, by its name: later columns in between do no harm.
pub(crate) fn read_all<T: DataType>(
    group: &dyn RowGroupReader,
    name: &str,
) -> Result<Vec<T::T>, ParquetError> {
    Ok(read::<T>(group, name)?.0)
}

/// The values of a column that may lack some, by its name.
pub(crate) fn read_optional<T: DataType>(
    group: &dyn RowGroupReader,
    name: &str,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    let (values, levels) = read::<T>(group, name)?;
    let mut values = values.into_iter();
    Ok(levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect())
}

/// The values that there are, and for each row of an optional column whether it has one.
fn read<T: DataType>(
    group: &dyn RowGroupReader,
    name: &str,
) -> Result<(Vec<T::T>, Vec<i16>), ParquetError> {
    let rows = group.metadata().num_rows() as usize;
    let columns = group.metadata().columns();
    let index = columns
        .iter()
        .position(|column| column.column_descr().name() == name)
        .ok_or_else(|| ParquetError::General(format!("there is no column \"{name}\"")))?;
    let mut reader = T::get_column_reader(group.get_column_reader(index)?)
        .ok_or_else(|| ParquetError::General(format!("column \"{name}\" has another type")))?;
    let optional = columns[index].column_descr().max_def_level() > 0;
    let (mut values, mut levels, mut done) = (Vec::with_capacity(rows), Vec::new(), 0);
    while done < rows {
        let definition = optional.then_some(&mut levels);
        let (read, ..) = reader.read_records(rows - done, definition, None, &mut values)?;
        if read == 0 {
            return Err(ParquetError::General(format!("column \"{name}\" ends early")));
        }
        done += read;
    }
    Ok((values, levels))
}
