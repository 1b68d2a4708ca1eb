// SPDX-License-Identifier: GPL-2.0-or-later
//! Hops whose packets are paced below TCP.

use crate::config::{Config, ConfigError, PacingMethod, PeerOptions};
use ipnet::IpNet;

impl Config {
    /// What spaces packets below TCP knows networks, and no exceptions from them.
    pub(super) fn check_paced_below(&self) -> Result<(), ConfigError> {
        for (around, method) in self.paced_below() {
            let within = |hop: &&PeerOptions| around.contains(&hop.peer);
            let mut others = self.hops.iter().filter(within);
            if let Some(hop) = others.find(|hop| hop.pacing.below() != Some(method)) {
                return Err(ConfigError::PacedAround { peer: hop.peer, around, method });
            }
        }
        Ok(())
    }

    /// The networks to which packets are spaced below TCP, and how. None lies within another.
    pub fn paced_below(&self) -> Vec<(IpNet, PacingMethod)> {
        let below =
            self.hops.iter().filter_map(|hop| Some((hop.peer.trunc(), hop.pacing.below()?)));
        let all: Vec<_> = below.collect();
        let lies_within =
            |peer: &IpNet| all.iter().any(|(other, _)| other != peer && other.contains(peer));
        all.iter().filter(|(peer, _)| !lies_within(peer)).copied().collect()
    }
}
