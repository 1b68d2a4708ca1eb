// SPDX-License-Identifier: GPL-2.0-or-later
//! The files that flows carry: random bytes, so that nothing on the way can compress them or take
//! one part for another, and their SHA-256.

use crate::error::LabError;
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    fs::File,
    io::{BufWriter, Read, Write},
    path::{Path, PathBuf},
};
use units::Bytes;

/// The length of a SHA-256.
pub type Digest256 = [u8; 32];

/// A file to be served.
#[derive(Debug, Clone)]
pub struct Payload {
    /// Where it is.
    pub path: PathBuf,
    /// What it must hash to.
    pub sha256: Digest256,
}

/// The files made so far, one for each size.
#[derive(Debug, Default)]
pub struct Payloads {
    /// By folder and size.
    made: HashMap<(PathBuf, Bytes), Payload>,
}

impl Payloads {
    /// The file of that size in this folder; made where there is none.
    ///
    /// # Errors
    /// The disk is full or not writable.
    pub fn get(&mut self, folder: &Path, size: Bytes) -> Result<Payload, LabError> {
        let key = (folder.to_owned(), size);
        if let Some(payload) = self.made.get(&key) {
            return Ok(payload.clone());
        }
        let path = folder.join(format!("{}.bin", size.get()));
        let failed = |e| LabError::file("write random bytes to", &path, e);
        let mut random = File::open("/dev/urandom").map_err(failed)?.take(size.get());
        let mut file = BufWriter::new(File::create(&path).map_err(failed)?);
        let mut hash = Sha256::new();
        copy_hashed(&mut random, Some(&mut file), &mut hash).map_err(failed)?;
        file.flush().map_err(failed)?;
        let payload = Payload { path: path.clone(), sha256: hash.finalize().into() };
        self.made.insert(key, payload.clone());
        Ok(payload)
    }
}

/// The SHA-256 of a file.
///
/// # Errors
/// It can't be read.
pub fn sha256_of(path: &Path) -> Result<Digest256, LabError> {
    let failed = |e| LabError::file("read", path, e);
    let mut hash = Sha256::new();
    let mut file = File::open(path).map_err(failed)?;
    copy_hashed(&mut file, None::<&mut File>, &mut hash).map_err(failed)?;
    Ok(hash.finalize().into())
}

fn copy_hashed(
    from: &mut impl Read,
    mut to: Option<&mut impl Write>,
    hash: &mut Sha256,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        hash.update(&buffer[..length]);
        if let Some(to) = &mut to {
            to.write_all(&buffer[..length])?;
        }
    }
}
