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
    io,
    pin::pin,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use tokio::{
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
    answer: OnceLock<Begun>,
}

/// An answer that has begun.
struct Begun {
    answer: Answer,
    /// Whether the client may send another request on the connection.
    keep: bool,
    /// Whether the next hop's connection can be reused.
    fit: bool,
}

/// The result of one attempt.
pub(super) enum Tried {
    /// The exchange is over.
    Over(Over),
    /// The connection turned out to be closed already.
    WasClosed,
    /// The connection turned out to be dead.
    WasSilent,
}

/// A try that is over, before its connections are settled.
pub(super) struct Over {
    end: End,
    answer: Option<Answer>,
    keep: bool,
    /// Whether the next hop's connection can be reused.
    fit: bool,
}

/// How the client's side ended before the end of the response.
pub(super) enum RequestSide {
    /// The client is gone.
    Gone(io::Error),
    /// The request's body failed.
    Broken(Broken),
}

/// How the next hop's side ended.
pub(super) enum ResponseSide {
    /// The response was relayed.
    Whole,
    /// The response failed in its body.
    Broken(Broken),
    /// There was no response.
    None(HeadError),
    /// It came too late.
    Late,
    /// It cannot be relayed.
    Bad(Unanswered),
}

impl<'x> UpstreamAttempt<'x> {
    pub(super) fn new(exchange: &'x Exchange<'x>, fetch: &'x Fetch, streams: u8) -> Self {
        let (uploaded, sent) = (AtomicBool::new(false), Notify::new());
        let (given_up, asked, answer) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { exchange, fetch, streams, uploaded, given_up, sent, asked, answer }
    }

    /// Sends the request, which begins with `text`, and relays the response.
    pub(super) async fn run(
        self,
        client: &mut Client,
        hop: &mut upstream::UpstreamConnection,
        text: Vec<u8>,
    ) -> Tried {
        let (interims, is_tls) = (client.interims.came(), hop.stream.is_tls());
        let (mut client_source, mut client_sink) = client.stream.split();
        let (mut source, mut sink) = hop.stream.split();
        let upstream_socket = source.tcp();
        let end = {
            let up = self.up(&mut client_source, &mut client.ahead, &mut sink, text);
            let slow = self.too_slow(client_sink.tcp());
            let down =
                self.down(&mut source, &mut hop.ahead, &mut client_sink, &mut client.interims);
            let silent = silence(upstream_socket);
            let (mut up, mut down, mut slow) = (pin!(up), pin!(down), pin!(slow));
            let mut silent = pin!(silent);
            loop {
                tokio::select! {
                    biased;
                    end = &mut down => break Ok(end),
                    end = &mut up, if self.given_up.get().is_none() => match end {
                        RequestSide::Broken(why) if why.is_of_sink() => {
                            // It takes no more of the request; its answer may say why.
                            let _ = self.given_up.set(why);
                            self.sent.notify_one();
                        }
                        end => break Err(end),
                    },
                    end = &mut slow => break end,
                    () = &mut silent, if hop.reused && self.answer.get().is_none() => {
                        return Tried::WasSilent;
                    }
                }
            }
        };
        if let Ok(ResponseSide::None(HeadError::Closed | HeadError::Io(_))) = end
            && hop.reused
            && client.interims.came() == interims
        {
            return Tried::WasClosed;
        }
        let end = match end {
            Ok(ResponseSide::None(_)) if !is_tls && is_alert(&hop.ahead) => {
                End::Unanswered(Unanswered::of_upstream(next_expects_tls(&self.fetch.next)))
            }
            end => self.end(end),
        };
        let whole = matches!(end, End::Complete);
        let uploaded = self.uploaded.load(Relaxed);
        let (answer, keep, fit) = match self.answer.into_inner() {
            Some(Begun { answer, keep, fit }) => (Some(answer), keep, fit),
            None => (None, false, false),
        };
        let is_own = self.exchange.tunnel.is_none();
        let fit = whole && fit && uploaded && hop.ahead.is_empty() && is_own;
        Tried::Over(Over { end, answer, keep: whole && keep, fit })
    }

    /// The result of both sides together.
    fn end(&self, end: Result<ResponseSide, RequestSide>) -> End {
        let (next, config) = (&self.fetch.next, self.exchange.config());
        let answered = self.answer.get().is_some();
        match end {
            Ok(ResponseSide::Whole) => End::Complete,
            Ok(ResponseSide::Broken(broken)) => End::Broken(broken),
            Ok(ResponseSide::Bad(unanswered)) => End::Unanswered(unanswered),
            Ok(ResponseSide::None(error)) => {
                End::Unanswered(Unanswered::of_upstream(no_answer(next, error)))
            }
            Ok(ResponseSide::Late) => {
                let time = config.timeouts.of_head(self.fetch.depots);
                let late = late(next, time, self.uploaded.load(Relaxed));
                End::Unanswered(Unanswered::of_upstream(late))
            }
            Err(RequestSide::Broken(broken)) if answered => End::Broken(broken),
            Err(RequestSide::Broken(broken)) => End::RequestBroken(broken),
            Err(RequestSide::Gone(error)) if answered => {
                End::Broken(Broken::Copy(CopyError::SinkGone(error)))
            }
            Err(RequestSide::Gone(error)) => End::Abandoned(error),
        }
    }

