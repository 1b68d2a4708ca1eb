// SPDX-License-Identifier: GPL-2.0-or-later
//! A transfer under way, to be looked at while others move it.

mod receipt;

use super::{
    access_log::AccessLog,
    credentials::{UsedLogin, UsedTicket},
    hops::{Label, Moved, Rates},
    line::{Fields, Line},
    receipt::TransferReceipt,
    registry::Registry,
    status::{MOST_TARGET, Side, Tcp, TicketName, Transfer},
    withdrawal::Withdrawal,
};
use crate::packet_pacing::Paced;
use protocol::{Authority, http::Framing, session::SessionId};
use relay::{
    copy::Progress,
    tcp::{Connection, Stream, Wire, info::InForce},
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};
use tokio::sync::Notify;
use tracing::Level;

/// A transfer that lasts this long gets a log line for its beginning. Shorter ones have one line, at their
/// end.
const LASTING: Duration = Duration::from_secs(1);

/// A request and its client.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The peer that sent the request.
    pub client: SocketAddr,
    /// The client that a depot sends the request for.
    pub for_client: Option<IpAddr>,
    /// The hop that the peer belongs to.
    pub client_hop: Label,
    /// The first next hop.
    pub next: Authority,
    /// Its name.
    pub upstream: Label,
    /// The request's method.
    pub method: &'static str,
    /// The request's target, without the secret part of a ticket.
    pub target: Arc<str>,
    /// The URL at the end of the route.
    pub url: Option<Arc<str>>,
    /// The ticket that opens the depot, if there is one.
    pub ticket: Option<Arc<UsedTicket>>,
    /// The user of the proxy, if the request has a password.
    pub login: Option<Arc<UsedLogin>>,
    /// The session's name, if it is a session.
    pub session: Option<SessionId>,
    /// The request's name.
    pub request: Option<Arc<str>>,
}

impl Asked {
    /// The client that it counts for: the one for which a depot asks, if there is one.
    pub(crate) fn owner(&self) -> IpAddr {
        self.for_client.unwrap_or_else(|| self.client.ip())
    }
}

/// A transfer under way.
#[derive(Debug)]
pub(crate) struct Live {
    /// Its number since the start.
    pub number: u64,
    /// When it began.
    pub since: Instant,
    /// Its request.
    pub asked: Asked,
    /// Progress of the request's body.
    pub sent: Arc<Progress>,
    /// Progress of the response's body.
    pub received: Arc<Progress>,
    answer: OnceLock<(u16, Framing)>,
    /// Time until the response began.
    first_byte: OnceLock<Duration>,
    digest: OnceLock<String>,
    client: Watched,
    upstream: Mutex<Upstream>,
    /// Connections that have joined the client's, and the next hop's.
    joined: Mutex<Vec<(Side, Weak<Wire>)>>,
    /// The number of connections requested for the response.
    asked_for: AtomicU8,
    rates: Mutex<Rates>,
    /// Why the depot ends it, once it does.
    withdrawn: OnceLock<Withdrawal>,
    told: Notify,
    /// The peer that has joined it, if it is a meeting.
    other_end: OnceLock<IpAddr>,
    /// Whether the log has a line of its beginning.
    is_announced: AtomicBool,
    /// What has limited it, once that was looked at or asked for.
    receipt: OnceLock<Arc<TransferReceipt>>,
    registry: Arc<Registry>,
}

/// The next hop's side.
#[derive(Debug)]
struct Upstream {
    name: Label,
    label: Label,
    socket: Option<Watched>,
    /// When there was first a connection.
    reached_at: Option<Instant>,
}

/// A socket that another task owns and closes.
#[derive(Debug)]
struct Watched {
    socket: Weak<Wire>,
    /// What the connection had suffered before this transfer, since connections are reused.
    before: Suffered,
    /// The most segments retransmitted that were seen since: a closed socket no longer reports them.
    retransmits: AtomicU32,
    /// For how long it has crept since, in microseconds.
    crept_us: AtomicU64,
}

/// What slowed a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Suffered {
    /// Segments retransmitted to the peer.
    pub retransmits: u32,
    /// For how long the kernel offered the peer less than an initial window, although all that came was read, in microseconds.
    pub crept_us: u64,
}

