// SPDX-License-Identifier: GPL-2.0-or-later
//! `--via`: depots, the one nearest this machine first; each occurrence is a route.

use crate::failure::Failure;
use protocol::DepotAddress;
use std::fmt::Display;

/// The depots of each route.
pub fn routes(via: &[String]) -> Result<Vec<Vec<DepotAddress>>, Failure> {
    via.iter().map(|text| depots(text)).collect()
}

/// The depots of one route.
pub fn depots(text: &str) -> Result<Vec<DepotAddress>, Failure> {
    let depots: Result<_, _> = text.split(',').map(str::parse).collect();
    depots.map_err(|error| malformed(&error))
}

/// The failure for a malformed route.
pub fn malformed(error: &dyn Display) -> Failure {
    Failure::usage(format_args!("--via: {error}"))
}
