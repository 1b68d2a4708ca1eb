// SPDX-License-Identifier: GPL-2.0-or-later
//! An answer over several connections: asked of the next depot, and granted to the one before.

use crate::{
    http::{attempt::UpstreamAttempt, body::Broken, exchange::Exchange, stripe_join},
    upstream,
};
use bytes::BytesMut;
use http::{HeaderName, HeaderValue, Version};
use protocol::{
    Fetch,
    http::{
        Fault, Framing, Method, OutgoingBody, ResponseHead,
        stripes::{StripeAgreement, Token, asked},
    },
};
use relay::{
    Side,
    copy::CopyError,
    stripes::{Arrivals, LEAST, Reader, Writer},
    tcp::{Connection as TcpConnection, Sink, Source},
};
use std::sync::Arc;
use tokio::time::timeout;

/// What a connection that joins is answered; blocks follow.
const WELCOME: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";

/// Connections that may join the client's own for an answer.
pub(super) struct Granted {
    agreed: StripeAgreement,
    writer: Writer,
}

impl Exchange<'_> {
    /// Over how many connections the answer is wanted: 1, unless it is a depot that is asked for it.
    pub(super) fn streams(&self, fetch: &Fetch, hop: &upstream::UpstreamConnection) -> u8 {
        let config = self.config();
        if config.hops.iter().all(|hop| hop.streams == 1) {
            return 1;
        }
        let possible = fetch.origin.is_none()
            && self.request.method == Method::Get
            && self.request.framing() == Framing::Empty
            && self.request.version == Version::HTTP_11;
        let hop = config.hop(hop.stream.peer().ip()).filter(|_| possible);
        hop.map_or(1, |hop| hop.streams)
    }
}

impl UpstreamAttempt<'_> {
    /// Has further connections join the next hop's, if it agrees.
    pub(super) fn join(
        &self,
        head: &ResponseHead,
        framing: Framing,
        source: &mut Source<'_>,
        ahead: &mut BytesMut,
    ) -> Result<(), Fault> {
        let Exchange { live, .. } = self.exchange;
        if self.streams < 2 {
            return Ok(());
        }
        let Some(agreed) = StripeAgreement::of(&head.headers, self.streams)? else {
            tracing::debug!(upstream = %self.fetch.next, "one connection, though more were asked for");
            return Ok(());
        };
        if framing == Framing::Empty {
            return Err(Fault::bad_response("the next depot divides an answer that has no body"));
        }
        let live = Arc::clone(live);
        let settings = self.exchange.context.settings;
        let joins = stripe_join::join(self.fetch, source.peer(), settings, agreed);
        let mut reader = Reader::new(ahead.split());
        reader.let_join(Arrivals::asked(
            joins,
            Box::new(move |joined| {
                live.joined(Side::Upstream, joined);
                Ok(())
            }),
        ));
        source.stripe(reader);
        Ok(())
    }

    /// Grants the depot before this one the connections that it requests, if they are worth it.
    pub(super) fn grant(&self, outward: OutgoingBody) -> Option<Granted> {
        let Exchange { context, live, request, client, asker, pacing, .. } = self.exchange;
        let streams = asked(request)?;
        let worth = match outward.framing {
            Framing::Empty => false,
            _ => outward.length.is_none_or(|length| length >= LEAST),
        };
        if !worth || request.method != Method::Get || request.version != Version::HTTP_11 {
            return None;
        }
        let offered = context.transfers.stripes.offer(*asker, streams - 1).ok()?;
        let agreed = StripeAgreement { streams, token: Token(offered.token.0) };
        let live = Arc::clone(live);
        let (hold, unsent) =
            (pacing.join(Side::Client), self.exchange.config().unsent_on_each(client.ip()));
        let set_up = Box::new(move |joined: &TcpConnection| {
            hold(joined)?;
            unsent.map_or(Ok(()), |unsent| joined.wire().keep_unsent(unsent))?;
            live.joined(Side::Client, joined);
            Ok(())
        });
        let arrivals = Arrivals::offered(offered, WELCOME.into(), set_up);
        Some(Granted { agreed, writer: Writer::new(arrivals) })
    }

    /// Sends the head that grants them, and has them join.
    pub(super) async fn open(
        &self,
        granted: Granted,
        client: &mut Sink<'_>,
        head: &[u8],
    ) -> Result<(), Broken> {
        let timeouts = self.exchange.config().timeouts.towards_client(self.depots_around().before);
        self.exchange.live.received.write_all(client, head, timeouts, |_| ()).await?;
        let unsent = self
            .exchange
            .config()
            .unsent_on_each(self.exchange.client.ip())
            .map_or(Ok(()), |unsent| client.wire().keep_unsent(unsent));
        unsent.map_err(|error| Broken::from(CopyError::SinkGone(error)))?;
        client.stripe(granted.writer);
        Ok(())
    }

    /// Ends what was sent, and what came, over several connections; what follows the body comes on one.
    pub(super) async fn close(
        &self,
        source: &mut Source<'_>,
        ahead: &mut BytesMut,
        client: &mut Sink<'_>,
    ) -> Result<(), Broken> {
        let timeouts = self.exchange.config().timeouts.of_answers(self.depots_around());
        match timeout(timeouts.source_idle, source.unstripe()).await {
            Ok(rest) => {
                ahead.unsplit(rest.map_err(|error| Broken::from(CopyError::SourceFailed(error)))?);
            }
            Err(_) => return Err(Broken::Copy(CopyError::SourceStalled)),
        }
        let striped = client.is_striped();
        match timeout(timeouts.sink_idle, client.unstripe()).await {
            Ok(ended) => ended.map_err(|error| Broken::from(CopyError::SinkGone(error)))?,
            Err(_) => return Err(Broken::Copy(CopyError::SinkStalled)),
        }
        if striped {
            self.exchange
                .pacing
                .alone()
                .map_err(|error| Broken::from(CopyError::SinkGone(error)))?;
        }
        Ok(())
    }
}

impl Granted {
    /// What the answer says of it.
    pub(super) fn field(&self) -> (HeaderName, HeaderValue) {
        self.agreed.field()
    }
}