impl Live {
    /// A transfer that begins.
    pub(crate) fn new(
        number: u64,
        asked: Asked,
        upstream_hop: Label,
        client: &Stream,
        registry: Arc<Registry>,
    ) -> Self {
        Self {
            number,
            since: Instant::now(),
            sent: Arc::default(),
            received: Arc::default(),
            answer: OnceLock::new(),
            first_byte: OnceLock::new(),
            digest: OnceLock::new(),
            client: Watched::new(client),
            upstream: Mutex::new(Upstream {
                name: Arc::clone(&asked.upstream),
                label: upstream_hop,
                socket: None,
                reached_at: None,
            }),
            joined: Mutex::default(),
            asked_for: AtomicU8::new(1),
            rates: Mutex::default(),
            withdrawn: OnceLock::new(),
            told: Notify::new(),
            other_end: OnceLock::new(),
            is_announced: AtomicBool::new(false),
            receipt: OnceLock::new(),
            asked,
            registry,
        }
    }

    /// Makes it end. Returns whether this is the first such call.
    pub(crate) fn withdraw(&self, why: Withdrawal) -> bool {
        let is_first = self.withdrawn.set(why).is_ok();
        self.told.notify_one();
        is_first
    }

    /// Resolves once it has to end. Only one task may wait at a time.
    pub(crate) async fn withdrawn(&self) -> Withdrawal {
        loop {
            if let Some(why) = self.withdrawn.get() {
                return why.clone();
            }
            self.told.notified().await;
        }
    }

    /// Whether it belongs to this client: as the peer, as the client of an earlier depot, or as one that
    /// joined a meeting.
    pub(crate) fn is_of(&self, client: impl Fn(IpAddr) -> bool) -> bool {
        self.find_client(|address| client(address).then_some(())).is_some()
    }

    /// What is found of the first of these clients for which there is something.
    pub(crate) fn find_client<T>(&self, found: impl Fn(IpAddr) -> Option<T>) -> Option<T> {
        let Asked { client: peer, for_client, .. } = &self.asked;
        let all = [Some(peer.ip()), *for_client, self.other_end.get().copied()];
        all.into_iter().flatten().find_map(found)
    }

    /// Whether it is the session of this name.
    pub(crate) fn is_of_session(&self, id: SessionId) -> bool {
        self.asked.session == Some(id)
    }

    /// Whether its request had a ticket of this name.
    pub(crate) fn has_ticket(&self, id: &str) -> bool {
        self.asked.ticket.as_ref().is_some_and(|ticket| ticket.id == id)
    }

    /// Whether its target or URL contains this text.
    pub(crate) fn asks_for(&self, text: &str) -> bool {
        let Asked { target, url, .. } = &self.asked;
        target.contains(text) || url.as_ref().is_some_and(|url| url.contains(text))
    }

    /// A client at this address has become the other end of the session.
    pub(crate) fn meets(&self, client: IpAddr) {
        let _ = self.other_end.set(client);
    }

    /// There is a connection with a next hop.
    pub(crate) fn reached(&self, next: &Authority, upstream: &Stream) {
        let same = *next == self.asked.next;
        let name = if same { Arc::clone(&self.asked.upstream) } else { next.to_string().into() };
        let (label, socket) = (self.registry.reached(&name), Some(Watched::new(upstream)));
        let mut current = self.upstream();
        let reached_at = current.reached_at.or_else(|| Some(Instant::now()));
        *current = Upstream { name, label, socket, reached_at };
    }

    /// The response is requested over `streams` connections.
    pub(crate) fn asked_for(&self, streams: u8) {
        self.asked_for.store(streams, Relaxed);
    }

    /// A further connection of one side has joined.
    pub(crate) fn joined(&self, side: Side, stream: &Connection) {
        self.all_joined().push((side, stream.watch()));
    }

    /// The number of connections of one side, including those that have joined and closed.
    fn streams(&self, side: Side) -> u32 {
        1 + self.all_joined().iter().filter(|(of, _)| *of == side).count() as u32
    }

    fn all_joined(&self) -> MutexGuard<'_, Vec<(Side, Weak<Wire>)>> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next hop is slower than `stall` permits.
    pub(crate) fn stalled(&self) {
        self.registry.stalled(&self.upstream_hop());
    }

    /// The next hop.
    pub(crate) fn upstream_name(&self) -> Label {
        Arc::clone(&self.upstream().name)
    }

    /// The next hop has answered.
    pub(crate) fn answered(&self, status: u16, framing: Framing) {
        let _ = self.answer.set((status, framing));
        let _ = self.first_byte.set(self.since.elapsed());
    }

    /// The status of the next hop's answer, if there is one.
    pub(crate) fn status(&self) -> Option<u16> {
        self.answer.get().map(|(status, _)| *status)
    }

