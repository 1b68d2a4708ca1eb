// SPDX-License-Identifier: GPL-2.0-or-later
//! In which order routes are tried.

use crate::{
    destination::Destination,
    send_options::{SendOptions, USUAL},
    standing::{Standing, Standings},
};
use protocol::DepotAddress;
use std::{
    fmt::Debug,
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};
use units::{Bytes, Rate};

/// Chooses among routes, and learns from how attempts end.
pub trait Chooser: Debug + Send + Sync {
    /// Learns what a plan for these chains needs and is not known yet. It takes a second at most.
    fn prepare<'p>(
        &'p self,
        to: &'p Destination,
        chains: &'p [&'p [DepotAddress]],
    ) -> Prepared<'p> {
        let _ = (to, chains);
        Box::pin(ready(()))
    }

    /// The order in which to try these chains of depots to a destination, for so many bytes if that is known. An empty chain is the
    /// way without depots.
    fn plan(&self, to: &Destination, bytes: Option<Bytes>, chains: &[&[DepotAddress]]) -> Plan;

    /// How slow a transfer by a chain may become before it is to go on by the next one, for so many bytes in all if that is known;
    /// none: it goes on as long as anything comes.
    fn floor(
        &self,
        to: &Destination,
        chain: &[DepotAddress],
        send_options: &SendOptions,
        bytes: Option<Bytes>,
    ) -> Option<Floor> {
        let _ = (to, chain, send_options, bytes);
        None
    }

    /// An attempt by one of these chains has ended, successful or not.
    fn ended(&self, to: &Destination, chain: &[DepotAddress], attempt: &Attempt);
}

/// What a chooser does before it plans.
pub type Prepared<'p> = Pin<Box<dyn Future<Output = ()> + Send + 'p>>;

/// So many slow routes a transfer leaves. Then something else than its routes is slow.
pub const MOST_LEFT: u32 = 2;

/// How slow a transfer may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// At least this rate.
    pub rate: Rate,
    /// Over each time of this length.
    pub over: Duration,
}

/// An order in which to try routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    order: Vec<usize>,
    /// In that order; empty: as usual by each.
    send_options: Vec<SendOptions>,
    promising: usize,
}

impl Plan {
    /// These places, of which the first `promising` ones are so.
    pub fn new(order: Vec<usize>, promising: usize) -> Self {
        Self { order, send_options: Vec::new(), promising }
    }

    /// How to send by each of them, in that order. Without this: as usual.
    #[must_use]
    pub fn with_send_options(self, send_options: Vec<SendOptions>) -> Self {
        Self { send_options, ..self }
    }

    /// How to send by the route that is tried as this one, counted from 0.
    pub fn send_options(&self, at: usize) -> &SendOptions {
        self.send_options.get(at).unwrap_or(&USUAL)
    }

    /// The places of all routes in their list, the most promising first.
    pub fn all(&self) -> &[usize] {
        &self.order
    }

    /// Only those of routes of which nothing is known that speaks against them.
    pub fn promising(&self) -> &[usize] {
        &self.order[..self.promising]
    }
}

/// How an attempt to use a route went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// How this host has sent.
    pub send_options: SendOptions,
    /// How it ended.
    pub end: AttemptEnd,
    /// How long it took.
    pub time: Duration,
    /// What it has moved in both directions together.
    pub bytes: Bytes,
}

impl Attempt {
    /// One that has sent as usual.
    pub fn new(end: AttemptEnd, time: Duration, bytes: Bytes) -> Self {
        Self { send_options: SendOptions::default(), end, time, bytes }
    }
}

/// How an attempt to use a route ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptEnd {
    /// It did what it was for.
    Done,
    /// The same, as fast as its own ends or a limit of its own allowed: the route may be faster.
    LimitedByEnds,
    /// A fresh connection to the first depot failed.
    Unreached,
    /// The first depot took the connection, and was silent or broke it off.
    Doubtful,
    /// The first depot was slower than it may be, for too long.
    Stalled,
    /// A depot refused.
    Refused,
    /// The depots have reached each other, and not the destination.
    OfDestination,
    /// This host could not ask.
    OfHost,
}

/// Routes in the order in which they are written, except that those by whose first depot nothing goes come last: one that
/// has failed within a time, and after those one that is down.
#[derive(Debug, Clone)]
pub struct AsWritten {
    standings: Arc<Standings>,
    avoid: Duration,
}

impl AsWritten {
    /// By these standings. A depot is avoided for a time after it has failed.
    pub fn new(standings: Arc<Standings>, avoid: Duration) -> Self {
        Self { standings, avoid }
    }
}

impl Chooser for AsWritten {
    fn plan(&self, _: &Destination, _: Option<Bytes>, chains: &[&[DepotAddress]]) -> Plan {
        let standing = |chain: &&[DepotAddress]| {
            chain.first().map_or(Standing::Good, |depot| self.standings.of(depot, self.avoid))
        };
        let standings: Vec<Standing> = chains.iter().map(standing).collect();
        let mut order: Vec<usize> = (0..chains.len()).collect();
        order.sort_by_key(|at| standings[*at]);
        let promising = standings.iter().filter(|standing| **standing == Standing::Good).count();
        Plan::new(order, promising)
    }

    fn ended(&self, _: &Destination, chain: &[DepotAddress], attempt: &Attempt) {
        let is_of_little_use = matches!(attempt.end, AttemptEnd::Unreached | AttemptEnd::Stalled);
        if let Some(depot) = chain.first().filter(|_| is_of_little_use) {
            self.standings.failed(depot, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_that_failed_come_last() {
        let standings = Arc::new(Standings::default());
        let chooser = AsWritten::new(Arc::clone(&standings), Duration::from_secs(60));
        let chains: [Vec<DepotAddress>; 4] =
            ["a", "b", "c", ""].map(|name| name.parse().into_iter().collect());
        let chains: Vec<&[DepotAddress]> = chains.iter().map(Vec::as_slice).collect();
        let to = Destination::Named("server:80".parse().unwrap());
        let end = |at: usize, end| {
            let attempt = Attempt::new(end, Duration::ZERO, Bytes::new(0));
            chooser.ended(&to, chains[at], &attempt);
        };
        let order = || {
            let plan = chooser.plan(&to, None, &chains);
            (plan.all().to_vec(), plan.promising().len())
        };
        assert_eq!(order(), (vec![0, 1, 2, 3], 4));
        for harmless in [
            AttemptEnd::Done,
            AttemptEnd::Doubtful,
            AttemptEnd::Refused,
            AttemptEnd::OfDestination,
            AttemptEnd::OfHost,
        ] {
            end(0, harmless);
        }
        end(1, AttemptEnd::Unreached);
        end(3, AttemptEnd::Unreached);
        assert_eq!(order(), (vec![0, 2, 3, 1], 3));
        end(2, AttemptEnd::Stalled);
        assert_eq!(order(), (vec![0, 3, 1, 2], 2));
        standings.checked(&chains[0][0], false);
        assert_eq!(order(), (vec![3, 1, 2, 0], 1));
    }
}
