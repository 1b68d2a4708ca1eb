// SPDX-License-Identifier: GPL-2.0-or-later
//! The register file.
//!
//! ```toml
//! ask = ["https:paris.example.org"]       # depots that are queried for others; optional
//! etcd.endpoints = ["http://e1:2379"]     # etcd with the announcements of depots (crate etcd); optional
//! trust = "depots.jwks"                   # trusted keys of depots, relative to this file; with `ask` or `etcd`
//!
//! [[depot]]
//! address = "https:rome.example.org"      # [https:]HOST[:PORT]
//! place = [41.9, 12.5]                    # latitude and longitude in degrees, for maps; optional
//! ```
//! The nearest and best depots come first: the first ones form chains of two.

use host::settings_file::{self, ConfigError};
use protocol::{DepotAddress, announcement::Place, ticket::KeySet};
use serde::Deserialize;
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

/// Maximum number of listed depots, and of queried depots.
pub(crate) const MOST: usize = 12;
/// Maximum size of the file of keys, in bytes.
const LONGEST_KEYS: u64 = 1 << 20;

/// A depot that a transfer may use.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// Its address.
    pub address: DepotAddress,
    /// Its location.
    pub place: Option<Place>,
}

/// A parsed register file.
#[derive(Debug, Clone)]
pub struct RegisterFile {
    pub(crate) path: PathBuf,
    pub(crate) ask: Vec<DepotAddress>,
    pub(crate) etcd: Option<etcd::Settings>,
    pub(crate) keys: KeySet,
    pub(crate) depots: Vec<Listed>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    ask: Vec<DepotAddress>,
    trust: Option<PathBuf>,
    etcd: Option<etcd::Settings>,
    #[serde(default)]
    depot: Vec<Listed>,
}

impl RegisterFile {
    /// Reads a file with 1 to 12 depots, or with sources of announcements.
    ///
    /// # Errors
    /// The text names the file, and the line if a single line is wrong.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        settings_file::read(path, |document: Document| {
            let Document { ask, trust, etcd, depot: depots } = document;
            check(&ask, etcd.as_ref(), trust.is_some(), &depots)?;
            let directory = path.parent().unwrap_or(Path::new(""));
            let keys = trust.map(|file| read_keys(&directory.join(file))).transpose()?;
            let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            Ok(Self { path, ask, etcd, keys: keys.unwrap_or_default(), depots })
        })
    }

    /// The file of the user, otherwise that of the host: `longhaul/depots.toml` in the configuration directory, or `/etc`.
    pub fn usual() -> Option<PathBuf> {
        let directories = host::config_directory().into_iter().chain([PathBuf::from("/etc")]);
        directories
            .map(|directory| directory.join("longhaul/depots.toml"))
            .find(|file| file.exists())
    }
}

fn check(
    ask: &[DepotAddress],
    etcd: Option<&etcd::Settings>,
    has_keys: bool,
    depots: &[Listed],
) -> Result<(), String> {
    etcd.map_or(Ok(()), etcd::Settings::check)?;
    let asks = !ask.is_empty() || etcd.is_some();
    let counts = if asks { 0..=MOST } else { 1..=MOST };
    if !counts.contains(&depots.len()) {
        return Err(format!("it lists {} depots; expected 1 to {MOST} [[depot]]", depots.len()));
    }
    if ask.len() > MOST {
        return Err(format!("`ask` has {} depots; the maximum is {MOST}", ask.len()));
    }
    match (asks, has_keys) {
        (true, false) => {
            return Err(
                "`ask` and `etcd` need `trust`, a file with the keys of trusted depots".to_owned()
            );
        }
        (false, true) => {
            return Err("`trust` is only used with `ask` or `etcd`".to_owned());
        }
        _ => {}
    }
    let mut seen = HashSet::new();
    match depots.iter().find(|listed| !seen.insert(&listed.address)) {
        Some(twice) => Err(format!("depot {} is listed twice", twice.address)),
        None => Ok(()),
    }
}

fn read_keys(file: &Path) -> Result<KeySet, String> {
    let failed = |why: &dyn ToString| format!("`trust`: {}: {}", file.display(), why.to_string());
    let length = fs::metadata(file).map_err(|error| failed(&error))?.len();
    if length > LONGEST_KEYS {
        return Err(failed(&"it is too large for a file of keys"));
    }
    let text = fs::read_to_string(file).map_err(|error| failed(&error))?;
    KeySet::parse(&text).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ticket::Signer;

    fn read(text: &str) -> Result<RegisterFile, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("depots.toml");
        let keys = Signer::from_seed([1; 32]).unwrap().named("a:3880").public_set();
        fs::write(directory.path().join("depots.jwks"), keys).unwrap();
        fs::write(&file, text).unwrap();
        RegisterFile::read(&file).map_err(|error| error.to_string())
    }

    #[test]
    fn trust_path_is_relative_to_the_register_file() {
        let file = read("ask = [\"a\"]\ntrust = \"depots.jwks\"").unwrap();
        assert!(file.keys.has("a:3880"));
        assert_eq!((file.ask.len(), file.depots.len()), (1, 0));
        let place =
            read("[[depot]]\naddress = \"a\"\nplace = [48.9, 2.4]").unwrap().depots[0].place;
        assert_eq!(place, Some(Place { latitude: 48.9, longitude: 2.4 }));
    }

    #[test]
    fn mistakes_are_named() {
        let many = |of: &dyn Fn(u32) -> String| (0..13).map(of).collect::<Vec<_>>().concat();
        let depots = many(&|n| format!("[[depot]]\naddress = \"d{n}\"\n"));
        let asked = format!("ask = [{}]\ntrust = \"depots.jwks\"", many(&|n| format!("\"d{n}\",")));
        for (text, part) in [
            ("", "expected 1 to 12"),
            (depots.as_str(), "it lists 13 depots"),
            (asked.as_str(), "`ask` has 13 depots"),
            ("ask = [\"a\"]", "need `trust`"),
            ("etcd.endpoints = [\"http://e:1\"]", "need `trust`"),
            ("trust = \"depots.jwks\"\netcd.endpoints = [\"e:1\"]", "is not http[s]://"),
            ("trust = \"depots.jwks\"\n[[depot]]\naddress = \"a\"", "`trust` is only"),
            ("ask = [\"a\"]\ntrust = \"missing.jwks\"", "missing.jwks: No such file"),
            ("ask = [\"a\"]\ntrust = \"depots.toml\"", "no public key"),
            (
                "[[depot]]\naddress = \"a\"\n[[depot]]\naddress = \"A:3880\"",
                "depot a:3880 is listed twice",
            ),
            ("[[depot]]\naddress = \"a:port\"", "depots.toml:2:"),
            ("[[depot]]\naddress = \"a\"\nplace = [100, 2]", "latitude is -90 to 90"),
            ("[[depot]]\naddress = \"a\"\nplaces = [1, 2]", "depots.toml:3:"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
