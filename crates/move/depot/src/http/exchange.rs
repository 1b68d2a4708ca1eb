// SPDX-License-Identifier: GPL-2.0-or-later
//! One request relayed and its response relayed back, in both directions at the same time.
//!
//! ```text
//! client ──── request's body ────▶ next hop          `up`: then it watches the client
//! client ◀── answer's head, body ── next hop         `down`: decides how it ended
//! ```
//! The next hop may respond before it has the whole request (a refusal), and a client may send its body only
//! after `100 Continue`, so neither direction waits for the other.
//!
//! If a next hop fails before its response begins, the request takes another route, if there is one and the
//! request can be repeated ([`crate::failover_routes`]).

use crate::{
    admission::{allowance::Allowance, verdict::Grant},
    client::Client,
    config::Config,
    failover_routes::Trying,
    http::{
        attempt::UpstreamAttempt,
        interims::Interims,
        outcome::{End, Outcome},
        plan::Tunnel,
        refused::Unanswered,
    },
    observe::Live,
    session::{NextHop, NoSession, Payload},
    state::RequestContext,
    trace::Trace,
    upstream,
};
use ::protocol::{
    Authority, Fetch,
    http::{
        Connection, Fault, Framing, OutgoingRequest, RequestHead, RequestRoute, SiteRequest,
        forwarded_for, receipt, request_for,
        stripes::{self, Token},
    },
    session::Open,
};
use relay::{dial::Retry, rates::TransferRate, stripes::Asker};
use route::AttemptEnd;
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

/// One exchange.
pub(crate) struct Exchange<'x> {
    /// The depot, with the settings of this request.
    pub context: RequestContext<'x>,
    /// The client's request.
    pub request: &'x RequestHead,
    /// How the request got here.
    pub request_route: RequestRoute<'x>,
    /// The client that the next depot checks against the ticket, if the ticket is for certain clients.
    pub vouched: Option<IpAddr>,
    /// Its trace ids.
    pub trace: &'x Trace,
    /// The rule or ticket that permits it.
    pub grant: Grant,
    /// How much of it is granted.
    pub allowance: Allowance,
    /// The client's request for a site, if it is for one.
    pub site: Option<&'x SiteRequest>,
    /// Whether the client uses the depot as a proxy.
    pub proxied: bool,
    /// The session that leads to the origin, if the next hop is not the origin itself.
    pub tunnel: Option<&'x Tunnel>,
    /// Its rate limit.
    pub pacing: &'x TransferRate,
    /// The next hop that the request asks for.
    pub asked: &'x Authority,
    /// The routes to try, in order.
    pub routes: &'x [Fetch],
    /// Its progress, and observers.
    pub live: &'x Arc<Live>,
    /// The peer that sends the request.
    pub client: SocketAddr,
    /// The client that it is for.
    pub asker: Asker,
}

