// SPDX-License-Identifier: GPL-2.0-or-later
//! The next hop of a session: connected to and asked, over a connection that waited where there is one. If
//! that turns out to be closed, the next hop is asked again (rule 2.9).

use crate::{
    admission::verdict::Grant,
    client::Client,
    http::{refused::Unanswered, silent_hop::silence},
    idle_pool::Peer,
    next_depots,
    observe::Live,
    session::early::{self, AtEnd},
    state::RequestContext,
    tls::Protocol,
    upstream,
    wrong_port::{is_alert, next_expects_tls},
};
use bytes::{Buf, BytesMut};
use http::StatusCode;
use protocol::{
    http::{Fault, ProxyError},
    session::{Answer, Answers, Congestion, Hop, HopReport, MAX_HOPS, Malformed, Open, Target},
};
use relay::{
    dial::Retry,
    rates::TransferRate,
    stripes::Writer,
    tcp::{ReadHeadError, Sink, Source, read_header, with_what_follows},
};
use std::{
    io,
    net::IpAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use units::Bytes;

/// What a session's client side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// All that the client sends, also what it sends before there is an ANSWER.
    Session,
    /// One request, which is sent once the session is open, on one connection.
    Request,
}

/// Why there is no session.
pub(crate) enum NoSession {
    /// The depot's own reason.
    Fault(Fault),
    /// The next hop could not be connected to, and another one may do.
    Unreachable(Fault),
    /// The next hop refuses, or a peer behind it: a depot, or the other end.
    Answer { answer: Box<Answer>, fault: Fault, is_depots: bool },
    /// The client went away.
    Gone(io::Error),
}

impl From<Fault> for NoSession {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// How an OPEN is sent on.
pub(crate) struct NextHop<'h> {
    pub context: RequestContext<'h>,
    pub hop: &'h Hop,
    pub open: &'h Open,
    pub grant: Grant,
    pub asked_for: Option<IpAddr>,
    /// The most bytes that are granted.
    pub most: Option<Bytes>,
    pub live: &'h Arc<Live>,
    pub pacing: &'h TransferRate,
    pub payload: Payload,
}

/// The result of one connection.
enum Tried {
    Answered(Answer),
    /// It had been used before, and was closed or is out of touch.
    WasClosed,
}

