// SPDX-License-Identifier: GPL-2.0-or-later
//! What varies from repeat to repeat unless a scenario says otherwise: what differs in the world from
//! one measurement to the next.

use super::context::NetworkContext;
use crate::run::Link;
use std::collections::BTreeMap;
use units::Duration;

/// What a host takes for a packet, at most.
const MOST_HOST_TIME: Duration = Duration::from_micros(10);
/// And at most this part of the round trip.
const RTT_PARTS: u64 = 1000;

/// By how much each link may be longer where runs vary: what hosts take for a packet. Only links that are
/// a node's only one, so that no path becomes shorter than another.
pub(super) fn of_links(links: &[Link], longest: &[Duration]) -> Vec<Duration> {
    let mut links_of: BTreeMap<&str, u32> = BTreeMap::new();
    for node in links.iter().flat_map(|link| [&link.a, &link.b]) {
        *links_of.entry(node).or_default() += 1;
    }
    let is_only = |node: &String| links_of[node.as_str()] == 1;
    let variation = |(link, rtt): (&Link, &Duration)| {
        let of_rtt = Duration::from_nanos(rtt.as_nanos() / RTT_PARTS);
        if is_only(&link.a) || is_only(&link.b) {
            MOST_HOST_TIME.min(of_rtt)
        } else {
            Duration::ZERO
        }
    };
    links.iter().zip(longest).map(variation).collect()
}

impl NetworkContext<'_> {
    /// Propagation there and back, within which a start may vary.
    pub(super) fn round_trip(&self, from: &str, to: &str) -> Duration {
        self.routes.rtt(from, to).unwrap_or_default()
    }
}
