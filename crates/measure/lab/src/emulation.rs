// SPDX-License-Identifier: GPL-2.0-or-later
//! One run by the method `emu`: real kernel TCP and real programs over an emulated network.

use crate::{
    captures::Captures,
    congestion_controls::LoadedControls,
    drive::{self, Ready},
    error::LabError,
    pacing::Pacers,
    pacing_gateways::{self, Gateways},
    payload::{Payload, Payloads},
    phases::Phases,
    preflight,
    recording::{self, EmulatedLinks, Observed},
    sampler::Arriving,
    servers::{FlowPlan, Servers, can_be_stock, has_stock_client},
    traffic::Sources,
};
use congestion::Algorithm;
use experiment::{
    ExperimentError, Method, Obstacle, Obstacles, RunContext, Step, congestion_controls,
    manifest::MadeBy,
};
use record::Record;
use scenario::{Flow, Run};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Instant,
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
        crate::part::SOURCES
    }

    fn folder(&self, out: &Path) -> PathBuf {
        out.to_owned()
    }

    fn attempts(&self) -> u32 {
        ATTEMPTS
    }

    fn has_events(&self) -> bool {
        true
    }

    fn ignored(&self, runs: &[Run]) -> Vec<String> {
        ignored(runs)
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
    let running = Servers::start(&wan, run, &plans, context.folder, &emulation.longhaul)?;
    let sysctls = recording::sysctls(&wan, run)?;
    let arriving: Vec<Arriving> =
        plans.iter().map(|plan| drive::arriving(&wan, context.folder, plan)).collect();
    let traffic = Sources::open(&wan, run)?;
    let phases = Phases::of(run);
    let interrupted = context.interrupted();
    let (stage, plans, arriving) = (&wan, &plans[..], &arriving[..]);
    let (phases, servers) = (&phases, &running);
    let ready = Ready { stage, run, plans, arriving, phases, servers, interrupted };
    context.step(Step::Execution);
    wan.begin_schedules();
    let busy_before = host::processor_time().ok();
    let driven = ready.drive(traffic, Instant::now(), |_| ())?;
    let busy = host::processor_time().ok().zip(busy_before);
    context.step(Step::Collection);
    let timeouts = drive::timeouts(&wan, run, plans)?;
    let mut pacing_faults = pacers.faults()?;
    let gateways = gateways.stop();
    pacing_faults.extend(pacing_gateways::faults(&gateways));
    drop(running);
    // The last: what servers send at their end is in the counts of the links, too.
    let captures = captures.stop()?;
    if context.is_interrupted() {
        return Err(ExperimentError::Interrupted.into());
    }
    let (zero, names) = (wan.started(), wan.directed_links().to_vec());
    let links = EmulatedLinks { names, snapshot: wan.down()? };
    context.step(Step::Analysis);
    let verified = drive::verify(plans, arriving, &driven.ended)?;
    Ok(recording::record(Observed {
        method: MadeBy::method(emulation),
        is_here: &|_| true,
        run,
        plans,
        driven,
        verified: &verified,
        timeouts: &timeouts,
        pacing_faults,
        gateways: &gateways,
        links: Some(&links),
        zero,
        started: context.started,
        sysctls,
        congestion_controls: controls.on_record(),
        processor_time: busy.map(|(after, before)| after.saturating_sub(before)),
        captures,
        command: context.command,
    }))
}

/// What real programs take from runs without doing anything with it, one line for each key.
pub fn ignored(runs: &[Run]) -> Vec<String> {
    let is_ignored = |flow: &Flow| flow.client.is_some() && !has_stock_client(flow);
    let client =
        "client: flows without bytes or with several streams are received by longhaul itself";
    let has_ignored = runs.iter().any(|run| run.flows.iter().any(is_ignored));
    has_ignored.then(|| client.to_owned()).into_iter().collect()
}

/// The run as it will take place, which is what goes on record: the first hop of a flow that nginx sends has a program
/// that knows nothing of congestion controls, so the flow's is made the node's; and some program downloads it, unless
/// only longhaul's own can. What `[tcp]` may say, the nodes' kernels are told. With it, each flow
/// whose congestion control its node can't have.
pub fn effective_run(run: &Run) -> (Run, Vec<String>) {
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
