// SPDX-License-Identifier: GPL-2.0-or-later
//! Parts of `/status.json` about other depots: announced depots, and routes that are chosen by forecast.

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
    /// An announced depot. All fields but `own` are its own claims.
    pub struct RegisteredDepot {
        /// Its address.
        depot: String => label,
        /// Whether it is this depot.
        own: bool,
        /// Latitude and longitude in degrees.
        place: Option<[f64; 2]>,
        /// Age of a depot's announcement.
        age_s: f64 => gauge("register_age"),
        /// Client connections that a depot announces.
        connections: usize => gauge("register_connections"),
        /// Maximum of its client connections.
        connections_limit: usize,
        /// Transfers under way that a depot announces.
        transfers: usize => gauge("register_transfers"),
        /// Current rate that a depot announces.
        rate_bps: u64 => gauge("register_rate"),
        /// Its highest rate of late, in bit/s.
        highest_rate_bps: u64,
        /// Number of its rules for next hops, if announced.
        rules: Option<usize>,
        /// Statistics of its connections to other depots.
        hops: Vec<RegisteredHop>,
    }

    /// A route of a detour that is chosen by forecast.
    pub struct DetourForecast {
        /// The depot that the detour is around.
        around: String => label,
        /// The depot that the route goes through; empty for the one without.
        through: String => label,
        /// Transfers on which the forecast of a detour's route rests.
        transfers: usize => gauge("detour_transfers"),
        /// Forecast for 64 MiB by this route of a detour.
        forecast_s: f64 => gauge("detour_forecast"),
    }
}

/// Announced statistics of connections to another depot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisteredHop {
    /// The other depot.
    pub to: String,
    /// Minimum round trip, in microseconds.
    pub rtt_us: Option<u32>,
    /// Share of retransmitted segments.
    pub loss: Option<f64>,
    /// Current rate in both directions together, in bit/s.
    pub rate_bps: Option<u64>,
    /// Number of warm connections.
    pub warm: u32,
}

impl RegisteredDepot {
    pub(super) fn of(announcement: Announcement, own: bool, now: UnixTime) -> Self {
        let Announcement { address, place, signed, load, admits, hops, .. } = announcement;
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
