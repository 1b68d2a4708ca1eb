// SPDX-License-Identifier: GPL-2.0-or-later
//! Which depots there are to choose from: a file.
//!
//! ```toml
//! [[depot]]
//! address = "https:paris.example.org"     # [https:]HOST[:PORT]
//! place = [48.9, 2.4]                     # latitude and longitude in degrees, for maps; optional
//! ```
//! The nearest and best ones first: chains of two are made of the first ones alone.

use host::settings_file::{self, ConfigError};
use protocol::DepotAddress;
use serde::Deserialize;
use std::{collections::HashSet, env, path::Path, path::PathBuf};

/// The most depots of a file.
const MOST: usize = 12;
/// Of so many, chains of two are made.
const PAIRED: usize = 3;

/// Where a depot is, in degrees.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "[f64; 2]")]
pub struct Place {
    /// North is positive.
    pub latitude: f64,
    /// East is positive.
    pub longitude: f64,
}

impl TryFrom<[f64; 2]> for Place {
    type Error = String;

    fn try_from([latitude, longitude]: [f64; 2]) -> Result<Self, String> {
        if latitude.abs() <= 90.0 && longitude.abs() <= 180.0 {
            return Ok(Self { latitude, longitude });
        }
        Err(format!(
            "[{latitude}, {longitude}] is no place: latitude is -90 to 90, longitude -180 to 180"
        ))
    }
}

/// A depot to choose.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// Where it is asked.
    pub address: DepotAddress,
    /// Where it stands.
    pub place: Option<Place>,
}

/// The depots to choose from.
#[derive(Debug, Clone, PartialEq)]
pub struct Register {
    depots: Vec<Listed>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    depot: Vec<Listed>,
}

impl Register {
    /// Reads a file of 1 to 12 depots.
    ///
    /// # Errors
    /// The text names the file, and the line if one line is wrong.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        settings_file::read(file, |Document { depot: depots }| {
            if depots.is_empty() || depots.len() > MOST {
                return Err(format!(
                    "it lists {} depots; expected 1 to {MOST} [[depot]]",
                    depots.len()
                ));
            }
            let mut seen = HashSet::new();
            match depots.iter().find(|listed| !seen.insert(&listed.address)) {
                Some(twice) => Err(format!("the depot {} is there twice", twice.address)),
                None => Ok(Self { depots }),
            }
        })
    }

    /// The file of the user, or else that of the host: `longhaul/depots.toml` in the configuration directory, or `/etc`.
    pub fn usual_file() -> Option<PathBuf> {
        let set =
            |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let own = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
        let directories = own.into_iter().chain([PathBuf::from("/etc")]);
        directories
            .map(|directory| directory.join("longhaul/depots.toml"))
            .find(|file| file.exists())
    }

    /// The depots, in their order.
    pub fn depots(&self) -> &[Listed] {
        &self.depots
    }

    /// The chains to choose from: each depot, and two of the first three after each other.
    pub fn chains(&self) -> Vec<Vec<DepotAddress>> {
        let all = || self.depots.iter().map(|listed| &listed.address);
        let mut chains: Vec<Vec<_>> = all().map(|depot| vec![depot.clone()]).collect();
        for first in all().take(PAIRED) {
            let others = all().take(PAIRED).filter(|other| *other != first);
            chains.extend(others.map(|other| vec![first.clone(), other.clone()]));
        }
        chains
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Register, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("depots.toml");
        std::fs::write(&file, text).unwrap();
        Register::read(&file).map_err(|error| error.to_string())
    }

    #[test]
    fn chains_are_singles_and_pairs_of_the_first() {
        let text: String = ["a", "b", "https:c:1", "d"]
            .map(|name| format!("[[depot]]\naddress = \"{name}\"\n"))
            .concat();
        let register = read(&(text + "place = [48.9, 2.4]\n")).unwrap();
        assert_eq!(register.depots()[3].place, Some(Place { latitude: 48.9, longitude: 2.4 }));
        let chains = register.chains();
        let text = |chain: &Vec<DepotAddress>| {
            chain.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        assert_eq!(
            chains.iter().map(text).collect::<Vec<_>>(),
            [
                "a:3880",
                "b:3880",
                "https:c:1",
                "d:3880",
                "a:3880,b:3880",
                "a:3880,https:c:1",
                "b:3880,a:3880",
                "b:3880,https:c:1",
                "https:c:1,a:3880",
                "https:c:1,b:3880",
            ]
        );
    }

    #[test]
    fn mistakes_are_named() {
        let many = (0..13)
            .map(|n| format!("[[depot]]\naddress = \"d{n}\"\n"))
            .collect::<Vec<_>>()
            .concat();
        for (text, part) in [
            ("", "expected 1 to 12"),
            (many.as_str(), "it lists 13 depots"),
            (
                "[[depot]]\naddress = \"a\"\n[[depot]]\naddress = \"A:3880\"",
                "the depot a:3880 is there twice",
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
