// SPDX-License-Identifier: GPL-2.0-or-later
//! Digests of a file that are made while it comes.

use crate::Error;
use base64::{Engine, engine::general_purpose::STANDARD};
use protocol::digest::{Algorithm, Digest};
use sha2::{Digest as _, Sha256, Sha512};
use std::{fs::File, os::unix::fs::FileExt, path::Path, str::FromStr};

/// How much is read at once of what is held.
const BLOCK: usize = 256 * 1024;

#[derive(Debug, Clone)]
enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

/// A digest of the first `at` bytes, which grows with them.
#[derive(Debug, Clone)]
pub(crate) struct RunningDigest {
    hasher: Hasher,
    pub at: u64,
}

impl RunningDigest {
    /// Of nothing yet. MD5 is not made: it proves nothing.
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        let hasher = match algorithm {
            Algorithm::Sha512 => Hasher::Sha512(Sha512::new()),
            Algorithm::Md5 | Algorithm::Sha256 => Hasher::Sha256(Sha256::new()),
        };
        Self { hasher, at: 0 }
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        match self.hasher {
            Hasher::Sha256(_) => Algorithm::Sha256,
            Hasher::Sha512(_) => Algorithm::Sha512,
        }
    }

    /// Takes the bytes that follow.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match &mut self.hasher {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Sha512(hasher) => hasher.update(bytes),
        }
        self.at += bytes.len() as u64;
    }

    /// Takes what follows from a file, up to `end`.
    pub(crate) fn read_to(&mut self, file: &File, path: &Path, end: u64) -> Result<(), Error> {
        let mut buffer = vec![0; BLOCK];
        while self.at < end {
            let length = (end - self.at).min(BLOCK as u64) as usize;
            let read = file.read_exact_at(&mut buffer[..length], self.at);
            read.map_err(|error| Error::file("read", path, error))?;
            self.update(&buffer[..length]);
        }
        Ok(())
    }

    /// The digest of all bytes so far.
    pub(crate) fn digest(&self) -> Digest {
        let bytes = match &self.hasher {
            Hasher::Sha256(hasher) => hasher.clone().finalize().to_vec(),
            Hasher::Sha512(hasher) => hasher.clone().finalize().to_vec(),
        };
        Digest::new(self.algorithm(), &bytes).expect("a digest of its algorithm's length")
    }
}

/// The digest of a whole file.
pub(crate) fn of_file(path: &Path, algorithm: Algorithm) -> Result<Digest, Error> {
    let failed = |error| Error::file("read", path, error);
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut running = RunningDigest::new(algorithm);
    running.read_to(&file, path, length)?;
    Ok(running.digest())
}

/// A digest on the command line: `sha-256=` or `sha-512=`, then hexadecimal or Base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestArg(pub Digest);

impl FromStr for DigestArg {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected sha-256=VALUE or sha-512=VALUE, the value in hexadecimal (as sha256sum prints it) or Base64"
                .to_owned()
        };
        let (name, value) = text.split_once('=').ok_or_else(expected)?;
        let known = [Algorithm::Sha256, Algorithm::Sha512];
        let algorithm = known.into_iter().find(|known| known.key() == name).ok_or_else(expected)?;
        let bytes = if value.len() == 2 * algorithm.length() {
            hexadecimal(value)
        } else {
            STANDARD.decode(value).ok()
        };
        let digest = bytes.and_then(|bytes| Digest::new(algorithm, &bytes));
        digest.map(Self).ok_or_else(expected)
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(pair[0])? * 16 + digit(*pair.get(1)?)?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_in_both_forms() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let hex: DigestArg = format!("sha-256={empty}").parse().unwrap();
        let base64 = "sha-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        assert_eq!(hex, base64.parse().unwrap());
        assert_eq!(hex.0, RunningDigest::new(Algorithm::Sha256).digest());
        let capitals: DigestArg = format!("sha-256={}", empty.to_uppercase()).parse().unwrap();
        assert_eq!(hex, capitals);
        for text in ["", "sha-256", "sha-256=", "md5=1B2M2Y8AsgTpgAmY7PhCfg==", "sha-512=00"] {
            assert!(text.parse::<DigestArg>().is_err(), "{text}");
        }
        assert!(format!("sha-256={}x", &empty[1..]).parse::<DigestArg>().is_err());
    }
}
