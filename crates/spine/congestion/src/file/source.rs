// SPDX-License-Identifier: GPL-2.0-or-later
//! The file: read within bounds, and the name of its algorithm found.

use super::error::FileError;
use crate::Algorithm;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use std::{fmt::Write as _, fs::File, io::Read, os::unix::fs::OpenOptionsExt, path::Path};

/// Larger than any algorithm: `cc/bbr.h` has 20 KB.
const MAX_BYTES: u64 = 1 << 20;
/// Characters of a name in the kernel, with the prefix.
const MAX_KERNEL_NAME: usize = 15;
/// What ends an algorithm's file.
const END: &str = "CC_ALGORITHM(";

/// A file that holds one algorithm.
#[derive(Debug)]
pub(super) struct Source {
    /// The path as it was named, as messages and the compiler have it.
    pub path: String,
    /// Without directories.
    pub file_name: String,
    pub text: String,
    /// SHA-256 of the text, in hexadecimal digits.
    pub sha256: String,
    /// The algorithm's.
    pub name: String,
    /// Of `CC_ALGORITHM(name)`, from 1.
    pub end_line: usize,
}

impl Source {
    /// # Errors
    /// It can't be read, is not a file, is too long, is not text, or does not end as an algorithm does.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let shown = path.to_string_lossy().into_owned();
        let unusable = |why: String| FileError::Unusable { file: shown.clone(), why };
        if shown.chars().any(char::is_control) {
            return Err(unusable("its name has control characters".to_owned()));
        }
        let text = read_text(path).map_err(unusable)?;
        let (name, end_line) = find_name(&text).map_err(unusable)?;
        let file_name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let hash = Sha256::digest(&text);
        let sha256 = hash.iter().fold(String::new(), |mut digits, byte| {
            write!(digits, "{byte:02x}").expect("a String takes all");
            digits
        });
        Ok(Self { path: shown.clone(), file_name, text, sha256, name, end_line })
    }

    pub fn unusable(&self, why: String) -> FileError {
        FileError::Unusable { file: self.path.clone(), why }
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    // A named pipe without a writer does not hold this up.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if metadata.is_dir() {
        return Err("it is a directory; name the C file".to_owned());
    }
    if !metadata.is_file() {
        return Err("it is a device or a pipe; name a C file".to_owned());
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err("it is larger than 1 MiB, which no algorithm is".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not text in UTF-8".to_owned())?;
    if text.contains('\0') { Err("it is not text: it has null bytes".to_owned()) } else { Ok(text) }
}

/// The name in `CC_ALGORITHM(name)`, and the line.
fn find_name(text: &str) -> Result<(String, usize), String> {
    let mut ends = text.lines().zip(1..).filter_map(|(line, number)| {
        let (name, _) = line.trim_start().strip_prefix(END)?.split_once(')')?;
        Some((name.trim().to_owned(), number))
    });
    let Some((name, line)) = ends.next() else {
        return Err(format!(
            "it has no line {END}NAME); that ends an algorithm's file. Start from \
             docs/congestion/add-your-own.md"
        ));
    };
    if let Some((other, at)) = ends.next() {
        return Err(format!(
            "it has two algorithms, {name} in line {line} and {other} in line {at}; put each into a file"
        ));
    }
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_word) {
        return Err(format!(
            "line {line}: a name is made of lower-case letters, digits and _: {END}mine)"
        ));
    }
    let most = MAX_KERNEL_NAME - Algorithm::PREFIX.len();
    if name.len() > most {
        return Err(format!("line {line}: the name {name} has more than {most} characters"));
    }
    Ok((name, line))
}
