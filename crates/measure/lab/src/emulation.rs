// SPDX-License-Identifier: GPL-2.0-or-later
//! One run by the method `emu`: real kernel TCP and real programs over an emulated network.

use crate::{
    captures::Captures,
    client,
    congestion_controls::LoadedControls,
    ended::Ended,
    error::LabError,
    pacing::Pacers,
    pacing_gateways::{self, Gateways},
    payload::{Payload, Payloads, sha256_of},
    phases::Phases,
    preflight,
    recording::{self, Observed},
    sampler::{self, Arriving, ArrivingCount},
    servers::{FlowPlan, Servers, can_be_stock, has_stock_client},
    streams, tcp_timeouts,
    traffic::{self, Sources},
};
use congestion::Algorithm;
use experiment::{
    ExperimentError, Method, Obstacle, Obstacles, RunContext, Step, congestion_controls,
};
use record::Record;
use scenario::{Client, Flow, Run, Source};
use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};
use units::Bytes;
use wan::Wan;

/// How often a run is emulated that turns out invalid: what kept the emulator from keeping up is
/// often gone a moment later.
const ATTEMPTS: u32 = 3;

/// Real kernel TCP and real programs over an emulated network on this machine, in real time.
#[derive(Debug)]
pub struct Emulation {
    /// The program that is a depot.
    longhaul: PathBuf,
    /// The files that flows carry.
    payloads: Mutex<Payloads>,
}

impl Emulation {
    /// With the program that is a depot.
    pub fn new(longhaul: impl Into<PathBuf>) -> Self {
        Self { longhaul: longhaul.into(), payloads: Mutex::default() }
    }

    fn payload(&self, folder: &Path, size: Bytes) -> Result<Payload, LabError> {
        self.payloads.lock().unwrap_or_else(PoisonError::into_inner).get(folder, size)
    }
}

impl Method for Emulation {
    fn name(&self) -> &'static str {
        "emu"
    }

    fn source_hash(&self) -> &'static str {
        env!("LONGHAUL_SOURCES")
    }

    fn folder(&self, out: &Path) -> PathBuf {
        out.to_owned()
    }

    fn attempts(&self) -> u32 {
        ATTEMPTS
    }

    fn ignored(&self, runs: &[Run]) -> Vec<String> {
        let is_ignored = |flow: &Flow| flow.client.is_some() && !has_stock_client(flow);
        let client =
            "client: flows without bytes or with several streams are received by longhaul itself";
        let has_ignored = runs.iter().any(|run| run.flows.iter().any(is_ignored));
        has_ignored.then(|| client.to_owned()).into_iter().collect()
    }

    fn prepare(&self, run: &Run, obstacles: &mut Obstacles) -> Run {
        let (prepared, differing) = effective_run(run);
        let unknown = congestion_controls::unknown_names(run);
        let mut unsupported: Vec<Obstacle> = unknown.into_iter().map(Obstacle::from).collect();
        unsupported.extend(preflight::unsupported(run));
        unsupported.extend(differing.into_iter().map(Obstacle::from));
        obstacles.unsupported(run, unsupported);
        match wan::lacking(&prepared, own_congestion_control) {
            Ok(lacking) => {
                obstacles.lacks(run, lacking.into_iter().map(|lack| lack.to_string()));
            }
            Err(error) => obstacles.lacks(run, [error.to_string()]),
        }
        prepared
    }

    fn run(&self, run: &Run, context: &mut RunContext<'_>) -> Result<Record, ExperimentError> {
        Ok(emulate(run, self, context)?)
    }
}

/// The name of longhaul's own congestion control that a name means, or could. Those that a run names are loaded for it.
fn own_congestion_control(name: &str) -> Option<String> {
    let own = format!("{}{}", Algorithm::PREFIX, name.trim_start_matches(Algorithm::PREFIX));
    Algorithm::find(&own).is_ok().then_some(own)
}

