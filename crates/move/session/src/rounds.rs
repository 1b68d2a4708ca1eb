// SPDX-License-Identifier: GPL-2.0-or-later
//! The routes of a session, tried in rounds: each route once, in the order that a chooser gives when the round begins.
//!
//! A route by which the other end was reached stays in use when its connection is lost.

use crate::{error::Loss, route::Route};
use ::route::{Attempt, AttemptEnd, Chooser, Destination, Floor, MOST_LEFT, Plan, SendOptions};
use protocol::DepotAddress;
use relay::dial::FaultSource;
use std::sync::Arc;
use units::Bytes;

/// The routes of a session, and which of them is used.
#[derive(Debug)]
pub(crate) struct Rounds {
    to: Destination,
    bytes: Option<Bytes>,
    chains: Vec<Vec<DepotAddress>>,
    chooser: Arc<dyn Chooser>,
    /// Of this round.
    plan: Plan,
    at: usize,
    /// Routes that were left since they were slow.
    left: u32,
}

impl Rounds {
    /// At least one route, for so many bytes if that is known. Alternatives lead to the same place.
    pub(crate) async fn new(
        routes: &[Route],
        bytes: Option<Bytes>,
        chooser: Arc<dyn Chooser>,
    ) -> Self {
        let chains: Vec<_> = routes.iter().map(Route::chain).collect();
        let (to, plan) = (routes[0].destination(), Plan::new(Vec::new(), 0));
        let listed: Vec<_> = chains.iter().map(Vec::as_slice).collect();
        chooser.prepare(&to, &listed).await;
        let mut rounds = Self { to, bytes, chains, chooser, plan, at: 0, left: 0 };
        rounds.begin();
        rounds
    }

    fn begin(&mut self) {
        let chains: Vec<_> = self.chains.iter().map(Vec::as_slice).collect();
        self.plan = self.chooser.plan(&self.to, self.bytes, &chains);
        self.at = 0;
    }

    /// The place among the routes of the one in use.
    pub(crate) fn index(&self) -> usize {
        self.plan.all()[self.at]
    }

    /// How to send by it.
    pub(crate) fn send_options(&self) -> &SendOptions {
        self.plan.send_options(self.at)
    }

    /// An attempt by the route in use has ended.
    pub(crate) fn ended(&mut self, attempt: &Attempt) {
        self.left += u32::from(attempt.end == AttemptEnd::Stalled);
        self.chooser.ended(&self.to, &self.chains[self.index()], attempt);
    }

    /// How slow the route in use may become. The last one of a round may be as slow as it is.
    pub(crate) fn floor(&self) -> Option<Floor> {
        self.plan.all().get(self.at + 1).filter(|_| self.left < MOST_LEFT)?;
        self.chooser.floor(&self.to, &self.chains[self.index()], self.send_options(), self.bytes)
    }

    /// The other end was not reached, or too slowly: the next route.
    pub(crate) fn next(&mut self) {
        self.at += 1;
        if self.at == self.plan.all().len() {
            self.begin();
        }
    }
}

/// What the end of a connection says of its route.
pub(crate) fn end_of(ended: &Result<(), Loss>) -> AttemptEnd {
    match ended {
        Ok(()) => AttemptEnd::Done,
        Err(Loss::Dial(refusal)) if refusal.source == FaultSource::Peer => AttemptEnd::Unreached,
        Err(Loss::Dial(_)) => AttemptEnd::OfHost,
        // The other end has ended it, or a depot has refused it.
        Err(Loss::Fatal(_)) => AttemptEnd::Refused,
        Err(Loss::Connection(_) | Loss::Unopened(_)) => AttemptEnd::Doubtful,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::route::{AsWritten, Standings};
    use std::time::Duration;

    #[tokio::test]
    async fn each_round_tries_every_route_and_failed_ones_last() {
        let route = |depot: &str| Route::to(&[depot.parse().unwrap()], "b.example:4000").unwrap();
        let routes = ["d1", "d2", "d3"].map(route);
        let standings = Arc::new(Standings::default());
        let chooser = AsWritten::new(Arc::clone(&standings), Duration::from_secs(60));
        let mut rounds = Rounds::new(&routes, None, Arc::new(chooser)).await;
        let mut tried = Vec::new();
        for end in [
            AttemptEnd::Unreached,
            AttemptEnd::Doubtful,
            AttemptEnd::Refused,
            AttemptEnd::Doubtful,
            AttemptEnd::Doubtful,
            AttemptEnd::Unreached,
        ] {
            let depot = routes[rounds.index()].first().address.authority.host.to_string();
            tried.push(depot);
            rounds.ended(&Attempt::new(end, Duration::ZERO, Bytes::new(0)));
            rounds.next();
        }
        assert_eq!(tried, ["d1", "d2", "d3", "d2", "d3", "d1"]);
        // A route that stays in use is not replaced when others recover.
        standings.checked(&"d2".parse().unwrap(), false);
        assert_eq!(rounds.index(), 1);
        rounds.next();
        assert_eq!(rounds.index(), 2);
    }
}
