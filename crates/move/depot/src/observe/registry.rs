// SPDX-License-Identifier: GPL-2.0-or-later
//! What all requests do and did: transfers under way, and counters of those that have ended.
//!
//! A transfer counts from its first byte: what is read here is the counters of the ended ones plus
//! what those under way have moved, both read under one lock. So no counter ever falls.

use super::throughput::Throughput;
use super::{
    Outcome,
    counters::Counters,
    counts::is_connect_failure,
    hops::{Hops, Label, Moved, OTHER, Tally},
    live::{Asked, Live, Suffered},
    status::{
        self, EndedSessions, Histogram, MOST_TRANSFERS, Refusals, Side, Tcp, Times, Totals,
        Transfer,
    },
    sums,
};
use crate::{config::Config, packet_pacing::Paced};
use http::StatusCode;
use protocol::{http::Fault, session::Target};
use relay::{buffers::Holding, copy::Progress, tcp::Stream};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Two looks closer together than this make no rate.
const LEAST_LOOK: Duration = Duration::from_millis(100);

/// How many transfers are looked at together for their receipts: at ten looks a second, a thousand of them a second, at most.
const NOTED_AT_ONCE: usize = 100;

/// What all requests do and did.
#[derive(Debug)]
pub(crate) struct Registry {
    state: Mutex<State>,
    /// To whom packets are spaced below TCP.
    pub paced: Arc<Paced>,
}

#[derive(Debug)]
struct State {
    /// Numbers given so far.
    numbers: u64,
    live: BTreeMap<u64, Arc<Live>>,
    /// The most at a time since it was last asked for.
    most_live: usize,
    upstreams: Hops,
    clients: Hops,
    outcomes: BTreeMap<Outcome, u64>,
    refusals: BTreeMap<(u16, &'static str), u64>,
    sessions: BTreeMap<(TargetKind, Outcome), u64>,
    means: Means,
    first_byte: Histogram,
    duration: Histogram,
    looked: Instant,
    throughput: Throughput,
    /// The last transfer that was looked at for its receipt, unless it was the last of all.
    noted: u64,
}

/// Bytes by direction and by how they were moved.
#[derive(Debug, Clone, Copy, Default)]
struct Means {
    up: Split,
    down: Split,
}

#[derive(Debug, Clone, Copy, Default)]
struct Split {
    moved: u64,
    spliced: u64,
}

/// A request that has ended.
#[derive(Debug)]
pub(crate) struct Ended<'a> {
    /// How.
    pub outcome: Outcome,
    /// Why it was refused, if it was.
    pub fault: Option<&'a Fault>,
    /// The hop of its client.
    pub client_hop: &'a str,
    /// Its next hop, if it has one.
    pub upstream: Option<&'a str>,
    /// What is counted of it while it is under way, if it ever was.
    pub live: Option<&'a Live>,
    /// To what it leads, if it is a session.
    pub session: Option<TargetKind>,
}

/// To what a session leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TargetKind {
    End,
    Tcp,
    Meeting,
    Store,
}

/// All of it, read at one time.
#[derive(Debug)]
pub(crate) struct Reading {
    /// Without those that are not per request.
    pub counters: Counters,
    pub transfers: Vec<Transfer>,
    pub live_transfers: usize,
}

impl Registry {
    /// An empty registry, with the hops that the configuration names.
    pub(crate) fn new(config: &Config, paced: Arc<Paced>) -> Arc<Self> {
        Arc::new(Self {
            paced,
            state: Mutex::new(State {
                numbers: 0,
                live: BTreeMap::new(),
                most_live: 0,
                upstreams: Hops::named(Side::Upstream, config),
                clients: Hops::named(Side::Client, config),
                outcomes: Outcome::ALL.map(|outcome| (outcome, 0)).into(),
                refusals: BTreeMap::new(),
                sessions: TargetKind::counted_from_the_start(),
                means: Means::default(),
                first_byte: Histogram::default(),
                duration: Histogram::default(),
                looked: Instant::now(),
                throughput: Throughput::default(),
                noted: 0,
            }),
        })
    }

    /// A transfer begins.
    pub(crate) fn begin(self: &Arc<Self>, mut asked: Asked, client: &Stream) -> Arc<Live> {
        let mut state = self.state();
        state.numbers += 1;
        let number = state.numbers;
        asked.client_hop = state.clients.enter(&asked.client_hop);
        let upstream_hop = state.upstreams.known(&asked.upstream);
        let live = Live::new(number, asked, upstream_hop, client, Arc::clone(self));
        let live = Arc::new(live);
        state.live.insert(number, Arc::clone(&live));
        state.most_live = state.most_live.max(state.live.len());
        live
    }

