// SPDX-License-Identifier: GPL-2.0-or-later
//! The listing of a directory: a page of relative links, for people and for programs (rclone's backend `http`).
//!
//! Each link is the percent-encoded name of one entry, with `/` behind a directory's. There is none to the parent.
//! Entries are read, sorted and sent by batches of [`BATCH`], so that a directory of any size takes the memory of one
//! batch, and no thread waits for a slow client. More entries than that are sorted within their batch alone.

use super::beneath::{Entries, Entry};
use hyper::body::{Body, Bytes, Frame};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::{
    fmt::Write,
    io, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::task::{JoinHandle, spawn_blocking};
use units::text::is_hidden;

/// Maximum number of entries in memory. A name has at most 255 bytes, and less than 3 KB as a line.
const BATCH: usize = 1000;

/// Characters that need no encoding in a link. A colon does: a part before it would be taken for a scheme.
const NOT_IN_LINKS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The page, generated while it is read.
pub(super) struct Listing(State);

enum State {
    /// The next piece of the page is to be made: its beginning where there is a title.
    Next(Entries, Option<String>),
    Making(JoinHandle<io::Result<(Bytes, Option<Entries>)>>),
    Ended,
}

impl Listing {
    /// A page of these entries.
    pub(super) fn new(entries: Entries, title: String) -> Self {
        Self(State::Next(entries, Some(title)))
    }
}

impl Body for Listing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            match &mut self.0 {
                State::Ended => return Poll::Ready(None),
                State::Making(piece) => {
                    let made = ready!(Pin::new(piece).poll(context));
                    self.0 = State::Ended;
                    let (bytes, entries) = match made.map_err(io::Error::other) {
                        Ok(Ok(made)) => made,
                        Ok(Err(error)) | Err(error) => return Poll::Ready(Some(Err(error))),
                    };
                    if let Some(entries) = entries {
                        self.0 = State::Next(entries, None);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                next @ State::Next(..) => {
                    if let State::Next(entries, title) = mem::replace(next, State::Ended) {
                        *next =
                            State::Making(spawn_blocking(move || piece(entries, title.as_deref())));
                    }
                }
            }
        }
    }
}

/// A part of the page, and the remaining entries.
fn piece(mut entries: Entries, title: Option<&str>) -> io::Result<(Bytes, Option<Entries>)> {
    let mut batch = entries.by_ref().take(BATCH).collect::<io::Result<Vec<_>>>()?;
    batch.sort_unstable();
    let is_last = batch.len() < BATCH;
    let mut page = title.map(beginning).unwrap_or_default();
    for entry in &batch {
        line(&mut page, entry);
    }
    if is_last {
        page.push_str("</pre></body></html>\n");
    }
    Ok((page.into(), (!is_last).then_some(entries)))
}

fn beginning(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{}</title></head>\n<body><pre>\n",
        escaped(title)
    )
}

fn line(page: &mut String, Entry { name, is_dir }: &Entry) {
    let slash = if *is_dir { "/" } else { "" };
    let link = utf8_percent_encode(name, NOT_IN_LINKS);
    let _ = writeln!(page, "<a href=\"{link}{slash}\">{}{slash}</a>", escaped(name));
}

/// A text escaped for HTML. Hidden characters are replaced: a name with a line end would look like two.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_hidden(c) => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beneath::Beneath;
    use http_body_util::BodyExt;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::{fs, os::unix::fs::symlink, path::Path};

    /// The pieces of the page of a directory.
    fn pieces(root: &Path, path: &str) -> Vec<String> {
        let entries = Beneath::new(root).unwrap().entries(path.into()).unwrap();
        let mut listing = Listing::new(entries, format!("/{path}"));
        let mut pieces = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            while let Some(frame) = listing.frame().await {
                let bytes = frame.unwrap().into_data().unwrap();
                pieces.push(String::from_utf8(bytes.into()).unwrap());
            }
        });
        pieces
    }

    #[test]
    fn names_are_escaped_in_links_and_in_text() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("<b>&")).unwrap();
        for name in
            ["a b", "\"><script>", "50%", "x:y", "q?r#s", "caf\u{e9}", ".hidden", "two\nlines"]
        {
            fs::write(root.path().join(name), "").unwrap();
        }
        let page = pieces(root.path(), "").concat();
        for line in [
            "<a href=\"%3Cb%3E%26/\">&lt;b&gt;&amp;/</a>",
            "<a href=\"a%20b\">a b</a>",
            "<a href=\"%22%3E%3Cscript%3E\">&quot;&gt;&lt;script&gt;</a>",
            "<a href=\"50%25\">50%</a>",
            "<a href=\"x%3Ay\">x:y</a>",
            "<a href=\"q%3Fr%23s\">q?r#s</a>",
            "<a href=\"caf%C3%A9\">caf\u{e9}</a>",
            "<a href=\".hidden\">.hidden</a>",
            "<a href=\"two%0Alines\">two\u{fffd}lines</a>",
        ] {
            assert!(page.contains(&format!("\n{line}\n")), "{line}: {page}");
        }
        assert_eq!(page.matches("<a ").count(), 9, "no other links: {page}");
    }

    #[test]
    fn listing_names_only_what_is_served() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "").unwrap();
        fs::create_dir(root.path().join("sub")).unwrap();
        fs::write(root.path().join("sub/file"), "").unwrap();
        let link = |to: &Path, name: &str| symlink(to, root.path().join("sub").join(name)).unwrap();
        link(Path::new("file"), "inside");
        link(Path::new("."), "loop");
        link(outside.path(), "outside");
        link(&outside.path().join("secret"), "secret");
        link(Path::new("nowhere"), "dangling");
        link(Path::new("/dev/null"), "device");
        let fifo = root.path().join("sub/fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let page = pieces(root.path(), "sub").concat();
        let links: Vec<_> =
            page.split("href=\"").skip(1).filter_map(|l| l.split('"').next()).collect();
        assert_eq!(links, ["file", "inside", "loop/"], "{page}");
        let beneath = Beneath::new(root.path()).unwrap();
        for path in ["sub/outside", "sub/file", "..", "sub/none"] {
            assert!(beneath.entries(path.into()).is_err(), "{path}");
        }
    }

    #[test]
    fn unread_listing_holds_no_thread() {
        let root = tempfile::tempdir().unwrap();
        for n in 0..=BATCH {
            fs::write(root.path().join(n.to_string()), "").unwrap();
        }
        let listing = || {
            let entries = Beneath::new(root.path()).unwrap().entries("".into()).unwrap();
            Listing::new(entries, String::new())
        };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let mut unread = listing();
            assert!(unread.frame().await.is_some());
            // The one thread is free for others.
            assert!(listing().collect().await.is_ok());
            assert!(unread.frame().await.is_some());
        });
    }

    #[test]
    fn large_listing_is_sent_in_bounded_pieces() {
        let root = tempfile::tempdir().unwrap();
        let count = 2 * BATCH + 1;
        for n in 0..count {
            fs::write(root.path().join(format!("file-{n:05}")), "").unwrap();
        }
        let pieces = pieces(root.path(), "");
        assert_eq!(pieces.len(), 3);
        for piece in &pieces {
            assert!(piece.matches("<a ").count() <= BATCH);
        }
        let page = pieces.concat();
        for n in 0..count {
            assert_eq!(page.matches(&format!("href=\"file-{n:05}\"")).count(), 1, "{n}");
        }
        assert!(page.ends_with("</html>\n") && page.matches("<html>").count() == 1);
    }
}
