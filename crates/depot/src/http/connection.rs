// SPDX-License-Identifier: GPL-2.0-or-later
//! One client's connection: one request after another, until one of both ends it.

use crate::{
    admission::limits::ConnectionSlot,
    hop_sockets,
    http::{
        body::Broken,
        client::Client,
        exchange::Exchange,
        head::{self, HeadError},
        outcome::{Answer, End, Outcome},
        plan::Plan,
        stripe_enter,
    },
    observe::Entry,
    peer_load::own_load,
    state::{RequestContext, Shared},
};
use bytes::BytesMut;
use http::StatusCode;
use relay::{
    copy::{AckProgress, CopyError, IdleTimeouts, MinimumRate},
    tcp::{
        Stream,
        info::{self, reset_on_close},
    },
};
use session::{
    DepotAddress, Fetch, Scheme, Step,
    message::{
        Connection, Fault, Framing, ProxyError, RequestHead, hold::asks_hold, load::asks_load,
        options_for, redirect, stripes::JOIN,
    },
};
use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};

/// How long the depot's own short answers may take to be sent and taken.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How long a client that has everything may take to close its side.
const GRACE: Duration = Duration::from_secs(1);
/// How often to look whether a client has everything: at first, and at last.
const LOOK: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

/// The longest mark of a close that TLS sends (of 1.2; that of 1.3 has 24 bytes).
const CLOSE_NOTIFY: usize = 31;

/// A connection as it was accepted.
#[derive(Debug)]
pub(crate) struct Caller {
    tcp: TcpStream,
    /// Its address.
    pub peer: SocketAddr,
    scheme: Scheme,
}

impl Caller {
    /// An IPv4 client of an IPv6 socket is an IPv4 client.
    pub(crate) fn new(tcp: TcpStream, peer: SocketAddr, scheme: Scheme) -> Self {
        Self { tcp, peer: SocketAddr::new(peer.ip().to_canonical(), peer.port()), scheme }
    }

    /// The client, once a request of its can be read; none where its TLS fails.
    async fn client(self, shared: &Shared) -> Option<Client> {
        let Self { tcp, peer, scheme } = self;
        let stream = if scheme == Scheme::Http {
            Stream::new(tcp, peer)
        } else {
            let settings = shared.settings();
            let time = settings.config.timeouts.request_head;
            let shaken = tokio::select! {
                shaken = timeout(time.into(), settings.tls.accept(tcp, peer)) => shaken,
                () = shared.stopping() => return None,
            };
            match shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => stream,
                Err(error) => {
                    let error = error.to_string();
                    shared.observer.counts.client_tls_failed();
                    tracing::warn!(client = %peer, error, "TLS with the client failed");
                    return None;
                }
            }
        };
        Some(Client::new(stream, BytesMut::new()))
    }
}

/// Serves one accepted connection to its end, at which its place is given back.
pub(crate) async fn serve(caller: Caller, slot: ConnectionSlot, shared: &Shared) {
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
    while let Some(request) = client.next_request(first, shared).await {
        let settings = shared.settings();
        let context = RequestContext::new(shared, &settings);
        if request.target.starts_with(JOIN) && context.config().site_of(&request).is_none() {
            return Box::pin(stripe_enter::enter(client, request, context)).await;
        }
        // Boxed, so that a client between two requests takes up little.
        if Box::pin(client.serve_one(&request, context)).await == Connection::Close {
            return;
        }
        first = false;
    }
}

/// Answers a connection without letting it in.
pub(crate) async fn turn_away(caller: Caller, fault: &Fault, shared: &Shared) {
    let Some(mut client) = caller.client(shared).await else { return };
    let settings = shared.settings();
    let context = RequestContext::new(shared, &settings);
    let mut entry = Entry::new(client.stream.peer(), context);
    // Where others may have room, what it asks for tells whether it can go there.
    let full = fault.error == ProxyError::ConnectionLimitReached;
    if full && !context.config().pool.members.is_empty() {
        let Some(request) = client.next_request(true, shared).await else { return };
        entry.asked(&request, context);
        if let Some(peer) = shared.peer_loads.instead(&request, context) {
            client.lead_away(entry, &request, &peer, context).await;
            return;
        }
    }
    client.refuse(entry, fault, true, context).await;
}

/// What whoever has not asked by then is told: to ask elsewhere.
pub(crate) fn stopping() -> Fault {
    let reason = "this depot is being stopped";
    Fault::new(StatusCode::SERVICE_UNAVAILABLE, ProxyError::HttpRequestError, reason)
}

