// SPDX-License-Identifier: GPL-2.0-or-later
//! One run by the method `emu`: real kernel TCP and real programs over an emulated network.

use crate::{
    client::{self, Ended},
    congestion_controls::LoadedControls,
    error::LabError,
    pacing::Pacers,
    pacing_gateways::{self, Gateways},
    payload::{Payload, Payloads, sha256_of},
    phases::Phases,
    preflight,
    recording::{self, Observed},
    sampler::{self, ReceivedFile},
    servers::{FlowPlan, Servers},
    tcp_timeouts,
};
use congestion::Algorithm;
use experiment::{ExperimentError, Method, Obstacle, Obstacles, RunContext, congestion_controls};
use record::Record;
use scenario::{Client, Flow, Run};
use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};
use units::Bytes;
use wan::Wan;

/// How often a run is emulated that turns out invalid: what kept the emulator from keeping up is
/// often gone a moment later.
const ATTEMPTS: u32 = 2;

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

    fn folder(&self, out: &Path, run: &Run) -> PathBuf {
        out.join(&run.id)
    }

    fn attempts(&self) -> u32 {
        ATTEMPTS
    }

    fn prepare(&self, run: &Run, obstacles: &mut Obstacles) -> Run {
        let (prepared, differing) = effective_run(run);
        let unknown = congestion_controls::unknown_names(run);
        let mut unsupported: Vec<Obstacle> = unknown.into_iter().map(Obstacle::from).collect();
        unsupported.extend(preflight::unsupported(run));
        unsupported.extend(differing.into_iter().map(Obstacle::from));
        obstacles.unsupported(run, unsupported);
        // Longhaul's own are loaded for the run.
        match wan::lacking(&prepared, |name| name.starts_with(Algorithm::PREFIX)) {
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

/// Takes one run from an empty machine to a record, and leaves the machine empty again.
fn emulate(run: &Run, emulation: &Emulation, context: &RunContext<'_>) -> Result<Record, LabError> {
    let controls = LoadedControls::provide(run)?;
    let wan = Wan::up(run)?;
    let mut plans = Vec::new();
    for (n, flow) in (0..).zip(&run.flows) {
        let bytes = flow.bytes.expect("an emulated flow has an end");
        plans.push(FlowPlan::new(
            &wan,
            n,
            flow,
            emulation.payload(context.shared, bytes)?,
            &plans,
        )?);
    }
    let pacers = Pacers::attach(&wan, run, &plans)?;
    let gateways = Gateways::start(&wan, run)?;
    let servers = Servers::start(&wan, run, &plans, context.folder, &emulation.longhaul)?;
    let sysctls = recording::sysctls(&wan, run)?;
    let (ended, seen) = drive(&wan, run, &plans, context)?;
    let timeouts = timeouts(&wan, &plans)?;
    let mut pacing_faults = pacers.faults()?;
    let gateways = gateways.stop();
    pacing_faults.extend(pacing_gateways::faults(&gateways));
    drop(servers);
    if context.is_interrupted() {
        return Err(ExperimentError::Interrupted.into());
    }
    let zero = wan.started();
    let directed_links = wan.directed_links().to_vec();
    let links = wan.down()?;
    let mut verified = Vec::new();
    for (plan, ended) in plans.iter().zip(&ended) {
        let file = file_of(context.folder, plan);
        let bytes = std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
        let whole = ended.exit_code == Some(0) && !ended.timed_out;
        // An incomplete file is neither correct nor wrong.
        let sha256_ok = if whole { Some(sha256_of(&file)? == plan.payload.sha256) } else { None };
        verified.push((bytes, sha256_ok));
        // A record may be kept for years; the copy has served its purpose.
        let _ = std::fs::remove_file(&file);
    }
    Ok(recording::record(Observed {
        method: emulation,
        run,
        plans: &plans,
        ended: &ended,
        verified: &verified,
        timeouts: &timeouts,
        pacing_faults,
        gateways: &gateways,
        seen,
        directed_links: &directed_links,
        links: &links,
        zero,
        started: context.started,
        sysctls,
        congestion_controls: controls.on_record(),
        command: context.command,
    }))
}

/// The timeouts of each hop's sender, flow by flow and hop by hop; none where a node sends for
/// several, whose counts can't be told apart.
fn timeouts(wan: &Wan, plans: &[FlowPlan]) -> Result<Vec<Option<u64>>, LabError> {
    let hops: Vec<_> = plans.iter().flat_map(|plan| &plan.hops).collect();
    let of_hop = |node: &str| {
        if hops.iter().filter(|hop| hop.node == node).count() > 1 {
            return Ok(None);
        }
        let counted = tcp_timeouts::count(&wan.node(node)?.namespace);
        counted.map(Some).map_err(|e| LabError::system("read a node's counters", e))
    };
    hops.iter().map(|hop| of_hop(&hop.node)).collect()
}

/// The run as it will take place, which is what goes on record: a flow's first hop is sent by an
/// end, whose program knows nothing of congestion controls, so the flow's is made the node's; and
/// some program downloads it. What `[tcp]` may say, the nodes' kernels are told. With it, each flow
/// whose congestion control its node can't have.
fn effective_run(run: &Run) -> (Run, Vec<String>) {
    let mut run = run.clone();
    if run.tcp.ecn {
        for node in &mut run.nodes {
            node.sysctl.entry("net.ipv4.tcp_ecn".to_owned()).or_insert_with(|| "1".to_owned());
        }
    }
    for flow in &mut run.flows {
        flow.client = Some(flow.client.unwrap_or_default());
    }
    for flow in run.flows.clone() {
        let node = run.nodes.iter_mut().find(|node| node.name == flow.from);
        node.expect("a checked scenario's flows begin at its nodes").cc.clone_from(&flow.cc[0]);
    }
    let differs = |flow: &&Flow| run.node(&flow.from).is_some_and(|node| node.cc != flow.cc[0]);
    let differing = run.flows.iter().filter(differs).map(|flow| {
        format!(
            "flow {}: two flows leave {} with different congestion controls, but a stock server \
             has one for all; let them leave from two nodes",
            flow.name, flow.from
        )
    });
    let differing = differing.collect();
    (run, differing)
}

/// Runs the clients, each at its time, and watches until the last has ended.
fn drive(
    wan: &Wan,
    run: &Run,
    plans: &[FlowPlan],
    context: &RunContext<'_>,
) -> Result<(Vec<Ended>, sampler::Observations), LabError> {
    let hops: Vec<_> = plans.iter().flat_map(|plan| plan.hops.clone()).collect();
    let phases = Phases::of(plans);
    let files: Vec<_> = plans
        .iter()
        .map(|plan| ReceivedFile {
            flow: plan.flow.name.clone(),
            path: file_of(context.folder, plan),
            has_holes: plan.flow.client == Some(Client::Aria2),
        })
        .collect();
    let (running, stop) = mpsc::channel();
    wan.begin_schedules();
    let begun = Instant::now();
    let interrupted = context.interrupted();
    thread::scope(|scope| {
        let watcher = scope.spawn({
            let (hops, files, phases) = (&hops, &files, &phases);
            move || sampler::watch(wan, hops, files, phases, &stop)
        });
        let clients: Vec<_> = plans
            .iter()
            .zip(&files)
            .map(|(plan, file)| {
                let phases = &phases;
                scope.spawn(move || {
                    let limit = begun + Duration::from(run.timeout);
                    phases.await_earlier(&plan.flow, interrupted);
                    wait(plan.flow.start.into(), interrupted);
                    phases.begin(&plan.flow.name);
                    let limit = limit.saturating_duration_since(Instant::now());
                    let ended = client::download(wan, plan, &file.path, limit, interrupted);
                    phases.end(&plan.flow.name);
                    ended
                })
            })
            .collect();
        let ended: Result<Vec<Ended>, LabError> = clients
            .into_iter()
            .map(|client| client.join().expect("a client's thread does not panic"))
            .collect();
        drop(running);
        let seen = watcher.join().expect("the watcher does not panic");
        Ok((ended?, seen?))
    })
}

/// Sleeps, in steps, so that an interruption is heard.
fn wait(time: Duration, interrupted: &AtomicBool) {
    let end = Instant::now() + time;
    while !interrupted.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_millis(100)));
    }
}

fn file_of(folder: &Path, plan: &FlowPlan) -> PathBuf {
    folder.join(format!("{}.received", plan.flow.name))
}
