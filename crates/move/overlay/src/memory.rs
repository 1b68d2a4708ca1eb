// SPDX-License-Identifier: GPL-2.0-or-later
//! Routes by destination, as many as fit.

use crate::{
    choice::{Allowance, InUse},
    path::{CLASSES, Path, Usual},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most destinations, and routes to one.
const DESTINATIONS: usize = 64;
const PATHS: usize = 24;
/// The most round trips.
const ROUND_TRIPS: usize = 256;

/// What is known of routes. As JSON at most some 8 MB.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    places: BTreeMap<String, Place>,
    /// By the name of what was reached: seconds, and when that was.
    #[serde(default)]
    round_trips: BTreeMap<String, (f64, f64)>,
}

/// What is known of the routes to a destination.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    paths: BTreeMap<String, Path>,
    /// The route in use, by size class.
    #[serde(default)]
    pub in_use: [Option<InUse>; CLASSES],
    /// What trying other routes may cost still, in transfers of that size; by size class.
    #[serde(default)]
    pub allowance: Allowance,
}

impl Memory {
    /// Destinations that are known, in the order of their names.
    pub fn destinations(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// The routes to a destination that are known.
    pub fn paths(&self, to: &str) -> impl Iterator<Item = (&str, &Path)> {
        let paths = self.places.get(to).map(|place| &place.paths);
        paths.into_iter().flatten().map(|(key, path)| (key.as_str(), path))
    }

    /// The round trip to a host in seconds, as it was measured last.
    pub fn round_trip(&self, to: &str) -> Option<f64> {
        self.round_trips.get(to).map(|(seconds, _)| *seconds)
    }

    /// A round trip was measured at this time, in seconds. Those that were measured longest ago make room.
    pub fn measured(&mut self, to: &str, seconds: f64, at_s: f64) {
        self.round_trips.insert(to.to_owned(), (seconds, at_s));
        self.bound_round_trips();
    }

    fn bound_round_trips(&mut self) {
        while self.round_trips.len() > ROUND_TRIPS {
            let oldest = self.round_trips.iter().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
            let Some(name) = oldest.map(|(name, _)| name.clone()) else { return };
            self.round_trips.remove(&name);
        }
    }

    pub(crate) fn place(&self, to: &str) -> Option<&Place> {
        self.places.get(to)
    }

    /// The place of a destination, for which the one that was used longest ago makes room.
    pub(crate) fn place_mut(&mut self, to: &str) -> &mut Place {
        if self.places.len() >= DESTINATIONS && !self.places.contains_key(to) {
            let oldest = |(_, place): &(&String, &Place)| place.last_s();
            let least = self.places.iter().min_by(|a, b| oldest(a).total_cmp(&oldest(b)));
            if let Some(name) = least.map(|(name, _)| name.clone()) {
                self.places.remove(&name);
            }
        }
        self.places.entry(to.to_owned()).or_default()
    }

    /// What was read may be from elsewhere: no more than fits is kept.
    pub fn bound(&mut self) {
        while self.places.len() > DESTINATIONS {
            self.places.pop_last();
        }
        self.bound_round_trips();
        for place in self.places.values_mut() {
            while place.paths.len() > PATHS {
                place.paths.pop_last();
            }
        }
    }
}

impl Place {
    pub fn path(&self, key: &str) -> Option<&Path> {
        self.paths.get(key)
    }

    /// A route, for which the one that was used longest ago makes room.
    pub fn path_mut(&mut self, key: &str) -> &mut Path {
        if self.paths.len() >= PATHS && !self.paths.contains_key(key) {
            let last_s = |path: &Path| path.last_s().unwrap_or(f64::NEG_INFINITY);
            let least = self.paths.iter().min_by(|a, b| last_s(a.1).total_cmp(&last_s(b.1)));
            if let Some(name) = least.map(|(name, _)| name.clone()) {
                self.paths.remove(&name);
            }
        }
        self.paths.entry(key.to_owned()).or_default()
    }

    /// What is usual for other routes than this one, for transfers of a size class: for those by the same depots, if any were seen.
    pub fn usual_without(&self, key: &str, class: usize) -> Usual {
        let others = || self.paths.iter().filter(|(other, _)| *other != key);
        let by_same_depots = others().filter(|(other, _)| chain_of(other) == chain_of(key));
        let usual = Usual::of(by_same_depots.map(|(_, path)| path), class);
        if usual.is_known() { usual } else { Usual::of(others().map(|(_, path)| path), class) }
    }

    fn last_s(&self) -> f64 {
        let last_s = self.paths.values().filter_map(Path::last_s);
        last_s.fold(f64::NEG_INFINITY, f64::max)
    }
}

/// The chain in a candidate's key.
pub(crate) fn chain_of(key: &str) -> &str {
    key.split(';').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{End, Seen};

    #[test]
    fn oldest_makes_room() {
        let mut memory = Memory::default();
        for n in 0..DESTINATIONS + 10 {
            let seen = Seen { at_s: n as f64, bytes: 1, seconds: 1.0, end: End::Done };
            for route in 0..3 {
                let place = memory.place_mut(&format!("host{n}"));
                place.path_mut(&format!("d{route}")).ended(&[], &Usual::unknown(), seen);
            }
        }
        assert_eq!(memory.destinations().count(), DESTINATIONS);
        assert_eq!(memory.paths("host9").count(), 0);
        assert_eq!(memory.paths("host10").count(), 3);
        let place = memory.place_mut("host10");
        for n in 0..100 {
            let seen = Seen { at_s: f64::from(n), bytes: 1, seconds: 1.0, end: End::Done };
            place.path_mut(&format!("new{n}")).ended(&[], &Usual::unknown(), seen);
        }
        assert_eq!(memory.paths("host10").count(), PATHS);
        for n in 0..ROUND_TRIPS + 10 {
            memory.measured(&format!("d{n}"), 0.1, n as f64);
        }
        assert_eq!((memory.round_trip("d9"), memory.round_trip("d10")), (None, Some(0.1)));
    }
}