impl Exchange<'_> {
    pub(super) fn config(&self) -> &Config {
        self.context.config()
    }

    /// Sends the request to the next hop, or to its replacements, and relays the response, unless the transfer
    /// is withdrawn.
    pub(crate) async fn run(&self, client: &mut Client) -> Outcome {
        tokio::select! {
            biased;
            outcome = self.by_routes(client) => outcome,
            why = self.live.withdrawn() => Outcome::without(End::Withdrawn(why)),
        }
    }

    async fn by_routes(&self, client: &mut Client) -> Outcome {
        client.interims = Interims::default();
        let mut routes = self.routes.iter();
        let mut fetch = routes.next().expect("there is a next hop");
        loop {
            let trying = Trying::begin(self.live.moved_in_all());
            let outcome = self.by(fetch, client).await;
            if matches!(outcome.end, End::Complete) {
                let end = if self.live.waits_for_client() {
                    AttemptEnd::LimitedByEnds
                } else {
                    AttemptEnd::Done
                };
                self.tell_chooser(&fetch.next, &trying, end);
            }
            let End::Unanswered(unanswered) = &outcome.end else { return outcome };
            let next =
                routes.next().filter(|_| self.repeatable() && unanswered.retry == Retry::Elsewhere);
            let Some(next) = next else { return outcome };
            self.tell_chooser(&fetch.next, &trying, AttemptEnd::Unreached);
            let reason = unanswered.fault.in_full();
            tracing::warn!(upstream = %fetch.next, instead = %next.next, reason, "another route");
            fetch = next;
        }
    }

    /// An attempt by a next hop has ended.
    pub(super) fn tell_chooser(&self, next: &Authority, trying: &Trying, end: AttemptEnd) {
        let attempt = trying.end(end, self.live.moved_in_all());
        self.context.next_hops.detours.ended(self.asked, next, self.config(), &attempt);
    }

    /// Whether the request can be repeated.
    pub(super) fn repeatable(&self) -> bool {
        self.request.framing() == Framing::Empty && self.request.method.is_idempotent()
    }

    /// Whether a reused connection will do. A request that authenticates its connection needs a new one.
    pub(super) fn may_share(&self) -> bool {
        self.repeatable() && !self.request.authenticates_connection()
    }

    /// Tries one next hop.
    pub(super) async fn by(&self, fetch: &Fetch, client: &mut Client) -> Outcome {
        // Before anybody is connected to: a request that goes in a circle ends here.
        let mut plain = match self.text(fetch, 1, None) {
            Ok(text) => Some(text),
            Err(fault) => {
                return Outcome::without(Unanswered::for_good(fault).into());
            }
        };
        loop {
            let hop = match self.hop(fetch, client).await {
                Ok(hop) => hop,
                Err(end) => return Outcome::without(end),
            };
            if self.tunnel.is_none() {
                self.live.reached(&fetch.next, &hop.stream);
                if self.receipt_for(fetch).is_some() {
                    self.live.receipt_leads_to(fetch, self.grant);
                }
                self.context.share_memory(client.asker().client, [&client.stream, &hop.stream]);
                self.context.next_hops.warm.used(
                    fetch,
                    self.grant,
                    hop.stream.peer().ip(),
                    self.config(),
                );
            }
            let streams = self.streams(fetch, &hop);
            let peer = hop.stream.peer().ip();
            let plain =
                plain.take().filter(|_| streams == 1 && !self.config().trust.has_depot(peer));
            let text = match plain.map_or_else(|| self.text(fetch, streams, Some(peer)), Ok) {
                Ok(text) => text,
                Err(fault) => {
                    return Outcome::without(Unanswered::for_good(fault).into());
                }
            };
            if streams > 1 {
                self.live.asked_for(streams);
            }
            let outcome = UpstreamAttempt::new(self, fetch, streams).run(client, hop, text).await;
            // That is not a failure, and the request can be repeated.
            if !matches!(outcome.end, End::NotCarried) {
                return outcome;
            }
        }
    }

    /// The token under which the next hop is to keep its receipt, if it is a depot and the client wants one.
    fn receipt_for(&self, fetch: &Fetch) -> Option<Token> {
        let is_depot = fetch.origin.is_none() && self.tunnel.is_none();
        receipt::wanted(self.request).filter(|_| is_depot)
    }

    /// The request's head for the depot or origin at `peer`, with the number of connections wanted for the
    /// response.
    pub(super) fn text(
        &self,
        fetch: &Fetch,
        streams: u8,
        peer: Option<IpAddr>,
    ) -> Result<Vec<u8>, Fault> {
        let mut extra = Vec::new();
        if streams > 1 {
            extra.push(stripes::ask(streams));
        }
        if let Some(token) = self.receipt_for(fetch) {
            extra.push(receipt::want(token));
        }
        if peer.is_some_and(|peer| self.config().trust.has_depot(peer)) {
            extra.extend(self.trace.fields(self.vouched, self.client.ip()));
        } else {
            extra.extend(self.vouched.map(forwarded_for));
        }
        let (id, extra) = (&self.context.id, extra.as_slice());
        // A session to the origin carries one request.
        let connection = if self.tunnel.is_some() { Connection::Close } else { Connection::Keep };
        let (site, proxied) = (self.site, self.proxied);
        request_for(self.request, fetch, &OutgoingRequest { id, connection, extra, site, proxied })
    }

    /// A connection to the next hop with its rate limit, or how the exchange ended.
    pub(super) async fn hop(
        &self,
        fetch: &Fetch,
        client: &mut Client,
    ) -> Result<upstream::UpstreamConnection, End> {
        if let Some(tunnel) = self.tunnel {
            return Box::pin(self.through(tunnel, client)).await;
        }
        let waiting = || {
            upstream::waiting(fetch.into(), self.grant, &self.context.next_hops.pool, self.config())
        };
        let hop = match self.may_share().then(waiting).flatten() {
            Some(hop) => hop,
            // Boxed: most requests need no new connection, and making one takes much room.
            None => Box::pin(self.connected(fetch, client)).await?,
        };
        let options = |peer| self.config().hop_options(peer);
        self.pacing.hold(&client.stream, &hop.stream, options).map_err(|error| {
            let reason = format!("cannot hold a connection to its rate: {error}");
            End::Unanswered(Unanswered::for_good(Fault::internal(reason)))
        })?;
        Ok(hop)
    }

    /// A session to the origin, by the first route that works. It serves this request and no other.
    async fn through(
        &self,
        tunnel: &Tunnel,
        client: &mut Client,
    ) -> Result<upstream::UpstreamConnection, End> {
        let Exchange { context, grant, live, pacing, .. } = *self;
        let (hop, open) = (tunnel.hop.clone(), Open::clone(&tunnel.open));
        let routes = match grant {
            // A ticket names its depots.
            Grant::Ticket => vec![(hop, open)],
            _ => context.next_hops.detours.session_routes(hop, open, self.config()),
        };
        let mut last = None;
        for (hop, open) in &routes {
            let trying = Trying::begin(live.moved_in_all());
            let name = &hop.address.authority;
            let (asked_for, most, payload) = (None, self.allowance.bytes, Payload::Request);
            let next =
                NextHop { context, hop, open, grant, asked_for, most, live, pacing, payload };
            match next.open(client).await {
                Ok((hop, _)) => {
                    self.tell_chooser(name, &trying, AttemptEnd::Done);
                    return Ok(hop.renewed());
                }
                Err(NoSession::Gone(error)) => return Err(End::Abandoned(error)),
                Err(NoSession::Fault(fault) | NoSession::Answer { fault, .. }) => {
                    return Err(End::Unanswered(Unanswered::for_good(fault)));
                }
                Err(NoSession::Unreachable(fault)) => {
                    self.tell_chooser(name, &trying, AttemptEnd::Unreached);
                    last = Some(fault);
                }
            }
        }
        let fault = last.unwrap_or_else(|| Fault::internal("the server has no route"));
        Err(End::Unanswered(Unanswered::for_good(fault)))
    }

    /// Whether the whole response is relayed, except hop-by-hop fields.
    pub(super) fn passes_whole(&self) -> bool {
        self.site.is_some() || self.proxied
    }

    /// A new connection to the next hop, unless the client goes away first.
    pub(super) async fn connected(
        &self,
        fetch: &Fetch,
        client: &mut Client,
    ) -> Result<upstream::UpstreamConnection, End> {
        let resolver = self.context.next_hops.resolver(client.stream.peer().ip());
        let (mut source, _) = client.stream.split();
        let begun = Instant::now();
        let connected =
            upstream::connected_now(fetch.into(), self.grant, self.context.shared(), resolver);
        tokio::select! {
            hop = connected => {
                let hop = hop.map_err(Unanswered::from);
                let fault = hop.as_ref().err().map(|unanswered| &unanswered.fault);
                self.context.observer.counts.connected(begun.elapsed(), fault);
                hop.map_err(End::Unanswered)
            }
            error = self.gone(&mut source, &mut client.ahead) => Err(End::Abandoned(error)),
        }
    }
}
