// SPDX-License-Identifier: GPL-2.0-or-later
//! Depots that might help: their round trips, measured here and asked of them.

use crate::failure::Failure;
use ::doctor::{
    Target,
    facts::{
        Facts,
        path::{Request, round_trip_us},
    },
    via::{self, Comparison, Hop},
};
use entry::chain::hop_reports;
use protocol::{Authority, DepotAddress, Host};
use route::Route;
use std::{path::PathBuf, time::Duration};
use units::Bytes;

/// How long depots have to open a session.
const ANSWER: Duration = Duration::from_secs(10);

/// A file's time directly and through depots; none where no closed form is for it.
pub fn compare(
    depots: &[DepotAddress],
    request: &Request,
    (facts, target): (&Facts, &Target),
    size: Bytes,
    ca: Option<PathBuf>,
) -> Result<Option<Comparison>, Failure> {
    let direct_us = facts.path.as_ref().map_or(0, |path| path.handshake_rtt_us);
    let hops = hops(depots, request, direct_us, ca)?;
    match via::compare(facts, target, hops, size) {
        Ok(compared) => Ok(Some(compared)),
        Err(reason) => {
            errln!("no prediction through depots: {reason}");
            Ok(None)
        }
    }
}

fn hops(
    depots: &[DepotAddress],
    request: &Request,
    direct_us: u32,
    ca: Option<PathBuf>,
) -> Result<Vec<Hop>, Failure> {
    let first = &depots[0].authority;
    let host = match &first.host {
        Host::Ip(ip) => ip.to_string(),
        Host::Name(name) => name.clone(),
    };
    let to_first_us = round_trip_us(&host, first.port)?;
    let host = match request.host.parse() {
        Ok(ip) => Host::Ip(ip),
        Err(_) => request.host.parse().map_err(Failure::usage)?,
    };
    let route = Route { depots, server: Authority { host, port: request.port }, short: None };
    let reports = hop_reports(&route, ca, ANSWER).unwrap_or_else(|error| {
        errln!("the depots do not tell their round trips: {error}");
        Vec::new()
    });
    let reports: Vec<_> = reports
        .into_iter()
        .map(|report| (report.rtt_us, report.congestion.map(|name| name.as_str().to_owned())))
        .collect();
    let names: Vec<String> = depots.iter().map(ToString::to_string).collect();
    Ok(via::hops(&names, to_first_us, &reports, direct_us))
}
