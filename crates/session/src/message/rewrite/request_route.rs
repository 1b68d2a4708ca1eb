// SPDX-License-Identifier: GPL-2.0-or-later
//! The way that a request took to a depot, and the same way to another place.

use crate::{
    origin::OriginUrl,
    route::Route,
    ticket::{TicketRoute, Verified},
};

/// How a request got to a depot.
#[derive(Debug, Clone, Copy)]
pub enum RequestRoute<'a> {
    /// By a route.
    Route(&'a Route),
    /// By a ticket that proved good.
    Ticket(&'a TicketRoute, &'a Verified),
}

impl RequestRoute<'_> {
    /// The target that leads the same way to another URL of the same origin, if there is one.
    pub fn to(&self, url: OriginUrl) -> Option<String> {
        match self {
            Self::Route(route) => {
                let here = route.origin();
                let same = (here.scheme(), here.authority()) == (url.scheme(), url.authority());
                same.then(|| route.to_origin(url).ok()).flatten().map(|route| route.to_string())
            }
            Self::Ticket(route, verified) => {
                let tail = verified.ticket.tail_to(&url)?;
                route.with_tail(tail).ok().map(|route| route.to_string())
            }
        }
    }
}
