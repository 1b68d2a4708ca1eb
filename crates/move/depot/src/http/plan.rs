// SPDX-License-Identifier: GPL-2.0-or-later
//! What to do with a request, if the rules or a ticket let the depot do it.

use crate::{
    admission::{
        allowance::Allowance,
        rules::not_listed_client,
        ticket_client::CameFrom,
        verdict::{Grant, Verdict},
    },
    config::Site,
    observe::UsedLogin,
    proxy, session,
    state::RequestContext,
};
use ::protocol::{
    Fetch, OriginUrl, Redirect, Route, RouteError, Scheme, Step,
    http::{Fault, Method, ProxyError, RequestHead, RequestRoute, SiteRequest, forwarded_client},
    session::{Hop, Open, OpenStep},
    ticket::{Ticket, TicketError, TicketRoute, Verified},
};
use http::StatusCode;
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// How a request got here, and what is done with it.
#[derive(Debug)]
pub(crate) struct Plan {
    asked: Asked,
    /// What is done.
    pub step: Step,
    /// The rule or ticket that permits it.
    pub grant: Grant,
    /// The client that the ticket was checked against, by this depot or by an earlier one.
    client: IpAddr,
    /// How the client asked for a site, of this depot or of one before it.
    pub site: Option<SiteRequest>,
    /// The session that leads to the origin, where a client of the proxy asks and depots are on the way.
    pub tunnel: Option<Tunnel>,
    /// The user of the proxy that sends the request.
    pub login: Option<Arc<UsedLogin>>,
}

/// A session to an origin, for one request.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// The next hop.
    pub hop: Hop,
    /// What it is sent.
    pub open: Box<Open>,
}

#[derive(Debug)]
enum Asked {
    Route(Route),
    Ticket(TicketRoute, Box<Verified>),
    Site(OriginUrl),
    /// Of the proxy, by a ticket for the session to the origin if there is one.
    Proxy(OriginUrl, Option<Box<Verified>>),
}

impl Plan {
    /// How the request got here.
    pub(crate) fn request_route(&self) -> RequestRoute<'_> {
        match &self.asked {
            Asked::Route(route) => RequestRoute::Route(route),
            Asked::Ticket(route, verified) => RequestRoute::Ticket(route, verified),
            Asked::Site(url) => {
                let asked = self.site.as_ref().map_or("", |site| &site.asked);
                RequestRoute::Site(url, asked)
            }
            Asked::Proxy(..) => RequestRoute::Proxy,
        }
    }

    /// The ticket that opens the depot, if the route has one.
    pub(crate) fn ticket(&self) -> Option<&Ticket> {
        self.verified().map(|verified| &verified.ticket)
    }

    /// The same, with the key that has signed it.
    pub(crate) fn verified(&self) -> Option<&Verified> {
        match &self.asked {
            Asked::Route(_) | Asked::Site(_) => None,
            Asked::Ticket(_, verified) => Some(verified),
            Asked::Proxy(_, verified) => verified.as_deref(),
        }
    }

    /// Whether a client of the proxy asks.
    pub(crate) fn is_proxied(&self) -> bool {
        matches!(self.asked, Asked::Proxy(..))
    }

    /// What is asked of the origin, where the request's target does not show it: without what makes a ticket good.
    pub(crate) fn url(&self) -> Option<String> {
        let url = match &self.asked {
            Asked::Route(_) => return None,
            Asked::Site(url) | Asked::Proxy(url, _) => url.to_string(),
            Asked::Ticket(route, verified) => verified.ticket.url_of(route).ok()?.to_string(),
        };
        Some(TicketRoute::redacted(&url).into_owned())
    }

    /// The client that the next depot has to check against the ticket. `None` if the ticket is for all
    /// clients.
    pub(crate) fn vouched(&self) -> Option<IpAddr> {
        self.ticket().filter(|ticket| !ticket.clients.is_empty()).map(|_| self.client)
    }

    /// What the ticket holds a transfer to.
    pub(crate) fn allowance(&self) -> Allowance {
        self.verified().map(Allowance::of).unwrap_or_default()
    }

    /// The request as the next depot would pass it on: straight to what is behind it. Not where that depot
    /// would have to vouch for the client.
    pub(crate) fn straight(&self, fetch: &Fetch) -> Option<Fetch> {
        match &self.asked {
            Asked::Route(_) | Asked::Site(_) => match fetch.target.parse::<Route>().ok()?.step() {
                Step::Fetch(fetch) => Some(fetch),
                Step::Lead(_) => None,
            },
            Asked::Proxy(..) => None,
            Asked::Ticket(_, verified) if !verified.ticket.clients.is_empty() => None,
            Asked::Ticket(_, verified) => verified.ticket.step(&fetch.target.parse().ok()?).ok(),
        }
    }

    /// The plan for a request of a client: for what a `site` has, or for a depot.
    pub(crate) async fn of(
        request: &RequestHead,
        site: Option<&Site>,
        (client, scheme): (SocketAddr, Scheme),
        context: RequestContext<'_>,
    ) -> Result<Self, Fault> {
        context.admission.denied.check_client(client.ip())?;
        if let Some(site) = site {
            return for_site(request, site, (client.ip(), scheme));
        }
        // Browsers ask this of every host whose pages they show.
        if request.target == "/favicon.ico" {
            let (status, error) = (StatusCode::NOT_FOUND, ProxyError::HttpRequestError);
            return Err(Fault::new(status, error, "not a route: a depot has no icon"));
        }
        if request.target.starts_with(::protocol::ticket::PREFIX) {
            let planned = by_ticket(request, (client.ip(), scheme), context).await;
            planned.inspect_err(|_| context.observer.counts.ticket_refused())
        } else {
            by_rules(request, client.ip(), context)
        }
    }
}

