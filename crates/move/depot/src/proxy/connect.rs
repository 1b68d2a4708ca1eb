// SPDX-License-Identifier: GPL-2.0-or-later
//! CONNECT: a session whose bytes are the client's own (RFC 9110, section 9.3.6).

use crate::{client::Client, observe::Entry, proxy::admit, session, state::RequestContext};
use ::protocol::{Scheme, http::proxy::ConnectHead};

/// Serves a request for a tunnel, and the tunnel if there is one. The connection serves nothing else afterwards.
pub(crate) async fn connect(mut client: Client, head: ConnectHead, context: RequestContext<'_>) {
    let mut entry = Entry::new(client.stream.peer(), context);
    entry.tunnel(&head.target);
    if context.config().proxy.is_none() {
        return client.refuse(entry, &head.refused(), true, context).await;
    }
    if let Err(fault) = client.carry(None, context) {
        return client.refuse(entry, &fault, true, context).await;
    }
    let _transfer = match context.begin_transfer(client.asker().client) {
        Ok(transfer) => transfer,
        Err(fault) => return client.refuse(entry, &fault, true, context).await,
    };
    let scheme = if client.stream.is_tls() { Scheme::Https } else { Scheme::Http };
    let from = (client.stream.peer().ip(), scheme);
    let admitted = match head.server(&context.id) {
        Ok(server) => admit(server, &head.headers, from, context).await,
        Err(fault) => Err(fault),
    };
    match admitted {
        Ok(admitted) => {
            entry.proxied(admitted.login, Some(admitted.plan.session));
            session::carry_out(client, entry, admitted.plan, context).await;
        }
        Err(fault) => client.refuse(entry, &fault, true, context).await,
    }
}
