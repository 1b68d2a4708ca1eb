// SPDX-License-Identifier: GPL-2.0-or-later
//! Authentication and authorisation of the proxy's clients.
//!
//! A user with a password may do what `allow.clients` and `allow.servers` list. A ticket for a session (`lh.session`
//! `tcp:HOST:PORT`) names its server and depots itself.

use crate::{
    admission::{logins::wants_password, passwords::TICKET_USER, rules::not_listed_client},
    observe::UsedLogin,
    session::Plan,
    state::RequestContext,
};
use http::StatusCode;
use protocol::{
    Authority, Scheme,
    http::{Fault, Fields, ProxyError, proxy::Credentials},
    session::TicketText,
};
use std::{net::IpAddr, sync::Arc};

/// What a client of the proxy may do.
pub(crate) struct Admitted {
    /// The session to the server.
    pub plan: Plan,
    /// The user, unless it is by a ticket.
    pub login: Option<Arc<UsedLogin>>,
}

/// Sees whether a client at this address, with these fields in its request, may reach this server.
///
/// # Errors
/// It has not proved who it is (407), or may not reach the server.
pub(crate) async fn admit(
    server: Authority,
    headers: &Fields,
    from: (IpAddr, Scheme),
    context: RequestContext<'_>,
) -> Result<Admitted, Fault> {
    let (config, peer) = (context.config(), from.0);
    let is_own = || context.admission.identity.is_server(&server, config);
    context.admission.denied.check_client(peer)?;
    let given = Credentials::of_proxy(headers).ok_or_else(wants_password)?;
    if given.user == TICKET_USER {
        let token = String::from_utf8(given.password).map_err(|_| wants_password())?;
        let text = TicketText::new(0, token).map_err(|_| wants_password())?;
        let planned = Plan::for_ticket(server.clone(), &text, from, context).await;
        let plan = planned.inspect_err(|_| context.observer.counts.ticket_refused())?;
        return if is_own()? { Err(looped(&server)) } else { Ok(Admitted { plan, login: None }) };
    }
    if !config.allow.client(peer) {
        return Err(not_listed_client(peer));
    }
    let login = context.settings.logins.check(given, peer, &context.admission.guesses).await?;
    let plan = Plan::for_user(server.clone(), peer, context).await?;
    if is_own()? {
        return Err(looped(&server));
    }
    Ok(Admitted { plan, login: Some(Arc::new(login)) })
}

/// A tunnel from the depot to itself would be one more client of it, and so on.
fn looped(server: &Authority) -> Fault {
    let (status, error) = (StatusCode::LOOP_DETECTED, ProxyError::ProxyLoopDetected);
    Fault::new(status, error, format!("{server} is this proxy itself"))
}