    /// The label of a next hop with which a connection stands.
    pub(crate) fn reached(&self, upstream: &str) -> Label {
        self.state().upstreams.enter(upstream)
    }

    /// A hop is slower than it may be.
    pub(crate) fn stalled(&self, upstream: &Label) {
        self.state().upstreams.tally(upstream).stalls += 1;
    }

    /// A request has ended; each ends once.
    pub(crate) fn ended(&self, ended: &Ended<'_>) {
        let mut state = self.state();
        let Ended { outcome, fault, .. } = *ended;
        *state.outcomes.entry(outcome).or_default() += 1;
        // A connection that joins one that waits belongs to the session of that one.
        if let Some(target) = ended.session.filter(|_| outcome != Outcome::Answered) {
            *state.sessions.entry((target, outcome)).or_default() += 1;
        }
        if let Some(fault) = fault {
            let reason = (fault.status.as_u16(), fault.error.token());
            *state.refusals.entry(reason).or_default() += 1;
        }
        let client = state.clients.enter(ended.client_hop);
        let upstream = ended.upstream.map(|name| match ended.live {
            Some(live) => live.upstream_hop(),
            None => state.upstreams.known(name),
        });
        let failed = ended.fault.is_some_and(|fault| is_connect_failure(fault.error));
        let upstream = match (upstream, ended.upstream) {
            (Some(label), Some(name)) if failed && &*label == OTHER => {
                Some(state.upstreams.enter_unreached(name))
            }
            (label, _) => label,
        };
        let (moved, suffered) = ended.live.map_or_else(Default::default, |live| {
            state.live.remove(&live.number);
            state.means.up.add(&live.sent);
            state.means.down.add(&live.received);
            state.duration.add(live.since.elapsed());
            live.first_byte().into_iter().for_each(|took| state.first_byte.add(took));
            (live.moved(), live.suffered())
        });
        state.clients.tally(&client).count(outcome, moved, suffered.0);
        if let Some(upstream) = upstream {
            let tally = state.upstreams.tally(&upstream);
            tally.count(outcome, moved, suffered.1);
            if let Some(status) = ended.live.and_then(Live::status) {
                *tally.answers.entry(status).or_default() += 1;
            }
        }
    }

    /// How many transfers have begun so far; the most that were under way at a time since this was last
    /// asked, and how many are now.
    pub(crate) fn crest(&self) -> (u64, (usize, usize)) {
        let mut state = self.state();
        let now = state.live.len();
        let most = std::mem::replace(&mut state.most_live, now);
        (state.numbers, (most, now))
    }

    /// Looks how far everything is, for the rates. To be called every second or so.
    pub(crate) fn look(&self) {
        let mut state = self.state();
        let elapsed = state.looked.elapsed();
        if elapsed < LEAST_LOOK {
            return;
        }
        state.looked = Instant::now();
        let (mut upstreams, mut clients) = (HashMap::new(), HashMap::new());
        let mut now_bps: u64 = 0;
        for live in state.live.values() {
            live.look(elapsed);
            now_bps = now_bps.saturating_add(live.bps());
            let (up, down) = (live.upstream_hop(), Arc::clone(&live.asked.client_hop));
            upstreams.entry(up).or_insert_with(Moved::default).add(live.moved());
            clients.entry(down).or_insert_with(Moved::default).add(live.moved());
        }
        let state = &mut *state;
        state.throughput.look(now_bps, elapsed);
        for (hops, moving) in [(&mut state.upstreams, upstreams), (&mut state.clients, clients)] {
            for label in moving.keys() {
                hops.tally(label);
            }
            for (label, tally) in hops.iter_mut() {
                let mut now = tally.moved;
                now.add(moving.get(label).copied().unwrap_or_default());
                tally.rates.look(now, elapsed);
            }
        }
    }

    /// What all transfers move together, and how many are under way.
    pub(crate) fn throughput(&self) -> (Throughput, usize) {
        let state = self.state();
        (state.throughput, state.live.len())
    }

    /// The transfers that are to be looked at next for their receipts.
    pub(crate) fn next_to_note(&self) -> Vec<Arc<Live>> {
        let mut state = self.state();
        let after = (Bound::Excluded(state.noted), Bound::Unbounded);
        let next = state.live.range(after).take(NOTED_AT_ONCE);
        let next: Vec<_> = next.map(|(_, live)| Arc::clone(live)).collect();
        let full = next.last().filter(|_| next.len() == NOTED_AT_ONCE);
        state.noted = full.map_or(0, |live| live.number);
        next
    }

