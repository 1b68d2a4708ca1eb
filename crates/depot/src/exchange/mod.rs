// SPDX-License-Identifier: GPL-2.0-or-later
//! One request passed on and its answer passed back, both ways at the same time.
//!
//! ```text
//! client ──── request's body ────▶ next hop          `up`: then it watches the client
//! client ◀── answer's head, body ── next hop         `down`: decides how it ended
//! ```
//! The next hop may answer before it has all of the request (a refusal), and a client may send its
//! body only once it is told to (`Expect: 100-continue`), so neither direction waits for the other.
//!
//! A next hop that fails before its answer begins is gone around, where there is another route and the
//! request can be sent again ([`crate::detours`]).

mod interims;
mod slow;
mod stalls;
mod striping;
mod turn;
mod watch;

use crate::{
    admission::Grant,
    body::Broken,
    config::Config,
    connection::Client,
    observe::Live,
    plan::Allowance,
    rates::Pacing,
    server::Shared,
    settings::Settings,
    trace::{self, Trace},
    upstream,
};
pub(crate) use interims::Interims;
use session::{
    Fetch,
    message::{
        Connection, Fault, Framing, OutgoingRequest, RequestHead, RequestRoute, forwarded_for,
        request_for, stripes,
    },
};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};
use turn::{Tried, Turn};
pub(crate) use watch::reset_on_close;

/// How an exchange ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The client's kernel has the whole answer.
    Complete,
    /// No next hop gave an answer that could be passed on; nothing was sent to the client.
    Unanswered(Fault),
    /// The client went away before it was answered.
    Abandoned(io::Error),
    /// The answer broke off.
    Broken(Broken),
    /// The request's body broke off before the answer began.
    RequestBroken(Broken),
}

/// What is known of an exchange that has an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The status that was passed on.
    pub status: u16,
    /// How long its body was to be.
    pub framing: Framing,
}

/// One exchange.
pub(crate) struct Exchange<'x> {
    /// What all share.
    pub shared: &'x Shared,
    /// How the depot was to work when it began.
    pub settings: &'x Arc<Settings>,
    /// What the client asked for.
    pub request: &'x RequestHead,
    /// How the request got here.
    pub request_route: RequestRoute<'x>,
    /// The client for which a ticket's next depot is asked, where the ticket is for certain ones.
    pub vouched: Option<IpAddr>,
    /// By what it is followed.
    pub trace: &'x Trace,
    /// By whose leave.
    pub grant: Grant,
    /// How much of it is granted.
    pub allowance: Allowance,
    /// To what rate it is held.
    pub pacing: &'x Pacing<'x>,
    /// What to ask, and of whom: of the first, or else of the next.
    pub routes: &'x [Fetch],
    /// How far it is, and who watches.
    pub live: &'x Arc<Live>,
    /// Who asks.
    pub client: SocketAddr,
}

/// How an exchange went.
pub(crate) struct Outcome {
    /// How it ended.
    pub end: End,
    /// What came of an answer, if any did.
    pub answer: Option<Answer>,
    /// The next hop's connection, to be looked at, unless there was none.
    pub upstream: Option<upstream::Used>,
    /// Whether the client's connection is fit for another request.
    pub keep: bool,
}

