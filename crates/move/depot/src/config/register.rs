// SPDX-License-Identifier: GPL-2.0-or-later
//! `[register]`: announcements of this depot, and of depots that it trusts.

use crate::config::ConfigError;
use protocol::{DepotAddress, announcement::Place};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use units::Duration;

/// Announcements between depots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// Address of this depot, which is also the name of its key.
    pub address: DepotAddress,
    /// Its location: latitude and longitude in degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Private key that signs its announcements (PEM).
    pub key: PathBuf,
    /// Keys of trusted depots (JWK Set), each named by the depot's address. Reloaded when the file changes.
    pub trust: PathBuf,
    /// etcd with announcements of many sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<etcd::Settings>,
    /// Interval of announcements and queries.
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
