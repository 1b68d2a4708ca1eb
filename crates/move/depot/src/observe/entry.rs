// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of one request: the one place from which counters and the log are fed.

use super::{
    Asked, Direction, Ended, Live, Observer, Outcome, UsedLogin, UsedTicket, Withdrawal,
    hops::Label,
    in_words,
    line::{Fields, Line},
    registry::TargetKind,
};
use crate::{
    config::{Site, SiteName},
    http::{
        body::Broken,
        outcome::{Answer, End},
    },
    session::SessionEnd,
    state::RequestContext,
    trace::Trace,
};
use http::StatusCode;
use protocol::{
    Authority,
    http::{Fault, Framing, RequestHead},
    session::{Open, SessionId},
    ticket::{TicketRoute, Verified},
};
use relay::{copy::Progress, tcp::Stream};
use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Instant, SystemTime},
};
use tracing::Level;

/// What is known of a request so far. It is counted and its line written when it ends, and also when
/// it is dropped because the depot stops.
#[derive(Debug)]
pub(crate) struct Entry {
    observer: Arc<Observer>,
    client: SocketAddr,
    client_hop: Label,
    start: Instant,
    method: Option<&'static str>,
    target: Option<Arc<str>>,
    trace: Option<Trace>,
    /// The session's name, where it is one.
    session: Option<(SessionId, TargetKind)>,
    /// The client for which a session was asked for by a depot.
    asked_for: Option<IpAddr>,
    ticket: Option<Arc<UsedTicket>>,
    login: Option<Arc<UsedLogin>>,
    url: Option<Arc<str>>,
    site: Option<SiteName>,
    /// Once it is a transfer.
    live: Option<Arc<Live>>,
    request_framing: Framing,
    answer: Option<(u16, Framing)>,
    ended: bool,
}

/// Why a request ends whose handler has panicked.
pub(crate) const OWN_DEFECT: &str = "a defect of this depot; its log has more";

/// How it ended, beyond what was known before.
struct Ending<'a> {
    outcome: Outcome,
    words: Cow<'static, str>,
    /// Why, of which others may have written a part.
    reason: Option<String>,
    level: Level,
    fault: Option<&'a Fault>,
    /// Whether a depot behind this one has found that fault, which counts it.
    is_upstreams: bool,
    led_to: Option<&'a str>,
}

impl Entry {
    /// The entry of a request that is not read yet.
    pub(crate) fn new(client: SocketAddr, context: RequestContext<'_>) -> Self {
        let settings = context.settings;
        Self {
            observer: Arc::clone(&context.observer),
            client,
            client_hop: settings.client_hops.hop(client.ip(), &settings.config),
            start: Instant::now(),
            method: None,
            target: None,
            trace: None,
            session: None,
            asked_for: None,
            ticket: None,
            login: None,
            url: None,
            site: None,
            live: None,
            request_framing: Framing::Empty,
            answer: None,
            ended: false,
        }
    }

    /// What was asked for.
    pub(crate) fn asked(&mut self, request: &RequestHead, context: RequestContext<'_>) {
        self.trace(request, context);
        self.method = Some(request.method.as_str());
        self.target = Some(TicketRoute::redacted(&request.target).into());
        self.request_framing = request.framing();
    }

    /// A session was asked for, and what it leads to.
    pub(crate) fn session(&mut self, open: &Open) {
        self.session = Some((open.session, (&open.target).into()));
        self.method = Some("SESSION");
        self.target = Some(open.to_string().into());
    }

    /// What is asked of the store.
    pub(crate) fn asks_store(&mut self, what: String) {
        self.target = Some(what.into());
    }

    /// A tunnel was asked for, to this server.
    pub(crate) fn tunnel(&mut self, server: &str) {
        self.method = Some("CONNECT");
        self.target = Some(server.into());
    }

    /// Where to a client of the proxy wants.
    pub(crate) fn asked_proxy(&mut self, request: &RequestHead) {
        if let Some(url) = &request.url {
            self.target = Some(TicketRoute::redacted(url).into());
        }
    }

    /// It is asked for by a client of the proxy.
    pub(crate) fn proxied(&mut self, login: Option<Arc<UsedLogin>>, session: Option<SessionId>) {
        self.login = login;
        self.session = session.map(|id| (id, TargetKind::Tcp));
    }

    /// Joins a session's hop.
    pub(crate) fn joins(&mut self) {
        self.method = Some("SESSION");
        self.target = Some("join".into());
    }

    /// For this client, where a depot says so.
    pub(crate) fn asked_for(&mut self, client: Option<IpAddr>) {
        self.asked_for = client;
    }

    /// The client for which a trusted depot asks, if it names one.
    pub(crate) fn client_asked_for(&self) -> Option<IpAddr> {
        self.trace.as_ref().and_then(|trace| trace.asked_for).or(self.asked_for)
    }

    /// The session is open.
    pub(crate) fn opened(&mut self) -> Arc<Live> {
        // Whether its end is that of all bytes, only the two ends know.
        let (status, framing) = (StatusCode::OK.as_u16(), Framing::UntilClose);
        self.answer = Some((status, framing));
        let live = self.live.as_ref().expect("a session that is open has a next hop");
        live.answered(status, framing);
        Arc::clone(live)
    }

