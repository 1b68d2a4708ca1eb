// SPDX-License-Identifier: GPL-2.0-or-later
//! An exchange with one connection to one next hop.

use crate::{
    client::Client,
    config::DepotsAround,
    http::{
        body::{Body, BodyObserver, Broken, Emit},
        digest_check::{CheckedBody, DigestCheck},
        exchange::Exchange,
        head::{self, HeadError},
        interims::Interims,
        no_answer::{late, no_answer},
        outcome::{Answer, End, Outcome},
        refused::Unanswered,
        silent_hop::silence,
        striping::Granted,
    },
    upstream,
    wrong_port::{is_alert, next_expects_tls},
};
use bytes::BytesMut;
use http::{HeaderName, HeaderValue};
use protocol::{
    Fetch,
    http::{
        Connection, Fault, Framing, NextHop, OutgoingBody, OutgoingResponse, PROXY_STATUS,
        RequestRoute, ResponseHead, interim_for, refusal_by_depot, response_for, send_to_login,
        site_is_taken, trailers_for_client, trailers_for_origin,
    },
};
use relay::{
    copy::CopyError,
    tcp::{Sink, Source, info::reset_on_close},
};
use std::{
    future::pending,
    io,
    pin::pin,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use tokio::{
    net::TcpStream,
    sync::Notify,
    time::{Duration, Instant},
};
use units::Bytes;

/// One try.
pub(super) struct UpstreamAttempt<'x> {
    pub(super) exchange: &'x Exchange<'x>,
    pub(super) fetch: &'x Fetch,
    /// The number of connections requested for the response.
    pub(super) streams: u8,
    /// Whether the whole request has been relayed.
    pub(super) uploaded: AtomicBool,
    /// Why the next hop reads no more of it, once it does not.
    pub(super) given_up: OnceLock<Broken>,
    /// Told when that is so, or never will be.
    sent: Notify,
    /// Since when the next hop has had what it gets of the request.
    asked: OnceLock<Instant>,
    answer: OnceLock<Answer>,
    /// Whether the next hop's connection has carried other requests before.
    reused: bool,
}

impl<'x> UpstreamAttempt<'x> {
    pub(super) fn new(exchange: &'x Exchange<'x>, fetch: &'x Fetch, streams: u8) -> Self {
        let (uploaded, sent) = (AtomicBool::new(false), Notify::new());
        let (given_up, asked, answer) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let reused = false;
        Self { exchange, fetch, streams, uploaded, given_up, sent, asked, answer, reused }
    }

    /// Sends the request, which begins with `text`, and relays the response.
    pub(super) async fn run(
        mut self,
        client: &mut Client,
        mut hop: upstream::UpstreamConnection,
        text: Vec<u8>,
    ) -> Outcome {
        self.reused = hop.reused;
        let (mut client_source, mut client_sink) = client.stream.split();
        let (mut source, mut sink) = hop.stream.split();
        let upstream_socket = source.tcp();
        let mut silent = false;
        let end = {
            let up = self.up(&mut client_source, &mut client.ahead, &mut sink, text);
            let slow = self.too_slow(client_sink.tcp());
            let down =
                self.down(&mut source, &mut hop.ahead, &mut client_sink, &mut client.interims);
            tokio::select! {
                biased;
                end = down => end,
                end = up => end,
                end = slow => end,
                () = self.unheard(upstream_socket), if hop.reused => {
                    silent = true;
                    End::NotCarried
                }
            }
        };
        if silent {
            // Other idle connections to this hop have been unreachable for as long.
            self.exchange.context.next_hops.pool.forget(hop.key());
        }
        self.outcome(end, hop)
    }

    /// Resolves once a next hop that has not begun to answer is out of touch.
    async fn unheard(&self, socket: &TcpStream) {
        silence(socket).await;
        if self.answer.get().is_some() {
            pending::<()>().await;
        }
    }

