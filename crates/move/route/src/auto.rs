// SPDX-License-Identifier: GPL-2.0-or-later
//! Routes by forecast: the chooser behind `--via auto`.
//!
//! ```text
//! knowledge   what earlier transfers took, in a file of the user's
//! facts       round trips that are measured before a transfer, and what depots claim
//! offered     chains, and by some of them several ways to send
//! ```
//! Crate `overlay` chooses. Only depots of the register are asked and used, so whoever gives a forged answer reaches nothing that a route
//! by hand would not reach.

pub(crate) mod facts;
mod knowledge;
mod offered;

pub use facts::{Found, PROBE_TIME};
pub use offered::read_key;

use crate::{
    Attempt, AttemptEnd, Chooser, Plan,
    choice::{AsWritten, Floor, Prepared},
    destination::Destination,
    send_options::SendOptions,
    standing::{Standing, Standings},
};
use facts::Facts;
use knowledge::{Knowledge, now_s};
use offered::{Offered, route_key};
use overlay::{Basis, Candidate, Chosen, Decision, End, Memory, Request, Seen};
use protocol::{DepotAddress, announcement::Announcement, http::load::Load};
use std::{
    collections::HashMap,
    fmt::Write,
    future::ready,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::runtime::Builder;
use units::{Bytes, Rate};

/// How long a depot that could not be reached comes last.
const AVOID: Duration = Duration::from_secs(30);
/// What a transfer of unknown length is taken to have.
const USUAL_BYTES: u64 = 64 << 20;
/// A transfer that is so many times slower than its forecast, and than that of another route, goes on by that.
const SLOWER: f64 = 2.0;
/// Over so long it is watched, in seconds: its forecast, within these. Slow start is over by then.
const LEAST_LOOK_S: f64 = 2.0;
const MOST_LOOK_S: f64 = 15.0;
/// How long what was read of earlier transfers serves those that cannot wait.
const LATELY: Duration = Duration::from_secs(5);
/// After a transfer to a destination the next ones do not wait for probes, for so many seconds: these go on meanwhile.
const RECENT_S: f64 = 600.0;
/// The most destinations of which the last choice is remembered.
const MOST_UNDER_WAY: usize = 1024;

/// Settings of a chooser by forecast.
#[derive(Debug, Clone)]
pub struct AutoSettings {
    /// Certificates (PEM) of further authorities to trust for depots over TLS.
    pub ca: Option<PathBuf>,
    /// Cost of a failed attempt.
    pub timeout: Duration,
    /// Announcements of depots.
    pub announcements: Vec<Announcement>,
    /// `SO_MARK` of probes' packets.
    pub mark: Option<u32>,
    /// Other ways to send on the first hop, for programs that can.
    pub send_alternatives: Vec<SendOptions>,
}

impl Default for AutoSettings {
    fn default() -> Self {
        let (ca, announcements, mark, send_alternatives) = Default::default();
        Self { ca, timeout: Duration::from_secs(15), announcements, mark, send_alternatives }
    }
}

/// What was to be chosen from, and what was chosen until that is told how it went.
type UnderWay = (Vec<Candidate>, Option<Chosen>);

/// Chooses routes by forecasts, which it learns from how transfers end.
#[derive(Debug)]
pub struct Auto {
    knowledge: Option<Knowledge>,
    /// Without a file.
    memory: Mutex<Memory>,
    /// What was read lately.
    lately: Mutex<Option<(Instant, Arc<Memory>)>>,
    facts: Arc<Facts>,
    standings: Arc<Standings>,
    /// By destination: what was chosen last, and from what.
    under_way: Mutex<HashMap<String, UnderWay>>,
    /// What an attempt that fails costs.
    timeout: Duration,
    send_alternatives: Vec<SendOptions>,
}

impl Auto {
    /// With what the user's earlier processes have learnt.
    pub fn new(settings: AutoSettings) -> Self {
        Self::with(Knowledge::usual(), settings, Arc::default())
    }

    /// Without stored knowledge. The standings may be shared.
    pub fn alone(settings: AutoSettings, standings: Arc<Standings>) -> Self {
        Self::with(None, settings, standings)
    }

    fn with(
        knowledge: Option<Knowledge>,
        settings: AutoSettings,
        standings: Arc<Standings>,
    ) -> Self {
        let (timeout, send_alternatives) = (settings.timeout, settings.send_alternatives.clone());
        let facts = Arc::new(Facts::new(settings, Arc::clone(&standings)));
        let (memory, lately, under_way) = Default::default();
        Self { knowledge, memory, lately, facts, standings, under_way, timeout, send_alternatives }
    }

    /// All that is known.
    pub fn memory(&self) -> Memory {
        match &self.knowledge {
            Some(knowledge) => knowledge.read(),
            None => locked(&self.memory).clone(),
        }
    }

    /// What would be chosen, and why; nothing changes by that. Routes with a depot that was not reached come last, also the chosen one.
    pub fn explain(
        &self,
        to: &Destination,
        bytes: Option<Bytes>,
        chains: &[&[DepotAddress]],
    ) -> (Vec<Candidate>, Decision) {
        let (memory, key, request) = (self.memory(), key(to), self.request(bytes));
        let offered = self.offered(to, chains, &memory, &request);
        let mut decision = memory.explain(&key, &request, &offered.candidates, 0);
        decision.order.sort_by_key(|at| self.standing(to, chains[offered.chain(*at)]));
        (offered.candidates, decision)
    }

    fn offered(
        &self,
        to: &Destination,
        chains: &[&[DepotAddress]],
        memory: &Memory,
        request: &Request,
    ) -> Offered {
        let candidates = self.facts.candidates(to, chains, memory);
        Offered::new(candidates, &self.send_alternatives, (&key(to), memory), request)
    }

    /// Records a probe that was made elsewhere: the round trip in seconds (`None` if unreachable), and the load.
    pub fn record_probe(&self, depot: &DepotAddress, rtt_s: Option<f64>, load: Option<&Load>) {
        self.facts.record_probe(depot, rtt_s, load);
    }

    /// Number of probes so far.
    pub fn probes(&self) -> u64 {
        self.facts.probes()
    }

    /// Probes the depots of these chains and the destination, for a program that is not asynchronous.
    ///
    /// # Errors
    /// No runtime can be set up.
    pub fn prepare_blocking(&self, to: &Destination, chains: &[&[DepotAddress]]) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.facts.gather(to, chains));
        Ok(())
    }

    /// The places of those chains that were seen and are expected to be faster than the direct way, the fastest first, for programs whose
    /// connections cannot wait: probes are made in the background, and count for later ones. Needs a runtime of tokio.
    pub fn faster_than_direct(&self, to: &Destination, chains: &[&[DepotAddress]]) -> Vec<usize> {
        self.facts.gather_in_background(to, chains);
        let all: Vec<&[DepotAddress]> = chains.iter().copied().chain([&[][..]]).collect();
        let memory = self.lately_known();
        let candidates = self.facts.candidates(to, &all, &memory);
        let request = self.request(None);
        let decision = memory.explain(&key(to), &request, &candidates, 0);
        let is_used = |at: &usize| {
            let is_known = decision.assessed[*at].forecast.basis != Basis::ClosedForm;
            is_known && self.standing(to, chains[*at]) == Standing::Good
        };
        let until_direct = decision.order.iter().copied().take_while(|at| *at < chains.len());
        until_direct.filter(is_used).collect()
    }

    /// All that was known some seconds ago.
    fn lately_known(&self) -> Arc<Memory> {
        let mut lately = locked(&self.lately);
        match &*lately {
            Some((at, memory)) if at.elapsed() < LATELY => Arc::clone(memory),
            _ => {
                let memory = Arc::new(self.memory());
                *lately = Some((Instant::now(), Arc::clone(&memory)));
                memory
            }
        }
    }

    /// What a probe of the last minute has found of a depot; none without one.
    pub fn found(&self, depot: &DepotAddress) -> Option<Found> {
        self.facts.of_depot(depot)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        let Some(knowledge) = &self.knowledge else { return change(&mut locked(&self.memory)) };
        let mut result = None;
        knowledge.update(|memory| result = Some(change(memory)));
        result.expect("it is called once")
    }

    fn request(&self, bytes: Option<Bytes>) -> Request {
        let bytes = bytes.map_or(USUAL_BYTES, Bytes::get);
        Request { bytes, now_s: now_s(), timeout_s: self.timeout.as_secs_f64() }
    }

    /// The worst standing of the chain's depots. `Down` if the last depot announces rules that do not admit the destination.
    fn standing(&self, to: &Destination, chain: &[DepotAddress]) -> Standing {
        if chain.last().is_some_and(|last| self.facts.refuses(last, to)) {
            return Standing::Down;
        }
        let of = |depot| self.standings.of(depot, AVOID);
        chain.iter().map(of).max().unwrap_or(Standing::Good)
    }
}