    /// The session is over.
    pub(crate) fn session_ended(mut self, end: SessionEnd) {
        let ending = match end {
            SessionEnd::Closed => Ending::of(Outcome::Ended, "ended"),
            SessionEnd::Withdrawn(why) => Ending::withdrawn(&why),
            SessionEnd::Broken(error, direction) => {
                self.broken(&Broken::Copy(error), direction, Framing::UntilClose)
            }
            SessionEnd::Idle(time) => {
                let words = format!("session idle for {} s, reset", time.as_secs_f64());
                Ending::of(Outcome::Client(super::Fate::Stalled), words)
            }
        };
        self.end(&ending);
    }

    /// By what the request is followed.
    pub(crate) fn trace(&mut self, request: &RequestHead, context: RequestContext<'_>) -> Trace {
        let (client, known) =
            (self.client.ip(), (&context.config().trust, &self.observer.requests));
        self.trace.get_or_insert_with(|| Trace::of(request, client, known)).clone()
    }

    /// It was asked of this site, if of one.
    pub(crate) fn at(&mut self, site: Option<&Site>) {
        self.site = site.map(|site| site.name.clone());
    }

    /// By this ticket it is done, if by one.
    pub(crate) fn by(&mut self, ticket: Option<&Verified>) {
        self.ticket = ticket.map(|verified| {
            let (ticket, key) = (&verified.ticket, verified.key.clone());
            Arc::new(UsedTicket { id: ticket.id.clone(), issuer: ticket.issuer.clone(), key })
        });
    }

    /// What is at the end of the route.
    pub(crate) fn leads_to(&mut self, url: Option<String>) {
        self.url = url.map(Into::into);
    }

    /// The request is to be passed on: from here on it is a transfer.
    pub(crate) fn fetching(&mut self, next: &Authority, client: &Stream) -> Arc<Live> {
        let asked = Asked {
            client: self.client,
            client_hop: Arc::clone(&self.client_hop),
            next: next.clone(),
            upstream: next.to_string().into(),
            method: self.method.unwrap_or("-"),
            target: self.target.clone().unwrap_or_else(|| "".into()),
            for_client: self.client_asked_for(),
            url: self.url.clone(),
            ticket: self.ticket.clone(),
            login: self.login.clone(),
            request: self.trace.as_ref().map(|trace| Arc::clone(&trace.request)),
            session: self.session.map(|(id, _)| id),
        };
        let live = self.observer.registry.begin(asked, client);
        self.live = Some(Arc::clone(&live));
        live
    }

    /// Records the response, if one has begun.
    pub(crate) fn answer(&mut self, answer: Option<&Answer>) {
        self.answer = answer.map(|Answer { status, framing, .. }| (*status, *framing));
    }

    /// The client was redirected.
    pub(crate) fn led(mut self, to: &str) {
        self.end(&Ending { led_to: Some(to), ..Ending::of(Outcome::LedOn, "led on") });
    }

    /// The depot has answered by itself what was its own to answer.
    pub(crate) fn answered(mut self) {
        self.end(&Ending::of(Outcome::Answered, "answered"));
    }

    /// The request was refused, or could not be passed on.
    pub(crate) fn refused(mut self, fault: &Fault) {
        // Browsers request some paths by themselves (such as /favicon.ico), so a 404 is logged at debug level.
        let level = if fault.status == StatusCode::NOT_FOUND { Level::DEBUG } else { Level::WARN };
        // It may quote what was asked for.
        let reason = TicketRoute::redacted(&fault.in_full()).into_owned();
        let sent_bytes = self.live.as_ref().map_or(0, |live| live.sent.moved());
        let upload = Outcome::of_upload(fault).filter(|_| sent_bytes > 0);
        let ending = match upload {
            Some((outcome, word)) => {
                let words = format!("upstream {word} after {sent_bytes} bytes, refused");
                Ending::of(outcome, words)
            }
            None => Ending::of(Outcome::Refused, "refused"),
        };
        self.end(&Ending { level, fault: Some(fault), reason: Some(reason), ..ending });
    }

    /// A depot behind this one has refused the request, and the client is told so.
    pub(crate) fn refused_upstream(mut self, fault: &Fault) {
        self.end(&Ending::of_upstream(fault));
    }

    /// The client went away before it was answered.
    pub(crate) fn abandoned(mut self, reason: &dyn std::fmt::Display) {
        let outcome = Outcome::Client(super::Fate::Gone);
        let reason = Some(reason.to_string());
        self.end(&Ending { reason, ..Ending::of(outcome, "client gone") });
    }

    /// The request's body did not come whole, and the client does not wait to be told.
    pub(crate) fn request_broken(mut self, broken: &Broken) {
        let ending = self.broken(broken, Direction::Up, self.request_framing);
        self.end(&ending);
    }

    /// The depot has ended the transfer.
    pub(crate) fn withdrawn(mut self, why: &Withdrawal) {
        self.end(&Ending::withdrawn(why));
    }

