// SPDX-License-Identifier: GPL-2.0-or-later
//! `[limits]`: limits on connections, clients and memory.

use crate::config::{
    error::ConfigError,
    range::{check_rate, check_time},
};
use relay::copy::MinimumRate;
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, ParseError, Rate};

/// Limits on connections, clients and memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Maximum number of accepted connections at a time.
    pub connections: usize,
    /// The same for one client, alone or through depots of `trust.depots`.
    pub per_client: usize,
    /// The same for one depot of `trust.depots`, which brings many clients. `None`: the value of
    /// `connections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_depot: Option<usize>,
    /// Maximum number of idle connections that depots of `trust.depots` may hold open. They do not count in
    /// `connections` and `per_depot`.
    pub held: usize,
    /// Maximum rate of all transfers of one client together, in each direction. `None`: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_rate: Option<Rate>,
    /// Minimum rate of a client while the depot waits for it alone. Slower clients are aborted. `None`: 1
    /// kbit/s, for readers only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_rate: Option<LeastRate>,
    /// The time over which that rate is measured.
    pub least_time: Duration,
    /// Maximum size of a request's or response's head.
    pub head: Bytes,
    /// Size of the pipe that a transfer moves through.
    pub pipe: Bytes,
    /// Maximum memory that the kernel may hold for all transfers: in pipes and in the buffers of their
    /// sockets.
    pub memory: Bytes,
}

/// Minimum rate of readers if none is set. Over `least_time` it is a fraction of a second's worth for a normal
/// reader, so it ends only clients that read a few bytes now and then.
const LEAST_READ: Rate = Rate::bits_per_second(1_000);

/// `limits.least_rate`: a rate, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum LeastRate {
    /// No minimum.
    Off,
    /// Minimum rate of downloads and uploads.
    AtLeast(Rate),
}

impl TryFrom<String> for LeastRate {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        if text == "off" { Ok(Self::Off) } else { text.parse().map(Self::AtLeast) }
    }
}

impl From<LeastRate> for String {
    fn from(least: LeastRate) -> Self {
        match least {
            LeastRate::Off => "off".to_owned(),
            LeastRate::AtLeast(rate) => rate.to_string(),
        }
    }
}

impl Limits {
    /// The minimum rate at which a client has to read responses, if there is one.
    pub(super) fn minimum_read(&self) -> Option<MinimumRate> {
        let rate = match self.least_rate {
            None => LEAST_READ,
            Some(LeastRate::Off) => return None,
            Some(LeastRate::AtLeast(rate)) => rate,
        };
        Some(MinimumRate::new(rate, self.least_time.into()))
    }

    /// Whether there is a minimum for uploads too. Not by default: a client may produce its upload slowly.
    pub(super) fn measures_uploads(&self) -> bool {
        matches!(self.least_rate, Some(LeastRate::AtLeast(_)))
    }

    /// A client's share of `memory`, in bytes: as much of it as it may have of the connections.
    pub(crate) fn memory_of_client(&self) -> usize {
        let memory = u128::from(self.memory.get());
        let of = |clients: usize| u128::try_from(clients).unwrap_or(u128::MAX);
        let share = memory * of(self.per_client) / of(self.connections.max(1));
        usize::try_from(share.min(memory)).unwrap_or(usize::MAX)
    }

    /// Maximum number of connections of a depot of `trust.depots`.
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
            ("limits.memory", self.memory.get(), 4 << 20..=1 << 40, "4MB to 1024GB"),
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
            least_time: Duration::from_secs(600),
            head: Bytes::new(64 << 10),
            pipe: Bytes::new(1 << 20),
            memory: Bytes::new(1 << 30),
        }
    }
}