impl NextHop<'_> {
    /// Opens the session; the ANSWER is one that opens it.
    pub(crate) async fn open(
        &self,
        client: &mut Client,
    ) -> Result<(upstream::UpstreamConnection, Answer), NoSession> {
        loop {
            let mut hop = self.connection(client).await?;
            match self.ask(client, &mut hop).await? {
                Tried::WasClosed => {}
                Tried::Answered(mut answer) => {
                    return match answer.fault() {
                        None => Ok((hop, answer)),
                        Some(fault) => {
                            // Tells how far OPEN has come. What the far end says stays as it is.
                            if !answer.is_of_end() && answer.hops.len() < MAX_HOPS {
                                answer.hops.insert(0, report(&hop, 1, self.context));
                            }
                            let is_depots = !self.next_is_end() && !answer.is_of_end();
                            Err(NoSession::Answer { answer: Box::new(answer), fault, is_depots })
                        }
                    };
                }
            }
        }
    }

    /// Whether the next hop is the other end of the session, and no depot.
    pub(super) fn next_is_end(&self) -> bool {
        self.open.hops.is_empty() && self.open.target == Target::End
    }

    /// Whether it is the other end, be it a depot that keeps sessions: no further connections join it (rule 4.4).
    pub(super) fn next_is_acceptor(&self) -> bool {
        self.open.hops.is_empty() && matches!(self.open.target, Target::End | Target::Store)
    }

    /// The number of depots that the session goes through, starting with the next hop.
    pub(super) fn depots(&self) -> usize {
        1 + self.open.hops.len()
    }

    fn peer(&self) -> Peer<'_> {
        let address = &self.hop.address;
        Peer { next: &address.authority, scheme: address.scheme, protocol: Protocol::Session }
    }

    /// A connection to the next hop: one that waited, or a new one.
    async fn connection(
        &self,
        client: &mut Client,
    ) -> Result<upstream::UpstreamConnection, NoSession> {
        let (context, grant) = (self.context, self.grant);
        let hop = match upstream::waiting(
            self.peer(),
            grant,
            &context.next_hops.pool,
            context.config(),
        ) {
            Some(hop) => hop,
            None => connected(self.peer(), grant, client, context).await?,
        };
        let address = &self.hop.address;
        self.live.reached(&address.authority, &hop.stream);
        self.context.share_memory(client.asker().client, [&client.stream, &hop.stream]);
        let fetch = next_depots::to_hold(address.clone(), self.depots());
        if !self.next_is_end() {
            self.live.receipt_leads_to(&fetch, grant);
        }
        context.next_hops.warm.used(&fetch, grant, hop.stream.peer().ip(), context.config());
        hold(self.pacing, client, &hop, context)?;
        if let Some(name) = &self.hop.congestion
            && context.config().session.grants(name)
            && let Err(error) = hop.stream.wire().set_congestion(name.as_str())
        {
            // It is a wish, and ANSWER says what is in force.
            tracing::debug!(%error, congestion = name.as_str(), "a session's congestion control is not granted");
        }
        Ok(hop)
    }

    /// OPEN for the depot at an address, which is told the client where it is trusted.
    fn text(
        &self,
        asker: &Client,
        hop: &upstream::UpstreamConnection,
        streams: u8,
    ) -> Result<Vec<u8>, Malformed> {
        let told = self.context.config().trust.has_depot(hop.stream.peer().ip());
        let asked_for = self.asked_for.unwrap_or(asker.stream.peer().ip());
        let client = self.open.client.or(told.then_some(asked_for));
        let answer_within = asker.answer_by.map(|by| {
            Open::time_for_next(by.saturating_duration_since(tokio::time::Instant::now()))
        });
        Open { client, streams, answer_within, ..self.open.clone() }.to_bytes()
    }

    /// Sends OPEN, and what follows it, and awaits ANSWER.
    async fn ask(
        &self,
        client: &mut Client,
        hop: &mut upstream::UpstreamConnection,
    ) -> Result<Tried, NoSession> {
        let streams = self.streams(hop);
        let text = self.text(client, hop, streams);
        let mut text =
            text.map_err(|error| Fault::bad_request(format!("OPEN cannot be sent on: {error}")))?;
        if streams > 1 {
            let head = std::mem::take(&mut text);
            hop.stream.stripe_sink(Writer::behind(BytesMut::from(&head[..])));
        }
        let is_repeatable = self.payload == Payload::Session
            && (!hop.reused || !matches!(self.open.target, Target::Tcp { .. }));
        let granted =
            self.most.map_or(early::MOST, |most| most.get().min(early::MOST as u64) as usize);
        let may_send = if is_repeatable { granted } else { 0 };
        let (sent, next) = (AtomicUsize::new(0), &self.hop.address.authority);
        let mut answers = Answers::default();
        let result = {
            let (mut client_source, mut client_sink) = client.stream.split();
            let (mut source, mut sink) = hop.stream.split();
            let socket = source.tcp();
            let interim = (client.protocol == Protocol::Session).then_some(&mut client_sink);
            let up = (&mut client_source, &mut client.ahead);
            let mut up = pin!(early::send(&text, up, &mut sink, (may_send, &sent)));
            let by = client.answer_by;
            let answer = self.answer(&mut source, &mut hop.ahead, (interim, &mut answers), by);
            tokio::select! {
                biased;
                answer = answer => answer,
                error = &mut up => return Err(NoSession::Gone(error)),
                () = silence(socket), if hop.reused => {
                    Err(ReadHeadError::Io(io::ErrorKind::TimedOut.into()))
                }
            }
        };
        let none = match result {
            Ok(mut answer) => {
                let sent = sent.load(Relaxed);
                client.ahead.advance(sent);
                self.live.sent.count(sent as u64);
                if answer.fault().is_some() {
                    answer.striped = None;
                } else if streams > 1 || answer.striped.is_some() {
                    self.join(hop, streams, answer.striped)?;
                }
                return Ok(Tried::Answered(answer));
            }
            Err(none) => none,
        };
        let is_first = hop.reused && !answers.have_begun() && hop.ahead.is_empty();
        let text = match none {
            ReadHeadError::Closed if is_first => return Ok(Tried::WasClosed),
            ReadHeadError::Io(error) if is_first => {
                if error.kind() == io::ErrorKind::TimedOut {
                    // Other idle connections to this hop have been unreachable for as long.
                    self.context.next_hops.pool.forget(hop.key());
                }
                return Ok(Tried::WasClosed);
            }
            ReadHeadError::Malformed(fault) => return Err(NoSession::Fault(fault)),
            ReadHeadError::Closed => "closed without an ANSWER".to_owned(),
            ReadHeadError::CutOff | ReadHeadError::TooLarge => {
                "closed in the middle of its ANSWER".to_owned()
            }
            ReadHeadError::Io(error) => format!("failed: {error}"),
        };
        let (status, error) = (StatusCode::BAD_GATEWAY, ProxyError::ConnectionTerminated);
        Err(Fault::new(status, error, format!("upstream {next} {text}")).into())
    }

    /// The final ANSWER. Interim ones are passed on.
    async fn answer(
        &self,
        source: &mut Source<'_>,
        ahead: &mut BytesMut,
        (mut client, answers): (Option<&mut Sink<'_>>, &mut Answers),
        by: Option<tokio::time::Instant>,
    ) -> Result<Answer, ReadHeadError<Fault>> {
        let (config, next) = (self.context.config(), &self.hop.address.authority);
        let mut time = config.timeouts.of_head(self.depots()).min(left_until(by));
        loop {
            let read = read_header(source, ahead, with_what_follows, |bytes| answers.next(bytes));
            let fault = match tokio::time::timeout(time, read).await {
                Ok(Ok(mut answer)) if answer.is_interim() => {
                    answer.striped = None;
                    if let (Some(client), Ok(bytes)) = (&mut client, answer.to_bytes()) {
                        let timeouts = config.timeouts.towards_client(self.open.passed.len());
                        let passed =
                            self.live.received.write_all(client, &bytes, timeouts, |_| ()).await;
                        passed.map_err(|error| ReadHeadError::Io(io::Error::other(error)))?;
                    }
                    time += Duration::from(config.session.meeting_time);
                    continue;
                }
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(ReadHeadError::Malformed(_))) if is_tls_alert(source, ahead) => {
                    next_expects_tls(next)
                }
                Ok(Err(ReadHeadError::Malformed(error))) => Fault::bad_response(format!(
                    "upstream {next} does not answer as a session's peer: {error}"
                )),
                Ok(Err(ReadHeadError::Closed)) => return Err(ReadHeadError::Closed),
                Ok(Err(ReadHeadError::Io(error))) => return Err(ReadHeadError::Io(error)),
                Ok(Err(ReadHeadError::CutOff | ReadHeadError::TooLarge)) => {
                    return Err(ReadHeadError::CutOff);
                }
                Err(_) => {
                    let seconds = time.as_secs_f64();
                    let (status, error) =
                        (StatusCode::GATEWAY_TIMEOUT, ProxyError::HttpResponseTimeout);
                    Fault::new(
                        status,
                        error,
                        format!("upstream {next} did not answer within {seconds} s"),
                    )
                }
            };
            return Err(ReadHeadError::Malformed(fault));
        }
    }
}

