// SPDX-License-Identifier: GPL-2.0-or-later
//! Standard output: JSON documents and texts.

use serde::Serialize;
use std::io::Write;

/// Prints a document.
pub fn print_json(document: &impl Serialize) {
    print_text(&(serde_json::to_string_pretty(document).expect("plain data") + "\n"));
}

/// Prints a text. Errors are ignored, because a reader such as `head` may close the pipe.
pub fn print_text(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