impl Chooser for Auto {
    fn prepare<'p>(
        &'p self,
        to: &'p Destination,
        chains: &'p [&'p [DepotAddress]],
    ) -> Prepared<'p> {
        let (key, now_s) = (key(to), now_s());
        let memory = self.lately_known();
        let mut last_s = memory.paths(&key).filter_map(|(_, path)| path.last_s());
        if last_s.any(|last_s| now_s - last_s < RECENT_S) {
            self.facts.gather_in_background(to, chains);
            return Box::pin(ready(()));
        }
        Box::pin(self.facts.gather(to, chains))
    }

    fn plan(&self, to: &Destination, bytes: Option<Bytes>, chains: &[&[DepotAddress]]) -> Plan {
        if chains.is_empty() {
            return Plan::new(Vec::new(), 0);
        }
        // Without random bits the first of equals.
        let random = host::random().map_or(0, u64::from_ne_bytes);
        let (key, request) = (key(to), self.request(bytes));
        let (offered, decision) = self.change(|memory| {
            for (name, rtt_s) in self.facts.round_trips() {
                memory.measured(&name, rtt_s, request.now_s);
            }
            let offered = self.offered(to, chains, memory, &request);
            let decision = memory.choose(&key, &request, &offered.candidates, random);
            (offered, decision)
        });
        tracing::debug!(to = key, "{}", summary(&decision));
        let mut order = offered.chains(&decision.order);
        let standing = |at: usize| self.standing(to, chains[offered.chain(at)]);
        order.sort_by_key(|at| standing(*at));
        let is_promising = |at: &&usize| {
            standing(**at) == Standing::Good && decision.assessed[**at].avoided_until_s.is_none()
        };
        let promising = order.iter().take_while(is_promising).count();
        let mut under_way = locked(&self.under_way);
        if under_way.len() >= MOST_UNDER_WAY {
            under_way.clear();
        }
        let send_options = order.iter().map(|at| offered.send_options(*at).clone()).collect();
        let chains = order.iter().map(|at| offered.chain(*at)).collect();
        under_way.insert(key, (offered.candidates, Some(decision.chosen)));
        Plan::new(chains, promising).with_send_options(send_options)
    }

    fn floor(
        &self,
        to: &Destination,
        chain: &[DepotAddress],
        send_options: &SendOptions,
        bytes: Option<Bytes>,
    ) -> Option<Floor> {
        let (key, chain) = (key(to), chain_key(chain));
        let route = route_key(&chain, send_options);
        let candidates = locked(&self.under_way).get(&key)?.0.clone();
        let request = self.request(bytes);
        let assessed = self.lately_known().explain(&key, &request, &candidates, 0).assessed;
        let own_s = assessed.iter().find(|of| of.key == route)?.forecast.seconds;
        let is_other = |key: &str| read_key(key).0 != chain;
        let others = assessed.iter().filter(|of| is_other(&of.key) && of.avoided_until_s.is_none());
        let other_s = others.map(|of| of.forecast.seconds).fold(f64::INFINITY, f64::min);
        let bps = request.bytes as f64 * 8.0 / (SLOWER * own_s.max(other_s));
        let over = Duration::from_secs_f64(own_s.clamp(LEAST_LOOK_S, MOST_LOOK_S));
        other_s.is_finite().then(|| Floor { rate: Rate::bits_per_second(bps as u64), over })
    }

    fn ended(&self, to: &Destination, chain: &[DepotAddress], attempt: &Attempt) {
        AsWritten::new(Arc::clone(&self.standings), AVOID).ended(to, chain, attempt);
        let end = match (attempt.end, attempt.bytes.get()) {
            (AttemptEnd::Done, 1..) => End::Done,
            (AttemptEnd::LimitedByEnds, 1..) => End::LimitedByEnds,
            (AttemptEnd::Stalled, 1..) => End::Left,
            (AttemptEnd::Unreached | AttemptEnd::Stalled | AttemptEnd::Refused, _)
            | (AttemptEnd::Doubtful, 0) => End::Failed,
            // Nothing was moved, or it is not the route's doing.
            _ => return,
        };
        let (key, chain) = (key(to), chain_key(chain));
        let route = route_key(&chain, &attempt.send_options);
        let Some((candidate, chosen)) = self.taken(&key, &route) else { return };
        let (bytes, seconds) = (attempt.bytes.get(), attempt.time.as_secs_f64());
        let seen = Seen { at_s: now_s(), bytes, seconds, end };
        let others = if end == End::Failed { self.by_chain(&key, &chain) } else { Vec::new() };
        self.change(|memory| {
            memory.ended(&key, &candidate, chosen.as_ref(), seen);
            // The chain has failed, however this host sends.
            for other in others.iter().filter(|other| other.key != route) {
                if memory.paths(&key).any(|(known, _)| known == other.key) {
                    memory.ended(&key, other, None, seen);
                }
            }
        });
    }
}