    /// Leaves the next hop's connection in the state that tells it the truth: it is reset unless all is well, as
    /// `upstream` has set it.
    fn outcome(self, end: End, hop: upstream::UpstreamConnection) -> Outcome {
        if matches!(end, End::NotCarried) {
            return Outcome::without(end);
        }
        let whole = matches!(end, End::Complete);
        let answer = self.answer.into_inner();
        let fit = whole
            && answer.as_ref().is_some_and(|answer| answer.keeps_upstream)
            && self.uploaded.into_inner()
            && hop.ahead.is_empty()
            && self.exchange.tunnel.is_none();
        let used = upstream::Used { hop, fit };
        let used = if whole { used.settle() } else { used };
        Outcome { end, answer, upstream: Some(used) }
    }

    /// The end by a request that broke off.
    pub(super) fn request_broke(&self, broken: Broken) -> End {
        let answered = self.answer.get().is_some();
        if answered { End::Broken(broken) } else { End::RequestBroken(broken) }
    }

    /// The end by a client that went away.
    fn client_gone(&self, error: io::Error) -> End {
        let answered = self.answer.get().is_some();
        if answered {
            End::Broken(CopyError::SinkGone(error).into())
        } else {
            End::Abandoned(error)
        }
    }

    /// Relays the request, and then watches the client.
    async fn up(
        &self,
        client: &mut Source<'_>,
        ahead: &mut BytesMut,
        sink: &mut Sink<'_>,
        text: Vec<u8>,
    ) -> End {
        let Exchange { context, request, .. } = self.exchange;
        let (config, framing) = (self.exchange.config(), request.framing());
        let sender = || "the client".to_owned();
        let mut check =
            DigestCheck::new(CheckedBody::Request(request), framing, config.digest, sender);
        let body = Body {
            source: client,
            ahead,
            sink,
            resources: &context.transfers.resources,
            timeouts: config.timeouts.of_requests(self.fetch.depots),
            progress: &self.exchange.live.sent,
            length: None,
            most: self.exchange.allowance.bytes.map(Bytes::get),
            max_trailers: self.exchange.config().limits.head,
            observer: check.as_mut().map(|check| check as &mut dyn BodyObserver),
            trailers: trailers_for_origin,
            given_up: None,
            report: None,
        };
        if let Err(broken) = body.run(text, framing, Emit::of(framing)).await {
            if !broken.is_of_sink() {
                return self.request_broke(broken);
            }
            // The next hop takes no more of the request; its answer may say why.
            let _ = self.given_up.set(broken);
            self.sent.notify_one();
            return pending().await;
        }
        self.uploaded.store(true, Relaxed);
        self.sent.notify_one();
        self.client_gone(self.exchange.gone(client, ahead).await)
    }

    /// Waits for the response and relays it. Its end decides.
    async fn down(
        &self,
        source: &mut Source<'_>,
        ahead: &mut BytesMut,
        client: &mut Sink<'_>,
        interims: &mut Interims,
    ) -> End {
        let relayed = self.response(source, ahead, client, interims).await;
        relayed.err().unwrap_or(End::Complete)
    }

