// SPDX-License-Identifier: GPL-2.0-or-later
//! What to do with an OPEN, if the rules allow it: the same rules as for a route of HTTP.

use crate::{admission::verdict::Grant, state::RequestContext, trace};
use http::StatusCode;
use session::{
    lsl::{Open, OpenStep, SessionId},
    message::{Fault, ProxyError},
};
use std::net::IpAddr;

/// What is done.
pub(super) struct Plan {
    pub session: SessionId,
    pub step: OpenStep,
    /// By whose leave.
    pub grant: Grant,
    /// The client for which a depot of `trust.depots` asks.
    pub asked_for: Option<IpAddr>,
}

impl Plan {
    /// What the rules say of an OPEN from this address. Whether they allow the next hop shows when it is
    /// connected to.
    pub(super) fn of(open: Open, peer: IpAddr, context: RequestContext<'_>) -> Result<Self, Fault> {
        let config = context.config();
        if open.ticket.is_some() {
            let reason = "tickets for sessions are not supported yet";
            let (status, error) = (StatusCode::NOT_IMPLEMENTED, ProxyError::HttpRequestError);
            return Err(Fault::new(status, error, reason));
        }
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
        Ok(Self { session, step, grant: Grant::Rules, asked_for })
    }
}
