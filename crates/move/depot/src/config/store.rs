// SPDX-License-Identifier: GPL-2.0-or-later
//! `[store]`: sessions that the depot keeps until they are collected.

use crate::config::error::ConfigError;
use ::store::{Allowance, Limits};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use units::{Bytes, Duration};

/// Where the depot keeps sessions, and how many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// The directory, which is made if only it is missing.
    pub path: PathBuf,
    /// Space of all sessions.
    pub size: Bytes,
    /// Maximum number of sessions.
    #[serde(default = "Store::default_sessions")]
    pub sessions: usize,
    /// Space of the sessions of one client, or of the tickets of one issuer. `None`: as `size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_size: Option<Bytes>,
    /// The number of their sessions. `None`: as `sessions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_sessions: Option<usize>,
    /// What stays free in the file system.
    #[serde(default = "Store::default_kept_free")]
    pub kept_free: Bytes,
    /// How long after its beginning a session ends at the latest.
    #[serde(default = "Store::default_longest_life")]
    pub longest_life: Duration,
}

/// The longest life that can be set: ten years.
const LONGEST: Duration = Duration::from_secs(3650 * 24 * 3600);

impl Store {
    fn default_sessions() -> usize {
        100_000
    }

    fn default_kept_free() -> Bytes {
        Bytes::new(1 << 30)
    }

    fn default_longest_life() -> Duration {
        Duration::from_secs(7 * 24 * 3600)
    }

    /// What the store is told.
    pub(crate) fn limits(&self) -> Limits {
        let key = Allowance {
            bytes: self.key_size.unwrap_or(self.size),
            sessions: self.key_sessions.unwrap_or(self.sessions),
        };
        Limits {
            bytes: self.size,
            sessions: self.sessions,
            key,
            kept_free: self.kept_free,
            longest_life: self.longest_life.into(),
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if !self.path.is_absolute() {
            return Err(ConfigError::range(
                "store.path",
                &self.path.display(),
                "a path that begins with /, as in \"/var/lib/longhaul/store\"",
            ));
        }
        if self.size < Bytes::new(1 << 20) {
            return Err(ConfigError::range("store.size", &self.size, "1MB or more"));
        }
        for (key, number) in [
            ("store.sessions", self.sessions),
            ("store.key_sessions", self.key_sessions.unwrap_or(1)),
        ] {
            if !(1..=1_000_000).contains(&number) {
                return Err(ConfigError::range(key, &number, "1 to 1000000"));
            }
        }
        let range = Duration::from_secs(1)..=LONGEST;
        if !range.contains(&self.longest_life) {
            let expected = "1s to ten years";
            return Err(ConfigError::range("store.longest_life", &self.longest_life, expected));
        }
        Ok(())
    }
}
