// SPDX-License-Identifier: GPL-2.0-or-later
//! Samples over time, and traffic's files: tables of records, read one record after the other as a reader asks for rows.

use crate::{ahead::ahead, arrow::Table, rows::field};
use arrow_array::{
    AnyDictionaryArray, ArrayRef, BooleanArray, DictionaryArray, Int8Array, PrimitiveArray,
    RecordBatch, StringArray,
    cast::AsArray,
    types::{ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type},
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::{filter::filter_record_batch, take::take};
use parquet::arrow::{
    ProjectionMask,
    arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
};
use record::units::Unit;
use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Rows of a batch.
const ROWS: usize = 1 << 18;

/// The rows to keep.
#[derive(Clone, Default)]
pub struct Filter {
    pub entities: Option<BTreeSet<String>>,
    pub quantities: Option<BTreeSet<String>>,
}

/// The most different texts in columns where the records do not tell their number.
const ENTITIES: usize = i32::MAX as usize;
const QUANTITIES: usize = i16::MAX as usize;
const UNITS: usize = i8::MAX as usize;

/// The columns of samples of a number of records.
fn schema_of_samples(records: usize) -> SchemaRef {
    let columns = [
        ("run", text(records)),
        ("variant", text(records)),
        ("point", text(records)),
        ("time_s", DataType::Float64),
        ("entity", text(ENTITIES)),
        ("quantity", text(QUANTITIES)),
        ("value", DataType::Float64),
        ("unit", text(UNITS)),
    ];
    schema(&columns)
}

fn schema_of_files(records: usize) -> SchemaRef {
    let columns = [
        ("run", text(records)),
        ("variant", text(records)),
        ("point", text(records)),
        ("source", text(ENTITIES)),
        ("file", DataType::Int64),
        ("start_s", DataType::Float64),
        ("size_bytes", DataType::Int64),
        ("completion_s", DataType::Float64),
    ];
    schema(&columns)
}

/// The type of a column that has at most `most` different texts. It is a dictionary, as each text occurs in thousands of rows, and its
/// keys are the smallest that suffice, as much of the time goes into memory.
fn text(most: usize) -> DataType {
    let keys = match most {
        0..=0x7f => DataType::Int8,
        0x80..=0x7fff => DataType::Int16,
        _ => DataType::Int32,
    };
    DataType::Dictionary(Box::new(keys), Box::new(DataType::Utf8))
}

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let fields: Vec<_> = columns.iter().map(|(name, kind)| field(name, kind.clone())).collect();
    Arc::new(Schema::new(fields))
}

/// A record, and what the first three columns of its tables are.
#[derive(Clone)]
pub struct Place {
    pub folder: PathBuf,
    pub run: String,
    pub variant: String,
    pub point: String,
}

/// The samples of these records, those that links' monitors counted in bins last.
pub fn samples(records: Vec<Place>, filter: Filter) -> Table {
    table(schema_of_samples(records.len()), records, &["series.parquet", "bins.parquet"], filter)
}

/// The files that traffic offered.
pub fn files(records: Vec<Place>) -> Table {
    table(schema_of_files(records.len()), records, &["files.parquet"], Filter::default())
}

fn table(
    schema: SchemaRef,
    records: Vec<Place>,
    names: &'static [&'static str],
    filter: Filter,
) -> Table {
    let read = {
        let (schema, records) = (SchemaRef::clone(&schema), Arc::new(records));
        move || -> Box<dyn Iterator<Item = _> + Send> {
            let (schema, records, filter) =
                (SchemaRef::clone(&schema), Arc::clone(&records), filter.clone());
            let files = (0..records.len()).flat_map(move |record| {
                let record = records[record].clone();
                names.iter().map(move |name| (record.folder.join(name), record.clone()))
            });
            let read = move |(file, record): (PathBuf, Place)| -> Vec<_> {
                match rows_of(&file, &record, &schema, &filter) {
                    Ok(rows) => rows.collect(),
                    Err(error) => {
                        let text = format!("{}: {error}", file.display());
                        vec![Err(ArrowError::ParquetError(text))]
                    }
                }
            };
            Box::new(ahead(files.filter(|(file, _)| file.exists()), read).flatten())
        }
    };
    Table::of_reader(schema, read)
}

type Rows = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

