// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables as Python takes them: by Arrow's interface of capsules, batch by batch, so that pandas, polars and pyarrow read them
//! without a dependency of this package.

use crate::errors::Kind;
use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader,
    cast::AsArray,
    ffi::FFI_ArrowSchema,
    ffi_stream::FFI_ArrowArrayStream,
    types::{Float64Type, Int64Type, UInt64Type},
};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::take::take;
use pyo3::{
    IntoPyObjectExt,
    prelude::*,
    types::{PyCapsule, PyDict, PyList},
};
use std::{collections::BTreeMap, sync::Arc};

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// Where the batches of a table come from.
enum Source {
    Batch(RecordBatch),
    /// Read again for each reader.
    Read(Box<dyn Fn() -> Batches + Send + Sync>),
}

/// A table.
#[pyclass(frozen, module = "longhaul._longhaul")]
pub struct Table {
    schema: SchemaRef,
    source: Source,
}

impl Table {
    /// One that is in memory.
    pub fn of_batch(batch: RecordBatch) -> Self {
        Self { schema: batch.schema(), source: Source::Batch(batch) }
    }

    /// One whose batches are read when they are asked for.
    pub fn of_reader(
        schema: SchemaRef,
        read: impl Fn() -> Batches + Send + Sync + 'static,
    ) -> Self {
        Self { schema, source: Source::Read(Box::new(read)) }
    }

    fn batches(&self) -> Batches {
        match &self.source {
            Source::Batch(batch) => Box::new(std::iter::once(Ok(batch.clone()))),
            Source::Read(read) => read(),
        }
    }

    fn reader(&self) -> Box<dyn RecordBatchReader + Send> {
        Box::new(RecordBatchIterator::new(self.batches(), SchemaRef::clone(&self.schema)))
    }
}

#[pymethods]
impl Table {
    /// The rows, as a stream of Arrow's C interface. A reader that asks for another schema gets this one, as the interface allows.
    #[pyo3(signature = (requested_schema=None) -> "object")]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        PyCapsule::new_with_value(
            py,
            FFI_ArrowArrayStream::new(self.reader()),
            c"arrow_array_stream",
        )
    }

    /// The columns, by Arrow's C interface.
    #[pyo3(signature = () -> "object")]
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema)
            .map_err(|error| Kind::Longhaul.error(py, error))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Of each column its unit and its description.
    #[getter]
    fn metadata(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let of = |field: &arrow_schema::FieldRef| {
            let metadata = field.metadata().iter().map(|(key, value)| (key.clone(), value.clone()));
            (field.name().clone(), metadata.collect())
        };
        self.schema.fields().iter().map(of).collect()
    }

    /// How many rows there are.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let count =
            || self.batches().try_fold(0, |rows, batch| batch.map(|batch| rows + batch.num_rows()));
        py.detach(count).map_err(|error| Kind::Record.error(py, error))
    }

    /// The first rows, or all, as dicts.
    #[pyo3(signature = (limit=None) -> "list[dict[str, object]]")]
    fn rows<'py>(&self, py: Python<'py>, limit: Option<usize>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        let most = limit.unwrap_or(usize::MAX);
        for batch in self.batches() {
            let failed = |error| Kind::Record.error(py, error);
            let batch = batch.map_err(failed)?;
            let batch = batch.slice(0, batch.num_rows().min(most - rows.len()));
            let columns: Vec<ArrayRef> =
                batch.columns().iter().map(plain).collect::<Result<_, _>>().map_err(failed)?;
            for row in 0..batch.num_rows() {
                let dict = PyDict::new(py);
                for (field, column) in self.schema.fields().iter().zip(&columns) {
                    dict.set_item(field.name(), value(py, column, row)?)?;
                }
                rows.append(dict)?;
            }
            if rows.len() == most {
                break;
            }
        }
        Ok(rows)
    }
}

/// A column whose texts are not in a dictionary.
fn plain(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let Some(texts) = column.as_any_dictionary_opt() else { return Ok(Arc::clone(column)) };
    take(texts.values(), texts.keys(), None)
}

/// A value, by its type.
fn value<'py>(py: Python<'py>, column: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if column.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).into_bound_py_any(py),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into_bound_py_any(py),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into_bound_py_any(py),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into_bound_py_any(py),
        DataType::Utf8 => column.as_string::<i32>().value(row).into_bound_py_any(py),
        other => Err(Kind::Longhaul.error(py, format!("a column of type {other}"))),
    }
}
