// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections that the depot before this one wants held open while they are idle.
//!
//! Only depots of `trust.depots` get that, and at most `limits.held` at a time.
//!
//! A new connection is primed once in each direction: the answer is made longer, and the depot that asked may send as much
//! by one PUT, which is thrown away.

use crate::{client::Client, observe::Entry, state::RequestContext};
use bytes::Buf;
use http::StatusCode;
use protocol::http::{
    Connection, Fault, Framing, Method, ProxyError, RequestHead,
    hold::{Hold, PADDING, prime_asked},
};
use relay::tcp::socket_options::keep_alive;
use std::{io, time::Duration};
use tokio::time::timeout;

/// Maximum bytes per read of what is thrown away.
const CHUNK: u64 = 64 << 10;
/// How long a depot may take to send what grows its window.
const PRIME_TIME: Duration = Duration::from_secs(60);

impl Client {
    /// Holds the connection, if it may be held, and says so.
    pub(super) async fn hold(
        &mut self,
        request: &RequestHead,
        own: Connection,
        context: RequestContext<'_>,
    ) -> Connection {
        if request.method == Method::Put {
            return self.take_prime(request, context).await;
        }
        match self.granted(request, context) {
            Ok(hold) => {
                // Primes a connection once, so that a response cannot become a large download.
                let is_new = self.held.replace(hold.idle()).is_none() && own == Connection::Keep;
                let most = context.config().prime(self.stream.peer().ip()).get();
                let length = if is_new { prime_asked(request).min(most) } else { 0 };
                self.takes_prime = length;
                let hold = Hold { takes: length, ..hold };
                let (answer, padding) = hold.answer(length, request.method, own);
                match self.answer(&answer, own, context).await {
                    Connection::Keep => self.pad(padding, context).await,
                    Connection::Close => Connection::Close,
                }
            }
            Err(fault) => self.refuse_hold(request, &fault, context).await,
        }
    }

    async fn refuse_hold(
        &mut self,
        request: &RequestHead,
        fault: &Fault,
        context: RequestContext<'_>,
    ) -> Connection {
        let mut entry = Entry::new(self.stream.peer(), context);
        entry.asked(request, context);
        let with_body = request.method.is_answered_with_body();
        self.refuse(entry, fault, with_body, context).await;
        Connection::Close
    }

    /// Takes what a depot sends to grow its window: once, and as much as it was told that it may send.
    async fn take_prime(
        &mut self,
        request: &RequestHead,
        context: RequestContext<'_>,
    ) -> Connection {
        let most = std::mem::take(&mut self.takes_prime);
        let hold = match (self.granted(request, context), request.framing()) {
            (Err(fault), _) => return self.refuse_hold(request, &fault, context).await,
            (Ok(hold), Framing::Length(length)) if length <= most => {
                if !self.discard(length, context).await {
                    return Connection::Close;
                }
                hold
            }
            (Ok(_), _) => {
                let reason =
                    format!("this depot takes at most {most} bytes here, of a known length");
                let error = ProxyError::HttpRequestDenied;
                let fault = Fault::new(StatusCode::PAYLOAD_TOO_LARGE, error, reason);
                return self.refuse_hold(request, &fault, context).await;
            }
        };
        self.held = Some(hold.idle());
        let keep = request.keeps_alive() && !context.lifecycle.is_leaving();
        let own = if keep { Connection::Keep } else { Connection::Close };
        let (answer, _) = hold.answer(0, request.method, own);
        self.answer(&answer, own, context).await
    }

    /// Reads `length` bytes and throws them away; whether all of them came.
    async fn discard(&mut self, length: u64, context: RequestContext<'_>) -> bool {
        let mut left = length;
        let read = async {
            loop {
                let came = left.min(self.ahead.len() as u64);
                self.ahead.advance(came as usize);
                left -= came;
                if left == 0 {
                    return io::Result::Ok(());
                }
                let (mut source, _) = self.stream.split();
                if source.read(&mut self.ahead, left.min(CHUNK) as usize).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        };
        tokio::select! {
            read = timeout(PRIME_TIME, read) => matches!(read, Ok(Ok(()))),
            () = context.lifecycle.leaving() => false,
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
        Ok(Hold { idle_s: asked.idle_s.min(most.idle_s), takes: 0 })
    }
}
