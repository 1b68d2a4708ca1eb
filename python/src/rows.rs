// SPDX-License-Identifier: GPL-2.0-or-later
//! Rows of names and values as a table. Its columns come in the order in which rows first have them; what a row lacks is null.

use crate::descriptions::description;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use record::units::Unit;
use serde::Serialize;
use serde_json::{Map, Value};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Names and values.
pub type Row = Map<String, Value>;

/// The keys of a document whose values are numbers, texts, booleans or null.
pub fn plain_keys(document: &impl Serialize) -> Row {
    let Ok(Value::Object(keys)) = serde_json::to_value(document) else { return Row::new() };
    keys.into_iter().filter(|(_, value)| !value.is_array() && !value.is_object()).collect()
}

/// The table of these rows. `always` are columns that it has even without rows.
pub fn table(rows: &[Row], always: &[&str]) -> RecordBatch {
    let mut names: Vec<&str> = always.to_vec();
    let mut known: HashSet<&str> = names.iter().copied().collect();
    for name in rows.iter().flat_map(Row::keys) {
        if known.insert(name) {
            names.push(name);
        }
    }
    let (fields, columns): (Vec<_>, Vec<_>) = names.iter().map(|name| column(name, rows)).unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .expect("all columns have a value for each row")
}

fn column(name: &str, rows: &[Row]) -> (Field, ArrayRef) {
    let values: Vec<&Value> =
        rows.iter().map(|row| row.get(name).unwrap_or(&Value::Null)).collect();
    let all = |is: fn(&Value) -> bool| values.iter().all(|value| value.is_null() || is(value));
    let has_some = values.iter().any(|value| !value.is_null());
    let column: ArrayRef = if has_some && all(Value::is_boolean) {
        Arc::new(values.iter().map(|value| value.as_bool()).collect::<BooleanArray>())
    } else if has_some && all(Value::is_i64) {
        Arc::new(values.iter().map(|value| value.as_i64()).collect::<Int64Array>())
    } else if has_some && all(Value::is_u64) {
        Arc::new(values.iter().map(|value| value.as_u64()).collect::<UInt64Array>())
    } else if all(Value::is_number) && (has_some || is_number(name)) {
        Arc::new(values.iter().map(|value| value.as_f64()).collect::<Float64Array>())
    } else {
        let text = |value: &&Value| match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        Arc::new(values.iter().map(text).collect::<StringArray>())
    };
    (field(name, column.data_type().clone()), column)
}

/// Whether a column without a value is one of numbers.
fn is_number(name: &str) -> bool {
    Unit::of_key(name) != Unit::One || record::metric::METRICS.iter().any(|it| it.key == name)
}

/// A column with its unit and description.
pub fn field(name: &str, kind: DataType) -> Field {
    let mut metadata = HashMap::new();
    if let Some(text) = description(name) {
        metadata.insert("description".to_owned(), text.to_owned());
    }
    if kind.is_numeric() {
        metadata.insert("unit".to_owned(), Unit::of_key(name).name().to_owned());
    }
    Field::new(name, kind, true).with_metadata(metadata)
}
