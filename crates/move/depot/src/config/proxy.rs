// SPDX-License-Identifier: GPL-2.0-or-later
//! `[proxy]`: clients that use the depot as their HTTP proxy.

use crate::config::{Config, ConfigError};
use protocol::{DepotAddress, session::MAX_HOPS};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Clients that use the depot as their HTTP proxy, by CONNECT and absolute URLs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Proxy {
    /// Users and their hashed passwords, one `NAME:$6$SALT$HASH` a line. Read again when it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passwords: Option<PathBuf>,
    /// The depots on the way to servers, the one nearest to this one first. If empty, this depot connects to
    /// the server itself.
    pub via: Vec<DepotAddress>,
}

impl Config {
    /// # Errors
    /// There are neither passwords nor keys for tickets, or the route to servers is too long or loops back
    /// here.
    pub(super) fn check_proxy(&self) -> Result<(), ConfigError> {
        let Some(proxy) = &self.proxy else { return Ok(()) };
        let wrong = |key, error| Err(ConfigError::in_table("proxy", 0, key, error));
        if proxy.passwords.is_none() && self.trust.keys.is_none() {
            return wrong("passwords", ConfigError::ProxyOpen);
        }
        if proxy.via.len() > MAX_HOPS - 1 {
            let expected = "at most 15 depots";
            return wrong("via", ConfigError::range("proxy.via", &proxy.via.len(), expected));
        }
        match proxy.via.iter().find(|depot| self.names.contains(depot)) {
            Some(depot) => wrong("via", ConfigError::ProxyLoop(depot.clone())),
            None => Ok(()),
        }
    }
}
