// SPDX-License-Identifier: GPL-2.0-or-later
//! The part of a run that one host has, which is one of its nodes: servers, depots, receivers, traffic and samples by the same code as in
//! emulation. The holder of all parts starts them at the same time, passes on what happens elsewhere, and puts
//! their records together.

use crate::{
    drive::{self, Ready},
    error::LabError,
    pacing::Pacers,
    payload::{Digest256, Payload, Payloads},
    phases::Phases,
    recording::{self, Observed},
    sampler::Arriving,
    servers::{FlowPlan, Servers},
    stage::{Stage, ThisHost},
    traffic::Sources,
};
use experiment::manifest::MadeBy;
use record::{Record, manifest::CongestionControl};
use scenario::{Event, Flow, Run};
use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

/// How often a part that waits looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(100);

/// The part that a host has.
#[derive(Debug)]
pub struct Order {
    /// The run.
    pub run: Run,
    /// The node that it is.
    pub node: String,
    /// The addresses of all nodes.
    pub addresses: BTreeMap<String, IpAddr>,
    /// An empty folder for logs, and for what arrives.
    pub folder: PathBuf,
    /// A folder for what is sent.
    pub shared: PathBuf,
    /// The files there.
    pub payloads: Arc<Mutex<Payloads>>,
    /// The program that is a depot.
    pub longhaul: PathBuf,
    /// By which method the run is.
    pub method: String,
    /// longhaul's congestion controls that are in the kernel for it, with their parameters.
    pub congestion_controls: BTreeMap<String, CongestionControl>,
    /// The command line to put on record.
    pub command: Vec<String>,
}

/// How far a part is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stand {
    /// Servers come up.
    Preparing,
    /// It waits for the start. With the hashes of what flows from here carry.
    Ready(BTreeMap<String, Digest256>),
    /// It waits for its time, or takes place.
    Running,
    /// It is over.
    Over,
}

/// What the part's thread and its holder share.
#[derive(Debug)]
struct Shared {
    /// Flows that are received here, and events that happen here.
    own: Vec<String>,
    /// Flows that are received on other hosts, with what they come after.
    later: Vec<(String, String)>,
    stand: Mutex<Stand>,
    start: Mutex<Option<(Instant, BTreeMap<String, Digest256>)>>,
    changed: Condvar,
    phases: Phases,
    others_are_over: AtomicBool,
    interrupted: AtomicBool,
}

/// A part at work. It ends when this is dropped.
#[derive(Debug)]
pub struct Part {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<Record, LabError>>>,
}