impl Auto {
    /// The candidates of the last choice that lead by a chain.
    fn by_chain(&self, key: &str, chain: &str) -> Vec<Candidate> {
        let under_way = locked(&self.under_way);
        let candidates = under_way.get(key).map(|(candidates, _)| candidates);
        let by_it = |candidate: &&Candidate| read_key(&candidate.key).0 == chain;
        candidates.into_iter().flatten().filter(by_it).cloned().collect()
    }

    /// The candidate of this route from the last choice; and why it was chosen, if it was.
    fn taken(&self, key: &str, route: &str) -> Option<(Candidate, Option<Chosen>)> {
        let mut under_way = locked(&self.under_way);
        let (candidates, chosen) = under_way.get_mut(key)?;
        let at = candidates.iter().position(|candidate| candidate.key == *route)?;
        let chosen = chosen.take_if(|chosen| chosen.index == at);
        Some((candidates[at].clone(), chosen))
    }
}

/// The name under which a destination is known: all of a host's ports are reached by the same paths.
pub(crate) fn key(to: &Destination) -> String {
    to.server().host.to_string().to_ascii_lowercase()
}

/// The name of a route: its depots, or nothing for the direct one.
pub(crate) fn chain_key(chain: &[DepotAddress]) -> String {
    chain.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// For the log.
fn summary(decision: &Decision) -> String {
    let mut text = String::new();
    for at in &decision.order {
        let of = &decision.assessed[*at];
        let name = if of.key.is_empty() { "direct" } else { &of.key };
        // Writing to a String does not fail.
        let _ = write!(text, "{name}: {:.2} s; ", of.forecast.seconds);
    }
    format!("{text}{:?}", decision.chosen.why)
}

/// The guarded data stays consistent after a panic, so poisoning is ignored.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
