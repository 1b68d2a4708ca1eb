// SPDX-License-Identifier: GPL-2.0-or-later
//! What `/status.json` says of other depots: those of the register, and the routes that are chosen by forecast.

use super::{
    statistics::{Kind, Statistics, Value, field, statistics},
    status::{Field, Statistic},
};
use crate::failover_routes::RouteForecast;
use protocol::{
    announcement::{Announcement, HopFacts},
    ticket::UnixTime,
};
use serde::{Deserialize, Serialize};

statistics! {
    /// A depot that tells of itself. All but `own` may be a lie.
    pub struct RegisteredDepot {
        /// Where it is asked.
        depot: String => label,
        /// Whether it is this one.
        own: bool,
        /// Its latitude and longitude in degrees, if it tells them.
        place: Option<[f64; 2]>,
        /// Seconds since it has signed this.
        age_s: f64 => gauge("register_age"),
        /// Client connections of a depot, as it tells.
        connections: usize => gauge("register_connections"),
        /// Maximum of its client connections.
        connections_limit: usize,
        /// Transfers of a depot, as it tells.
        transfers: usize => gauge("register_transfers"),
        /// What a depot moves, as it tells.
        rate_bps: u64 => gauge("register_rate"),
        /// The most that it has moved of late, in bit/s.
        highest_rate_bps: u64,
        /// The number of rules for its next hops, if it tells them.
        rules: Option<usize>,
        /// Its connections to other depots.
        hops: Vec<RegisteredHop>,
    }

    /// A route of a detour that is chosen by forecast.
    pub struct DetourForecast {
        /// The depot that the detour is around.
        around: String => label,
        /// The depot that the route goes through; empty for the one without.
        through: String => label,
        /// Transfers that were seen.
        transfers: usize => gauge("detour_transfers"),
        /// Forecast for 64 MiB by this route of a detour.
        forecast_s: f64 => gauge("detour_forecast"),
    }
}

/// What a depot tells of its connections to another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisteredHop {
    /// The other one.
    pub to: String,
    /// The shortest round trip, in microseconds.
    pub rtt_us: Option<u32>,
    /// The share of segments that were sent again.
    pub loss: Option<f64>,
    /// What moves to it and from it, in bit/s.
    pub rate_bps: Option<u64>,
    /// Connections that are open ahead of need.
    pub warm: u32,
}

impl RegisteredDepot {
    pub(super) fn of(told: Announcement, own: bool, now: UnixTime) -> Self {
        let Announcement { address, place, signed, load, admits, hops, .. } = told;
        Self {
            depot: address.to_string(),
            own,
            place: place.map(Into::into),
            age_s: now.seconds().saturating_sub(signed.seconds()) as f64,
            connections: load.connections,
            connections_limit: load.connections_limit,
            transfers: load.transfers,
            rate_bps: load.rate_bps,
            highest_rate_bps: load.highest_rate_bps,
            rules: admits.map(|rules| rules.len()),
            hops: hops.into_iter().map(RegisteredHop::from).collect(),
        }
    }
}

impl From<HopFacts> for RegisteredHop {
    fn from(facts: HopFacts) -> Self {
        let HopFacts { to, rtt_us, loss, rate_bps, warm } = facts;
        Self { to: to.to_string(), rtt_us, loss, rate_bps, warm }
    }
}

impl From<RouteForecast> for DetourForecast {
    fn from(forecast: RouteForecast) -> Self {
        let RouteForecast { around, through, transfers, seconds } = forecast;
        Self { around, through, transfers, forecast_s: seconds }
    }
}
