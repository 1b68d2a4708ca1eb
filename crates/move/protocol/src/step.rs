// SPDX-License-Identifier: GPL-2.0-or-later
//! The action of a depot on a route: redirect the client, or fetch.

use crate::{
    authority::Authority,
    depot_address::DepotAddress,
    origin::{OriginUrl, Scheme},
    route::{Redirect, Route},
};

/// A depot's next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Answer 302 with this `Location`.
    Lead(Redirect),
    /// Connect, ask, and pass the answer on.
    Fetch(Fetch),
}

/// A request to the next hop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// With TLS or without.
    pub scheme: Scheme,
    /// Where to connect.
    pub next: Authority,
    /// The target on the request line.
    pub target: String,
    /// The value of the `Host` field.
    pub host: String,
    /// The origin, where it is the next hop: this depot is the last before it.
    pub origin: Option<OriginUrl>,
    /// How many depots it passes before the origin: the next hop, if it is one, and those behind it.
    pub depots: usize,
}

impl Route {
    /// The step that the depot which received this route takes.
    pub fn step(self) -> Step {
        match self {
            Self::Lead { mut ahead, mut chain, origin } if !ahead.is_empty() => {
                let depot = ahead.remove(0);
                chain.insert(0, depot.clone());
                Step::Lead(Redirect { depot, route: Self::Lead { ahead, chain, origin } })
            }
            // The chain begins with this depot itself.
            Self::Lead { mut chain, origin, .. } => {
                chain.remove(0);
                Step::Fetch(fetch(chain, origin))
            }
            Self::Fetch { chain, origin } => Step::Fetch(fetch(chain, origin)),
        }
    }
}

/// The request through what remains of the chain.
fn fetch(mut chain: Vec<DepotAddress>, origin: OriginUrl) -> Fetch {
    if chain.is_empty() {
        return Fetch::from_origin(origin);
    }
    let next = chain.remove(0);
    let depots = 1 + chain.len();
    Fetch::from_depot(next, Route::Fetch { chain, origin }.to_string(), depots)
}

impl Fetch {
    /// The request to an origin.
    pub(crate) fn from_origin(origin: OriginUrl) -> Self {
        Self {
            scheme: origin.scheme(),
            next: origin.authority().clone(),
            target: origin.target().to_owned(),
            host: origin.host_field(),
            origin: Some(origin),
            depots: 0,
        }
    }

    /// The same request to another depot, which replaces the one that it is for.
    #[must_use]
    pub fn at(&self, depot: DepotAddress) -> Self {
        Self {
            origin: self.origin.clone(),
            ..Self::from_depot(depot, self.target.clone(), self.depots)
        }
    }

    /// The request to another depot, which is the first of so many that it passes.
    pub fn from_depot(next: DepotAddress, target: String, depots: usize) -> Self {
        let DepotAddress { scheme, authority: next } = next;
        let host = next.without_port(scheme.default_port());
        Self { scheme, next, target, host, origin: None, depots }
    }
}