/// Whether a next hop that was asked without TLS answers by a TLS alert.
fn is_tls_alert(source: &Source<'_>, answer: &[u8]) -> bool {
    source.plain().is_some() && is_alert(answer)
}

/// A new connection, unless the client goes away first.
pub(super) async fn connected(
    peer: Peer<'_>,
    grant: Grant,
    client: &mut Client,
    context: RequestContext<'_>,
) -> Result<upstream::UpstreamConnection, NoSession> {
    let resolver = context.next_hops.resolver(client.stream.peer().ip());
    let (mut source, _) = client.stream.split();
    let begun = Instant::now();
    let answer_by = client.answer_by;
    let most = left_until(answer_by);
    let connected = upstream::connected_now_within(peer, grant, context.shared(), (resolver, most));
    tokio::select! {
        hop = connected => {
            let hop = hop.map_err(Unanswered::from);
            let fault = hop.as_ref().err().map(|unanswered| &unanswered.fault);
            context.observer.counts.connected(begun.elapsed(), fault);
            hop.map_err(|Unanswered { fault, retry }| match retry {
                // If the client's time has run out, and not this depot's own, the next hop is not at fault.
                Retry::Elsewhere if left_until(answer_by) > Duration::ZERO => {
                    NoSession::Unreachable(fault)
                }
                _ => NoSession::Fault(fault),
            })
        }
        error = early::until_gone(&mut source, &mut client.ahead, AtEnd::HalfClosed) => {
            Err(NoSession::Gone(error))
        }
    }
}

/// How long a client goes on waiting for its ANSWER.
fn left_until(answer_by: Option<tokio::time::Instant>) -> Duration {
    let now = tokio::time::Instant::now();
    answer_by.map_or(Duration::MAX, |by| by.saturating_duration_since(now))
}

/// Holds both connections to the session's rates.
pub(super) fn hold(
    pacing: &TransferRate,
    client: &Client,
    hop: &upstream::UpstreamConnection,
    context: RequestContext<'_>,
) -> Result<(), Fault> {
    let options = |peer| context.config().hop_options(peer);
    pacing
        .hold(&client.stream, &hop.stream, options)
        .map_err(|error| Fault::internal(format!("cannot hold a connection to its rate: {error}")))
}

/// What this depot says of its connection to the next hop.
pub(super) fn report(
    hop: &upstream::UpstreamConnection,
    streams: u8,
    context: RequestContext<'_>,
) -> HopReport {
    let in_force = hop.stream.wire().in_force();
    let congestion: Option<Congestion> = in_force.congestion.parse().ok();
    HopReport { depot: context.id.clone(), streams, rtt_us: in_force.rtt_us, congestion }
}