    /// Time until the response began.
    pub(crate) fn first_byte(&self) -> Option<Duration> {
        self.first_byte.get().copied()
    }

    /// The answer's digest is known: what it is, and how.
    pub(crate) fn digested(&self, found: String) {
        let _ = self.digest.set(found);
    }

    /// What was found of the answer's digest.
    pub(crate) fn digest(&self) -> Option<&str> {
        self.digest.get().map(String::as_str)
    }

    /// The hop that the next one is.
    pub(crate) fn upstream_hop(&self) -> Label {
        Arc::clone(&self.upstream().label)
    }

    /// Its progress.
    pub(crate) fn moved(&self) -> Moved {
        Moved { up_bytes: self.sent.moved(), down_bytes: self.received.moved() }
    }

    /// In both directions together.
    pub(crate) fn moved_in_all(&self) -> u64 {
        self.sent.moved() + self.received.moved()
    }

    /// The rates since the last look.
    pub(crate) fn look(&self, elapsed: std::time::Duration) {
        self.rates().look(self.moved(), elapsed);
    }

    /// Whether it has lasted so long that the log tells more of it.
    pub(crate) fn is_lasting(&self) -> bool {
        self.since.elapsed() >= LASTING
    }

    /// Whether to log its beginning now: once, and only for lasting transfers.
    pub(crate) fn is_to_be_announced(&self) -> bool {
        self.is_lasting() && !self.is_announced.swap(true, Relaxed)
    }

    /// The line of its beginning.
    pub(crate) fn announce(&self, log: &AccessLog) {
        let (asked, upstream, moved) = (&self.asked, self.upstream_name(), self.moved());
        let elapsed = self.since.elapsed();
        let bits = (moved.up_bytes + moved.down_bytes) as f64 * 8.0;
        log.write(&Line {
            time: SystemTime::now(),
            level: Level::INFO,
            outcome: "begun",
            words: "begun",
            reason: None,
            fields: Fields {
                client: asked.client,
                asked_for: asked.for_client,
                request: asked.request.as_deref(),
                session: asked.session.map(|id| id.to_string()).as_deref(),
                ticket: asked.ticket.as_deref(),
                user: asked.login.as_ref().map(|login| login.user.as_str()),
                url: asked.url.as_deref(),
                site: None,
                upstream: Some(&upstream),
                to: None,
                method: Some(asked.method),
                target: Some(&asked.target),
                status: self.status(),
                error: None,
                bytes: moved.down_bytes,
                sent_bytes: moved.up_bytes,
                seconds: elapsed.as_millis() as f64 / 1e3,
                rate_bps: (bits / elapsed.as_secs_f64().max(1e-6)) as u64,
                copy: "none",
                digest: None,
                limited_by: None,
                client_tcp: None,
                upstream_tcp: None,
            },
        });
    }

    /// The kernel's statistics of the client's and the next hop's sockets. `None` for closed ones.
    pub(crate) fn sockets(&self) -> (Option<Tcp>, Option<Tcp>) {
        self.both(Wire::in_force)
    }

    /// The same, as it was not long ago: connections that serve many short requests are not asked
    /// about at the end of each.
    pub(crate) fn sockets_lately(&self) -> (Option<Tcp>, Option<Tcp>) {
        self.both(Wire::recently_in_force)
    }

    fn both(&self, look: fn(&Wire) -> InForce) -> (Option<Tcp>, Option<Tcp>) {
        // Asking the kernel takes little; a lock is not held meanwhile by anybody else for long.
        let read = |watched: &Watched| watched.read(look, &self.registry.paced);
        let client = read(&self.client);
        let upstream = self.upstream().socket.as_ref().and_then(read);
        let streams = |side, tcp: Tcp| Tcp { streams: self.streams(side), ..tcp };
        let asked = Some(self.asked_for.load(Relaxed)).filter(|streams| *streams > 1);
        (
            client.map(|tcp| streams(Side::Client, tcp)),
            upstream.map(|tcp| Tcp { streams_asked: asked, ..streams(Side::Upstream, tcp) }),
        )
    }

    /// Its sockets.
    pub(crate) fn watched(&self) -> impl Iterator<Item = Weak<Wire>> {
        let upstream = self.upstream().socket.as_ref().map(|watched| watched.socket.clone());
        let joined: Vec<_> = self.all_joined().iter().map(|(_, socket)| socket.clone()).collect();
        std::iter::once(self.client.socket.clone()).chain(upstream).chain(joined)
    }

