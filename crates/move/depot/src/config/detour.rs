// SPDX-License-Identifier: GPL-2.0-or-later
//! `[[detour]]`: routes around depots that fail.

use crate::config::{Config, ConfigError};
use protocol::DepotAddress;
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, fmt, iter, str::FromStr};
use units::{Duration, ParseError};

/// A route around a depot that fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detour {
    /// The depot that may fail.
    pub around: DepotAddress,
    /// The depots to try instead, in order.
    #[serde(default)]
    pub through: Vec<DepotAddress>,
    /// Whether to skip the depot if all others fail.
    #[serde(default)]
    pub straight: bool,
    /// In which order they are tried.
    #[serde(default)]
    pub order: DetourOrder,
    /// How long after a failure it is tried last.
    #[serde(default = "Detour::avoid")]
    pub avoid: Duration,
    /// How often all of them are probed.
    #[serde(default)]
    pub check: DetourCheck,
}

impl Detour {
    fn avoid() -> Duration {
        Duration::from_secs(30)
    }

    /// All depots that it names.
    pub(crate) fn depots(&self) -> impl Iterator<Item = &DepotAddress> {
        iter::once(&self.around).chain(&self.through)
    }
}

/// In which order the routes of a detour are tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DetourOrder {
    /// As they are written.
    #[default]
    Written,
    /// The fastest first, by forecasts from earlier transfers, round trips, and what depots tell of their load.
    Forecast,
}

/// How often depots are probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DetourCheck {
    /// Never: requests find failures.
    Off,
    /// At this interval, which is also the timeout of the answer.
    Every(Duration),
}

impl DetourCheck {
    pub(super) fn check(self) -> Result<(), ConfigError> {
        let times = Duration::from_millis(100)..=Duration::from_secs(3600);
        match self {
            Self::Every(time) if !times.contains(&time) => {
                Err(ConfigError::range("detour.check", &time, "100ms to 1h"))
            }
            _ => Ok(()),
        }
    }
}

impl Default for DetourCheck {
    /// Longer than a site's failover asks for: over a long haul a lost packet may cost seconds.
    fn default() -> Self {
        Self::Every(Duration::from_secs(5))
    }
}

const OFF: &str = "off";

impl FromStr for DetourCheck {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == OFF {
            return Ok(Self::Off);
        }
        let every = text.parse().map(Self::Every);
        every.map_err(|error: ParseError| format!("{error}, or \"{OFF}\""))
    }
}

impl TryFrom<String> for DetourCheck {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DetourCheck> for String {
    fn from(check: DetourCheck) -> Self {
        check.to_string()
    }
}

impl fmt::Display for DetourCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str(OFF),
            Self::Every(time) => time.fmt(f),
        }
    }
}

impl Config {
    /// The depots to probe, and how often: the shortest interval of the detours that name one.
    pub(crate) fn detour_checks(&self) -> HashMap<DepotAddress, Duration> {
        let mut checks = HashMap::new();
        for detour in &self.detours {
            let DetourCheck::Every(every) = detour.check else { continue };
            for depot in detour.depots() {
                let shortest = checks.entry(depot.clone()).or_insert(every);
                *shortest = every.min(*shortest);
            }
        }
        checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detour_check_survives_toml() {
        let table = |check: &str| {
            format!(
                "allow.upstreams = [\"b:3880\"]\n[[detour]]\naround = \"a\"\nthrough = [\"b\"]\n{check}"
            )
        };
        for (text, check) in [
            ("", DetourCheck::Every(Duration::from_secs(5))),
            ("check = \"500ms\"", DetourCheck::Every(Duration::from_millis(500))),
            ("check = \"off\"", DetourCheck::Off),
        ] {
            let config = Config::from_toml(&table(text), "x").expect(text);
            assert_eq!(config.detours[0].check, check, "{text}");
            assert_eq!(Config::from_toml(&config.to_toml(), "x").unwrap(), config, "{text}");
        }
        for (text, expected) in [
            ("check = \"never\"", "or \"off\""),
            ("check = \"99ms\"", "`detour.check` is 99ms: expected 100ms to 1h"),
            ("check = \"2h\"", "`detour.check` is 7200s"),
        ] {
            let error = Config::from_toml(&table(text), "x").expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn depot_of_two_detours_uses_shorter_check() {
        let text = "allow.upstreams = [\"b:3880\", \"d:3880\"]\n\
                    [[detour]]\naround = \"a\"\nthrough = [\"b\"]\ncheck = \"2s\"\n\
                    [[detour]]\naround = \"b\"\nthrough = [\"d\"]\ncheck = \"7s\"\n\
                    [[detour]]\naround = \"c\"\nthrough = [\"b\"]\ncheck = \"off\"\n";
        let checks = Config::from_toml(text, "x").unwrap().detour_checks();
        let mut checks: Vec<_> = checks.iter().map(|(d, every)| format!("{d} {every}")).collect();
        checks.sort();
        assert_eq!(checks, ["a:3880 2s", "b:3880 2s", "d:3880 7s"]);
    }
}