/// Takes one run from an empty machine to a record, and leaves the machine empty again.
fn emulate(
    run: &Run,
    emulation: &Emulation,
    context: &mut RunContext<'_>,
) -> Result<Record, LabError> {
    context.step(Step::Deployment);
    let controls = LoadedControls::provide(run)?;
    let wan = Wan::up(run)?;
    context.step(Step::Configuration);
    let captures = Captures::start(&wan, run, context.folder)?;
    let mut plans = Vec::new();
    for (n, flow) in (0..).zip(&run.flows) {
        let payload = flow.bytes.map(|bytes| emulation.payload(context.shared, bytes));
        plans.push(FlowPlan::new(&wan, n, flow, payload.transpose()?, &plans)?);
    }
    let pacers = Pacers::attach(&wan, run, &plans)?;
    let gateways = Gateways::start(&wan, run)?;
    let servers = Servers::start(&wan, run, &plans, context.folder, &emulation.longhaul)?;
    let sysctls = recording::sysctls(&wan, run)?;
    let arriving: Vec<Arriving> = plans.iter().map(|plan| arriving(context, plan)).collect();
    let traffic = Sources::open(&wan, run)?;
    context.step(Step::Execution);
    let driven = drive(&wan, run, (&plans, &arriving), traffic, context)?;
    let Driven { ended, seen, traffic, took_place } = driven;
    context.step(Step::Collection);
    let timeouts = timeouts(&wan, run, &plans)?;
    let mut pacing_faults = pacers.faults()?;
    let gateways = gateways.stop();
    pacing_faults.extend(pacing_gateways::faults(&gateways));
    drop(servers);
    // The last: what servers send at their end is in the counts of the links, too.
    let captures = captures.stop()?;
    if context.is_interrupted() {
        return Err(ExperimentError::Interrupted.into());
    }
    let zero = wan.started();
    let directed_links = wan.directed_links().to_vec();
    let links = wan.down()?;
    context.step(Step::Analysis);
    let verified = verify(&plans, &arriving, &ended)?;
    Ok(recording::record(Observed {
        method: emulation,
        run,
        plans: &plans,
        ended: &ended,
        verified: &verified,
        timeouts: &timeouts,
        pacing_faults,
        gateways: &gateways,
        traffic,
        seen,
        directed_links: &directed_links,
        links: &links,
        zero,
        started: context.started,
        took_place,
        sysctls,
        congestion_controls: controls.on_record(),
        captures,
        command: context.command,
    }))
}

/// What of each flow has arrived: its bytes, and whether they are the right ones.
fn verify(
    plans: &[FlowPlan],
    arriving: &[Arriving],
    ended: &[Ended],
) -> Result<Vec<(u64, Option<bool>)>, LabError> {
    let mut verified = Vec::new();
    for ((plan, arriving), ended) in plans.iter().zip(arriving).zip(ended) {
        let file = &arriving.path;
        let counted = matches!(arriving.count, ArrivingCount::Counted(_));
        let received = if counted {
            arriving.received()
        } else {
            // The file's own length, whatever its blocks are.
            std::fs::metadata(file).ok().map(|metadata| metadata.len())
        };
        // An incomplete file is neither correct nor wrong.
        let payload = plan.payload.as_ref().filter(|_| ended.is_whole());
        let is_right = |payload: &Payload| Ok::<_, LabError>(sha256_of(file)? == payload.sha256);
        verified.push((received.unwrap_or(0), payload.map(is_right).transpose()?));
        // A record may be kept for years; the copy has served its purpose.
        let _ = std::fs::remove_file(file);
    }
    Ok(verified)
}

/// The timeouts of each hop's sender, flow by flow and hop by hop; none where a node sends for
/// several, whose counts can't be told apart.
fn timeouts(wan: &Wan, run: &Run, plans: &[FlowPlan]) -> Result<Vec<Option<u64>>, LabError> {
    let hops: Vec<_> = plans.iter().flat_map(|plan| &plan.hops).collect();
    let of_hop = |node: &String| {
        let has_traffic = run.traffic.iter().any(|traffic| {
            !matches!(traffic.source, Source::Cbr { .. })
                && [&traffic.from, &traffic.to].contains(&node)
        });
        if has_traffic || hops.iter().filter(|hop| hop.node == *node).count() > 1 {
            return Ok(None);
        }
        let counted = tcp_timeouts::count(&wan.node(node)?.namespace);
        counted.map(Some).map_err(|e| LabError::system("read a node's counters", e))
    };
    hops.iter().map(|hop| of_hop(&hop.node)).collect()
}