fn rows_of(
    file: &Path,
    record: &Place,
    schema: &SchemaRef,
    filter: &Filter,
) -> Result<Rows, ArrowError> {
    // A later longhaul may have written further columns.
    let written = ArrowReaderMetadata::load(&File::open(file)?, ArrowReaderOptions::new())?;
    let fields = written.schema().fields().iter().map(|field| {
        let own = schema.field_with_name(field.name()).map(|own| own.data_type().clone());
        Arc::new(
            field
                .as_ref()
                .clone()
                .with_data_type(own.unwrap_or_else(|_| field.data_type().clone())),
        )
    });
    let options =
        ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields.collect::<Vec<_>>())));
    let builder =
        ParquetRecordBatchReaderBuilder::try_new_with_options(File::open(file)?, options)?;
    let read =
        schema.fields().iter().map(|field| field.name().as_str()).filter(|name| !is_known(name));
    let columns = ProjectionMask::columns(builder.parquet_schema(), read);
    let reader = builder.with_projection(columns).with_batch_size(ROWS).build()?;
    let (schema, record, filter) = (SchemaRef::clone(schema), record.clone(), filter.clone());
    let name = file.display().to_string();
    let kept = reader.map(move |batch| {
        let failed = |error| ArrowError::ParquetError(format!("{name}: {error}"));
        let batch = keep(&batch.map_err(failed)?, &filter)?;
        let columns = schema.fields().iter().map(|field| {
            let missing = || ArrowError::ParquetError(format!("{name}: a column is missing"));
            column(&batch, field, &record)?.ok_or_else(missing)
        });
        RecordBatch::try_new(SchemaRef::clone(&schema), columns.collect::<Result<_, _>>()?)
    });
    Ok(Box::new(kept.filter(|batch| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0))))
}

/// Columns that need not be read: the same in all rows, or told by another one.
fn is_known(column: &str) -> bool {
    ["run", "variant", "point", "unit"].contains(&column)
}

fn column(
    batch: &RecordBatch,
    field: &Field,
    record: &Place,
) -> Result<Option<ArrayRef>, ArrowError> {
    let same = |text: &str| match field.data_type() {
        DataType::Dictionary(keys, _) if **keys == DataType::Int8 => {
            repeated::<Int8Type>(text, batch.num_rows())
        }
        DataType::Dictionary(keys, _) if **keys == DataType::Int16 => {
            repeated::<Int16Type>(text, batch.num_rows())
        }
        _ => repeated::<Int32Type>(text, batch.num_rows()),
    };
    Ok(match field.name().as_str() {
        "run" => Some(same(&record.run)),
        "variant" => Some(same(&record.variant)),
        "point" => Some(same(&record.point)),
        "unit" => {
            let quantities = batch.column_by_name("quantity");
            quantities.map(|column| units(column.as_any_dictionary())).transpose()?
        }
        read => batch.column_by_name(read).cloned(),
    })
}

fn repeated<K: ArrowDictionaryKeyType>(text: &str, rows: usize) -> ArrayRef {
    let keys = PrimitiveArray::<K>::from_value(K::default_value(), rows);
    let texts = Arc::new(StringArray::from_iter_values([text]));
    Arc::new(DictionaryArray::new(keys, texts))
}

/// The unit of each quantity. Several have the same one, and a dictionary has each value once.
fn units(quantities: &dyn AnyDictionaryArray) -> Result<ArrayRef, ArrowError> {
    let names = quantities.values().as_string::<i32>();
    let mut units: Vec<&str> = Vec::new();
    let of_name = names.iter().map(|name| {
        let unit = Unit::of_key(name.unwrap_or_default()).name();
        let index = units.iter().position(|known| *known == unit).unwrap_or_else(|| {
            units.push(unit);
            units.len() - 1
        });
        i8::try_from(index).expect("a handful of units")
    });
    let of_name: Int8Array = of_name.collect();
    let keys = take(&of_name, quantities.keys(), None)?;
    let units = Arc::new(StringArray::from_iter_values(units));
    Ok(Arc::new(DictionaryArray::<Int8Type>::new(keys.as_primitive().clone(), units)))
}

fn keep(batch: &RecordBatch, filter: &Filter) -> Result<RecordBatch, ArrowError> {
    let mut batch = batch.clone();
    for (column, kept) in [("entity", &filter.entities), ("quantity", &filter.quantities)] {
        let (Some(kept), Some(texts)) = (kept, batch.column_by_name(column)) else { continue };
        let texts = texts.as_any_dictionary();
        let values = texts.values().as_string::<i32>();
        let is_kept: BooleanArray =
            values.iter().map(|text| text.map(|text| kept.contains(text))).collect();
        let rows = take(&is_kept, texts.keys(), None)?;
        batch = filter_record_batch(&batch, rows.as_boolean())?;
    }
    Ok(batch)
}