    /// The answer was passed on, as far as `end` says; it may be a depot's refusal.
    pub(crate) fn relayed(mut self, end: &End, refusal: Option<&Fault>) {
        let framing = self.answer.map_or(Framing::Empty, |(_, framing)| framing);
        let ending = match end {
            End::Broken(broken) => self.broken(broken, Direction::Down, framing),
            _ => match refusal {
                Some(fault) => Ending::of_upstream(fault),
                // Whether an orderly end was the body's, only the origin knows.
                None if framing == Framing::UntilClose => Ending::of(Outcome::Ended, "ended"),
                None => Ending::of(Outcome::Complete, "complete"),
            },
        };
        self.end(&ending);
    }

    /// A body broke off.
    fn broken(&self, broken: &Broken, direction: Direction, framing: Framing) -> Ending<'static> {
        let moved = self.live.as_ref().map(|live| live.moved()).unwrap_or_default();
        let moved_bytes = match direction {
            Direction::Up => moved.up_bytes,
            Direction::Down => moved.down_bytes,
        };
        let (words, reason) = in_words(broken, direction, moved_bytes, framing);
        Ending { reason, ..Ending::of(Outcome::of(broken, direction), words) }
    }

    /// Counts it and writes its line.
    fn end(&mut self, ending: &Ending<'_>) {
        self.ended = true;
        let live = self.live.as_deref();
        // Before it is counted: this is what knows what was sent again.
        let (client_tcp, upstream_tcp) = live.map(Live::sockets_lately).unwrap_or_default();
        let moved = live.map(Live::moved).unwrap_or_default();
        live.into_iter().for_each(Live::end_receipt);
        let limited_by = live.filter(|live| live.is_lasting()).and_then(Live::limited_by);
        let upstream = live.map(Live::upstream_name);
        let upstream = upstream.as_deref();
        self.observer.registry.ended(&Ended {
            outcome: ending.outcome,
            fault: ending.fault.filter(|_| !ending.is_upstreams),
            client_hop: &self.client_hop,
            upstream,
            live,
            session: self.session.map(|(_, target)| target),
        });
        let elapsed = self.start.elapsed();
        let bits = (moved.up_bytes + moved.down_bytes) as f64 * 8.0;
        self.observer.log.write(&Line {
            time: SystemTime::now(),
            level: ending.level,
            outcome: ending.outcome.token(),
            words: &ending.words,
            reason: ending.reason.as_deref(),
            fields: Fields {
                client: self.client,
                asked_for: self.client_asked_for(),
                request: self.trace.as_ref().map(|trace| &*trace.request),
                session: self.session.map(|(id, _)| id.to_string()).as_deref(),
                ticket: self.ticket.as_deref(),
                user: self.login.as_ref().map(|login| login.user.as_str()),
                url: self.url.as_deref(),
                site: self.site.as_ref().map(SiteName::as_str),
                upstream,
                to: ending.led_to,
                method: self.method,
                target: self.target.as_deref(),
                status: match ending.fault {
                    Some(fault) => Some(fault.status.as_u16()),
                    None => self.answer.map(|(status, _)| status).or(live.and_then(Live::status)),
                },
                error: ending.fault.map(|fault| fault.error.token()),
                bytes: moved.down_bytes,
                sent_bytes: moved.up_bytes,
                seconds: elapsed.as_millis() as f64 / 1e3,
                rate_bps: (bits / elapsed.as_secs_f64().max(1e-6)) as u64,
                digest: live.and_then(Live::digest),
                limited_by: limited_by.map(|(limit, _)| limit),
                copy: live.map_or("none", |live| means(&live.sent, &live.received)),
                client_tcp: client_tcp.as_ref(),
                upstream_tcp: upstream_tcp.as_ref(),
            },
        });
    }
}

/// How most of a request's bodies were moved: the answer's, if there was one.
fn means(sent: &Progress, received: &Progress) -> &'static str {
    if received.moved() >= sent.moved() { received.means() } else { sent.means() }
}

impl<'a> Ending<'a> {
    fn of_upstream(fault: &'a Fault) -> Self {
        // It may quote what was asked for.
        let reason = TicketRoute::redacted(&fault.in_full()).into_owned();
        let outcome = Outcome::of_refusal(fault);
        Self {
            fault: Some(fault),
            is_upstreams: true,
            reason: Some(reason),
            ..Self::of(outcome, "upstream refused")
        }
    }

    fn withdrawn(why: &Withdrawal) -> Self {
        let reason = why.reason().map(str::to_owned);
        Self { reason, ..Self::of(Outcome::Withdrawn, why.words()) }
    }

    fn of(outcome: Outcome, words: impl Into<Cow<'static, str>>) -> Self {
        Self {
            outcome,
            words: words.into(),
            reason: None,
            level: outcome.level(),
            fault: None,
            is_upstreams: false,
            led_to: None,
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // A connection without a request has no entry in the log.
        if !self.ended && self.target.is_some() {
            let is_defect = std::thread::panicking();
            let words = if is_defect { OWN_DEFECT } else { "the depot stops" };
            self.end(&Ending::of(Outcome::Stopped, format!("cut off: {words}")));
        }
    }
}