impl Part {
    /// Begins to prepare it.
    ///
    /// # Errors
    /// No more threads.
    pub fn start(order: Order) -> Result<Self, LabError> {
        let phases = Phases::of(&order.run);
        // Of a flow that is received elsewhere, this host sees only connections.
        let elsewhere = order.run.flows.iter().filter(|flow| flow.to != order.node);
        elsewhere.clone().filter(|flow| flow.after.is_none()).for_each(|it| phases.begin(&it.name));
        let starter = |flow: &Flow| order.run.starter(&flow.name).map(|event| event.name.clone());
        let later =
            |flow: &Flow| Some((flow.after.clone().or_else(|| starter(flow))?, flow.name.clone()));
        let received = order.run.flows.iter().filter(|flow| flow.to == order.node);
        let is_here = |event: &&Event| order.run.place(event) == Some(&order.node);
        let events = order.run.events.iter().filter(is_here).map(|event| event.name.clone());
        let shared = Arc::new(Shared {
            own: received.map(|flow| flow.name.clone()).chain(events).collect(),
            later: elsewhere.filter_map(later).collect(),
            stand: Mutex::new(Stand::Preparing),
            start: Mutex::default(),
            changed: Condvar::new(),
            phases,
            others_are_over: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let work = move || play(&order, &own);
        let thread = thread::Builder::new().name("part".into()).spawn(work);
        let thread = thread.map_err(|e| LabError::system("start a part of a run", e))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// How far it is.
    pub fn stand(&self) -> Stand {
        let has_ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        if has_ended { Stand::Over } else { self.shared.stand().clone() }
    }

    /// The flows that have ended here, and the events that have happened here.
    pub fn ended(&self) -> Vec<String> {
        let Shared { own, phases, .. } = &*self.shared;
        own.iter().filter(|name| phases.has_ended(name)).cloned().collect()
    }

    /// Has it begin at a time, knowing what each flow carries.
    pub fn begin(&self, at: Instant, hashes: BTreeMap<String, Digest256>) {
        *lock(&self.shared.start) = Some((at, hashes));
        self.shared.set(Stand::Running);
    }

    /// A flow has ended on another host, or an event has happened there. Flows that come after it begin.
    pub fn has_happened(&self, name: &str) {
        let Shared { phases, later, own, .. } = &*self.shared;
        if own.iter().any(|it| it == name) {
            return;
        }
        phases.end(name);
        let after = later.iter().filter(|(before, next)| before == name && !phases.has_begun(next));
        after.for_each(|(_, next)| phases.begin(next));
    }

    /// All flows have ended, everywhere.
    pub fn others_are_over(&self) {
        self.shared.others_are_over.store(true, Relaxed);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It could not take place.
    pub fn record(mut self) -> Result<Record, LabError> {
        let thread = self.thread.take().expect("a part ends once");
        thread.join().unwrap_or_else(|_| {
            let error = io::Error::other("a thread panicked: see the log of its host");
            Err(LabError::system("take part in the run", error))
        })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.shared.interrupted.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It was not asked for its record, so its error is of no use.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn stand(&self) -> MutexGuard<'_, Stand> {
        lock(&self.stand)
    }

    fn set(&self, stand: Stand) {
        *self.stand() = stand;
        self.changed.notify_all();
    }

    /// Waits for the time to start.
    fn await_start(&self) -> Result<(Instant, BTreeMap<String, Digest256>), LabError> {
        let mut start = lock(&self.start);
        loop {
            if let Some(start) = start.take() {
                return Ok(start);
            }
            if self.interrupted.load(Relaxed) {
                return Err(interrupted());
            }
            start =
                self.changed.wait_timeout(start, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn await_others(&self, end: Instant) {
        let is_over = || self.others_are_over.load(Relaxed) || self.interrupted.load(Relaxed);
        while !is_over() && Instant::now() < end {
            thread::sleep(LOOK / 5);
        }
    }
}

/// Nothing is left half changed, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn interrupted() -> LabError {
    experiment::ExperimentError::Interrupted.into()
}

/// The whole part, in its thread: what it starts ends with it.
fn play(order: &Order, shared: &Shared) -> Result<Record, LabError> {
    let Order { run, node, folder, .. } = order;
    let stage = ThisHost::new(node, order.addresses.clone())?;
    let mut plans = plans(order, &stage)?;
    let pacers = Pacers::attach(&stage, run, &plans)?;
    let servers = Servers::start(&stage, run, &plans, folder, &order.longhaul)?;
    let sysctls = recording::sysctls(&stage, run)?;
    let traffic = Sources::open(&stage, run)?;
    let hashes = plans
        .iter()
        .filter_map(|plan| Some((plan.flow.name.clone(), plan.payload.as_ref()?.sha256)));
    shared.set(Stand::Ready(hashes.collect()));
    let (begun, hashes) = shared.await_start()?;
    for plan in plans.iter_mut().filter(|plan| plan.payload.is_none()) {
        // For comparison: nothing is sent from here.
        let sha256 = hashes.get(&plan.flow.name).copied();
        plan.payload = sha256.map(|sha256| Payload { path: PathBuf::new(), sha256 });
    }
    let plans = &plans[..];
    let arriving: Vec<Arriving> =
        plans.iter().map(|plan| drive::arriving(&stage, folder, plan)).collect();
    stage.start_at(begun);
    let (interrupted_flag, phases) = (&shared.interrupted, &shared.phases);
    drive::wait_until(begun, interrupted_flag);
    let started = SystemTime::now();
    let arriving = &arriving[..];
    let ready = Ready {
        stage: &stage,
        run,
        plans,
        arriving,
        phases,
        servers: &servers,
        interrupted: interrupted_flag,
    };
    let driven = ready.drive(traffic, begun, |end| shared.await_others(end))?;
    let pacing_faults = pacers.faults()?;
    drop(servers);
    if interrupted_flag.load(Relaxed) {
        return Err(interrupted());
    }
    let verified = drive::verify(plans, arriving, &driven.ended)?;
    let timeouts = vec![None; plans.iter().map(|plan| plan.hops.len()).sum()];
    Ok(recording::record(Observed {
        method: MadeBy { name: &order.method, sources: SOURCES },
        is_here: &|node| stage.has(node),
        run,
        plans,
        driven,
        verified: &verified,
        // The kernel's counters are those of all programs of the host.
        timeouts: &timeouts,
        pacing_faults,
        gateways: &[],
        links: None,
        zero: begun,
        started,
        sysctls,
        congestion_controls: &order.congestion_controls,
        processor_time: None,
        captures: Vec::new(),
        command: &order.command,
    }))
}

/// The hash of the sources that decide what a part does.
pub const SOURCES: &str = env!("LONGHAUL_SOURCES");

fn plans(order: &Order, stage: &ThisHost) -> Result<Vec<FlowPlan>, LabError> {
    let mut plans = Vec::new();
    for (n, flow) in (0..).zip(&order.run.flows) {
        let bytes = flow.bytes.filter(|_| stage.has(&flow.from));
        let payload = bytes.map(|bytes| lock(&order.payloads).get(&order.shared, bytes));
        plans.push(FlowPlan::new(stage, n, flow, payload.transpose()?, &plans)?);
    }
    Ok(plans)
}

/// Writes a part's record, with the logs of its programs, into a new folder.
///
/// # Errors
/// The disk is full or not writable.
pub fn write(record: &Record, logs: &Path, into: &Path) -> io::Result<()> {
    record.write(into).map_err(io::Error::other)?;
    for entry in std::fs::read_dir(logs)?.flatten() {
        if entry.path().extension().is_some_and(|it| it == "log") {
            std::fs::copy(entry.path(), into.join(entry.file_name()))?;
        }
    }
    Ok(())
}
