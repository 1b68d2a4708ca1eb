// SPDX-License-Identifier: GPL-2.0-or-later
//! What to do with a request, if the rules or a ticket let the depot do it.

use crate::{
    admission::{Grant, Verdict},
    server::Shared,
    trust, upstream,
};
use http::StatusCode;
use session::{
    Authority, Fetch, Redirect, Route, Step,
    message::{Fault, Framing, ProxyError, RequestHead, Way},
    ticket::{Asker, Ticket, TicketRoute, Verified},
};
use std::net::{IpAddr, SocketAddr};
use units::{Bytes, Rate};

/// How a request got here, and what is done with it.
#[derive(Debug)]
pub(crate) struct Plan {
    asked: Asked,
    /// What is done.
    pub step: Step,
    /// By whose leave.
    pub grant: Grant,
}

/// How much of a transfer is granted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Allowance {
    /// The most bytes of a body, either way.
    pub bytes: Option<Bytes>,
    /// The highest rate.
    pub rate: Option<Rate>,
}

impl Allowance {
    /// Sees whether a body of a known length is granted.
    pub(crate) fn check(&self, framing: Framing) -> Result<(), Fault> {
        match (framing, self.bytes) {
            (Framing::Length(length), Some(most)) if length > most.get() => Err(denied(format!(
                "the ticket is for at most {} bytes of a body, and this has {length}",
                most.get()
            ))),
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
enum Asked {
    Route(Route),
    Ticket(TicketRoute, Box<Verified>),
}

impl Plan {
    /// How the request got here.
    pub(crate) fn way(&self) -> Way<'_> {
        match &self.asked {
            Asked::Route(route) => Way::Route(route),
            Asked::Ticket(route, verified) => Way::Ticket(route, verified),
        }
    }

    /// What the ticket holds a transfer to.
    pub(crate) fn allowance(&self) -> Allowance {
        match &self.asked {
            Asked::Route(_) => Allowance::default(),
            Asked::Ticket(_, verified) => {
                let Ticket { bytes, rate, .. } = verified.ticket;
                Allowance { bytes, rate }
            }
        }
    }

    /// The request as the next depot would pass it on: straight to what is behind it.
    pub(crate) fn straight(&self, fetch: &Fetch) -> Option<Fetch> {
        match &self.asked {
            Asked::Route(_) => match fetch.target.parse::<Route>().ok()?.step() {
                Step::Fetch(fetch) => Some(fetch),
                Step::Lead(_) => None,
            },
            Asked::Ticket(_, verified) => verified.ticket.step(&fetch.target.parse().ok()?).ok(),
        }
    }

    /// The plan for a request of a client.
    pub(crate) async fn of(
        request: &RequestHead,
        client: SocketAddr,
        shared: &Shared,
    ) -> Result<Self, Fault> {
        // Browsers ask this of every host whose pages they show.
        if request.target == "/favicon.ico" {
            let (status, error) = (StatusCode::NOT_FOUND, ProxyError::HttpRequestError);
            return Err(Fault::new(status, error, "not a route: a depot has no icon"));
        }
        if request.target.starts_with(session::ticket::PREFIX) {
            by_ticket(request, client.ip(), shared).await
        } else {
            by_rules(request, client.ip(), shared)
        }
    }
}

fn by_rules(request: &RequestHead, client: IpAddr, shared: &Shared) -> Result<Plan, Fault> {
    let config = shared.config();
    if !config.allow.client(client) {
        return Err(denied(format!("this depot is not open for clients from {client}")));
    }
    if config.trust.required {
        return Err(denied("this depot wants a ticket: ask the origin for one".to_owned()));
    }
    if !config.allow.methods.contains(&request.method) {
        let listed: Vec<_> = config.allow.methods.iter().map(|method| method.as_str()).collect();
        return Err(Fault::new(
            StatusCode::METHOD_NOT_ALLOWED,
            ProxyError::HttpRequestDenied,
            format!("this depot relays {} without a ticket", listed.join(", ")),
        ));
    }
    let route: Route = request
        .target
        .parse()
        .map_err(|error| Fault::bad_request(format!("malformed route: {error}")))?;
    let step = route.clone().step();
    // Leading clients anywhere would let others borrow this depot's name for their links.
    if let Step::Lead(Redirect { depot, .. }) = &step
        && config.allow.upstream(&depot.authority, Grant::Rules) != Verdict::Listed
    {
        return Err(denied(format!(
            "this depot does not lead clients to {depot}: it is not listed"
        )));
    }
    Ok(Plan { asked: Asked::Route(route), step, grant: Grant::Rules })
}

async fn by_ticket(request: &RequestHead, client: IpAddr, shared: &Shared) -> Result<Plan, Fault> {
    let route: TicketRoute = request.target.parse()?;
    let verified = trust::verify(&shared.settings().keys, route.token())?;
    verified.ticket.check_method(request.method)?;
    if let Asker::MustBe(depot) = verified.ticket.check_client(route.hop(), client)?
        && !is_at(&depot.authority, client).await
    {
        return Err(denied(format!(
            "the ticket has {depot} ask this depot, and {client} is none of its addresses"
        )));
    }
    let step = Step::Fetch(verified.ticket.step(&route)?);
    let plan = Plan { asked: Asked::Ticket(route, Box::new(verified)), step, grant: Grant::Ticket };
    plan.allowance().check(request.framing())?;
    // Last, so that what is refused is no use.
    if let Asked::Ticket(_, verified) = &plan.asked {
        shared.uses.count(verified)?;
    }
    Ok(plan)
}

/// Whether a depot has this address.
async fn is_at(depot: &Authority, ip: IpAddr) -> bool {
    let found = upstream::resolve(depot).await;
    found.is_ok_and(|all| all.iter().any(|address| address.ip().to_canonical() == ip))
}

fn denied(reason: String) -> Fault {
    Fault::new(StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied, reason)
}