impl Exchange<'_> {
    fn config(&self) -> &Config {
        &self.settings.config
    }

    /// Asks the next hop, or those there are in its place, and passes the answer on.
    pub(crate) async fn run(&self, client: &mut Client) -> Outcome {
        client.interims = Interims::default();
        let mut routes = self.routes.iter();
        let mut fetch = routes.next().expect("there is a next hop");
        loop {
            let outcome = self.by(fetch, client).await;
            let End::Unanswered(fault) = &outcome.end else { return outcome };
            let next = routes.next().filter(|_| self.repeatable() && may_differ(fault));
            let Some(next) = next else { return outcome };
            self.shared.detours.failed(&fetch.next);
            let reason = fault.in_full();
            tracing::warn!(upstream = %fetch.next, instead = %next.next, reason, "another route");
            fetch = next;
        }
    }

    /// Whether the request can be sent again.
    fn repeatable(&self) -> bool {
        self.request.framing() == Framing::Empty && self.request.method.is_idempotent()
    }

    /// Whether a connection that was used before will do. One that the client is to be known by must be
    /// nobody else's.
    fn may_share(&self) -> bool {
        self.repeatable() && !self.request.authenticates_connection()
    }

    /// Asks one next hop.
    async fn by(&self, fetch: &Fetch, client: &mut Client) -> Outcome {
        // Before anybody is connected to: a request that goes in a circle ends here.
        let mut plain = match self.text(fetch, 1, None) {
            Ok(text) => Some(text),
            Err(fault) => return Outcome::without(End::Unanswered(fault)),
        };
        loop {
            let mut hop = match self.hop(fetch, client).await {
                Ok(hop) => hop,
                Err(end) => return Outcome::without(end),
            };
            self.live.reached(&fetch.next, &hop.stream);
            let streams = self.streams(fetch, &hop);
            let peer = hop.stream.peer().ip();
            let plain =
                plain.take().filter(|_| streams == 1 && !trace::trusts(self.config(), peer));
            let text = match plain.map_or_else(|| self.text(fetch, streams, Some(peer)), Ok) {
                Ok(text) => text,
                Err(fault) => return Outcome::without(End::Unanswered(fault)),
            };
            if streams > 1 {
                self.live.asked_for(streams);
            }
            match Turn::new(self, fetch, streams).run(client, &mut hop, text).await {
                Tried::Over(over) => return over.with(hop),
                // The connection was used before and has been closed meanwhile, which is nobody's
                // fault; what was asked can be asked again.
                Tried::WasClosed => {}
            }
        }
    }

    /// The request's head for the depot or origin at `peer`, which asks for the answer over so many
    /// connections.
    fn text(&self, fetch: &Fetch, streams: u8, peer: Option<IpAddr>) -> Result<Vec<u8>, Fault> {
        let mut extra = Vec::new();
        if streams > 1 {
            extra.push(stripes::ask(streams));
        }
        if peer.is_some_and(|peer| trace::trusts(self.config(), peer)) {
            extra.extend(self.trace.fields(self.vouched, self.client.ip()));
        } else {
            extra.extend(self.vouched.map(forwarded_for));
        }
        let (id, extra) = (&self.shared.id, extra.as_slice());
        request_for(
            self.request,
            fetch,
            &OutgoingRequest { id, connection: Connection::Keep, extra },
        )
    }

    /// A connection to the next hop, held to its rate; or how the exchange ended.
    async fn hop(&self, fetch: &Fetch, client: &mut Client) -> Result<upstream::Hop, End> {
        let waiting = || upstream::waiting(fetch, self.grant, &self.shared.pool, self.config());
        let hop = match self.may_share().then(waiting).flatten() {
            Some(hop) => hop,
            // Boxed: most requests need no new connection, and making one takes much room.
            None => Box::pin(self.connected(fetch, client)).await?,
        };
        self.pacing.hold(&client.stream, &hop.stream).map_err(|error| {
            let reason = format!("cannot hold a connection to its rate: {error}");
            End::Unanswered(Fault::internal(reason))
        })?;
        Ok(hop)
    }

    /// A new connection to the next hop, unless the client goes away first. What the settings said
    /// when the request came does not count: meanwhile they may have been read again.
    async fn connected(&self, fetch: &Fetch, client: &mut Client) -> Result<upstream::Hop, End> {
        let resolver = self.shared.resolver(client.stream.peer().ip());
        let (mut source, _) = client.stream.split();
        let begun = Instant::now();
        let connected = async {
            loop {
                let hop = upstream::connected(fetch, self.grant, self.shared.settings(), resolver)
                    .await?;
                if hop.is_current() {
                    return Ok(hop);
                }
            }
        };
        tokio::select! {
            hop = connected => {
                self.shared.observer.counts.connected(begun.elapsed(), hop.as_ref().err());
                hop.map_err(End::Unanswered)
            }
            error = self.gone(&mut source, &mut client.ahead) => Err(End::Abandoned(error)),
        }
    }
}

/// Whether another next hop may do better: not where it is the request, or this depot, that is at fault.
fn may_differ(fault: &Fault) -> bool {
    use http::StatusCode;
    [StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT].contains(&fault.status)
}

impl Outcome {
    fn without(end: End) -> Self {
        Self { end, answer: None, upstream: None, keep: false }
    }
}
