// SPDX-License-Identifier: GPL-2.0-or-later
//! A client's connection that joins a transfer instead of sending a request.

use crate::{client::Client, observe::Entry, state::RequestContext};
use http::StatusCode;
use protocol::http::{
    Fault, Framing, Method, ProxyError, RequestHead,
    stripes::{JOIN, Token},
};
use relay::stripes::{self, Joined};
use tokio::sync::oneshot;

/// Takes the connection into the transfer that its request names, and waits until that is over.
pub(crate) async fn enter(
    mut client: Client,
    mut request: RequestHead,
    context: RequestContext<'_>,
) {
    let mut entry = Entry::new(client.stream.peer(), context);
    let token = token(&request).map(|token| stripes::Token(token.0));
    // What opens a transfer is not for the log.
    JOIN.clone_into(&mut request.target);
    entry.asked(&request, context);
    if let Err(fault) = client.carry_joined(token, context) {
        return client.refuse(entry, &fault, true, context).await;
    }
    // What it is counted for stays until it is over.
    let Client { stream, ahead, .. } = client;
    let (over, is_over) = oneshot::channel();
    let peer = stream.peer().ip();
    let joined = Joined { stream: stream.into_connection(), ahead, over };
    match context.transfers.stripes.join(token, peer, joined) {
        Ok(()) => {
            // Its sender is dropped, never used.
            let _ = is_over.await;
            entry.answered();
        }
        Err(Joined { stream, ahead, .. }) => {
            let mut client = Client::new(stream.into(), ahead);
            client.refuse(entry, &refused(), true, context).await;
        }
    }
}

/// The token in a request that may join.
fn token(request: &RequestHead) -> Option<Token> {
    let token = request.target.strip_prefix(JOIN)?.parse().ok()?;
    (request.method == Method::Get && request.framing() == Framing::Empty).then_some(token)
}

/// The answer to a connection that may not join.
fn refused() -> Fault {
    let reason =
        "no transfer waits for this connection: its token is wrong, or the transfer is over";
    Fault::new(StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied, reason)
}
