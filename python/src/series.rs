// SPDX-License-Identifier: GPL-2.0-or-later
//! Samples over time, and traffic's files: tables of records, read one record after the other as a reader asks for rows.

use crate::{arrow::Table, rows::field};
use arrow_array::{BooleanArray, RecordBatch, cast::AsArray, types::Int32Type};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Rows of a batch.
const ROWS: usize = 1 << 16;

/// The rows to keep.
#[derive(Clone, Default)]
pub struct Filter {
    pub entities: Option<BTreeSet<String>>,
    pub quantities: Option<BTreeSet<String>>,
}

/// The columns of samples. Texts are dictionaries: each occurs in thousands of rows.
fn schema_of_samples() -> SchemaRef {
    let columns = [
        ("run", text()),
        ("variant", text()),
        ("point", text()),
        ("time_s", DataType::Float64),
        ("entity", text()),
        ("quantity", text()),
        ("value", DataType::Float64),
        ("unit", text()),
    ];
    schema(&columns)
}

fn schema_of_files() -> SchemaRef {
    let columns = [
        ("run", text()),
        ("variant", text()),
        ("point", text()),
        ("source", text()),
        ("file", DataType::Int64),
        ("start_s", DataType::Float64),
        ("size_bytes", DataType::Int64),
        ("completion_s", DataType::Float64),
    ];
    schema(&columns)
}

fn text() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let fields: Vec<_> = columns.iter().map(|(name, kind)| field(name, kind.clone())).collect();
    Arc::new(Schema::new(fields))
}

/// The samples of these records, those that links' monitors counted in bins last.
pub fn samples(records: Vec<PathBuf>, filter: Filter) -> Table {
    table(schema_of_samples(), records, &["series.parquet", "bins.parquet"], filter)
}

/// The files that traffic offered.
pub fn files(records: Vec<PathBuf>) -> Table {
    table(schema_of_files(), records, &["files.parquet"], Filter::default())
}

fn table(
    schema: SchemaRef,
    records: Vec<PathBuf>,
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
                names.iter().map(move |name| record.join(name))
            });
            Box::new(files.filter(|file| file.exists()).flat_map(move |file| {
                rows_of(&file, &schema, &filter).unwrap_or_else(|error| {
                    let text = format!("{}: {error}", file.display());
                    Box::new(std::iter::once(Err(ArrowError::ParquetError(text))))
                })
            }))
        }
    };
    Table::of_reader(schema, read)
}

type Rows = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

fn rows_of(file: &Path, schema: &SchemaRef, filter: &Filter) -> Result<Rows, ArrowError> {
    let options = ArrowReaderOptions::new().with_schema(schema_as_written(file, schema)?);
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(File::open(file)?, options)?
        .with_batch_size(ROWS)
        .build()?;
    let (schema, filter) = (SchemaRef::clone(schema), filter.clone());
    let name = file.display().to_string();
    let kept = reader.map(move |batch| {
        let failed = |error| ArrowError::ParquetError(format!("{name}: {error}"));
        let columns = schema.fields().iter().map(|field| {
            let batch = batch.as_ref().map_err(failed)?;
            batch.column_by_name(field.name()).cloned().ok_or_else(|| {
                ArrowError::ParquetError(format!("{name}: no column {}", field.name()))
            })
        });
        let batch =
            RecordBatch::try_new(SchemaRef::clone(&schema), columns.collect::<Result<_, _>>()?)?;
        keep(&batch, &filter)
    });
    Ok(Box::new(kept.filter(|batch| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0))))
}

/// The file's own columns, with texts as dictionaries: a later longhaul may have written further ones.
fn schema_as_written(file: &Path, ours: &SchemaRef) -> Result<SchemaRef, ArrowError> {
    let written = ParquetRecordBatchReaderBuilder::try_new(File::open(file)?)?.schema().clone();
    let fields = written.fields().iter().map(|field| {
        let kind = ours.field_with_name(field.name()).map(|own| own.data_type().clone());
        Arc::new(
            field
                .as_ref()
                .clone()
                .with_data_type(kind.unwrap_or_else(|_| field.data_type().clone())),
        )
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

fn keep(batch: &RecordBatch, filter: &Filter) -> Result<RecordBatch, ArrowError> {
    let mut batch = batch.clone();
    for (column, kept) in [("entity", &filter.entities), ("quantity", &filter.quantities)] {
        let (Some(kept), Some(texts)) = (kept, batch.column_by_name(column)) else { continue };
        let texts = texts.as_dictionary::<Int32Type>();
        let values = texts.values().as_string::<i32>();
        let is_kept: Vec<bool> =
            values.iter().map(|text| text.is_some_and(|text| kept.contains(text))).collect();
        let rows: BooleanArray =
            texts.keys().iter().map(|key| Some(is_kept[key? as usize])).collect();
        batch = filter_record_batch(&batch, &rows)?;
    }
    Ok(batch)
}