/// The plan for a request with an absolute URL of a client that uses this depot as its proxy.
pub(crate) async fn for_proxy(
    request: &RequestHead,
    (client, scheme): (IpAddr, Scheme),
    context: RequestContext<'_>,
) -> Result<Plan, Fault> {
    let url = request.url.as_deref().and_then(|url| OriginUrl::of_proxy(url).ok());
    let url = url.filter(|url| url.scheme() == Scheme::Http).ok_or_else(|| {
        Fault::bad_request("this proxy takes http: URLs, and CONNECT for all others")
    })?;
    let server = url.authority().clone();
    let admitted = proxy::admit(server, &request.headers, (client, scheme), context).await?;
    let session::Plan { step, grant, ticket, .. } = admitted.plan;
    let tunnel = match step {
        OpenStep::Tcp { .. } => None,
        OpenStep::Connect { hop, open } => Some(Tunnel { hop, open }),
        OpenStep::Meeting(_) | OpenStep::Store => {
            return Err(Fault::internal("a proxy leads to servers alone"));
        }
    };
    let plan = Plan {
        step: Route::Fetch { chain: Vec::new(), origin: url.clone() }.step(),
        asked: Asked::Proxy(url, ticket.map(Box::new)),
        grant,
        client,
        site: None,
        tunnel,
        login: admitted.login,
    };
    plan.allowance().check(request.framing())?;
    Ok(plan)
}

fn for_site(
    request: &RequestHead,
    site: &Site,
    (client, scheme): (IpAddr, Scheme),
) -> Result<Plan, Fault> {
    if !site.admits(client) {
        return Err(denied(format!("this site is not open for clients from {client}")));
    }
    if !site.methods.contains(&request.method) {
        let reason = format!("this site takes {}", Method::list(&site.methods));
        return Err(Fault::method_not_allowed(&site.methods, reason));
    }
    let malformed = |error| Fault::bad_request(format!("malformed target: {error}"));
    let url = site.origin.url(&request.target).map_err(malformed)?;
    let route = Route::Fetch { chain: site.via.clone(), origin: url.clone() };
    let asked = request.asked_authority().unwrap_or(site.name.as_str()).to_owned();
    let host = site.host.as_ref().map(|host| host.as_str().to_owned());
    Ok(Plan {
        asked: Asked::Site(url),
        step: route.step(),
        grant: Grant::Site,
        client,
        site: Some(SiteRequest { asked, scheme, client: client.to_canonical(), host }),
        tunnel: None,
        login: None,
    })
}

