// SPDX-License-Identifier: GPL-2.0-or-later
//! The sender's description of the content: JSON in HELLO, which the receiver does not trust.

#![warn(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss
)]

use super::date::Date;
use crate::{
    Error,
    name::{check_name, path_within},
    text::printable,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A file: the stream is its bytes.
    File,
    /// A directory: the stream is a tar archive of what is in it.
    Directory,
    /// A pipe: the stream is what came from it.
    Pipe,
    /// A file that is still written: the stream is what follows its first [`Note::header_last`] bytes, and then these.
    Growing,
}

/// The most of a file's beginning that comes last.
pub(super) const MAX_HEADER: u64 = 16 << 20;

/// The sender's description of the content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// What is sent.
    pub kind: Kind,
    /// Its name, without directories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The length of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Its permissions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// When it was changed: nanoseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<u64>,
    /// The same for dates before 1970 and after 2554: seconds since 1970 as a decimal number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_s: Option<String>,
    /// Of a [growing](Kind::Growing) file: how many bytes of its beginning come last. A shorter file comes as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header_last: Option<u64>,
    /// The folder that it goes into, below the one of the receiver: names with `/` between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// The most bytes of [`Note::folder`]: HELLO has room for 4096.
pub(super) const MAX_FOLDER: usize = 1024;

impl Note {
    /// As it travels.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it has a form in JSON")
    }

    /// Reads what a sender says.
    ///
    /// # Errors
    /// It is not a note, or names no file that a directory can have.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let unusable =
            |why: &str| Error::Answer(format!("what the sender says cannot be used: {why}"));
        let note: Self = serde_json::from_slice(bytes)
            .map_err(|_| unusable("it is not a note of longhaul send"))?;
        if let Some(name) = &note.name {
            let shown = printable(name, 100);
            check_name(name).map_err(|why| unusable(&format!("{shown:?}: {why}")))?;
        }
        if note.modified_s.as_ref().is_some_and(|text| Date::parse(text).is_none()) {
            return Err(unusable("its date is not a number of seconds"));
        }
        if let Some(folder) = &note.folder {
            let is_short = folder.len() <= MAX_FOLDER;
            let usable = is_short.then(|| path_within(folder)).ok_or("it is too long".to_owned());
            usable
                .and_then(|path| path.map_err(|error| error.to_string()))
                .map_err(|why| unusable(&why))?;
        }
        let has_header = note.header_last.map(|bytes| (1..=MAX_HEADER).contains(&bytes));
        if has_header != (note.kind == Kind::Growing).then_some(true) {
            return Err(unusable("how much of its beginning comes last"));
        }
        Ok(note)
    }

    /// Nothing but what is sent.
    pub(super) fn of(kind: Kind) -> Self {
        let (name, bytes, mode, header_last, folder) = (None, None, None, None, None);
        Self { kind, name, bytes, mode, modified_ns: None, modified_s: None, header_last, folder }
    }

    /// Where it goes in a receiver's directory, if it has a name.
    pub(super) fn place_in(&self, directory: &Path) -> Option<PathBuf> {
        let folder =
            self.folder.as_ref().map_or(directory.to_owned(), |folder| directory.join(folder));
        Some(folder.join(self.name.as_ref()?))
    }

    /// Its name, with its folder.
    pub(super) fn whole_name(&self) -> Option<String> {
        let name = self.name.clone()?;
        Some(self.folder.as_ref().map_or(name.clone(), |folder| format!("{folder}/{name}")))
    }

    /// Says when it was changed.
    pub(super) fn dated(self, date: Date) -> Self {
        let modified_ns = date.nanoseconds();
        let modified_s = modified_ns.is_none().then(|| date.to_string());
        Self { modified_ns, modified_s, ..self }
    }

    /// When it was changed.
    pub(super) fn date(&self) -> Option<Date> {
        let text = || Date::parse(self.modified_s.as_ref()?);
        self.modified_ns.map(Date::from_nanoseconds).or_else(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_is_short_and_names_one_file() {
        let note = Note {
            kind: Kind::File,
            name: Some("\u{1d11e}".repeat(61)),
            bytes: Some(u64::MAX),
            mode: Some(0o7777),
            modified_ns: Some(u64::MAX),
            modified_s: Some("-9223372036854775807.999999999".to_owned()),
            header_last: None,
            folder: Some("\u{1d11e}/".repeat(204) + "end"),
        };
        let bytes = note.to_bytes();
        assert!(bytes.len() < 2500, "HELLO has room for 4096");
        assert_eq!(Note::parse(&bytes).unwrap(), note);
        for name in ["", ".", "..", "a/b", "/etc", "a\\b", "a\nb", &"x".repeat(245)] {
            let note = Note { name: Some(name.to_owned()), ..note.clone() };
            assert!(Note::parse(&note.to_bytes()).is_err(), "{name:?}");
        }
        assert!(Note::parse(b"{}").is_err() && Note::parse(b"").is_err());
        let long = "a/".repeat(512) + "b";
        for folder in ["", "/", "a/", "/a", "a//../b", "..", "a/../b", "a\nb", &long] {
            let note = Note { folder: Some(folder.to_owned()), ..note.clone() };
            assert!(Note::parse(&note.to_bytes()).is_err(), "{folder:?}");
        }
        for (kind, header_last, is_right) in [
            (Kind::Growing, Some(1), true),
            (Kind::Growing, Some(MAX_HEADER), true),
            (Kind::Growing, Some(0), false),
            (Kind::Growing, Some(MAX_HEADER + 1), false),
            (Kind::Growing, None, false),
            (Kind::File, Some(1), false),
            (Kind::Directory, Some(1), false),
        ] {
            let note = Note { kind, header_last, ..note.clone() };
            assert_eq!(Note::parse(&note.to_bytes()).is_ok(), is_right, "{note:?}");
        }
        let note = Note { modified_s: Some("tomorrow".to_owned()), ..note };
        assert!(Note::parse(&note.to_bytes()).is_err());
    }
}
