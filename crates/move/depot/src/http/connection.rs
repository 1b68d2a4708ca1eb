// SPDX-License-Identifier: GPL-2.0-or-later
//! One client's connection: one request after another, until one side closes it.

use crate::{
    admission::limits::ConnectionSlot,
    client::Client,
    hop_sockets,
    http::{
        body::Broken,
        exchange::Exchange,
        head::{self, HeadError},
        outcome::{Answer, End, Outcome},
        plan::{self, Plan},
        refused::stopping,
        stripe_enter,
    },
    observe::{Entry, Live, OWN_DEFECT, Withdrawal},
    peer_load::own_load,
    proxy, session,
    state::{RequestContext, Shared},
    tls::{Accepted, Protocol},
    wrong_port::{ClearText, TLS_HANDSHAKE, unexpected_tls},
};
use ::protocol::{
    DepotAddress, Fetch, Panicked, Scheme, Step, catch_panic,
    http::{
        Connection, Fault, Framing, ProxyError, RequestHead,
        hold::asks_hold,
        load::asks_load,
        options_for,
        proxy::{ConnectHead, ProxyRequest},
        redirect,
        stripes::JOIN,
    },
    session::{FIRST_BYTE, Header, JoinToken, Open},
};
use bytes::BytesMut;
use http::StatusCode;
use relay::{
    copy::CopyError,
    tcp::{
        ReadHeadError, Source, Stream,
        info::{reset_on_close, written},
        read_header, with_what_follows,
    },
};
use std::{io, net::SocketAddr, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// How long a refused client may take to send its first byte.
const FIRST_BYTE_TIME: Duration = Duration::from_secs(1);
/// How long a TLS handshake may take once the depot stops.
const LAST_HANDSHAKE: Duration = Duration::from_secs(5);
/// How much is read at a time of a request's head.
const FIRST_READ: usize = 16 << 10;

/// A client's message.
enum Message {
    Request(RequestHead),
    Connect(Box<ConnectHead>),
    Session(Box<Open>),
    Join(JoinToken),
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    tcp: TcpStream,
    /// Its address.
    pub peer: SocketAddr,
    scheme: Scheme,
}

impl AcceptedConnection {
    /// An IPv4 client of an IPv6 socket is an IPv4 client.
    pub(crate) fn new(tcp: TcpStream, peer: SocketAddr, scheme: Scheme) -> Self {
        Self { tcp, peer: SocketAddr::new(peer.ip().to_canonical(), peer.port()), scheme }
    }

    /// The client, once a request can be read. `None` if its TLS handshake fails.
    async fn client(self, shared: &Shared) -> Option<Client> {
        let Self { tcp, peer, scheme } = self;
        let stream = if scheme == Scheme::Http {
            Stream::new(tcp, peer)
        } else {
            let settings = shared.settings();
            let time = settings.config.timeouts.request_head;
            let shaken = tokio::select! {
                shaken = timeout(time.into(), settings.tls.accept(tcp, peer)) => shaken,
                // A handshake is not cut: its client would not know why.
                () = shared.stopping_since(LAST_HANDSHAKE) => return None,
            };
            match shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(Accepted::Secured(stream)) => stream,
                Ok(Accepted::ClearText(stream, spoken)) => {
                    shared.observer.counts.client_tls_failed();
                    refuse_clear_text(stream, spoken, shared).await;
                    return None;
                }
                Err(error) => {
                    let error = error.to_string();
                    shared.observer.counts.client_tls_failed();
                    tracing::warn!(client = %peer, error, "TLS with the client failed");
                    return None;
                }
            }
        };
        let protocol = match stream.alpn() {
            Some(agreed) if Some(agreed) == Protocol::Session.alpn() => Protocol::Session,
            _ => Protocol::Http,
        };
        Some(Client { protocol, ..Client::new(stream, BytesMut::new()) })
    }
}

