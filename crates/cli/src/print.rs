// SPDX-License-Identifier: GPL-2.0-or-later
//! Standard output and standard error of every command: JSON documents, texts and lines.
//!
//! What others have written (servers, depots, files) may stand in every text, so every text goes through `units::text`:
//! no control or invisible character reaches a terminal, and JSON has it escaped.
//!
//! A reader such as `head` may close either of them at any time. That is not a failure: the rest is dropped, and
//! the command goes on to its end. `println!` and `eprintln!` would panic and print raw text, so this crate has `outln!`
//! and `errln!`, and clippy refuses those. Any other error of standard output, such as a full disk, makes the command
//! fail in [`finish`].

use serde::Serialize;
use std::{
    fs::File,
    io::{self, ErrorKind, Write},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use units::text;

/// The first error of standard output. Nothing is written after it.
static OUTPUT_ERROR: Mutex<Option<io::Error>> = Mutex::new(None);
/// Whether the reader of a [`StreamedOutput`] has closed it.
static STREAM_CLOSED: AtomicBool = AtomicBool::new(false);

/// Prints a line to standard output.
macro_rules! outln {
    ($($text:tt)*) => { $crate::print::print_text(&(format!($($text)*) + "\n")) };
}

/// Prints a line to standard error.
macro_rules! errln {
    ($($text:tt)*) => { $crate::print::print_error(&(format!($($text)*) + "\n")) };
}

/// Prints a document.
pub fn print_json(document: &impl Serialize) {
    print_json_text(&serde_json::to_string_pretty(document).expect("plain data"));
}

/// Prints a document that is JSON already, and a line feed.
pub fn print_json_text(document: &str) {
    print_whole(&format!("{}\n", text::json(document)));
}

/// Prints a text.
pub fn print_text(text: &str) {
    print_whole(&text::lines(text));
}

/// Draws on a terminal: `text` is printed by [`text::lines`], between sequences of the program's own.
pub fn draw(before: &str, text: &str, at_line_ends: &str, after: &str) {
    let lines = text::lines(text).replace('\n', &format!("{at_line_ends}\n"));
    print_whole(&format!("{before}{lines}{after}"));
}

/// Prints a text to standard error. Errors have nowhere to go.
pub fn print_error(text: &str) {
    let _ = write_whole(&mut io::stderr(), &text::lines(text));
}

fn print_whole(text: &str) {
    let mut output_error = OUTPUT_ERROR.lock().unwrap_or_else(PoisonError::into_inner);
    if output_error.is_none() {
        *output_error = write_whole(&mut io::stdout(), text).err();
    }
}

fn write_whole(to: &mut impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// Whether nothing that is printed arrives any more: a command that repeats its output may end.
pub fn is_output_closed() -> bool {
    OUTPUT_ERROR.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// To be called at the end of a command.
///
/// # Errors
/// Standard output failed, for another reason than that its reader closed it.
pub fn finish() -> io::Result<()> {
    let output_error = OUTPUT_ERROR.lock().unwrap_or_else(PoisonError::into_inner).take();
    output_error.filter(|error| error.kind() != ErrorKind::BrokenPipe).map_or(Ok(()), Err)
}

/// Standard output that receives a file's bytes.
pub struct StreamedOutput(File);

impl StreamedOutput {
    pub fn new(output: File) -> Self {
        Self(output)
    }

    /// Whether its reader has closed it, so that the command cannot complete and needs no message.
    pub fn is_closed() -> bool {
        STREAM_CLOSED.load(Relaxed)
    }
}

impl Write for StreamedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).inspect_err(|error| {
            if error.kind() == ErrorKind::BrokenPipe {
                STREAM_CLOSED.store(true, Relaxed);
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