    async fn response(
        &self,
        source: &mut Source<'_>,
        ahead: &mut BytesMut,
        client: &mut Sink<'_>,
        interims: &mut Interims,
    ) -> Result<(), End> {
        let head = self.head(source, ahead, client, interims).await?;
        self.is_for_site(&head).map_err(Unanswered::for_good)?;
        let (framing, mut check, outward) = self.framing(&head)?;
        self.join(&head, framing, source, ahead).map_err(Unanswered::of_upstream)?;
        let Exchange { context, live, .. } = self.exchange;
        let granted = self.grant(outward);
        let extra = granted.as_ref().map(Granted::field);
        let mut text = self.begin(&head, framing, outward, extra.as_slice());
        // From here on only a complete body may end in good order, whatever happens to this
        // process.
        if outward.framing == Framing::UntilClose {
            reset_on_close(client.tcp(), true);
        }
        if let Some(granted) = granted {
            Box::pin(self.open(granted, client, &text)).await?;
            text.clear();
        }
        let result = {
            let body = Body {
                source,
                ahead,
                sink: client,
                resources: &context.transfers.resources,
                timeouts: self.exchange.config().timeouts.of_answers(self.depots_around()),
                progress: &live.received,
                length: outward.length.filter(|_| framing == Framing::Chunked),
                most: self.exchange.allowance.bytes.map(Bytes::get),
                max_trailers: self.exchange.config().limits.head,
                observer: check.as_mut().map(|check| check as &mut dyn BodyObserver),
                trailers: trailers_for_client,
                given_up: Some(&self.given_up),
                report: outward.digest.map(|_| &context.id),
            };
            let body = pin!(body.run(text, framing, Emit::of(outward.framing)));
            self.exchange.unless_stalled(&self.fetch.next, body).await
        };
        if let Some(found) = check.and_then(DigestCheck::found) {
            live.digested(found);
        }
        let striped = source.is_striped() || client.is_striped();
        result?;
        if striped {
            Box::pin(self.close(source, ahead, client)).await?;
        }
        Ok(())
    }

    /// Where on the route this depot stands.
    pub(super) fn depots_around(&self) -> DepotsAround {
        DepotsAround { before: self.exchange.request.depots_before(), after: self.fetch.depots }
    }

    fn too_late(&self) -> Unanswered {
        let time = self.exchange.config().timeouts.of_head(self.fetch.depots);
        Unanswered::of_upstream(late(&self.fetch.next, time, self.uploaded.load(Relaxed)))
    }

    fn no_head(&self, error: HeadError, source: &Source<'_>, came: &[u8]) -> Unanswered {
        let next = &self.fetch.next;
        let expects_tls = source.plain().is_some() && is_alert(came);
        let fault = if expects_tls { next_expects_tls(next) } else { no_answer(next, error) };
        Unanswered::of_upstream(fault)
    }

    /// Resolves once the answer's head has taken too long, counted from the request's end, without what
    /// the client took for the interim answers.
    async fn late(&self, for_client: Duration) {
        if self.asked.get().is_none() && !self.uploaded.load(Relaxed) {
            self.sent.notified().await;
        }
        let asked = *self.asked.get_or_init(Instant::now);
        let time = self.exchange.config().timeouts.of_head(self.fetch.depots);
        tokio::time::sleep_until(asked + time + for_client).await;
    }

    /// Starts the response: records it, and makes its head for the client.
    fn begin(
        &self,
        head: &ResponseHead,
        framing: Framing,
        outward: OutgoingBody,
        extra: &[(HeaderName, HeaderValue)],
    ) -> Vec<u8> {
        let Exchange { context, request, request_route, live, .. } = self.exchange;
        let keep = self.uploaded.load(Relaxed)
            && outward.framing != Framing::UntilClose
            && request.keeps_alive()
            && !context.lifecycle.is_leaving();
        let status = head.status.as_u16();
        live.answered(status, outward.framing);
        let refusal = refusal_by_depot(head, self.fetch.depots).map(Box::new);
        // Connection-based authentication ties a connection to one user, so it cannot be shared.
        let shared_by_all = !request.authenticates_connection() && !head.authenticates_connection();
        let keeps_upstream = head.keeps_alive(framing) && shared_by_all;
        let framing = outward.framing;
        let answer = Answer { status, framing, refusal, keeps_client: keep, keeps_upstream };
        let _ = self.answer.set(answer);
        let out = OutgoingResponse {
            id: &context.id,
            connection: if keep { Connection::Keep } else { Connection::Close },
            origin: self.fetch.origin.as_ref(),
            request_route: *request_route,
            body: outward,
            extra,
            site: self.exchange.site.is_some(),
        };
        response_for(head, request, &out)
    }