/// Serves one accepted connection to its end, and then returns its slot.
pub(crate) async fn serve(caller: AcceptedConnection, slot: ConnectionSlot, shared: &Shared) {
    let peer = caller.peer;
    // Boxed, so that a handshake takes up nothing once it is made.
    let Some(mut client) = Box::pin(caller.client(shared)).await else { return };
    client.slot = Some(slot);
    let settings = shared.settings();
    let tcp = client.stream.tcp();
    let set_up = hop_sockets::accepted(tcp, peer.ip(), &settings.config, &settings.overruled);
    if let Err(error) = set_up {
        let fault = Fault::internal(format!("cannot set up the client's connection: {error}"));
        let context = RequestContext::new(shared, &settings);
        return client.refuse(Entry::new(peer, context), &fault, true, context).await;
    }
    // Not held while the client is waited for: they may be read again.
    drop(settings);
    let mut first = true;
    while let Some(message) = client.next_message(first, shared).await {
        let settings = shared.settings();
        let context = RequestContext::new(shared, &settings);
        let request = match message {
            Message::Request(request) => request,
            Message::Connect(head) => {
                return Box::pin(proxy::connect(client, *head, context)).await;
            }
            Message::Session(open) => {
                return Box::pin(session::serve(client, *open, context)).await;
            }
            Message::Join(token) => {
                return Box::pin(session::enter(client, token, context)).await;
            }
        };
        let proxied = proxy::is_asked(&request, &client.stream, context.config());
        let for_depot = !proxied && context.config().site_of(&request).is_none();
        if for_depot && request.target.starts_with(JOIN) {
            return Box::pin(stripe_enter::enter(client, request, context)).await;
        }
        let before = written(client.stream.tcp());
        let served = catch_panic(client.serve_one(&request, proxied, context)).await;
        let then = match served {
            Ok(then) => then,
            Err(panicked) => {
                return client.end_by_panic((&request, &panicked), before, context).await;
            }
        };
        if then == Connection::Close {
            return;
        }
        client.carried = None;
        first = false;
    }
}

/// Refuses a connection with a response.
pub(crate) async fn turn_away(caller: AcceptedConnection, fault: &Fault, shared: &Shared) {
    let Some(mut client) = caller.client(shared).await else { return };
    let settings = shared.settings();
    let context = RequestContext::new(shared, &settings);
    let mut entry = Entry::new(client.stream.peer(), context);
    // Where others may have room, what it asks for tells whether it can go there.
    let full = fault.error == ProxyError::ConnectionLimitReached;
    if full && !context.config().siblings.members.is_empty() {
        match client.next_message(true, shared).await {
            None => return,
            Some(Message::Session(open)) => entry.session(&open),
            Some(Message::Join(_)) => entry.joins(),
            Some(Message::Connect(head)) => entry.tunnel(&head.target),
            Some(Message::Request(request)) => {
                entry.asked(&request, context);
                // To a client of the proxy, a redirect would be the origin's.
                if proxy::is_asked(&request, &client.stream, context.config()) {
                    entry.asked_proxy(&request);
                } else if let Some(peer) = shared.peer_loads.instead(
                    &request,
                    &own_load(shared, context.config()),
                    context.config(),
                ) {
                    client.lead_away(entry, &request, &peer, context).await;
                    return;
                }
            }
        }
    } else {
        client.await_protocol().await;
    }
    client.refuse(entry, fault, true, context).await;
}

/// Tells a client on a port for TLS that it has to speak that. One whose protocol is unknown is only closed.
async fn refuse_clear_text(stream: Stream, spoken: ClearText, shared: &Shared) {
    let settings = shared.settings();
    let context = RequestContext::new(shared, &settings);
    let (peer, fault) = (stream.peer(), spoken.refusal());
    if let ClearText::Unknown(_) = spoken {
        Entry::new(peer, context).refused(&fault);
        return;
    }
    let mut client = Client::new(stream, BytesMut::new());
    client.await_protocol().await;
    let with_body = client.is_answered_with_body();
    client.refuse(Entry::new(peer, context), &fault, with_body, context).await;
}

impl Client {
    /// Waits for a moment for the first bytes of a refused client, which show its protocol.
    async fn await_protocol(&mut self) {
        let (mut source, _) = self.stream.split();
        // The result is not needed: `see_protocol` looks at the bytes that were read.
        let _ = timeout(FIRST_BYTE_TIME, source.read(&mut self.ahead, 4 << 10)).await;
        self.see_protocol();
    }

    /// What it speaks shows in the first byte of what cannot be served.
    fn see_protocol(&mut self) {
        match self.ahead.first() {
            Some(&FIRST_BYTE) => self.protocol = Protocol::Session,
            Some(&TLS_HANDSHAKE) if !self.stream.is_tls() => self.protocol = Protocol::Tls,
            _ => {}
        }
    }

    /// Whether a refusal may have a body: a request that cannot be read shows that much all the same.
    fn is_answered_with_body(&self) -> bool {
        !self.ahead.trim_ascii_start().starts_with(b"HEAD ")
    }

