// SPDX-License-Identifier: GPL-2.0-or-later
//! A host's record as one file, and in pieces of text.
//!
//! Threats. The file comes from a host that may be anything. Names in it are plain, lengths and their sum are bounded, and what it
//! unpacks to is only what the file's SHA-256 was given for.

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read},
    path::Path,
};
use units::text::hexadecimal;
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

/// The most files of a record, and the most bytes of all of them.
const MOST_FILES: usize = 1000;
const MOST_BYTES: u64 = 4 << 30;

/// Packs the files of a folder; answers length and SHA-256.
pub fn pack(folder: &Path, into: &Path) -> io::Result<(u64, String)> {
    let mut zip = ZipWriter::new(BufWriter::new(File::create(into)?));
    let options =
        SimpleFileOptions::DEFAULT.compression_method(CompressionMethod::Deflated).large_file(true);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let name = entry.file_name().to_string_lossy().into_owned();
            zip.start_file(name, options).map_err(io::Error::other)?;
            io::copy(&mut File::open(entry.path())?, &mut zip)?;
        }
    }
    let file = zip.finish().map_err(io::Error::other)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    sha256_of(into)
}

/// Length and SHA-256 of a file.
pub fn sha256_of(file: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(file)?;
    let (mut hash, mut length, mut part) = (Sha256::new(), 0, vec![0; 1 << 20]);
    loop {
        let read = file.read(&mut part)?;
        if read == 0 {
            return Ok((length, hexadecimal(&hash.finalize())));
        }
        hash.update(&part[..read]);
        length += read as u64;
    }
}

/// Unpacks such a file into a new folder.
pub fn unpack(file: &Path, into: &Path) -> io::Result<()> {
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut zip = ZipArchive::new(BufReader::new(File::open(file)?)).map_err(io::Error::other)?;
    if zip.len() > MOST_FILES {
        return Err(wrong(format!("{} files in a record", zip.len())));
    }
    fs::create_dir(into)?;
    let mut left = MOST_BYTES;
    for n in 0..zip.len() {
        let entry = zip.by_index(n).map_err(io::Error::other)?;
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-,=%+@".contains(c);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
            return Err(wrong(format!("a file named {name:?} in a record")));
        }
        let mut out = File::create_new(into.join(&name))?;
        let written = io::copy(&mut entry.take(left + 1), &mut out)?;
        left = left.checked_sub(written).ok_or_else(|| wrong("a record is too large".into()))?;
    }
    Ok(())
}

/// Bytes as text.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Bytes of such a text, if they are not more.
pub fn from_base64(text: &str, most: usize) -> Option<Vec<u8>> {
    if text.len() / 4 * 3 > most + 3 {
        return None;
    }
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn records_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let (from, file) = (folder.path().join("record"), folder.path().join("packed"));
        fs::create_dir_all(from.join("folder")).unwrap();
        for (name, content) in [("manifest.json", "{}"), ("depot-d1-f.log", &"x".repeat(100_000))] {
            fs::write(from.join(name), content).unwrap();
        }
        let (bytes, sha256) = pack(&from, &file).unwrap();
        assert!(bytes < 2000 && sha256.len() == 64, "{bytes}");
        assert_eq!(sha256_of(&file).unwrap(), (bytes, sha256));
        let into = folder.path().join("unpacked");
        unpack(&file, &into).unwrap();
        assert_eq!(fs::read_to_string(into.join("manifest.json")).unwrap(), "{}");
        assert_eq!(fs::read_dir(&into).unwrap().count(), 2);
        assert!(unpack(&file, &into).is_err(), "it is there already");
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (n, name) in ["../x", "/etc/x", ".hidden", "a/b", "a\\b", "a\nb", ""].iter().enumerate()
        {
            let file = folder.path().join(n.to_string());
            let mut zip = ZipWriter::new(File::create(&file).unwrap());
            zip.start_file(*name, SimpleFileOptions::DEFAULT).unwrap();
            zip.write_all(b"x").unwrap();
            zip.finish().unwrap();
            assert!(unpack(&file, &folder.path().join(format!("{n}.out"))).is_err(), "{name}");
        }
        assert!(unpack(Path::new("/dev/null"), &folder.path().join("none")).is_err());
        assert_eq!(from_base64("!", 10), None);
        assert_eq!(from_base64(&base64(&[1; 100]), 10), None);
    }
}
