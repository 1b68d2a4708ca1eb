// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections that the depot before this one wants held open while they are idle.
//!
//! Only depots of `trust.depots` get that, and at most `limits.held` at a time.

use crate::{client::Client, observe::Entry, state::RequestContext};
use http::StatusCode;
use protocol::http::{
    Connection, Fault, ProxyError, RequestHead,
    hold::{Hold, PADDING, prime_asked},
};
use relay::tcp::socket_options::keep_alive;

impl Client {
    /// Holds the connection, if it may be held, and says so.
    pub(super) async fn hold(
        &mut self,
        request: &RequestHead,
        own: Connection,
        context: RequestContext<'_>,
    ) -> Connection {
        match self.granted(request, context) {
            Ok(hold) => {
                // Primes a connection once, so that a response cannot become a large download.
                let is_new = self.held.replace(hold.idle()).is_none() && own == Connection::Keep;
                let most = context.config().prime(self.stream.peer().ip()).get();
                let length = if is_new { prime_asked(request).min(most) } else { 0 };
                let (answer, padding) = hold.answer(length, request.method, own);
                match self.answer(&answer, own, context).await {
                    Connection::Keep => self.pad(padding, context).await,
                    Connection::Close => Connection::Close,
                }
            }
            Err(fault) => {
                let mut entry = Entry::new(self.stream.peer(), context);
                entry.asked(request, context);
                let with_body = request.method.is_answered_with_body();
                self.refuse(entry, &fault, with_body, context).await;
                Connection::Close
            }
        }
    }

    /// Sends what an answer is made longer with, in pieces that each have the time of an answer.
    async fn pad(&mut self, mut left: u64, context: RequestContext<'_>) -> Connection {
        while left > 0 {
            let length = left.min(PADDING.len() as u64);
            let piece = &PADDING[..length as usize];
            if self.answer(piece, Connection::Keep, context).await == Connection::Close {
                return Connection::Close;
            }
            left -= length;
        }
        Connection::Keep
    }

    fn granted(
        &mut self,
        request: &RequestHead,
        context: RequestContext<'_>,
    ) -> Result<Hold, Fault> {
        let (config, peer) = (context.config(), self.stream.peer().ip());
        let denied = |reason: String| {
            Fault::new(StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied, reason)
        };
        if !config.trust.has_depot(peer) {
            let reason = format!("this depot holds no connections for {peer}: see trust.depots");
            return Err(denied(reason));
        }
        let most = Hold::of(config.held_idle(peer).into());
        let asked = Hold::asked(request).unwrap_or(most);
        let slot = self.slot.as_mut();
        let slot = slot.ok_or_else(|| denied("this connection is turned away".to_owned()))?;
        slot.hold(&config.limits).map_err(|reached| reached.fault(&context.id))?;
        if let Err(error) = keep_alive(self.stream.tcp()) {
            tracing::warn!(%peer, %error, "cannot have TCP probe a depot whose connection is held");
        }
        Ok(Hold { idle_s: asked.idle_s.min(most.idle_s) })
    }
}
