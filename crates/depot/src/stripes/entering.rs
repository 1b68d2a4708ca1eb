// SPDX-License-Identifier: GPL-2.0-or-later
//! A client's connection that joins a transfer in place of asking for one.

use super::offers::{Joined, refused};
use crate::{connection::Client, observe::Entry, server::Shared};
use session::message::{
    Framing, Method, RequestHead,
    stripes::{JOIN, Token},
};
use tokio::sync::oneshot;

/// Takes the connection into the transfer that its request names, and waits until that is over.
pub(crate) async fn enter(client: Client, mut request: RequestHead, shared: &Shared) {
    let Client { stream, ahead, .. } = client;
    let mut entry = Entry::new(stream.peer(), shared);
    let token = token(&request);
    // What opens a transfer is not for the log.
    JOIN.clone_into(&mut request.target);
    entry.asked(&request, shared);
    let (over, is_over) = oneshot::channel();
    match shared.stripes.join(token, stream.peer().ip(), Joined { stream, over }) {
        Ok(()) => {
            // Its sender is dropped, never used.
            let _ = is_over.await;
            entry.answered();
        }
        Err(Joined { stream, .. }) => {
            let mut client = Client::new(stream, ahead);
            client.refuse(entry, &refused(), true, shared).await;
        }
    }
}

/// The token in a request that may join.
fn token(request: &RequestHead) -> Option<Token> {
    let token = request.target.strip_prefix(JOIN)?.parse().ok()?;
    (request.method == Method::Get && request.framing() == Framing::Empty).then_some(token)
}
