// SPDX-License-Identifier: GPL-2.0-or-later
//! What to do with an OPEN, if the rules or a ticket allow it: the same rules as for a route of HTTP.

use crate::{
    admission::{ticket_client::CameFrom, verdict::Grant},
    state::RequestContext,
    trace,
};
use http::StatusCode;
use session::{
    Scheme,
    lsl::{Open, OpenStep, SessionId, TicketText},
    message::{Fault, ProxyError},
    ticket::{TicketError, Verified},
};
use std::net::IpAddr;

/// What is done.
pub(super) struct Plan {
    pub session: SessionId,
    pub step: OpenStep,
    /// By whose leave.
    pub grant: Grant,
    /// The client for which a depot asks, where it is believed.
    pub asked_for: Option<IpAddr>,
    /// What opens the depot, where it is a ticket.
    pub ticket: Option<Verified>,
}

impl Plan {
    /// What is said of an OPEN from this address. Whether the rules allow the next hop shows when it is
    /// connected to.
    pub(super) async fn of(
        open: Open,
        from: (IpAddr, Scheme),
        context: RequestContext<'_>,
    ) -> Result<Self, Fault> {
        context.denied.check_client(from.0)?;
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
        let denied =
            |reason| Fault::new(StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied, reason);
        if !config.allow.client(peer) {
            return Err(denied(format!("this depot is not open for clients from {peer}")));
        }
        if config.trust.required {
            return Err(denied("this depot wants a ticket".to_owned()));
        }
        let asked_for = open.client.filter(|_| trace::trusts(config, peer));
        let (session, step) = (open.session, open.step(&context.id)?);
        let grant = match step {
            OpenStep::Tcp { .. } => Grant::ServerRules,
            OpenStep::Connect { .. } | OpenStep::Meeting(_) => Grant::Rules,
        };
        Ok(Self { session, step, grant, asked_for, ticket: None })
    }

    async fn by_ticket(
        open: Open,
        text: &TicketText,
        (peer, scheme): (IpAddr, Scheme),
        context: RequestContext<'_>,
    ) -> Result<Self, Fault> {
        let (settings, resolver) = (context.settings, context.resolver(peer));
        let verified = settings.trust.verify(text.token())?;
        let (ticket, hop) = (&verified.ticket, usize::from(text.hop()));
        context.denied.check_ticket(&ticket.id)?;
        ticket.check_session(&open, hop)?;
        let depot = ticket.depot(hop)?;
        if !context.identity.is(depot, scheme, &settings.config, resolver).await? {
            return Err(TicketError::Elsewhere { depot: depot.clone() }.into());
        }
        let (relayed, vouched) = (!open.passed.is_empty(), open.client);
        let came = CameFrom { peer, relayed, vouched };
        let client = came.client((ticket, hop), settings, resolver).await?;
        context.denied.check_client(client)?;
        let (session, mut step) = (open.session, open.step(&context.id)?);
        if let OpenStep::Connect { open: next, .. } = &mut step {
            let follows = ticket.has_depot_after(hop);
            // An acceptor has no use for it, and could use it.
            next.ticket = follows.then(|| text.next());
            next.client = Some(client).filter(|_| follows && !ticket.clients.is_empty());
        }
        // Last, so that what is refused is no use.
        context.uses.count(&verified)?;
        context.observer.counts.ticket_taken(verified.ticket.issuer.as_deref());
        let asked_for = Some(client).filter(|client| *client != peer);
        Ok(Self { session, step, grant: Grant::Ticket, asked_for, ticket: Some(verified) })
    }
}
