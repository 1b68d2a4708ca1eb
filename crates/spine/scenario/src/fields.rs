// SPDX-License-Identifier: GPL-2.0-or-later
//! Reading a table key by key, so that one pass reports every problem in it.

use crate::{
    diagnostics::{Location, Problems},
    document::{Data, Table, Value},
};
use std::str::FromStr;
use units::{Bytes, Duration, ParseError, Probability, Rate, suggest::hint};

/// The keys of one table.
///
/// Each key that is asked for becomes a known one; [`Fields::finish`] reports the others.
pub(crate) struct Fields<'t> {
    table: &'t Table,
    location: Location,
    /// What the table describes, as messages name it: `link "a-b"`, or nothing at the top level.
    what: String,
    known: Vec<&'static str>,
    problems: &'t Problems,
}

/// Why a value can't be read: where, and what about it.
pub(crate) type Mismatch = (Location, String);

/// What the value of a key may be.
pub(crate) trait Field: Sized {
    /// Completes "x is not ..." and "is missing: ...".
    const EXPECTED: &'static str;

    fn read(value: &Value) -> Result<Self, Mismatch>;
}

impl<'t> Fields<'t> {
    pub fn new(table: &'t Table, location: Location, what: String, problems: &'t Problems) -> Self {
        Self { table, location, what, known: Vec::new(), problems }
    }

    /// The keys of another table that describes the same thing.
    pub fn over(&self, table: &'t Table) -> Self {
        Self::new(table, self.location.clone(), self.what.clone(), self.problems)
    }

    pub fn location(&self) -> &Location {
        &self.location
    }

    pub fn report(&self, location: &Location, message: &str) {
        let message = if self.what.is_empty() {
            message.to_owned()
        } else {
            format!("{}: {message}", self.what)
        };
        self.problems.report(location, message);
    }

    fn report_key(&self, location: &Location, key: &str, message: &str) {
        let what = if self.what.is_empty() { String::new() } else { format!("{}, ", self.what) };
        self.problems.report(location, format!("{what}{key}: {message}"));
    }

