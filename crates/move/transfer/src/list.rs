// SPDX-License-Identifier: GPL-2.0-or-later
//! A list of URLs: one a line, with a tab and an output name where the URL's own will not do.

use crate::{
    Error,
    name::{file_name, path_within},
    text::printable,
};
use std::path::PathBuf;

/// A line of a list.
#[derive(Debug)]
pub struct ListEntry {
    /// The URL as written in the list.
    pub url: String,
    /// The file, relative to the directory for all of them; or why there is none.
    pub file: Result<PathBuf, Error>,
}

/// Reads a list. Empty lines and those that begin with `#` are left out. A wrong line is an entry with an error, so
/// that the others are transferred all the same. A byte order mark is no part of the first line.
pub fn read_list(text: &str) -> Vec<ListEntry> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().enumerate();
    let lines = lines.map(|(at, line)| (at + 1, line.trim_end_matches('\r')));
    let lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|(number, line)| entry(number, line)).collect()
}

fn entry(number: usize, line: &str) -> ListEntry {
    let (url, name) = match line.split_once('\t') {
        Some((url, name)) => (url.trim(), Some(name.trim())),
        None => (line.trim(), None),
    };
    let file = match name {
        Some(name) => path_within(name),
        None => file_name(url).map(PathBuf::from),
    };
    let file = file.map_err(|error| {
        Error::Usage(format!("line {number} of the list: {}", printable(&error.to_string(), 400)))
    });
    ListEntry { url: url.to_owned(), file }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_line_does_not_hide_the_others() {
        let list =
            read_list("# c\n\nhttp://h/a\r\n http://h/b \tsub/c d\nhttp://h/x\t../y\nhttp://h/\n");
        let urls: Vec<_> = list.iter().map(|entry| entry.url.as_str()).collect();
        assert_eq!(urls, ["http://h/a", "http://h/b", "http://h/x", "http://h/"]);
        let files: Vec<_> = list.iter().map(|entry| entry.file.as_ref().ok()).collect();
        let (a, c) = (PathBuf::from("a"), PathBuf::from("sub/c d"));
        assert_eq!(files, [Some(&a), Some(&c), None, None]);
        assert!(list[2].file.as_ref().unwrap_err().to_string().contains("line 5 of the list"));
    }

    #[test]
    fn byte_order_mark_is_no_part_of_a_line() {
        for text in ["\u{feff}http://h/a\nhttp://h/b\n", "\u{feff}# c\r\nhttp://h/a\r\nhttp://h/b"]
        {
            let list = read_list(text);
            let urls: Vec<_> = list.iter().map(|entry| entry.url.as_str()).collect();
            assert_eq!(urls, ["http://h/a", "http://h/b"]);
        }
    }
}