    /// The next request or session; none where there is no more, or none that can be read, and the client
    /// has been told so.
    async fn next_message(&mut self, first: bool, shared: &Shared) -> Option<Message> {
        match self.read_message(first, shared).await {
            // What has come behind it may begin with any byte.
            Ok(message) => Some(message),
            Err(None) => None,
            Err(Some(fault)) => {
                self.see_protocol();
                let with_body = self.is_answered_with_body();
                let settings = shared.settings();
                let context = RequestContext::new(shared, &settings);
                let entry = Entry::new(self.stream.peer(), context);
                self.refuse(entry, &fault, with_body, context).await;
                None
            }
        }
    }

    /// The request or OPEN, or the fault to send: `Err(None)` if the client expects no response.
    async fn read_message(
        &mut self,
        first: bool,
        shared: &Shared,
    ) -> Result<Message, Option<Fault>> {
        let config = shared.config();
        let (limit, time) = (config.limits.head.get() as usize, config.timeouts.request_head);
        let is_tls = self.stream.is_tls();
        let (mut source, _) = self.stream.split();
        if !first && self.ahead.is_empty() {
            // Between two requests a client may wait longer, and is then closed without an answer.
            let idle = self.held.unwrap_or_else(|| config.timeouts.keep_alive.into());
            let came = tokio::select! {
                // A request that has come already is served.
                biased;
                came = timeout(idle, source.read(&mut self.ahead, 4 << 10)) => came,
                () = shared.leaving() => return Err(None),
            };
            if !matches!(came, Ok(Ok(1..))) {
                return Err(None);
            }
        }
        let read = read_first((&mut source, is_tls), &mut self.ahead, limit, &mut self.protocol);
        let result = tokio::select! {
            biased;
            result = timeout(time.into(), read) => result,
            () = shared.refusing() => return Err(Some(stopping())),
        };
        let fault =
            |status, reason: String| Some(Fault::new(status, ProxyError::HttpRequestError, reason));
        match result {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(HeadError::Malformed(fault))) => Err(Some(fault)),
            Ok(Err(HeadError::TooLarge)) => Err(fault(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                format!("the request's head does not end within {limit} bytes"),
            )),
            Ok(Err(HeadError::Closed | HeadError::CutOff | HeadError::Io(_))) => Err(None),
            Err(_) => Err(fault(
                StatusCode::REQUEST_TIMEOUT,
                format!("the request's head did not end within {time}"),
            )),
        }
    }

    /// Serves one request. Returns whether the client may send another.
    async fn serve_one(
        &mut self,
        request: &RequestHead,
        proxied: bool,
        context: RequestContext<'_>,
    ) -> Connection {
        self.depots_before = request.depots_before();
        let own = own_connection(request, context);
        let site = context.config().site_of(request);
        // Under a site's name all paths are the site's.
        let for_depot = site.is_none() && !proxied;
        // Siblings ask about once a second, so these requests are not logged.
        if for_depot && asks_load(request) && context.config().allow.client(self.stream.peer().ip())
        {
            let answer = own_load(&context, context.config()).answer(request.method, own);
            return self.answer(&answer, own, context).await;
        }
        if for_depot && asks_hold(request) {
            return Box::pin(self.hold(request, own, context)).await;
        }
        let mut entry = Entry::new(self.stream.peer(), context);
        entry.asked(request, context);
        entry.at(site);
        if proxied {
            entry.asked_proxy(request);
        } else if let Some(peer) = context.peer_loads.instead(
            request,
            &own_load(&context, context.config()),
            context.config(),
        ) {
            return self.lead_away(entry, request, &peer, context).await;
        }
        let with_body = request.method.is_answered_with_body();
        if let Err(fault) = self.carry(entry.client_asked_for(), context) {
            self.refuse(entry, &fault, with_body, context).await;
            return Connection::Close;
        }
        let _transfer = match context.begin_transfer(self.asker().client) {
            Ok(transfer) => transfer,
            Err(fault) => {
                self.refuse(entry, &fault, with_body, context).await;
                return Connection::Close;
            }
        };
        let from = (self.stream.peer(), scheme_of(&self.stream));
        let planned = if proxied {
            plan::for_proxy(request, (from.0.ip(), from.1), context).await
        } else {
            Plan::of(request, site, from, context).await
        };
        let plan = match planned {
            Ok(plan) => plan,
            Err(fault) => {
                self.refuse(entry, &fault, with_body, context).await;
                return Connection::Close;
            }
        };
        entry.by(plan.verified());
        entry.proxied(plan.login.clone(), None);
        entry.leads_to(plan.url());
        // Not before the request is admitted: a stranger's connection is not kept.
        if let Some(answer) = options_for(request, &context.id, own) {
            entry.answered();
            return self.answer(&answer, own, context).await;
        }
        match &plan.step {
            Step::Lead(to) => {
                entry.led(&to.depot.to_string());
                let location = to.to_string();
                self.answer(&redirect(&location, request.method, own), own, context).await
            }
            Step::Fetch(fetch) => self.fetch(entry, request, &plan, fetch, context).await,
        }
    }

    /// Ends a request that a defect of this depot has broken off: with an answer if none has begun, or with a reset.
    /// Its line is in the log already.
    async fn end_by_panic(
        &mut self,
        (request, panicked): (&RequestHead, &Panicked),
        before: Option<u64>,
        context: RequestContext<'_>,
    ) {
        context.observer.counts.panicked("a request", panicked);
        if before.is_none() || written(self.stream.tcp()) != before {
            return reset_on_close(self.stream.tcp(), true);
        }
        let with_body = request.method.is_answered_with_body();
        self.answer_fault(&Fault::internal(OWN_DEFECT), with_body, context).await;
    }

    /// Redirects the client to another depot with the same request.
    async fn lead_away(
        &mut self,
        entry: Entry,
        request: &RequestHead,
        peer: &DepotAddress,
        context: RequestContext<'_>,
    ) -> Connection {
        entry.led(&peer.to_string());
        let location = peer.url(&request.target);
        // It makes room here.
        let answer = redirect(&location, request.method, Connection::Close);
        self.answer(&answer, Connection::Close, context).await
    }

    /// Relays a request and its response.
    async fn fetch(
        &mut self,
        mut entry: Entry,
        request: &RequestHead,
        plan: &Plan,
        fetch: &Fetch,
        context: RequestContext<'_>,
    ) -> Connection {
        let config = context.config();
        let detours =
            context
                .failover_routes
                .routes(fetch, config, plan.ticket().is_none(), || plan.straight(fetch));
        let routes = detours.as_deref().unwrap_or(std::slice::from_ref(fetch));
        let trace = entry.trace(request, context);
        let live = entry.fetching(&routes[0].next, &self.stream);
        let (client, allowance) = (self.stream.peer(), plan.allowance());
        let pacing = context.rates.begin(live.number, client.ip(), allowance.limits());
        let exchange = Exchange {
            context,
            request,
            request_route: plan.request_route(),
            vouched: plan.vouched(),
            trace: &trace,
            grant: plan.grant,
            allowance,
            site: plan.site.as_ref(),
            proxied: plan.is_proxied(),
            tunnel: plan.tunnel.as_ref(),
            pacing: &pacing,
            routes,
            live: &live,
            client,
            asker: self.asker(),
        };
        let Outcome { mut end, answer, upstream, mut keep } = exchange.run(self).await;
        let cut = self.interims.is_cut();
        if cut {
            reset_on_close(self.stream.tcp(), true);
        }
        entry.answer(answer.as_ref());
        if matches!(end, End::Complete) {
            let settled =
                if keep { self.settled(context).await } else { self.close(context).await };
            match settled {
                Ok(stays) => keep &= stays,
                Err(broken) => (end, keep) = (End::Broken(broken), false),
            }
        }
        let with_body = request.method.is_answered_with_body();
        let refusal = answer.as_ref().and_then(|answer| answer.refusal.as_deref());
        match &end {
            End::Unanswered(unanswered) => {
                self.refuse(entry, &unanswered.fault, with_body, context).await;
            }
            End::Abandoned(error) => entry.abandoned(error),
            End::RequestBroken(broken) => match request_fault(broken, context).filter(|_| !cut) {
                Some(fault) => self.refuse(entry, &fault, with_body, context).await,
                None => entry.request_broken(broken),
            },
            End::Broken(broken) => {
                self.break_off(broken, answer.as_ref());
                entry.relayed(&end, refusal);
            }
            End::Withdrawn(why) => self.withdraw(entry, (why, &live), with_body, context).await,
            End::Complete => entry.relayed(&end, refusal),
        }
        // Before another transfer has the connection, which is then held to that one's rate.
        drop(pacing);
        if let Some(used) = upstream {
            used.keep(&context.pool, config);
        }
        if keep { Connection::Keep } else { Connection::Close }
    }

    /// Ends a transfer that was withdrawn: with an answer if it had none, or with a reset.
    async fn withdraw(
        &mut self,
        entry: Entry,
        (why, live): (&Withdrawal, &Live),
        with_body: bool,
        context: RequestContext<'_>,
    ) {
        if live.status().is_none() && !self.interims.is_cut() {
            let (status, error) = (StatusCode::FORBIDDEN, ProxyError::HttpRequestDenied);
            let fault = Fault::new(status, error, why.told());
            return self.refuse(entry, &fault, with_body, context).await;
        }
        reset_on_close(self.stream.tcp(), true);
        entry.withdrawn(why);
    }

    /// Leaves the connection in the state that tells the client the truth when it is closed.
    fn break_off(&self, broken: &Broken, answer: Option<&Answer>) {
        let until_close = answer.is_some_and(|answer| answer.framing == Framing::UntilClose);
        let reset = match broken {
            Broken::Copy(CopyError::SinkGone(_) | CopyError::SinkStalled | CopyError::SinkSlow) => {
                true
            }
            // With a length or chunks an early close shows, and leaves the client what it has.
            _ => until_close,
        };
        reset_on_close(self.stream.tcp(), reset);
    }
}

