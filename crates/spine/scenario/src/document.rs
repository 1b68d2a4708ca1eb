// SPDX-License-Identifier: GPL-2.0-or-later
//! TOML as a tree of values that know where they were written.
//!
//! The tree is changed by variants, sweep points and `--set` before it is read, and each value keeps
//! its location, so that a message points to the line (or the `--set`) that must be fixed.
//! Numbers stay text: quantities are read from text anyway.

use crate::diagnostics::{Diagnostics, Location};
use std::sync::Arc;
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

/// A value and where it was written.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub location: Location,
    pub data: Data,
    /// For messages, if it had any `${...}`: the text before they were filled in, and the
    /// `--set`s that took part.
    pub template: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Data {
    Text(String),
    /// In decimal.
    Number(String),
    /// A truth value, or a date, which no key takes.
    Other(String),
    List(Vec<Value>),
    Table(Table),
    /// A text whose `${...}` could not be filled in. That is reported, so this reads as nothing.
    Broken,
}

/// Keys and values in the order of the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table(Vec<Entry>);

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub key: String,
    /// Where the key was written; the value may begin on a later line.
    pub location: Location,
    pub value: Value,
}

impl Table {
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.0.iter_mut().map(|e| &mut e.value)
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|e| e.key == key).map(|e| &e.value)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.0.iter_mut().find(|e| e.key == key).map(|e| &mut e.value)
    }

    /// Adds a key or replaces its value.
    pub fn set(&mut self, key: &str, value: Value) {
        let entry = Entry { key: key.to_owned(), location: value.location.clone(), value };
        match self.0.iter_mut().find(|e| e.key == key) {
            Some(old) => *old = entry,
            None => self.0.push(entry),
        }
    }

    /// The tables of an array of tables, as in `[[key]]`.
    pub fn sections(&self, key: &str) -> impl Iterator<Item = (&Location, &Table)> {
        let items = match self.get(key).map(|v| &v.data) {
            Some(Data::List(items)) => items.as_slice(),
            _ => &[],
        };
        items.iter().filter_map(|v| Some((&v.location, v.as_table()?)))
    }
}

impl Value {
    pub fn new(location: Location, data: Data) -> Self {
        Self { location, data, template: None }
    }

    pub fn as_table(&self) -> Option<&Table> {
        match &self.data {
            Data::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Text, or a number's text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) | Data::Number(text) => Some(text),
            _ => None,
        }
    }

    /// What a variable may be: a text, a number or a truth value, as text.
    pub fn as_variable(&self) -> Option<&str> {
        match &self.data {
            Data::Other(text) if matches!(text.as_str(), "true" | "false") => Some(text),
            _ => self.as_text(),
        }
    }

    /// The value as a person would name it.
    pub fn describe(&self) -> String {
        match (&self.data, &self.template) {
            (Data::Text(text), Some(template)) => format!("\"{text}\" (from {template})"),
            (Data::Text(text), None) => format!("\"{text}\""),
            (Data::Number(text) | Data::Other(text), _) => text.clone(),
            (Data::List(items), _) => {
                format!("[{}]", items.iter().map(Self::describe).collect::<Vec<_>>().join(", "))
            }
            (Data::Table(_), _) => "a table".to_owned(),
            (Data::Broken, _) => String::new(),
        }
    }

    /// Whether a part of it is broken.
    pub fn is_broken(&self) -> bool {
        match &self.data {
            Data::Broken => true,
            Data::List(items) => items.iter().any(Self::is_broken),
            Data::Table(table) => table.entries().any(|e| e.value.is_broken()),
            Data::Text(_) | Data::Number(_) | Data::Other(_) => false,
        }
    }

    /// The value on one line without quotes, for names and tables of results.
    pub fn plain(&self) -> String {
        match &self.data {
            Data::Text(text) | Data::Number(text) | Data::Other(text) => text.clone(),
            Data::List(items) if items.is_empty() => "none".to_owned(),
            Data::List(items) => items.iter().map(Self::plain).collect::<Vec<_>>().join(" + "),
            Data::Table(table) => {
                let entry = |e: &Entry| format!("{} = {}", e.key, e.value.plain());
                table.entries().map(entry).collect::<Vec<_>>().join(", ")
            }
            Data::Broken => String::new(),
        }
    }
}

/// Reads a file's text.
pub(crate) fn parse(text: &str, file: &str) -> Result<Table, Diagnostics> {
    let lines = Lines::new(text, file);
    let root = DeTable::parse(text).map_err(|e| {
        let location = lines.location(e.span().map_or(0, |s| s.start));
        Diagnostics::one(location, format!("this is not TOML: {}", e.message()))
    })?;
    Ok(table(root.get_ref(), &|at| lines.location(at)))
}

/// Reads the value of a `--set key=value`: TOML if it parses as TOML, otherwise plain text, so that users
/// need not quote `90ms` twice.
pub(crate) fn parse_override(text: &str, location: &Location) -> Value {
    match DeValue::parse(text) {
        Ok(parsed) => value(&parsed, &|_| location.clone()),
        Err(_) => Value::new(location.clone(), Data::Text(text.to_owned())),
    }
}

type LocationOf<'a> = &'a dyn Fn(usize) -> Location;

fn table(source: &DeTable<'_>, location_of: LocationOf<'_>) -> Table {
    let mut entries: Vec<_> = source.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, v): (&Spanned<DeString<'_>>, _)| Entry {
        key: key.get_ref().to_string(),
        location: location_of(key.span().start),
        value: value(v, location_of),
    };
    Table(entries.into_iter().map(entry).collect())
}

fn value(source: &Spanned<DeValue<'_>>, location_of: LocationOf<'_>) -> Value {
    let data = match source.get_ref() {
        DeValue::String(text) => Data::Text(text.clone().into_owned()),
        DeValue::Integer(n) => Data::Number(
            i128::from_str_radix(n.as_str(), n.radix())
                .map_or_else(|_| n.to_string(), |n| n.to_string()),
        ),
        DeValue::Float(n) => Data::Number(n.as_str().to_owned()),
        DeValue::Boolean(b) => Data::Other(b.to_string()),
        DeValue::Datetime(d) => Data::Other(d.to_string()),
        DeValue::Array(items) => Data::List(items.iter().map(|v| value(v, location_of)).collect()),
        DeValue::Table(t) => Data::Table(table(t, location_of)),
    };
    Value::new(location_of(source.span().start), data)
}

/// Turns offsets into lines.
struct Lines {
    file: Arc<str>,
    ends: Vec<usize>,
}

impl Lines {
    fn new(text: &str, file: &str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at).collect();
        Self { file: file.into(), ends }
    }

    fn location(&self, at: usize) -> Location {
        let line = self.ends.partition_point(|end| *end < at) + 1;
        Location::Line { file: self.file.clone(), line }
    }
}
