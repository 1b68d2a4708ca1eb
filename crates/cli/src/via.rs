// SPDX-License-Identifier: GPL-2.0-or-later
//! `--via`: the depots of a route, the one nearest this machine first; each further one is the next alternative.

use crate::failure::Failure;
use protocol::DepotAddress;
use route::{ChainTextError, Match, RouteTable, read_chain};
use std::{fmt::Display, str::FromStr};

/// The one chain of a command that has no alternatives: clap refuses a second `--via`.
#[derive(Debug, Clone)]
pub struct OneChain(pub Vec<DepotAddress>);

impl FromStr for OneChain {
    type Err = ChainTextError;

    fn from_str(text: &str) -> Result<Self, ChainTextError> {
        read_chain(text).map(Self)
    }
}

/// The depots of each route.
pub fn routes(via: &[String]) -> Result<Vec<Vec<DepotAddress>>, Failure> {
    via.iter().map(|text| read_chain(text).map_err(|error| malformed(&error))).collect()
}

/// These routes to some destinations; if none are named, to all but this machine.
pub fn table(via: &[String], to: &[Match]) -> Result<RouteTable, Failure> {
    let to = if to.is_empty() { &[Match::OTHERS] } else { to };
    Ok(RouteTable::through(routes(via)?, to))
}

/// The failure for a malformed route.
pub fn malformed(error: &dyn Display) -> Failure {
    Failure::usage(format_args!("--via: {error}"))
}
