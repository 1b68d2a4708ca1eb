// SPDX-License-Identifier: GPL-2.0-or-later
//! The plan of rules for a depot: on each device by which packets to its paced peers leave, a rule for each
//! such peer.
//!
//! A depot has no rights to put rules there, so root does that from the depot's configuration file, with
//! [`replace`](super::replace). What a plan takes of the file are networks of peers and how packets to them are
//! paced.

use super::{Frames, Match, Method, Options, Rule, Target, devices_towards};
use crate::Error;
use ipnet::IpNet;
use netmodel::pacing::Estimator;
use std::{collections::BTreeMap, str::FromStr};
use units::{ClassifyFailure, FailureClass, Rate};

/// A network of a depot's peers, and how packets to it are paced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacedPeer {
    /// The network.
    pub peer: IpNet,
    /// How packets to it are kept apart.
    pub method: Method,
}

/// The rate of a device's link, or of every device's: read as `DEVICE=RATE` or `RATE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRate {
    /// The device; `None` for all that have no rate of their own.
    pub device: Option<String>,
    /// The rate of its link.
    pub rate: Rate,
}

impl FromStr for LineRate {
    type Err = units::ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (device, rate) = match text.split_once('=') {
            Some((device, rate)) => (Some(device.to_owned()), rate),
            None => (None, text),
        };
        Ok(Self { device, rate: rate.parse()? })
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It is not known by which devices packets to a peer leave.
    #[error("{}: {source}", .hop.in_configuration())]
    Devices {
        /// The peer.
        hop: PacedPeer,
        /// The error.
        source: Error,
    },
    /// Packets to two peers leave by one device, which can keep them apart by one method only.
    #[error(
        "{}: packets leave by {device}, too, and other hops want {} there",
        .hop.in_configuration(), .other.word()
    )]
    TwoWays {
        /// One peer.
        hop: PacedPeer,
        /// The device.
        device: String,
        /// How packets to the other peer are kept apart.
        other: Method,
    },
    /// A rate is given for a device by which no packets to paced peers leave.
    #[error("--line {device}: no packets that are to be paced leave by it")]
    UnusedLine {
        /// The device.
        device: String,
    },
}

impl ClassifyFailure for PlanError {
    fn failure_class(&self) -> FailureClass {
        match self {
            Self::Devices { source, .. } => source.failure_class(),
            Self::TwoWays { .. } | Self::UnusedLine { .. } => FailureClass::Usage,
        }
    }
}

impl PacedPeer {
    /// The entry for the depot's configuration file.
    fn in_configuration(&self) -> String {
        format!("[[hop]] peer = \"{}\", pacing = \"{}\"", self.peer, self.method.word())
    }
}

/// The rules for a depot's peers, device by device.
///
/// # Errors
/// It is not known by which devices packets leave; a device would have to pace in two ways; or a rate is
/// given for a device that has no rules.
pub fn plan(peers: &[PacedPeer], lines: &[LineRate]) -> Result<Vec<Options>, PlanError> {
    let mut devices: BTreeMap<String, (Method, Vec<Rule>)> = BTreeMap::new();
    for &hop in peers {
        let leading =
            devices_towards(&hop.peer).map_err(|source| PlanError::Devices { hop, source })?;
        for device in leading {
            let rule =
                Rule { matches: destination(hop.peer), target: Target::Auto(Estimator::LINK) };
            let (other, rules) =
                devices.entry(device.clone()).or_insert_with(|| (hop.method, Vec::new()));
            if *other != hop.method {
                return Err(PlanError::TwoWays { hop, device, other: *other });
            }
            rules.push(rule);
        }
    }
    let mut named = lines.iter().filter_map(|line| line.device.as_ref());
    if let Some(device) = named.find(|device| !devices.contains_key(*device)) {
        return Err(PlanError::UnusedLine { device: device.clone() });
    }
    let options = devices.into_iter().map(|(device, (method, rules))| {
        let of_device = lines.iter().rfind(|line| line.device.as_ref() == Some(&device));
        let of_all = || lines.iter().rfind(|line| line.device.is_none());
        let line = of_device.or_else(of_all).map(|line| line.rate);
        let frames = Frames { line, ..Frames::default() };
        Options { device, rules, frames, method: Some(method) }
    });
    Ok(options.collect())
}

fn destination(peer: IpNet) -> Match {
    Match { destination: Some(peer), ..Match::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_devices_or_every_ones() {
        let line: LineRate = "eth0=1gbit".parse().unwrap();
        assert_eq!((line.device.as_deref(), line.rate.bps()), (Some("eth0"), 1_000_000_000));
        assert_eq!("1gbit".parse::<LineRate>().unwrap().device, None);
        assert!("eth0=fast".parse::<LineRate>().is_err());
    }

    #[test]
    fn line_of_a_device_without_rules_is_refused() {
        let lines = ["1gbit", "eth0=1gbit"].map(|text| text.parse().unwrap());
        assert_eq!(plan(&[], &lines[..1]).unwrap(), []);
        let refused = plan(&[], &lines).unwrap_err().to_string();
        assert_eq!(refused, "--line eth0: no packets that are to be paced leave by it");
    }
}