fn by_rules(
    request: &RequestHead,
    client: IpAddr,
    context: RequestContext<'_>,
) -> Result<Plan, Fault> {
    let config = context.config();
    if !config.allow.client(client) {
        return Err(not_listed_client(client));
    }
    if config.trust.required {
        return Err(denied("this depot wants a ticket: ask the origin for one".to_owned()));
    }
    if !config.allow.methods.contains(&request.method) {
        let allowed = &config.allow.methods;
        let reason = format!("this depot relays {} without a ticket", Method::list(allowed));
        return Err(Fault::method_not_allowed(allowed, reason));
    }
    let route: Route = request.target.parse().map_err(|error| no_route(request, &error))?;
    let step = route.clone().step();
    // Leading clients anywhere would let others borrow this depot's name for their links.
    if let Step::Lead(Redirect { depot, .. }) = &step
        && config.allow.upstream(&depot.authority, Grant::Rules) != Verdict::Listed
    {
        return Err(denied(format!(
            "this depot does not lead clients to {depot}: it is not listed"
        )));
    }
    let told = || SiteRequest::read(&request.headers).filter(|_| config.trust.has_depot(client));
    let site = request.came_through_depot().then(told).flatten();
    let (tunnel, login) = (None, None);
    let asked = Asked::Route(route);
    Ok(Plan { asked, step, grant: Grant::Rules, client, site, tunnel, login })
}

/// The fault for a URL that is not a route. The client may take the depot for a forward proxy.
fn no_route(request: &RequestHead, error: &RouteError) -> Fault {
    let asked = request.url.as_deref().and_then(|url| url.parse().ok());
    let route = asked.map(|origin| Route::Fetch { chain: Vec::new(), origin });
    Fault::bad_request(match route.filter(|_| *error == RouteError::Prefix) {
        Some(route) => format!(
            "this is a depot and no forward proxy (curl -x): ask it for {route}, as in \
             http://DEPOT:3880{route}"
        ),
        None => format!("malformed route: {error}"),
    })
}

async fn by_ticket(
    request: &RequestHead,
    (peer, scheme): (IpAddr, Scheme),
    context: RequestContext<'_>,
) -> Result<Plan, Fault> {
    let (settings, resolver) = (context.settings, context.next_hops.resolver(peer));
    let route: TicketRoute = request.target.parse()?;
    let verified = settings.trust.verify(route.token())?;
    let ticket = &verified.ticket;
    context.admission.denied.check_ticket(&ticket.id)?;
    ticket.check_method(request.method)?;
    let depot = ticket.depot(route.hop())?;
    if !context.admission.identity.is(depot, scheme, &settings.config, resolver).await? {
        return Err(TicketError::Elsewhere { depot: depot.clone() }.into());
    }
    let (relayed, vouched) = (request.came_through_depot(), forwarded_client(&request.headers));
    let came = CameFrom { peer, relayed, vouched };
    let client = came.client((ticket, route.hop()), settings, resolver).await?;
    context.admission.denied.check_client(client)?;
    let step = Step::Fetch(ticket.step(&route)?);
    let asked = Asked::Ticket(route, Box::new(verified));
    let (site, tunnel, login) = (None, None, None);
    let plan = Plan { asked, step, grant: Grant::Ticket, client, site, tunnel, login };
    plan.allowance().check(request.framing())?;
    // Last, so that a refused request does not count as a use of the ticket.
    if let Asked::Ticket(_, verified) = &plan.asked {
        context.admission.uses.count(verified)?;
        context.observer.counts.ticket_taken(verified.ticket.issuer.as_deref());
    }
    Ok(plan)
}

fn denied(reason: String) -> Fault {
    Fault::new(StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied, reason)
}
