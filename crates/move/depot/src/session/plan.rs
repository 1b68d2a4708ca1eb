// SPDX-License-Identifier: GPL-2.0-or-later
//! What to do with an OPEN, if the rules or a ticket allow it: the same rules as for a route of HTTP.

use crate::{
    admission::{
        rules::{not_listed, not_listed_client},
        ticket_client::CameFrom,
        verdict::{Grant, Objection, Verdict},
    },
    state::RequestContext,
    upstream,
};
use http::StatusCode;
use protocol::{
    Authority, Host, Scheme,
    http::{Fault, ProxyError},
    session::{Hop, Open, OpenStep, SessionId, Target, TicketText},
    ticket::{TicketError, Verified},
};
use std::{
    io, iter,
    net::{IpAddr, SocketAddr},
};

/// What is done.
pub(crate) struct Plan {
    pub session: SessionId,
    pub step: OpenStep,
    /// The rule or ticket that permits it.
    pub grant: Grant,
    /// The client for which a depot asks, where it is believed.
    pub asked_for: Option<IpAddr>,
    /// What opens the depot, where it is a ticket.
    pub ticket: Option<Verified>,
}

impl Plan {
    /// The plan for an OPEN from this address. The rules for the next hop are checked when the depot connects
    /// to it.
    pub(super) async fn of(
        open: Open,
        from: (IpAddr, Scheme),
        context: RequestContext<'_>,
    ) -> Result<Self, Fault> {
        context.admission.denied.check_client(from.0)?;
        match open.ticket.clone() {
            None => Self::by_rules(open, from.0, context),
            Some(text) => {
                let planned = Self::by_ticket(open, &text, from, context).await;
                planned.inspect_err(|_| context.observer.counts.ticket_refused())
            }
        }
    }

    fn by_rules(open: Open, peer: IpAddr, context: RequestContext<'_>) -> Result<Self, Fault> {
        let config = context.config();
        if !config.allow.client(peer) {
            return Err(not_listed_client(peer));
        }
        if config.trust.required {
            let (status, error) = (StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied);
            return Err(Fault::new(status, error, "this depot wants a ticket"));
        }
        let asked_for = open.client.filter(|_| config.trust.has_depot(peer));
        let (session, step) = (open.session, open.step(&context.id)?);
        let grant = match step {
            OpenStep::Tcp { .. } => Grant::ServerRules,
            OpenStep::Connect { .. } | OpenStep::Meeting(_) | OpenStep::Store => Grant::Rules,
        };
        Ok(Self { session, step, grant, asked_for, ticket: None })
    }

    /// For a user of the proxy who wants this server. Whether the rules allow its address shows when it is connected to:
    /// by this depot, or by the last one of `proxy.via`.
    pub(crate) async fn for_user(
        server: Authority,
        peer: IpAddr,
        context: RequestContext<'_>,
    ) -> Result<Self, Fault> {
        let config = context.config();
        let not_open = |why: &str| {
            let reason = format!("this depot is not open for upstream {server}: {why}");
            Fault::new(StatusCode::FORBIDDEN, ProxyError::DestinationIpProhibited, reason)
        };
        let (settings, time) = (context.settings, config.timeouts.connect.into());
        let resolver = (context.next_hops.resolver(peer), time);
        let verdict = upstream::verdict(&server, Grant::ServerRules, settings, resolver).await;
        if verdict == Verdict::Refused {
            return Err(not_open(not_listed(Grant::ServerRules)));
        }
        if let Host::Ip(ip) = server.host {
            let address = iter::once(SocketAddr::new(ip, server.port));
            let judged = config.allow.addresses((Grant::ServerRules, verdict), address);
            judged.map_err(|objection| match objection {
                Objection::Rules(reason, _) => not_open(&reason),
                Objection::Unjudged(errno) => {
                    Fault::internal(format!("the address {ip} cannot be judged: {errno}"))
                }
            })?;
        }
        let via = config.proxy.iter().flat_map(|proxy| proxy.via.iter().cloned().map(Hop::from));
        let open = to_server(server, via.collect())?;
        let grant = if open.hops.is_empty() { Grant::ServerRules } else { Grant::Site };
        let session = open.session;
        Ok(Self { session, step: open.step(&context.id)?, grant, asked_for: None, ticket: None })
    }

    /// For a client of the proxy that brings a ticket: by the ticket's own depots.
    pub(crate) async fn for_ticket(
        server: Authority,
        text: &TicketText,
        from: (IpAddr, Scheme),
        context: RequestContext<'_>,
    ) -> Result<Self, Fault> {
        let verified = context.settings.trust.verify(text.token())?;
        let behind = verified.ticket.via.iter().skip(1).cloned();
        let open = to_server(server, behind.map(Hop::from).collect())?;
        Self::by_ticket(Open { ticket: Some(text.clone()), ..open }, text, from, context).await
    }

    async fn by_ticket(
        open: Open,
        text: &TicketText,
        (peer, scheme): (IpAddr, Scheme),
        context: RequestContext<'_>,
    ) -> Result<Self, Fault> {
        let (settings, resolver) = (context.settings, context.next_hops.resolver(peer));
        let verified = settings.trust.verify(text.token())?;
        let (ticket, hop) = (&verified.ticket, usize::from(text.hop()));
        context.admission.denied.check_ticket(&ticket.id)?;
        ticket.check_session(&open, hop)?;
        let depot = ticket.depot(hop)?;
        if !context.admission.identity.is(depot, scheme, &settings.config, resolver).await? {
            return Err(TicketError::Elsewhere { depot: depot.clone() }.into());
        }
        let (relayed, vouched) = (!open.passed.is_empty(), open.client);
        let came = CameFrom { peer, relayed, vouched };
        let client = came.client((ticket, hop), settings, resolver).await?;
        context.admission.denied.check_client(client)?;
        let (session, mut step) = (open.session, open.step(&context.id)?);
        if let OpenStep::Connect { open: next, .. } = &mut step {
            let follows = ticket.has_depot_after(hop);
            // An acceptor has no use for it, and could use it.
            next.ticket = follows.then(|| text.next());
            next.client = Some(client).filter(|_| follows && !ticket.clients.is_empty());
        }
        // Last, so that a refused OPEN does not count as a use of the ticket.
        context.admission.uses.count(&verified)?;
        context.observer.counts.ticket_taken(verified.ticket.issuer.as_deref());
        let asked_for = Some(client).filter(|client| *client != peer);
        Ok(Self { session, step, grant: Grant::Ticket, asked_for, ticket: Some(verified) })
    }
}

/// A session of the depot's own making, to a server.
///
/// # Errors
/// The system has no random bytes for its name.
fn to_server(server: Authority, hops: Vec<Hop>) -> Result<Open, Fault> {
    let target = Target::Tcp { server, proxy_protocol: false };
    let id = random_id().map_err(|error| Fault::internal(format!("no random bytes: {error}")))?;
    Ok(Open::new(id, hops, target))
}

/// The name of a session of the depot's own making.
pub(super) fn random_id() -> io::Result<SessionId> {
    host::random().map(SessionId)
}
