// SPDX-License-Identifier: GPL-2.0-or-later
//! The way that a request took to a depot, and the same way to another place.

use crate::{
    authority::Authority,
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
    /// To a site of the depot's, under the name that the client has for it.
    Site(&'a OriginUrl, &'a str),
    /// To a proxy, with an absolute URL.
    Proxy,
}

impl RequestRoute<'_> {
    /// The target that leads the same way to another URL of the same origin, if there is one. There is none to the
    /// route's own URL where a client is sent back to it for a login ([`send_to_login`](crate::http::send_to_login)).
    pub fn to(&self, url: OriginUrl) -> Option<String> {
        match self {
            Self::Route(route) => {
                let here = route.origin();
                let same = (here.scheme(), here.authority()) == (url.scheme(), url.authority())
                    && url != here.direct();
                same.then(|| route.to_origin(url).ok()).flatten().map(|route| route.to_string())
            }
            Self::Ticket(route, verified) => {
                let tail = verified.ticket.tail_to(&url)?;
                route.with_tail(tail).ok().map(|route| route.to_string())
            }
            Self::Proxy => None,
            // An origin that sees neither the site's name nor its TLS calls it by its own, or without.
            Self::Site(origin, asked) => {
                let asked = Authority::parse(asked, Some(url.scheme().default_port())).ok();
                let is_here = url.authority() == origin.authority()
                    || asked.is_some_and(|asked| asked == *url.authority());
                (is_here && url.scheme() == origin.scheme()).then(|| url.target().to_owned())
            }
        }
    }
}
