// SPDX-License-Identifier: GPL-2.0-or-later
//! `[register]`: what the depot tells others of itself, and whom it believes.

use crate::config::ConfigError;
use protocol::{DepotAddress, announcement::Place};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use units::Duration;

/// Depots that tell each other of themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// Where others ask this depot, and the name of its key.
    pub address: DepotAddress,
    /// Where it stands: latitude and longitude in degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The key that signs what it tells (PEM). Read at the start, and with the configuration.
    pub key: PathBuf,
    /// The keys of the depots that it believes (JWK Set). Each has the depot's address as its name. Read again when it changes.
    pub trust: PathBuf,
    /// Where depots of many sites tell of themselves, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<etcd::Settings>,
    /// How often it tells, and asks others.
    #[serde(default = "Register::every")]
    pub every: Duration,
}

impl Register {
    fn every() -> Duration {
        Duration::from_secs(10)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let times = Duration::from_secs(1)..=Duration::from_secs(300);
        if !times.contains(&self.every) {
            return Err(ConfigError::range("register.every", &self.every, "1s to 5min"));
        }
        let checked = self.etcd.as_ref().map_or(Ok(()), etcd::Settings::check);
        checked.map_err(ConfigError::Register)
    }
}