    /// The transfers under way that are so, oldest first.
    pub(crate) fn transfers(&self, are: impl Fn(&Live) -> bool) -> Vec<Arc<Live>> {
        self.state().live.values().filter(|live| are(live)).cloned().collect()
    }

    /// What all transfers under way hold memory with.
    pub(crate) fn holdings(&self) -> Vec<Holding> {
        let state = self.state();
        let holding = |live: &Arc<Live>| Holding {
            client: live.asked.owner(),
            piped: live.sent.piped() + live.received.piped(),
            sockets: live.watched().collect(),
        };
        state.live.values().map(holding).collect()
    }

    /// Reads all of it, and asks the kernel about the sockets of the transfers under way.
    pub(crate) fn read(&self) -> Reading {
        let (live, mut all) = {
            let state = self.state();
            let live: Vec<_> = state.live.values().cloned().collect();
            (live, Summing::of(&state))
        };
        let live_transfers = live.len();
        let open_sessions = live.iter().filter(|live| live.is_open_session()).count();
        let clients = sums::by(&live, |live| Some(sums::client(live)));
        let ticket_transfers = sums::by(&live, sums::ticket);
        let mut listed = Vec::with_capacity(live_transfers);
        for live in live {
            let sockets = live.sockets();
            all.add(&live, &sockets);
            listed.push((live, sockets));
        }
        if listed.len() > MOST_TRANSFERS {
            listed.sort_by_key(|(live, _)| Reverse(live.bps()));
            listed.truncate(MOST_TRANSFERS);
            listed.sort_by_key(|(live, _)| live.number);
        }
        let hops = all.hops.into_values().map(SummedHop::hop).collect();
        Reading {
            counters: Counters { hops, clients, ticket_transfers, open_sessions, ..all.counters },
            transfers: listed.into_iter().map(|(live, sockets)| live.transfer(sockets)).collect(),
            live_transfers,
        }
    }

    /// The number of the last transfer.
    pub(crate) fn last_number(&self) -> u64 {
        self.state().numbers
    }

    /// Numbers transfers from here on.
    pub(crate) fn number_from(&self, number: u64) {
        self.state().numbers = number;
    }

    /// Nothing is left half counted, so a panic elsewhere does not spoil the numbers.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TargetKind {
    /// Counters that exist, at 0, before the first session.
    fn counted_from_the_start() -> BTreeMap<(Self, Outcome), u64> {
        let outcomes = [Outcome::Ended, Outcome::Refused];
        let of = |target| outcomes.map(|outcome| ((target, outcome), 0));
        [Self::End, Self::Tcp, Self::Meeting, Self::Store].into_iter().flat_map(of).collect()
    }

    /// The word for it in counters.
    const fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Tcp => "tcp",
            Self::Meeting => "meet",
            Self::Store => "store",
        }
    }
}

impl From<&Target> for TargetKind {
    fn from(target: &Target) -> Self {
        match target {
            Target::End => Self::End,
            Target::Tcp { .. } => Self::Tcp,
            Target::Meeting(_) => Self::Meeting,
            Target::Store => Self::Store,
        }
    }
}

impl Split {
    fn add(&mut self, progress: &Progress) {
        self.spliced += progress.spliced();
        self.moved += progress.moved();
    }
}

fn words(outcomes: &BTreeMap<Outcome, u64>) -> BTreeMap<String, u64> {
    outcomes.iter().map(|(outcome, n)| (outcome.token().to_owned(), *n)).collect()
}

/// Counts by bounded labels: registered statuses by number, others by class.
fn answers(by_status: &BTreeMap<u16, u64>) -> BTreeMap<String, u64> {
    let mut answers = BTreeMap::new();
    for (status, n) in by_status {
        let known = StatusCode::from_u16(*status).ok().and_then(|it| it.canonical_reason());
        let name = known.map_or_else(|| format!("{}xx", status / 100), |_| status.to_string());
        *answers.entry(name).or_default() += n;
    }
    answers
}

impl Tally {
    fn count(&mut self, outcome: Outcome, moved: Moved, suffered: Suffered) {
        *self.outcomes.entry(outcome).or_default() += 1;
        self.moved.add(moved);
        self.retransmits += u64::from(suffered.retransmits);
        self.crept_us = self.crept_us.saturating_add(suffered.crept_us);
    }
}

/// Counters of ended transfers, to which those under way are added.
struct Summing {
    /// Without hops.
    counters: Counters,
    hops: BTreeMap<(Side, Label), SummedHop>,
}

/// A hop, and the sum of its connections' round trips.
struct SummedHop {
    hop: status::HopStatistics,
    rtts_us: u64,
}