/// Reads a request, or an OPEN: the first byte tells which. TLS above a connection without is refused.
async fn read_first(
    (source, is_tls): (&mut Source<'_>, bool),
    ahead: &mut BytesMut,
    limit: usize,
    protocol: &mut Protocol,
) -> Result<Message, HeadError> {
    if ahead.is_empty() {
        match source.read(ahead, FIRST_READ.min(limit)).await {
            Ok(0) => return Err(HeadError::Closed),
            Ok(_) => {}
            Err(error) => return Err(HeadError::Io(error)),
        }
    }
    match ahead.first() {
        Some(&FIRST_BYTE) => *protocol = Protocol::Session,
        Some(&TLS_HANDSHAKE) if !is_tls => {
            *protocol = Protocol::Tls;
            return Err(HeadError::Malformed(unexpected_tls()));
        }
        _ => {}
    }
    if *protocol != Protocol::Session {
        return Ok(match head::read(source, ahead, limit, ProxyRequest::parse).await? {
            ProxyRequest::Request(request) => Message::Request(request),
            ProxyRequest::Connect(head) => Message::Connect(Box::new(head)),
        });
    }
    let header = read_header(source, ahead, with_what_follows, Header::parse).await;
    let header = header.map_err(|error| match error {
        ReadHeadError::Malformed(error) => {
            HeadError::Malformed(Fault::bad_request(format!("malformed OPEN: {error}")))
        }
        ReadHeadError::Closed => HeadError::Closed,
        ReadHeadError::CutOff | ReadHeadError::TooLarge => HeadError::CutOff,
        ReadHeadError::Io(error) => HeadError::Io(error),
    })?;
    match header {
        Header::Open(open) => Ok(Message::Session(Box::new(open))),
        Header::Join(token) => Ok(Message::Join(token)),
        Header::Answer(_) => {
            Err(HeadError::Malformed(Fault::bad_request("malformed OPEN: it is an ANSWER")))
        }
    }
}

/// The protocol of a connection.
fn scheme_of(stream: &Stream) -> Scheme {
    if stream.is_tls() { Scheme::Https } else { Scheme::Http }
}

/// Whether the connection is kept after a response of the depot's own.
fn own_connection(request: &RequestHead, context: RequestContext<'_>) -> Connection {
    let no_body = request.framing() == Framing::Empty;
    let keep = no_body && request.keeps_alive() && !context.is_leaving();
    if keep { Connection::Keep } else { Connection::Close }
}

/// What to tell a client whose request's body broke off, if it waits for an answer.
fn request_fault(broken: &Broken, context: RequestContext<'_>) -> Option<Fault> {
    match broken {
        Broken::Malformed(error) => Some(error.in_request()),
        Broken::Differs(fault) => Some(fault.clone()),
        Broken::Copy(CopyError::SourceStalled) => {
            let time = context.config().timeouts.idle;
            let reason = format!("nothing of the request's body came for {time}");
            Some(Fault::new(StatusCode::REQUEST_TIMEOUT, ProxyError::HttpRequestError, reason))
        }
        Broken::Copy(_) => None,
    }
}