    /// A next depot that does not take a request as a site's drops what the site needs. What it says of itself does
    /// not count.
    fn is_for_site(&self, head: &ResponseHead) -> Result<(), Fault> {
        let is_depot = self.fetch.origin.is_none() && self.exchange.site.is_some();
        if !is_depot || site_is_taken(&head.headers) || head.headers.contains(&PROXY_STATUS) {
            return Ok(());
        }
        let reason = format!(
            "depot {} drops what a site needs, cookies among it: `trust.depots` there must list this depot",
            self.fetch.next
        );
        Err(Fault::bad_response(reason))
    }

    /// How the answer's body comes, what it is held against, and how it goes on.
    fn framing<'h>(
        &'h self,
        head: &'h ResponseHead,
    ) -> Result<(Framing, Option<DigestCheck<'h>>, OutgoingBody), Unanswered> {
        let framing = head.framing(self.exchange.request).map_err(Unanswered::of_upstream)?;
        self.exchange.allowance.check(framing).map_err(Unanswered::for_good)?;
        let next = if self.fetch.origin.is_some() { NextHop::Origin } else { NextHop::Depot };
        let body = CheckedBody::Answer(head, self.exchange.request);
        let sender = || format!("upstream {}", self.fetch.next);
        let check = DigestCheck::new(body, framing, self.exchange.config().digest, sender);
        let follows = check.as_ref().and_then(DigestCheck::follows);
        let outward = OutgoingBody::of(head, self.exchange.request, framing, next, follows);
        Ok((framing, check, outward.map_err(Unanswered::of_upstream)?))
    }

    /// A login of the origin does not pass depots: by a route its client is sent back to the site. A ticket's URL may be
    /// one that only depots reach, and to a site's own name logins pass.
    fn at_login(&self, head: ResponseHead) -> Result<ResponseHead, Unanswered> {
        let Exchange { request, request_route, site, .. } = self.exchange;
        let is_by_route = site.is_none() && matches!(request_route, RequestRoute::Route(_));
        match self.fetch.origin.as_ref().filter(|_| is_by_route) {
            Some(origin) => send_to_login(head, request, origin).map_err(Unanswered::for_good),
            None => Ok(head),
        }
    }

    /// The head of the final answer. Interim ones before it are passed on: a client may wait for
    /// `100 Continue`.
    async fn head(
        &self,
        source: &mut Source<'_>,
        ahead: &mut BytesMut,
        client: &mut Sink<'_>,
        interims: &mut Interims,
    ) -> Result<ResponseHead, End> {
        let Exchange { request, context, live, .. } = self.exchange;
        let (config, whole) = (self.exchange.config(), self.exchange.passes_whole());
        let (limit, timeouts) = (
            config.limits.head.get() as usize,
            config.timeouts.towards_client(request.depots_before()),
        );
        let mut for_client = Duration::ZERO;
        let first = interims.came();
        loop {
            let head = tokio::select! {
                biased;
                head = head::read(source, ahead, limit, ResponseHead::parse) => head,
                () = self.late(for_client) => return Err(self.too_late().into()),
            };
            let head = match head {
                Ok(head) => head,
                Err(HeadError::Closed | HeadError::Io(_))
                    if self.reused && interims.came() == first =>
                {
                    return Err(End::NotCarried);
                }
                Err(error) => return Err(self.no_head(error, source, ahead).into()),
            };
            if !head.is_interim() {
                return Ok(self.at_login(head)?);
            }
            interims.count().map_err(Unanswered::of_upstream)?;
            if let Some(interim) = interim_for(&head, request, (&context.id, whole)) {
                let begun = Instant::now();
                let passed = interims.pass(&interim, client, timeouts, &live.received).await;
                passed.map_err(Broken::from)?;
                for_client += begun.elapsed();
            }
        }
    }
}