impl Summing {
    fn of(state: &State) -> Self {
        let Means { up, down } = state.means;
        let refusals = state.refusals.iter().map(|((status, error), requests)| Refusals {
            status: *status,
            error: (*error).to_owned(),
            requests: *requests,
        });
        let ended_sessions =
            state.sessions.iter().map(|((target, outcome), sessions)| EndedSessions {
                target: target.as_str().to_owned(),
                outcome: outcome.token().to_owned(),
                sessions: *sessions,
            });
        let mut hops = BTreeMap::new();
        for (side, of_side) in [(Side::Client, &state.clients), (Side::Upstream, &state.upstreams)]
        {
            for (label, tally) in of_side.iter() {
                hops.insert((side, Arc::clone(label)), SummedHop::of(side, label, tally));
            }
        }
        let totals = Totals {
            requests: words(&state.outcomes),
            up_bytes: up.moved,
            up_spliced_bytes: up.spliced,
            down_bytes: down.moved,
            down_spliced_bytes: down.spliced,
        };
        let (first_byte, duration) = (state.first_byte.clone(), state.duration.clone());
        let counters = Counters {
            totals,
            refusals: refusals.collect(),
            ended_sessions: ended_sessions.collect(),
            times: Times { first_byte, duration, ..Times::default() },
            ..Counters::default()
        };
        Self { counters, hops }
    }

    /// Adds a transfer under way.
    fn add(&mut self, live: &Live, (client, upstream): &(Option<Tcp>, Option<Tcp>)) {
        let (mut up, mut down) = (Split::default(), Split::default());
        up.add(&live.sent);
        down.add(&live.received);
        self.counters.totals.up_bytes += up.moved;
        self.counters.totals.up_spliced_bytes += up.spliced;
        self.counters.totals.down_bytes += down.moved;
        self.counters.totals.down_spliced_bytes += down.spliced;
        let moved = Moved { up_bytes: up.moved, down_bytes: down.moved };
        let suffered = live.suffered();
        for (side, label, suffered, tcp) in [
            (Side::Client, Arc::clone(&live.asked.client_hop), suffered.0, client),
            (Side::Upstream, live.upstream_hop(), suffered.1, upstream),
        ] {
            let none = || SummedHop::of(side, &label, &Tally::default());
            let hop = self.hops.entry((side, Arc::clone(&label))).or_insert_with(none);
            hop.add(moved, suffered, tcp.as_ref());
        }
    }
}

impl SummedHop {
    /// The counters of those that have ended.
    fn of(side: Side, label: &Label, tally: &Tally) -> Self {
        let hop = status::HopStatistics {
            requests: words(&tally.outcomes),
            answers: answers(&tally.answers),
            up_bytes: tally.moved.up_bytes,
            down_bytes: tally.moved.down_bytes,
            up_bps: tally.rates.up_bps,
            down_bps: tally.rates.down_bps,
            retransmitted_segments: tally.retransmits,
            stalls: tally.stalls,
            crept_us: tally.crept_us,
            ..status::HopStatistics::new(side, label.to_string())
        };
        Self { hop, rtts_us: 0 }
    }

    fn add(&mut self, moved: Moved, suffered: Suffered, tcp: Option<&Tcp>) {
        let hop = &mut self.hop;
        hop.up_bytes += moved.up_bytes;
        hop.down_bytes += moved.down_bytes;
        hop.retransmitted_segments += u64::from(suffered.retransmits);
        hop.crept_us = hop.crept_us.saturating_add(suffered.crept_us);
        let Some(tcp) = tcp else { return };
        *hop.connections.entry(tcp.congestion.clone()).or_default() += 1;
        hop.streams += u64::from(tcp.streams);
        self.rtts_us += u64::from(tcp.rtt_us);
        hop.min_rtt_us = hop.min_rtt_us.into_iter().chain(tcp.min_rtt_us).min();
        hop.cwnd_bytes += tcp.cwnd_bytes;
        hop.sndbuf_bytes += tcp.sndbuf_bytes;
        hop.rcvbuf_bytes += tcp.rcvbuf_bytes;
        let both = [hop.delivery_rate_bps, tcp.delivery_rate_bps];
        hop.delivery_rate_bps = both.into_iter().flatten().reduce(u64::saturating_add);
    }

    fn hop(self) -> status::HopStatistics {
        let connections: usize = self.hop.connections.values().sum();
        let mean = self.rtts_us.checked_div(connections as u64);
        status::HopStatistics { rtt_us: mean.map(|mean| mean as u32), ..self.hop }
    }
}
