// SPDX-License-Identifier: GPL-2.0-or-later
//! One hop over several connections (docs/lsl.md, rules 4.4 to 4.9): asked of the next depot, and granted to the one before.
//!
//! Each direction has further connections of its own. They are opened by the depot that is nearer to the initiator,
//! once the direction has carried as much as makes them worth it.

use crate::{
    client::Client,
    http::refused,
    idle_pool::Peer,
    observe::{Entry, Live},
    session::hop::{NextHop, Payload},
    settings::Settings,
    state::RequestContext,
    tls::Protocol,
    upstream,
};
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use protocol::{
    Authority, Scheme,
    http::{Fault, ProxyError},
    session::{Answer, Header, JoinToken, Striped},
};
use relay::{
    Side,
    rates::TransferRate,
    stripes::{self, Arrivals, Joined, Joins, LEAST, Offered, Reader, SetUp, Writer},
    tcp::{Connection, read_header, with_what_follows},
};
use std::{io, net::SocketAddr, sync::Arc};
use tokio::sync::oneshot;

/// Connections that the depot before this one may open.
pub(super) struct Granted {
    onward: Offered,
    back: Offered,
}

impl NextHop<'_> {
    /// Over how many connections the hop's bytes may go: as many as the client wishes and this depot's configuration
    /// allows. An acceptor knows nothing of it.
    pub(super) fn streams(&self, hop: &upstream::UpstreamConnection) -> u8 {
        if self.next_is_acceptor() || self.payload == Payload::Request {
            return 1;
        }
        let address = hop.stream.peer().ip();
        let most = self.context.config().hop(address).map_or(1, |hop| hop.streams);
        if self.hop.streams == 0 { most } else { self.hop.streams.min(most) }
    }

    /// Has further connections join those of the hop, as the next depot has agreed.
    pub(super) fn join(
        &self,
        hop: &mut upstream::UpstreamConnection,
        asked: u8,
        striped: Option<Striped>,
    ) -> Result<(), Fault> {
        let Some(striped) = striped.filter(|striped| (2..=asked).contains(&striped.streams)) else {
            let next = &self.hop.address.authority;
            return Err(Fault::bad_response(format!(
                "upstream {next} does not say over how many of {asked} connections the session comes"
            )));
        };
        self.live.asked_for(asked);
        let (address, unsent) =
            (hop.stream.peer(), self.context.config().unsent_on_each(hop.stream.peer().ip()));
        unsent
            .map_or(Ok(()), |unsent| hop.stream.wire().keep_unsent(unsent))
            .map_err(|error| Fault::internal(format!("cannot set up a connection: {error}")))?;
        let arrivals = |token| {
            let live = Arc::clone(self.live);
            let hold = self.pacing.join(Side::Upstream);
            let set_up: SetUp = Box::new(move |joined| {
                hold(joined)?;
                unsent.map_or(Ok(()), |unsent| joined.wire().keep_unsent(unsent))?;
                live.joined(Side::Upstream, joined);
                Ok(())
            });
            Arrivals::asked(self.joins(address, striped.streams, token), set_up)
        };
        hop.stream.stripe_source(Reader::new(hop.ahead.split()));
        let (back, onward) = (arrivals(striped.back), arrivals(striped.onward));
        hop.stream.let_join(Some(back), Some(onward));
        Ok(())
    }

    fn joins(&self, address: SocketAddr, streams: u8, token: JoinToken) -> Joins {
        let settings = Arc::clone(self.context.settings);
        let (next, scheme) = (self.hop.address.authority.clone(), self.hop.address.scheme);
        let (time, peer) = (settings.config.timeouts.connect.into(), next.to_string());
        let open = move || {
            let (settings, next) = (Arc::clone(&settings), next.clone());
            async move { join_one((&next, scheme), address, &settings, token).await }
        };
        Joins::open((streams - 1, LEAST), time, open, peer)
    }
}