    /// Relays the request, and then watches the client.
    async fn up(
        &self,
        client: &mut Source<'_>,
        ahead: &mut BytesMut,
        sink: &mut Sink<'_>,
        text: Vec<u8>,
    ) -> RequestSide {
        let Exchange { context, request, .. } = self.exchange;
        let (config, framing) = (self.exchange.config(), request.framing());
        let sender = || "the client".to_owned();
        let mut check =
            DigestCheck::new(CheckedBody::Request(request), framing, config.digest, sender);
        let body = Body {
            source: client,
            ahead,
            sink,
            resources: &context.resources,
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
            return RequestSide::Broken(broken);
        }
        self.uploaded.store(true, Relaxed);
        self.sent.notify_one();
        RequestSide::Gone(self.exchange.gone(client, ahead).await)
    }

    /// Waits for the response and relays it.
    async fn down(
        &self,
        source: &mut Source<'_>,
        ahead: &mut BytesMut,
        client: &mut Sink<'_>,
        interims: &mut Interims,
    ) -> ResponseSide {
        let head = match self.head(source, ahead, client, interims).await {
            Ok(head) => head,
            Err(down) => return down,
        };
        if let Err(fault) = self.is_for_site(&head) {
            return ResponseSide::Bad(Unanswered::for_good(fault));
        }
        let (framing, mut check, outward) = match self.framing(&head) {
            Ok(framing) => framing,
            Err(unanswered) => return ResponseSide::Bad(unanswered),
        };
        if let Err(fault) = self.join(&head, framing, source, ahead) {
            return ResponseSide::Bad(Unanswered::of_upstream(fault));
        }
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
            if let Err(broken) = Box::pin(self.open(granted, client, &text)).await {
                return ResponseSide::Broken(broken);
            }
            text.clear();
        }
        let result = {
            let body = Body {
                source,
                ahead,
                sink: client,
                resources: &context.resources,
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
        let result = match result {
            Ok(()) if striped => Box::pin(self.close(source, ahead, client)).await,
            result => result,
        };
        match result {
            Ok(()) => ResponseSide::Whole,
            Err(broken) => ResponseSide::Broken(broken),
        }
    }

    /// Where on the route this depot stands.
    pub(super) fn depots_around(&self) -> DepotsAround {
        DepotsAround { before: self.exchange.request.depots_before(), after: self.fetch.depots }
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
            && !context.is_leaving();
        let status = head.status.as_u16();
        live.answered(status, outward.framing);
        let refusal = refusal_by_depot(head, self.fetch.depots).map(Box::new);
        let answer = Answer { status, framing: outward.framing, refusal };
        // Connection-based authentication ties a connection to one user, so it cannot be shared.
        let shared_by_all = !request.authenticates_connection() && !head.authenticates_connection();
        let fit = head.keeps_alive(framing) && shared_by_all;
        let _ = self.answer.set(Begun { answer, keep, fit });
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
    fn at_login(&self, head: ResponseHead) -> Result<ResponseHead, ResponseSide> {
        let Exchange { request, request_route, site, .. } = self.exchange;
        let is_by_route = site.is_none() && matches!(request_route, RequestRoute::Route(_));
        match self.fetch.origin.as_ref().filter(|_| is_by_route) {
            Some(origin) => send_to_login(head, request, origin)
                .map_err(|fault| ResponseSide::Bad(Unanswered::for_good(fault))),
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
    ) -> Result<ResponseHead, ResponseSide> {
        let Exchange { request, context, live, .. } = self.exchange;
        let (config, whole) = (self.exchange.config(), self.exchange.passes_whole());
        let (limit, timeouts) = (
            config.limits.head.get() as usize,
            config.timeouts.towards_client(request.depots_before()),
        );
        let mut for_client = Duration::ZERO;
        loop {
            let head = tokio::select! {
                biased;
                head = head::read(source, ahead, limit, ResponseHead::parse) => head,
                () = self.late(for_client) => return Err(ResponseSide::Late),
            };
            let head = head.map_err(ResponseSide::None)?;
            if !head.is_interim() {
                return self.at_login(head);
            }
            interims.count().map_err(|fault| ResponseSide::Bad(Unanswered::of_upstream(fault)))?;
            if let Some(interim) = interim_for(&head, request, (&context.id, whole)) {
                let begun = Instant::now();
                let passed = interims.pass(&interim, client, timeouts, &live.received).await;
                passed.map_err(|error| ResponseSide::Broken(error.into()))?;
                for_client += begun.elapsed();
            }
        }
    }
}

impl Over {
    /// Leaves the next hop's connection in the state that tells it the truth: it is reset unless
    /// all is well, as `upstream` has set it.
    pub(super) fn with(self, hop: upstream::UpstreamConnection) -> Outcome {
        let Self { end, answer, keep, fit } = self;
        let used = upstream::Used { hop, fit };
        let used = if matches!(end, End::Complete) { used.settle() } else { used };
        Outcome { end, answer, upstream: Some(used), keep }
    }
}