    /// A key's value as it stands, whatever it is.
    pub fn raw(&mut self, key: &'static str) -> Option<&'t Value> {
        self.known.push(key);
        self.table.get(key)
    }

    /// A key that may be absent. A value that can't be read is reported and taken as absent.
    pub fn optional<T: Field>(&mut self, key: &'static str) -> Option<T> {
        let value = self.raw(key).filter(|v| !v.is_broken())?;
        T::read(value).map_err(|(location, message)| self.report_key(&location, key, &message)).ok()
    }

    /// A key with a default.
    pub fn or<T: Field>(&mut self, key: &'static str, default: T) -> T {
        self.optional(key).unwrap_or(default)
    }

    /// A key that must be there.
    pub fn required<T: Field>(&mut self, key: &'static str) -> Option<T> {
        if self.table.get(key).is_none() {
            self.known.push(key);
            self.report(&self.location, &format!("\"{key}\" is missing: {}", T::EXPECTED));
            return None;
        }
        self.optional(key)
    }

    /// A table under a key.
    pub fn section(&mut self, key: &'static str) -> Option<Fields<'t>> {
        let value = self.raw(key)?;
        let Some(table) = value.as_table() else {
            self.report_key(&value.location, key, &format!("{} is not a table", value.describe()));
            return None;
        };
        let what = match self.what.as_str() {
            "" => format!("[{key}]"),
            what => format!("{what}, {key}"),
        };
        Some(Fields::new(table, value.location.clone(), what, self.problems))
    }

    /// The tables of `[[key]]`, each with its name (for messages; it may be missing or wrong).
    pub fn sections(&mut self, key: &'static str) -> Vec<Fields<'t>> {
        let Some(value) = self.raw(key) else { return Vec::new() };
        let is_table = |v: &Value| matches!(v.data, Data::Table(_));
        if !matches!(&value.data, Data::List(items) if items.iter().all(is_table)) {
            self.report(&value.location, &format!("\"{key}\" is written as [[{key}]] tables"));
        }
        let fields = |(at, (location, table)): (usize, (&Location, &'t Table))| {
            let what = match table.get("name").and_then(Value::as_text) {
                Some(name) => format!("{key} \"{name}\""),
                None => format!("{key} {}", at + 1),
            };
            Fields::new(table, location.clone(), what, self.problems)
        };
        self.table.sections(key).enumerate().map(fields).collect()
    }

    pub fn table(&self) -> &'t Table {
        self.table
    }

    /// Takes keys as known that are read elsewhere.
    pub fn allow(&mut self, keys: &[&'static str]) {
        self.known.extend(keys);
    }

    /// Reports the keys that were never read: they are unknown.
    pub fn finish(self) {
        for entry in self.table.entries().filter(|e| !self.known.contains(&e.key.as_str())) {
            let hint = hint(&entry.key, self.known.iter().copied());
            self.report(&entry.location, &format!("unknown key \"{}\"{hint}", entry.key));
        }
    }
}

/// `value` is not `expected`.
pub(crate) fn mismatch(value: &Value, expected: &str) -> Mismatch {
    (value.location.clone(), format!("{} is not {expected}", value.describe()))
}

/// Reads a value from its text.
pub(crate) fn from_text<T>(
    value: &Value,
    expected: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Mismatch> {
    value.as_text().and_then(read).ok_or_else(|| mismatch(value, expected))
}

/// Reads a value that is a quantity `Q`, or may be: of one that is not clear it says what to write.
pub(crate) fn from_quantity<Q: FromStr<Err = ParseError>, T>(
    value: &Value,
    expected: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Mismatch> {
    from_text(value, expected, read).map_err(|other| {
        let error = value.as_text().and_then(|text| text.parse::<Q>().err());
        error.filter(ParseError::is_unclear).map_or(other, |e| mismatch(value, &e.expected))
    })
}

/// Quantities, which know themselves what they expect.
macro_rules! quantity {
    ($($type:ty),+) => {$(
        impl Field for $type {
            const EXPECTED: &'static str = <$type>::EXPECTED;
            fn read(value: &Value) -> Result<Self, Mismatch> {
                let text = value.as_text().ok_or_else(|| mismatch(value, Self::EXPECTED))?;
                text.parse().map_err(|error: ParseError| mismatch(value, &error.expected))
            }
        }
    )+};
}
quantity!(Bytes, Duration, Probability, Rate);

/// Any text.
impl Field for String {
    const EXPECTED: &'static str = "a text in quotes";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        match &value.data {
            Data::Text(text) => Ok(text.clone()),
            _ => Err(mismatch(value, Self::EXPECTED)),
        }
    }
}

/// A truth value; as text where a variable gives it.
impl Field for bool {
    const EXPECTED: &'static str = "true or false";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let truth = value.as_variable().and_then(|text| text.parse().ok());
        truth.ok_or_else(|| mismatch(value, Self::EXPECTED))
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Field for Whole<MIN, MAX> {
    const EXPECTED: &'static str = "a whole number";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let expected = match MAX {
            u64::MAX => format!("a whole number of at least {MIN}"),
            _ => format!("a whole number from {MIN} to {MAX}"),
        };
        from_text(value, &expected, |text| {
            text.trim().parse().ok().filter(|n| (MIN..=MAX).contains(n)).map(Self)
        })
    }
}

/// A list, each item read by itself.
impl<T: Field> Field for Vec<T> {
    const EXPECTED: &'static str = "a list";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        match &value.data {
            Data::List(items) => items.iter().map(T::read).collect(),
            _ => Err((value.location.clone(), format!("{} is not a list", value.describe()))),
        }
    }
}

/// A value together with its place, for what can be checked only later.
#[derive(Debug, Clone)]
pub(crate) struct Located<T> {
    pub location: Location,
    pub value: T,
}

impl<T: Field> Field for Located<T> {
    const EXPECTED: &'static str = T::EXPECTED;
    fn read(value: &Value) -> Result<Self, Mismatch> {
        Ok(Self { location: value.location.clone(), value: T::read(value)? })
    }
}

/// The name of a variant, or of a node, link, flow or traffic in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name(pub String);

impl Name {
    /// What a DNS label, and so a host's name, may have.
    pub const LONGEST: usize = 63;

    fn check(text: &str, further: impl Fn(char) -> bool) -> Option<Self> {
        let is_name = text.len() <= Self::LONGEST
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-') || further(c));
        is_name.then(|| Self(text.to_owned()))
    }

    /// Whether a text is a name.
    pub fn is_one(text: &str) -> bool {
        Self::check(text, |_| false).is_some()
    }
}

impl Field for Name {
    const EXPECTED: &'static str =
        "a name: a small letter, then small letters, digits and hyphens, at most 63 in all";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_text(value, Self::EXPECTED, |text| Self::check(text, |_| false))
    }
}

/// The name of a node, link, flow or traffic as the file gives it: `#` stands for a number where
/// one table stands for many things (`count`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(pub String);

impl Pattern {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Pattern {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Field for Pattern {
    const EXPECTED: &'static str = Name::EXPECTED;
    fn read(value: &Value) -> Result<Self, Mismatch> {
        let name = |text: &str| Name::check(text, |c| c == '#').map(|name| Self(name.0));
        from_text(value, Self::EXPECTED, name)
    }
}
