// SPDX-License-Identifier: GPL-2.0-or-later
//! Text of others, made fit for terminals, logs and JSON documents: the one place that decides what is hidden.
//!
//! Hidden is what moves a cursor, changes colours, reorders or ends a line, or cannot be seen: C0 and C1 controls,
//! line and paragraph separators, bidirectional controls (UAX #9, ALM included), zero-width and filler characters, and
//! tags. Others, such as letters of any script, stay as they are.

use std::{
    borrow::Cow,
    fmt::{self, Display, Write},
};

/// Whether a character is not to be printed as itself.
pub fn is_hidden(c: char) -> bool {
    // Nearly all are of these, and documents may be long.
    if matches!(c, ' '..='~') {
        return false;
    }
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// The character, or `?` for a hidden one.
pub fn shown(c: char) -> char {
    if is_hidden(c) { '?' } else { c }
}

/// Bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Text for within a line: hidden characters are replaced by `?`, and what is beyond `most` characters by `...`.
pub fn printable(text: &str, most: usize) -> String {
    let mut printed: String = text.chars().take(most).map(shown).collect();
    if text.chars().nth(most).is_some() {
        printed.push_str("...");
    }
    printed
}

/// Text of several lines: line feeds and tabs stay, all else that is hidden is replaced by `?`.
pub fn lines(text: &str) -> Cow<'_, str> {
    let keeps = |c: char| matches!(c, '\n' | '\t') || !is_hidden(c);
    if text.chars().all(keeps) {
        return text.into();
    }
    text.chars().map(|c| if keeps(c) { c } else { '?' }).collect::<String>().into()
}

/// The same, but colours stay, as a program's own log has them on a terminal (`ESC [ digits and ; m`).
pub fn coloured_lines(text: &str) -> Cow<'_, str> {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default();
    let mut printed = lines(first).into_owned();
    for part in parts {
        let end = part.strip_prefix('[').and_then(|rest| {
            rest.find(|c: char| !matches!(c, '0'..='9' | ';'))
                .filter(|at| rest[*at..].starts_with('m'))
        });
        printed.push(if end.is_some() { '\u{1b}' } else { '?' });
        printed.push_str(&lines(part));
    }
    printed.into()
}

/// A JSON document in which hidden characters are escaped. They can be in strings alone, where `\u` means the same to every
/// reader; JSON itself does not ask for it beyond C0. Line feeds between the values stay.
pub fn json(document: &str) -> Cow<'_, str> {
    let keeps = |c: char| c == '\n' || !is_hidden(c);
    if document.chars().all(keeps) {
        return document.into();
    }
    let mut escaped = String::with_capacity(document.len() + 16);
    for c in document.chars() {
        if keeps(c) {
            escaped.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // A string takes everything.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped.into()
}

/// Text within a line whose hidden characters are printed as escapes, so that nothing of it is lost: `\n`, `\u{9b}`.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'t>(pub &'t str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| {
            if is_hidden(c) { write!(f, "{}", c.escape_default()) } else { f.write_char(c) }
        })
    }
}