impl Client {
    /// The next request; none where there is no more, or none that can be read, and the client has
    /// been told so.
    async fn next_request(&mut self, first: bool, shared: &Shared) -> Option<RequestHead> {
        match self.read_request(first, shared).await {
            Ok(request) => Some(request),
            Err(None) => None,
            Err(Some(fault)) => {
                // What cannot be read says that much all the same.
                let with_body = !self.ahead.trim_ascii_start().starts_with(b"HEAD ");
                let settings = shared.settings();
                let context = RequestContext::new(shared, &settings);
                let entry = Entry::new(self.stream.peer(), context);
                self.refuse(entry, &fault, with_body, context).await;
                None
            }
        }
    }

    /// The request, or the fault to answer, or nothing where nobody waits for an answer.
    async fn read_request(
        &mut self,
        first: bool,
        shared: &Shared,
    ) -> Result<RequestHead, Option<Fault>> {
        let config = shared.config();
        let (limit, time) = (config.limits.head.get() as usize, config.timeouts.request_head);
        let (mut source, _) = self.stream.split();
        if !first && self.ahead.is_empty() {
            // Between two requests a client may stay away longer, and be let go without a word.
            let idle = self.held.unwrap_or_else(|| config.timeouts.keep_alive.into());
            let came = tokio::select! {
                came = timeout(idle, source.read(&mut self.ahead, 4 << 10)) => came,
                () = shared.leaving() => return Err(None),
            };
            if !matches!(came, Ok(Ok(1..))) {
                return Err(None);
            }
        }
        let read = head::read(&mut source, &mut self.ahead, limit, RequestHead::parse);
        let result = tokio::select! {
            biased;
            result = timeout(time.into(), read) => result,
            () = shared.stopping() => return Err(Some(stopping())),
        };
        let fault =
            |status, reason: String| Some(Fault::new(status, ProxyError::HttpRequestError, reason));
        match result {
            Ok(Ok(request)) => Ok(request),
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

    /// Serves one request; says whether the client may send another.
    async fn serve_one(
        &mut self,
        request: &RequestHead,
        context: RequestContext<'_>,
    ) -> Connection {
        let own = own_connection(request, context);
        let site = context.config().site_of(request);
        // Under a site's name all paths are the site's.
        let for_depot = site.is_none();
        // Asked every second or so, by each of those who want to know: that is no line of the log.
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
        if let Some(peer) = context.peer_loads.instead(request, context) {
            return self.lead_away(entry, request, &peer, context).await;
        }
        let with_body = request.method.is_answered_with_body();
        let from = (self.stream.peer(), scheme_of(&self.stream));
        let plan = match Plan::of(request, site, from, context).await {
            Ok(plan) => plan,
            Err(fault) => {
                self.refuse(entry, &fault, with_body, context).await;
                return Connection::Close;
            }
        };
        entry.by(plan.ticket());
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

    /// Sends the client to another depot with the same request.
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

    /// Passes a request on and its answer back.
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
        let pacing =
            context.rates.begin(live.number, client.ip(), config.transfer_limits(allowance.rate));
        let exchange = Exchange {
            context,
            request,
            request_route: plan.request_route(),
            vouched: plan.vouched(),
            trace: &trace,
            grant: plan.grant,
            allowance,
            site: plan.site.as_ref(),
            pacing: &pacing,
            routes,
            live: &live,
            client,
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
                entry.relayed(&end);
            }
            End::Complete => entry.relayed(&end),
        }
        // Before another transfer has the connection, which is then held to that one's rate.
        drop(pacing);
        if let Some(used) = upstream {
            used.keep(&context.pool, config);
        }
        if keep { Connection::Keep } else { Connection::Close }
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

    /// Answers with a fault, says so in the log, and closes.
    pub(crate) async fn refuse(
        &mut self,
        entry: Entry,
        fault: &Fault,
        with_body: bool,
        context: RequestContext<'_>,
    ) {
        entry.refused(fault);
        let answer = fault.answer(&context.id, with_body, Connection::Close);
        self.answer(&answer, Connection::Close, context).await;
    }

    /// Sends an answer of the depot's own. How that goes is the client's affair.
    pub(super) async fn answer(
        &mut self,
        bytes: &[u8],
        then: Connection,
        context: RequestContext<'_>,
    ) -> Connection {
        if self.interims.is_cut() {
            return Connection::Close;
        }
        let sent = async {
            let (_, mut sink) = self.stream.split();
            let mut left = bytes;
            while !left.is_empty() {
                let written = sink.write(left).await?;
                left = &left[written..];
            }
            sink.flush().await?;
            if then == Connection::Close {
                let _ = self.close(context).await;
            }
            io::Result::Ok(())
        };
        match timeout(ANSWER_TIME, sent).await {
            Ok(Ok(())) => then,
            _ => Connection::Close,
        }
    }

    /// How long the client may take for what waits in the kernel.
    fn idle_timeouts(&self, context: RequestContext<'_>) -> IdleTimeouts {
        let config = context.config();
        let towards = |minimum: MinimumRate| {
            minimum.towards(&info::tcp_info(self.stream.tcp()).unwrap_or_default())
        };
        let minimum = config.limits.minimum_rate().map(towards);
        IdleTimeouts { minimum, ..config.timeouts.towards_client() }
    }

    /// Waits until the client's kernel has everything, or the client speaks again, which it does not
    /// before; so that "complete" in the log is true. Says whether the client is still there.
    async fn settled(&mut self, context: RequestContext<'_>) -> Result<bool, Broken> {
        let timeouts = self.idle_timeouts(context);
        let (mut source, _) = self.stream.split();
        let (mut acks, mut pause) = (AckProgress::new(source.tcp(), timeouts), LOOK[0]);
        let mut closed = false;
        while self.ahead.is_empty() && acks.queued() > 0 {
            if closed && let Some(error) = failure(source.tcp()) {
                return failed_with(source.tcp(), 0, &error);
            }
            tokio::select! {
                read = source.read(&mut self.ahead, 4 << 10), if !closed => match or_end(read) {
                    Ok(0) => closed = true,
                    Ok(_) => {}
                    Err(error) => return failed_with(source.tcp(), 0, &error),
                },
                () = sleep(pause) => {
                    pause = (pause * 2).min(LOOK[1]);
                    acks.look()?;
                }
            }
        }
        Ok(!closed)
    }

    /// Closes the connection in good order and waits until the client's kernel has everything, so
    /// that "complete" in the log is true and nothing left unread resets the answer's last bytes.
    async fn close(&mut self, context: RequestContext<'_>) -> Result<bool, Broken> {
        let timeouts = self.idle_timeouts(context);
        reset_on_close(self.stream.tcp(), false);
        let (mut source, mut sink) = self.stream.split();
        let tcp = sink.tcp();
        let marks = if sink.plain().is_some() { 1 } else { 1 + CLOSE_NOTIFY };
        // TLS has a mark to send, for which there may be no room.
        tokio::select! {
            biased;
            shut = sink.shut() => shut.or_else(|error| failed_with(tcp, marks, &error).map(drop))?,
            stalled = AckProgress::stalls(tcp, timeouts) => return Err(stalled.into()),
        }
        let mut acks = AckProgress::new(tcp, timeouts);
        let (mut pause, mut closed) = (LOOK[0], false);
        loop {
            let left = acks.look()?;
            if left == 0 && (closed || acks.unchanged_for() >= GRACE) {
                return Ok(false);
            }
            if closed && let Some(error) = failure(source.tcp()) {
                return failed_with(tcp, marks, &error);
            }
            // What nobody asked for is thrown away: left unread, it would turn the close into a reset
            // that may overtake the answer's last bytes.
            self.ahead.clear();
            tokio::select! {
                read = source.read(&mut self.ahead, 4 << 10), if !closed => match or_end(read) {
                    Ok(0) => closed = true,
                    // A sender of endless scrap must not keep its thread to itself.
                    Ok(_) => tokio::task::consume_budget().await,
                    Err(error) => return failed_with(tcp, marks, &error),
                },
                () = sleep(pause) => pause = (pause * 2).min(LOOK[1]),
            }
        }
    }
}

/// What a connection has failed of. A client that has shut its side says no more: that it is gone shows
/// in this alone, and what it did not acknowledge stays counted.
fn failure(socket: &TcpStream) -> Option<io::Error> {
    socket.take_error().ok().flatten()
}

/// What a failure means to a client that was handed everything: nothing where it has acknowledged all but
/// the `marks` of the close itself.
fn failed_with(client: &TcpStream, marks: usize, error: &io::Error) -> Result<bool, Broken> {
    let left = info::unacknowledged(client).unwrap_or(usize::MAX);
    if left <= marks {
        return Ok(false);
    }
    let reason = format!("{error}, and it has not acknowledged the last {} bytes", left - marks);
    Err(Broken::Copy(CopyError::SinkGone(io::Error::new(error.kind(), reason))))
}

/// What was read of a client that has its whole answer. Many then close the connection beneath TLS
/// without a word, and that is no failure: nothing of theirs can have been cut off.
fn or_end(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read,
    }
}

/// What is spoken on a connection.
fn scheme_of(stream: &Stream) -> Scheme {
    if stream.is_tls() { Scheme::Https } else { Scheme::Http }
}

/// Whether the connection is kept after an answer of the depot's own.
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