/// One connection that is ready for blocks, and its result.
async fn join_one(
    (next, scheme): (&Authority, Scheme),
    address: SocketAddr,
    settings: &Settings,
    token: JoinToken,
) -> Result<(Connection, BytesMut), String> {
    let peer = Peer { next, scheme, protocol: Protocol::Session };
    let connected = upstream::connect_to(peer, address, settings).await;
    let mut stream = connected.map_err(|refusal| refused::fault(refusal).to_string())?;
    // The session under way goes on with what it has.
    if !settings.are_current() {
        return Err("the settings were read again meanwhile".to_owned());
    }
    let (mut source, mut sink) = stream.split();
    let join = token.to_join();
    let mut left = &join[..];
    while !left.is_empty() {
        let written = sink.write(left).await.map_err(|error| error.to_string())?;
        left = &left[written..];
    }
    sink.flush().await.map_err(|error| error.to_string())?;
    let mut ahead = BytesMut::new();
    let answer =
        read_header(&mut source, &mut ahead, with_what_follows, Header::parse_answer).await;
    let answer = answer.map_err(|error| format!("it has no ANSWER: {error:?}"))?;
    if answer.status != StatusCode::OK {
        return Err(format!("it was answered {}: {}", answer.status, answer.text));
    }
    Ok((stream.into_connection(), ahead))
}

/// Reads what a depot sends in blocks, if its OPEN says so.
pub(super) fn read_blocks(client: &mut Client, streams: u8) {
    if streams > 1 {
        client.streams = streams;
        client.stream.stripe_source(Reader::new(client.ahead.split()));
    }
}

/// Grants the depot before this one the connections that it has asked for; the ANSWER that opens the session says so.
pub(super) fn grant(
    client: &Client,
    answer: &mut Answer,
    context: RequestContext<'_>,
) -> io::Result<Option<Granted>> {
    answer.striped = None;
    let streams = client.streams;
    if streams < 2 {
        return Ok(None);
    }
    let offer = || context.transfers.stripes.offer(client.asker(), streams - 1);
    let (onward, back) = (offer()?, offer()?);
    let token = |offered: &Offered| JoinToken(offered.token.0);
    answer.striped = Some(Striped { streams, onward: token(&onward), back: token(&back) });
    Ok(Some(Granted { onward, back }))
}

impl Granted {
    /// The ANSWER is sent: from now on the client is sent blocks, and connections may join.
    pub(super) fn begin(
        self,
        client: &mut Client,
        live: &Arc<Live>,
        pacing: &TransferRate,
        context: RequestContext<'_>,
    ) -> io::Result<()> {
        let unsent = context.config().unsent_on_each(client.stream.peer().ip());
        unsent.map_or(Ok(()), |unsent| client.stream.wire().keep_unsent(unsent))?;
        let answer = Answer::of(StatusCode::OK, context.id.clone()).to_bytes();
        let welcome = Bytes::from(answer.expect("a short header"));
        let arrivals = |offered| {
            let (hold, live) = (pacing.join(Side::Client), Arc::clone(live));
            let set_up: SetUp = Box::new(move |joined| {
                hold(joined)?;
                unsent.map_or(Ok(()), |unsent| joined.wire().keep_unsent(unsent))?;
                live.joined(Side::Client, joined);
                Ok(())
            });
            Arrivals::offered(offered, welcome.clone(), set_up)
        };
        client.stream.stripe_sink(Writer::behind(BytesMut::new()));
        let (onward, back) = (arrivals(self.onward), arrivals(self.back));
        client.stream.let_join(Some(onward), Some(back));
        Ok(())
    }
}

/// Takes a connection into the session whose hop its JOIN names, and waits until that is over.
pub(crate) async fn enter(mut client: Client, token: JoinToken, context: RequestContext<'_>) {
    let mut entry = Entry::new(client.stream.peer(), context);
    entry.joins();
    let token = Some(stripes::Token(token.0));
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
            let reason =
                "no session waits for this connection: its token is wrong, or the session is over";
            let denied = Fault::new(StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied, reason);
            let mut client =
                Client { protocol: Protocol::Session, ..Client::new(stream.into(), ahead) };
            client.refuse(entry, &denied, true, context).await;
        }
    }
}
