// SPDX-License-Identifier: GPL-2.0-or-later
//! One client's connection: one request after another, until one side closes it.

use crate::{
    admission::limits::ConnectionSlot,
    client::Client,
    config::Site,
    hop_sockets,
    http::{
        message::Message,
        plan::{self, Plan},
        stripe_enter,
    },
    observe::{Entry, OWN_DEFECT},
    peer_load::own_load,
    proxy, session,
    state::{RequestContext, Shared},
    tls::{Accepted, Protocol},
    wrong_port::ClearText,
};
use ::protocol::{
    DepotAddress, Panicked, Scheme, Step,
    announcement::asks_announcements,
    catch_panic,
    http::{
        Connection, Fault, Framing, ProxyError, RequestHead, hold::asks_hold, load::asks_load,
        options_for, own_answer, receipt, redirect, stripes::JOIN,
    },
};
use bytes::BytesMut;
use relay::{
    buffers::Transfer,
    tcp::{
        Stream,
        info::{reset_on_close, written},
    },
};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use tokio::{net::TcpStream, time::timeout};

/// How long a TLS handshake may take once the depot stops.
const LAST_HANDSHAKE: Duration = Duration::from_secs(5);

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
                () = shared.lifecycle.stopping_since(LAST_HANDSHAKE) => return None,
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
                } else if let Some(peer) = shared.next_hops.siblings.instead(
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
        if site.is_none()
            && !proxied
            && let Some(then) = self.answer_depot(request, own, context).await
        {
            return then;
        }
        let entry = self.observe(request, (site, proxied), context);
        let load = own_load(context.shared(), context.config());
        if !proxied
            && let Some(peer) = context.next_hops.siblings.instead(request, &load, context.config())
        {
            return self.lead_away(entry, request, &peer, context).await;
        }
        let asked_for = entry.client_asked_for();
        match self.plan(request, (site, proxied), asked_for, context).await {
            Ok((plan, _memory)) => self.follow(&plan, entry, (request, own), context).await,
            Err(fault) => {
                let with_body = request.method.is_answered_with_body();
                self.refuse(entry, &fault, with_body, context).await;
                Connection::Close
            }
        }
    }

    /// Answers what other depots ask of this one: about once a second each, so these requests are not logged.
    async fn answer_depot(
        &mut self,
        request: &RequestHead,
        own: Connection,
        context: RequestContext<'_>,
    ) -> Option<Connection> {
        if asks_hold(request) {
            return Some(Box::pin(self.hold(request, own, context)).await);
        }
        if let Some(token) = receipt::asked(request) {
            return Some(Box::pin(self.receipt(token, (request, own), context)).await);
        }
        let permitted = || context.config().allow.client(self.stream.peer().ip());
        let answer = if asks_load(request) && permitted() {
            own_load(context.shared(), context.config()).answer(request.method, own)
        } else if asks_announcements(request) && context.config().register.is_some() && permitted()
        {
            let text = serde_json::to_string(&context.next_hops.announcements.list());
            let text = text.expect("a list of texts is JSON") + "\n";
            own_answer("application/json", &text, request.method, own)
        } else {
            return None;
        };
        Some(self.answer(&answer, own, context).await)
    }

    /// The entry of a request that has come.
    fn observe(
        &self,
        request: &RequestHead,
        (site, proxied): (Option<&Site>, bool),
        context: RequestContext<'_>,
    ) -> Entry {
        let mut entry = Entry::new(self.stream.peer(), context);
        entry.asked(request, context);
        entry.at(site);
        if proxied {
            entry.asked_proxy(request);
        }
        entry
    }

    /// What is to be done with a request, and its part of the memory meanwhile. The fault refuses it.
    async fn plan<'c>(
        &mut self,
        request: &'c RequestHead,
        (site, proxied): (Option<&'c Site>, bool),
        asked_for: Option<IpAddr>,
        context: RequestContext<'c>,
    ) -> Result<(Plan, Transfer<'c>), Fault> {
        self.carry(asked_for, context)?;
        let memory = context.begin_transfer(self.asker().client)?;
        let (client, scheme) = (self.stream.peer(), scheme_of(&self.stream));
        let plan = if proxied {
            plan::for_proxy(request, (client.ip(), scheme), context).await
        } else {
            Plan::of(request, site, (client, scheme), context).await
        };
        Ok((plan?, memory))
    }

    /// Does what was planned.
    async fn follow(
        &mut self,
        plan: &Plan,
        mut entry: Entry,
        (request, own): (&RequestHead, Connection),
        context: RequestContext<'_>,
    ) -> Connection {
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
            Step::Fetch(fetch) => self.fetch(entry, request, plan, fetch, context).await,
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
}

/// The protocol of a connection.
fn scheme_of(stream: &Stream) -> Scheme {
    if stream.is_tls() { Scheme::Https } else { Scheme::Http }
}

/// Whether the connection is kept after a response of the depot's own.
fn own_connection(request: &RequestHead, context: RequestContext<'_>) -> Connection {
    let no_body = request.framing() == Framing::Empty;
    let keep = no_body && request.keeps_alive() && !context.lifecycle.is_leaving();
    if keep { Connection::Keep } else { Connection::Close }
}