    /// What slowed the connections with the client and with the next hop, as far as it was seen.
    pub(crate) fn suffered(&self) -> (Suffered, Suffered) {
        let upstream = self.upstream();
        let next = upstream.socket.as_ref();
        (self.client.suffered(), next.map_or_else(Suffered::default, Watched::suffered))
    }

    /// Its entry in `/status.json`.
    pub(crate) fn transfer(
        &self,
        (client_tcp, upstream_tcp): (Option<Tcp>, Option<Tcp>),
    ) -> Transfer {
        let (moved, rates) = (self.moved(), *self.rates());
        let answer = self.answer.get();
        let (limited_by, limits_us) = self.limited_by().unzip();
        Transfer {
            number: self.number,
            process: None,
            session: self.asked.session.map(|session| session.to_string()),
            client: self.asked.client.to_string(),
            upstream: self.upstream_name().to_string(),
            method: self.asked.method.to_owned(),
            target: self.asked.target.chars().take(MOST_TARGET).collect(),
            asked_for: self.asked.for_client.map(|client| client.to_string()),
            url: self.asked.url.as_ref().map(|url| url.chars().take(MOST_TARGET).collect()),
            ticket: self.asked.ticket.as_deref().map(TicketName::from),
            user: self.asked.login.as_ref().map(|login| login.user.clone()),
            status: answer.map(|(status, _)| *status),
            expected_bytes: answer.and_then(|(_, framing)| match framing {
                Framing::Empty => Some(0),
                Framing::Length(length) => Some(*length),
                Framing::Chunked | Framing::UntilClose => None,
            }),
            up_bytes: moved.up_bytes,
            down_bytes: moved.down_bytes,
            up_bps: rates.up_bps,
            down_bps: rates.down_bps,
            age_s: self.since.elapsed().as_secs_f64(),
            limited_by,
            limits_us,
            client_tcp,
            upstream_tcp,
        }
    }

    /// The rates over the last second.
    pub(crate) fn rates_now(&self) -> Rates {
        *self.rates()
    }

    /// Whether it is an open session.
    pub(crate) fn is_open_session(&self) -> bool {
        self.asked.session.is_some() && self.answer.get().is_some()
    }

    /// The total rate of both directions, which selects the fastest transfers.
    pub(crate) fn bps(&self) -> u64 {
        let rates = self.rates();
        rates.up_bps + rates.down_bps
    }

    /// The guarded data stays consistent after a panic, so poisoning is ignored.
    fn upstream(&self) -> MutexGuard<'_, Upstream> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rates(&self) -> MutexGuard<'_, Rates> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn new(stream: &Connection) -> Self {
        Self {
            socket: stream.watch(),
            before: Suffered { retransmits: stream.resent(), crept_us: stream.wire().crept_us() },
            retransmits: AtomicU32::new(0),
            crept_us: AtomicU64::new(0),
        }
    }

    fn suffered(&self) -> Suffered {
        Suffered {
            retransmits: self.retransmits.load(Relaxed),
            crept_us: self.crept_us.load(Relaxed),
        }
    }

    fn read(&self, look: fn(&Wire) -> InForce, paced: &Paced) -> Option<Tcp> {
        let wire = self.socket.upgrade()?;
        let in_force = look(&wire);
        let retransmits = in_force.retransmits.saturating_sub(self.before.retransmits);
        self.retransmits.fetch_max(retransmits, Relaxed);
        let crept_us = wire.crept_us().saturating_sub(self.before.crept_us);
        self.crept_us.fetch_max(crept_us, Relaxed);
        Some(Tcp {
            congestion: in_force.congestion,
            rtt_us: in_force.rtt_us,
            min_rtt_us: in_force.min_rtt_us,
            cwnd_bytes: in_force.cwnd.get(),
            delivery_rate_bps: in_force.delivery_rate.map(units::Rate::bps),
            retransmitted_segments: retransmits,
            crept_us,
            sndbuf_bytes: in_force.sndbuf_bytes as u64,
            rcvbuf_bytes: in_force.rcvbuf_bytes as u64,
            held_bytes: in_force.held_bytes as u64,
            pacing: paced.how(wire.peer().ip(), in_force.spacing).map(str::to_owned),
            pacing_bps: in_force.spacing.rate().map(units::Rate::bps),
            notsent_lowat_bytes: in_force.notsent_lowat.map(units::Bytes::get),
            mptcp: in_force.mptcp,
            streams: 1,
            streams_asked: None,
        })
    }
}