/// The run as it will take place, which is what goes on record: the first hop of a flow that nginx sends has a program
/// that knows nothing of congestion controls, so the flow's is made the node's; and some program downloads it, unless
/// only longhaul's own can. What `[tcp]` may say, the nodes' kernels are told. With it, each flow
/// whose congestion control its node can't have.
fn effective_run(run: &Run) -> (Run, Vec<String>) {
    let mut run = run.clone();
    if run.tcp.ecn {
        for node in &mut run.nodes {
            node.sysctl.entry("net.ipv4.tcp_ecn".to_owned()).or_insert_with(|| "1".to_owned());
        }
    }
    for flow in &mut run.flows {
        flow.client = has_stock_client(flow).then(|| flow.client.unwrap_or_default());
    }
    let stock: Vec<Flow> = run.flows.iter().filter(|flow| can_be_stock(flow)).cloned().collect();
    for flow in &stock {
        let node = run.nodes.iter_mut().find(|node| node.name == flow.from);
        node.expect("a checked scenario's flows begin at its nodes").cc.clone_from(&flow.cc[0]);
    }
    let differs = |flow: &&Flow| run.node(&flow.from).is_some_and(|node| node.cc != flow.cc[0]);
    let differing = stock.iter().filter(differs).map(|flow| {
        format!(
            "flow {}: two flows leave {} with different congestion controls, but a stock server \
             has one for all; let them leave from two nodes",
            flow.name, flow.from
        )
    });
    let differing = differing.collect();
    (run, differing)
}

/// A run that has taken place.
struct Driven {
    /// How each flow's receiver ended.
    ended: Vec<Ended>,
    seen: sampler::Observations,
    traffic: traffic::Outcome,
    /// When the first flow could begin, and when the run was over.
    took_place: (Instant, Instant),
}

/// Runs the clients, each at its time, and watches until the last has ended, or to the end of a run that ends by the clock.
fn drive(
    wan: &Wan,
    run: &Run,
    (plans, arriving): (&[FlowPlan], &[Arriving]),
    traffic: Sources,
    context: &RunContext<'_>,
) -> Result<Driven, LabError> {
    let hops: Vec<_> = plans.iter().flat_map(|plan| plan.hops.clone()).collect();
    let phases = Phases::of(plans);
    let (running, stop) = mpsc::channel();
    wan.begin_schedules();
    let begun = Instant::now();
    let traffic = traffic.start(begun)?;
    let end = begun + Duration::from(run.duration.unwrap_or(run.timeout));
    let interrupted = context.interrupted();
    thread::scope(|scope| {
        let watcher = scope.spawn({
            let (hops, phases) = (&hops, &phases);
            move || sampler::watch(wan, hops, arriving, phases, &stop)
        });
        let clients: Vec<_> = plans
            .iter()
            .zip(arriving)
            .map(|(plan, arriving)| {
                let phases = &phases;
                scope.spawn(move || receive(wan, plan, arriving, phases, end, interrupted))
            })
            .collect();
        let ended: Result<Vec<Ended>, LabError> = clients
            .into_iter()
            .map(|client| client.join().expect("a client's thread does not panic"))
            .collect();
        if run.duration.is_some() && ended.is_ok() {
            wait_until(end, interrupted);
        }
        let over = Instant::now();
        let traffic = traffic.finish(run, wan.started());
        drop(running);
        let seen = watcher.join().expect("the watcher does not panic");
        Ok(Driven { ended: ended?, seen: seen?, traffic: traffic?, took_place: (begun, over) })
    })
}

/// One flow, from the wait for its time on.
fn receive(
    wan: &Wan,
    plan: &FlowPlan,
    arriving: &Arriving,
    phases: &Phases,
    end: Instant,
    interrupted: &AtomicBool,
) -> Result<Ended, LabError> {
    phases.await_earlier(&plan.flow, end, interrupted);
    wait_until(end.min(Instant::now() + Duration::from(plan.flow.start)), interrupted);
    if Instant::now() >= end {
        return Ok(Ended::before_its_start());
    }
    phases.begin(&plan.flow.name);
    let ended = match &arriving.count {
        ArrivingCount::Counted(bytes) => {
            streams::receive(wan, plan, (&arriving.path, bytes), end, interrupted)
        }
        ArrivingCount::Length | ArrivingCount::Blocks => {
            let limit = end.saturating_duration_since(Instant::now());
            client::download(wan, plan, &arriving.path, limit, interrupted)
        }
    };
    phases.end(&plan.flow.name);
    ended
}

/// Sleeps, in steps, so that an interruption is heard.
fn wait_until(end: Instant, interrupted: &AtomicBool) {
    while !interrupted.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_millis(100)));
    }
}

fn arriving(context: &RunContext<'_>, plan: &FlowPlan) -> Arriving {
    let count = match plan.flow.client {
        None => ArrivingCount::Counted(AtomicU64::new(0)),
        Some(Client::Aria2) => ArrivingCount::Blocks,
        Some(Client::Curl | Client::Wget) => ArrivingCount::Length,
    };
    let path = context.folder.join(format!("{}.received", plan.flow.name));
    Arriving { flow: plan.flow.name.clone(), path, count }
}
