// SPDX-License-Identifier: GPL-2.0-or-later
//! Where a session leads.

use ::protocol::{
    Authority, AuthorityError, DepotAddress,
    session::{Hop, MAX_HOPS, Open, Role, SessionId, Target},
};
use ::route::Destination;
use std::str::FromStr;

/// The depots of a session, and what is behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    first: Hop,
    rest: Vec<Hop>,
    target: Target,
}

/// Why there is no such route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// A plain server, or a meeting, needs a depot.
    #[error("name at least one depot (--via): {0}")]
    NoDepot(&'static str),
    /// There are too many.
    #[error("a route has at most 16 hops")]
    TooLong,
    /// The destination is malformed.
    #[error("{0}")]
    Destination(#[from] AuthorityError),
}

impl Route {
    /// A route by these hops, the nearest first.
    ///
    /// # Errors
    /// There are none, or too many.
    pub fn new(hops: Vec<Hop>, target: Target) -> Result<Self, RouteError> {
        if hops.len() > MAX_HOPS {
            return Err(RouteError::TooLong);
        }
        let mut hops = hops.into_iter();
        let first = hops.next().ok_or(RouteError::NoDepot(match target {
            Target::Tcp { .. } => "a plain TCP server does not speak sessions",
            Target::Store => "sessions are kept there",
            _ => "both ends meet there",
        }))?;
        Ok(Self { first, rest: hops.collect(), target })
    }

    /// Through these depots to a destination: `HOST:PORT` of an acceptor, or `tcp:HOST:PORT` of a plain server.
    ///
    /// # Errors
    /// The destination is malformed, or there are too few or too many depots.
    pub fn to(via: &[DepotAddress], destination: &str) -> Result<Self, RouteError> {
        let mut hops: Vec<Hop> = via.iter().cloned().map(Hop::from).collect();
        if let Some(server) = destination.strip_prefix("tcp:") {
            let server = Authority::from_str(server)?;
            return Self::new(hops, Target::Tcp { server, proxy_protocol: false });
        }
        let (end, is_tls) = match destination.strip_prefix("https:") {
            Some(end) => (end, true),
            None => (destination, false),
        };
        // Only depots have a port of their own.
        Authority::from_str(end)?;
        let end =
            DepotAddress::from_str(&if is_tls { format!("https:{end}") } else { end.to_owned() })?;
        hops.push(end.into());
        Self::new(hops, Target::End)
    }

    /// Through these depots; the two ends meet at the last one.
    ///
    /// # Errors
    /// There are none, or too many.
    pub fn meeting(via: &[DepotAddress], role: Role) -> Result<Self, RouteError> {
        Self::new(via.iter().cloned().map(Hop::from).collect(), Target::Meeting(role))
    }

    /// Through these depots; the last one is asked for sessions that it keeps.
    ///
    /// # Errors
    /// There are none, or too many.
    pub fn store(via: &[DepotAddress]) -> Result<Self, RouteError> {
        Self::new(via.iter().cloned().map(Hop::from).collect(), Target::Store)
    }

    /// The hop to connect to.
    pub(crate) fn first(&self) -> &Hop {
        &self.first
    }

    /// The OPEN for the first hop.
    pub(crate) fn open(&self, session: SessionId) -> Open {
        Open::new(session, self.rest.clone(), self.target.clone())
    }

    /// The depots, the nearest first.
    pub(crate) fn chain(&self) -> Vec<DepotAddress> {
        let hops = std::iter::once(&self.first).chain(&self.rest);
        hops.take(self.depots()).map(|hop| hop.address.clone()).collect()
    }

    /// What is behind them. The two ends of a meeting meet at the last one, and sessions are kept there.
    pub(crate) fn destination(&self) -> Destination {
        let last = self.rest.last().unwrap_or(&self.first);
        Destination::Named(match &self.target {
            Target::Tcp { server, .. } => server.clone(),
            Target::End | Target::Meeting(_) | Target::Store => last.address.authority.clone(),
        })
    }

    /// The first hop, if it is a depot.
    pub fn first_depot(&self) -> Option<&DepotAddress> {
        (self.depots() > 0).then_some(&self.first.address)
    }

    /// How many depots it passes.
    pub fn depots(&self) -> usize {
        self.rest.len() + usize::from(self.target != Target::End)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_acceptors_or_plain_servers() {
        let via = ["d1.example".parse().unwrap()];
        let route = Route::to(&via, "b.example:4000").unwrap();
        assert_eq!((route.depots(), route.rest.len()), (1, 1));
        assert_eq!((route.chain(), route.first_depot()), (via.to_vec(), Some(&via[0])));
        let named = |text: &str| Destination::Named(text.parse().unwrap());
        assert_eq!(route.destination(), named("b.example:4000"));
        let direct = Route::to(&[], "b.example:4000").unwrap();
        assert_eq!((direct.depots(), direct.chain().len()), (0, 0));
        assert_eq!(direct.first_depot(), None);
        assert_eq!(direct.destination(), named("b.example:4000"));
        let meeting = Route::meeting(&via, Role::Initiator).unwrap();
        assert_eq!(
            (meeting.chain(), meeting.destination()),
            (via.to_vec(), named("d1.example:3880"))
        );
        let route = Route::to(&via, "tcp:b.example:22").unwrap();
        assert_eq!((route.chain(), route.destination()), (via.to_vec(), named("b.example:22")));
        assert!(matches!(Route::to(&[], "tcp:b.example:22"), Err(RouteError::NoDepot(_))));
        assert!(matches!(Route::to(&via, "b.example"), Err(RouteError::Destination(_))));
        let many = vec![via[0].clone(); 16];
        assert_eq!(Route::to(&many, "b.example:4000"), Err(RouteError::TooLong));
    }
}
