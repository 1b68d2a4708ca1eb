// SPDX-License-Identifier: GPL-2.0-or-later
//! `[limits]`: what the depot holds at most.

use crate::config::{
    error::ConfigError,
    range::{check_rate, check_time},
};
use relay::copy::MinimumRate;
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Rate};

/// What the depot holds at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections accepted at a time.
    pub connections: usize,
    /// The same for one client, whether it comes by itself or through depots of `trust.depots`.
    pub per_client: usize,
    /// The same from one depot of `trust.depots`, which brings many clients; without, as many as `connections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_depot: Option<usize>,
    /// Connections that depots of `trust.depots` may hold open while they are idle. Those count here, and
    /// not in `connections` and `per_depot`.
    pub held: usize,
    /// To which rate all transfers of one address together are held, in each direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_rate: Option<Rate>,
    /// Less than this, while it alone is waited for, has a client broken off; without, idle times alone do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_rate: Option<Rate>,
    /// Over how long that is measured.
    pub least_time: Duration,
    /// The size of a request's or response's head.
    pub head: Bytes,
    /// The pipe that a transfer moves through.
    pub pipe: Bytes,
    /// What all pipes may hold together; transfers beyond that are copied.
    pub memory: Bytes,
}

impl Limits {
    /// The rate that a client has to move, if there is a minimum.
    pub(crate) fn minimum_rate(&self) -> Option<MinimumRate> {
        Some(MinimumRate::new(self.least_rate?, self.least_time.into()))
    }

    /// How many connections a depot of `trust.depots` may have.
    pub(crate) fn of_depot(&self) -> usize {
        self.per_depot.unwrap_or(self.connections)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (key, value, range, expected) in [
            ("limits.connections", self.connections as u64, 1..=1_000_000, "1 to 1000000"),
            ("limits.per_client", self.per_client as u64, 1..=1_000_000, "1 to 1000000"),
            ("limits.per_depot", self.of_depot() as u64, 1..=1_000_000, "1 to 1000000"),
            ("limits.held", self.held as u64, 0..=1_000_000, "0 to 1000000"),
            ("limits.head", self.head.get(), 1 << 10..=1 << 20, "1KB to 1MB"),
            ("limits.pipe", self.pipe.get(), 1 << 16..=1 << 24, "64KB to 16MB"),
            ("limits.memory", self.memory.get(), 1 << 16..=1 << 40, "64KB to 1024GB"),
        ] {
            if !range.contains(&value) {
                return Err(ConfigError::range(key, &value, expected));
            }
        }
        check_time("limits.least_time", self.least_time)?;
        check_rate("limits.client_rate", self.client_rate)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            per_client: 256,
            per_depot: None,
            held: 1024,
            client_rate: None,
            least_rate: None,
            least_time: Duration::from_secs(60),
            head: Bytes::new(64 << 10),
            pipe: Bytes::new(1 << 20),
            memory: Bytes::new(1 << 30),
        }
    }
}
