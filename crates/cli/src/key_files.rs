// SPDX-License-Identifier: GPL-2.0-or-later
//! Key files: a private key is written once, a key set is replaced atomically.

use crate::{failure::Failure, print::print_text};
use protocol::ticket::Signer;
use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Mode of a private key file: only the owner may read it.
const PRIVATE: u32 = 0o600;
/// Mode of a public key file: everyone may read it, as far as the umask allows.
const PUBLIC: u32 = 0o666;

/// Reads a file that the command line names.
pub fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))
}

/// Reads standard input, at most twice the length of the longest ticket route.
pub fn read_input() -> Result<String, Failure> {
    let mut text = String::new();
    let most = 2 * protocol::MAX_ROUTE_LEN as u64;
    let read = io::stdin().take(most).read_to_string(&mut text);
    read.map_err(|error| Failure::failed(format!("cannot read standard input: {error}")))?;
    Ok(text)
}

/// Writes a new file. An existing one is never replaced, because it may be the only copy of a key.
fn create(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::usage(format!(
            "{} exists, and a key is never overwritten. Name a new file",
            path.display()
        )),
        _ => cannot_write(path, &error),
    })?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        let _ = fs::remove_file(path);
        cannot_write(path, &error)
    })
}

/// Replaces a file atomically: a depot that reads it at the same time gets the old text or the new one.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    create(&new, text, PUBLIC)?;
    let replaced = fs::metadata(path)
        .and_then(|old| fs::set_permissions(&new, old.permissions()))
        .and_then(|()| fs::rename(&new, path));
    replaced.map_err(|error| {
        let _ = fs::remove_file(&new);
        cannot_write(path, &error)
    })
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", path.display()))
}

/// Writes a new key: the private one to a file, the public one to a new file, into a set that there is, or to standard output.
pub fn write_pair(
    signer: &Signer,
    key: &Path,
    public: Option<&Path>,
    add_to: Option<&Path>,
) -> Result<(), Failure> {
    // All input is parsed before anything is written.
    let set = match add_to {
        None => signer.public_set(),
        Some(others) => {
            let set = signer.public_set_with(&read(others)?);
            set.map_err(|error| Failure::usage(format!("{}: {error}", others.display())))?
        }
    };
    create(key, &signer.to_pem(), PRIVATE)?;
    let written = match (public, add_to) {
        (Some(public), _) => create(public, &set, PUBLIC),
        (None, Some(others)) => replace(others, &set),
        (None, None) => {
            print_text(&set);
            Ok(())
        }
    };
    if written.is_err() {
        // Nothing trusts this key, and its file would make the next attempt fail.
        let _ = fs::remove_file(key);
    }
    written
}
