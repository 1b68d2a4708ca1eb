// SPDX-License-Identifier: GPL-2.0-or-later
//! The method `field`: a run on real hosts, step by step.
//!
//! ```text
//! reservation     hosts are reached and taken
//! deployment      congestion controls and settings are brought there, and paths measured
//! configuration   servers, depots and files come up on each host (`lab::part`)
//! execution       all parts begin at one time; the engine relays what happens on each
//! collection      each host's record is fetched, and its settings are put back
//! analysis        the records become one (`merge`)
//! ```
//! Connections are kept from run to run. After an error of a host they are given up, so that guards put everything back.

use crate::{
    METHOD,
    collect::collect,
    error::FieldError,
    hosts::Hosts,
    merge::{self, Merged},
    message::{Answer, Ask, PartOrder, PathMeasured, Reservation, Stand},
    needs::Needs,
    path::Path,
    remote::{Program, Remote},
    survey::{Surveyed, ask_all, measure},
};
use experiment::{
    ExperimentError, Method, Obstacle, Obstacles, RunContext, Step, congestion_controls,
};
use record::Record;
use scenario::Run;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    env,
    path::{Path as FilePath, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

/// How often an invalid run is tried again: what changed a path has often passed a moment later.
const ATTEMPTS: u32 = 3;
/// How long a host waits for the engine before it puts everything back.
const LEASE: Duration = Duration::from_secs(60);
/// How often hosts are asked how far they are.
const LOOK: Duration = Duration::from_millis(100);
/// The same where a flow waits for the end of another.
const SHORT_LOOK: Duration = Duration::from_millis(20);
/// How long servers and files may take to come up.
const PREPARATION: Duration = Duration::from_secs(600);
/// From the order to begin until then.
const LEAD: Duration = Duration::from_millis(500);
/// What a run takes beyond its time limit, as a reservation has it.
const BESIDES: Duration = Duration::from_secs(120);
/// How long a host may take to be released, where that does not matter any more.
const GIVING_UP: Duration = Duration::from_secs(20);
/// How long a part may take to be over after the run's end.
const ENDING: Duration = Duration::from_secs(120);

/// Real hosts by ssh.
#[derive(Debug)]
pub struct Field {
    hosts: Hosts,
    program: Arc<Program>,
    runtime: Runtime,
    surveyed: BTreeMap<String, Surveyed>,
    reached: Mutex<Reached>,
    left_changed: Mutex<Vec<String>>,
}

/// The connections.
#[derive(Debug, Default)]
struct Reached {
    remotes: HashMap<String, Remote>,
    are_taken: bool,
    /// How long all runs may take.
    longest: Duration,
}

impl Field {
    /// Reaches all hosts and describes them. Only the program is brought there.
    ///
    /// # Errors
    /// A host is not reached.
    pub fn reach(hosts: Hosts, own_program: PathBuf) -> Result<Self, FieldError> {
        let own = |error: &dyn std::fmt::Display| FieldError::Own(error.to_string());
        let program = Arc::new(Program::of(&hosts, own_program)?);
        let runtime = Builder::new_multi_thread().enable_all().build().map_err(|e| own(&e))?;
        let mut field = Self {
            hosts,
            program,
            runtime,
            surveyed: BTreeMap::new(),
            reached: Mutex::default(),
            left_changed: Mutex::default(),
        };
        let found = field.runtime.block_on(reach(&field.hosts, &field.program))?;
        for (node, (remote, surveyed)) in found {
            field.surveyed.insert(node.clone(), surveyed);
            field.reached().remotes.insert(node, remote);
        }
        Ok(field)
    }

    fn reached(&self) -> MutexGuard<'_, Reached> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What keeps these hosts from a run.
    fn lacking(&self, run: &Run) -> Vec<String> {
        let mut lacking = self.hosts.misfits(run);
        for (node, needs) in Needs::of(run) {
            let Some(host) = self.hosts.of(&node) else { continue };
            if host.address.is_none() {
                lacking.push(format!("{node}: add its address to its [[host]]"));
            }
            let found = self.surveyed.get(&node).map(|surveyed| needs.lacking(&surveyed.facts));
            lacking.extend(found.into_iter().flatten().map(|lack| format!("{node}: {lack}")));
        }
        lacking
    }
}

async fn reach(
    hosts: &Hosts,
    program: &Arc<Program>,
) -> Result<BTreeMap<String, (Remote, Surveyed)>, FieldError> {
    let asked = ask_all(hosts, Arc::clone(program)).await;
    asked.into_iter().map(|(host, found)| Ok((host.node, found?))).collect()
}

/// SHA-256 over the sources that decide what is measured on hosts.
pub const SOURCES: &str = env!("LONGHAUL_SOURCES");

impl Method for Field {
    fn name(&self) -> &'static str {
        METHOD
    }

    fn source_hash(&self) -> &'static str {
        SOURCES
    }

    fn attempts(&self) -> u32 {
        ATTEMPTS
    }

    fn has_events(&self) -> bool {
        true
    }

    fn ignored(&self, runs: &[Run]) -> Vec<String> {
        lab::ignored(runs)
    }

    fn prepare(&self, run: &Run, obstacles: &mut Obstacles) -> Run {
        let (prepared, differing) = lab::effective_run(run);
        let unknown = congestion_controls::unknown_names(run);
        let mut unsupported: Vec<Obstacle> = unknown.into_iter().map(Obstacle::from).collect();
        unsupported.extend(lab::unsupported_on_hosts(run));
        unsupported.extend(differing.into_iter().map(Obstacle::from));
        obstacles.unsupported(run, unsupported);
        obstacles.lacks(run, self.lacking(&prepared));
        self.reached().longest += Duration::from(run.timeout) + BESIDES;
        prepared
    }

    fn left_changed(&self) -> Vec<String> {
        self.left_changed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn run(&self, run: &Run, context: &mut RunContext<'_>) -> Result<Record, ExperimentError> {
        let mut reached = self.reached();
        let played = self.runtime.block_on(self.play(run, &mut reached, context));
        if played.is_err() {
            self.runtime.block_on(give_up(&mut reached));
        }
        played
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        let reached = self.reached.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.runtime.block_on(give_up(reached));
    }
}

impl Field {
    async fn play(
        &self,
        run: &Run,
        reached: &mut Reached,
        context: &mut RunContext<'_>,
    ) -> Result<Record, ExperimentError> {
        let nodes = run.active_nodes();
        context.step(Step::Reservation);
        self.take(run, reached).await?;
        let remotes = &mut reached.remotes;
        context.step(Step::Deployment);
        deploy(run, &nodes, remotes).await?;
        let paths = self.measure(run, remotes, context).await?;
        context.step(Step::Configuration);
        let mut hashes = BTreeMap::new();
        let order = |node: &str| PartOrder {
            run: run.clone(),
            node: node.to_owned(),
            addresses: self.addresses(&nodes),
            command: context.command.to_vec(),
        };
        for node in &nodes {
            of(remotes, node)?.order(&Ask::Prepare(Box::new(order(node)))).await?;
        }
        for node in &nodes {
            hashes.extend(await_ready(remotes, node, context).await?);
        }
        context.step(Step::Execution);
        begin(remotes, &nodes, &hashes).await?;
        await_end(run, remotes, &nodes, context).await?;
        context.step(Step::Collection);
        let mut parts = BTreeMap::new();
        for node in &nodes {
            let folder = context.folder.join(node);
            let record = collect(self, remotes, node, &folder).await?;
            keep_logs(&folder, context.folder, node)?;
            parts.insert((*node).to_owned(), record);
        }
        self.put_back(&nodes, reached).await;
        context.step(Step::Analysis);
        Ok(merge::merge(&Merged {
            run,
            method: self,
            parts,
            paths: &paths,
            limit: self.hosts.deviation,
            surveyed: &self.surveyed,
            command: context.command,
            started: context.started,
        }))
    }

    /// The run has a record already, so that nothing that goes wrong here ends it.
    async fn put_back(&self, nodes: &BTreeSet<&str>, reached: &mut Reached) {
        for node in nodes {
            let Ok(remote) = of(&mut reached.remotes, node) else { continue };
            match remote.order(&Ask::PutBack).await {
                Ok(()) => {}
                Err(FieldError::Part { node, why }) => {
                    let line = format!("{node}: {why}");
                    let mut all = self.left_changed.lock().unwrap_or_else(PoisonError::into_inner);
                    if !all.contains(&line) {
                        all.push(line);
                    }
                }
                // Its guard puts everything back without the engine. All are reached again for the next run.
                Err(_) => return give_up(reached).await,
            }
        }
    }

    fn addresses(&self, nodes: &BTreeSet<&str>) -> BTreeMap<String, std::net::IpAddr> {
        let address = |node: &&str| Some(((*node).to_owned(), self.hosts.of(node)?.address?));
        nodes.iter().filter_map(address).collect()
    }

    /// Reaches the hosts again if there was an error, and takes all of them for the experiment.
    async fn take(&self, run: &Run, reached: &mut Reached) -> Result<(), FieldError> {
        if reached.are_taken {
            return Ok(());
        }
        if reached.remotes.is_empty() {
            let found = reach(&self.hosts, &self.program).await?;
            reached.remotes = found.into_iter().map(|(node, (remote, _))| (node, remote)).collect();
        }
        let reservation = reservation(&run.title, reached.longest);
        // In one order, so that of two experiments one gets all that both want.
        let nodes: BTreeSet<String> = reached.remotes.keys().cloned().collect();
        for node in &nodes {
            of(&mut reached.remotes, node)?.reserve(&reservation, LEASE).await?;
        }
        reached.are_taken = true;
        Ok(())
    }

    async fn measure(
        &self,
        run: &Run,
        remotes: &mut HashMap<String, Remote>,
        context: &RunContext<'_>,
    ) -> Result<Vec<(Path, PathMeasured)>, ExperimentError> {
        let mut found = Vec::new();
        for path in Path::all(run) {
            if context.is_interrupted() {
                return Err(ExperimentError::Interrupted);
            }
            let time = Duration::from(self.hosts.measure);
            keep_alive(remotes).await?;
            let measured = measure(remotes, &self.hosts, &path, time).await?;
            found.push((path, measured));
        }
        Ok(found)
    }

    /// Reaches a host again whose connection ended, and takes it.
    pub(crate) async fn reach_again(
        &self,
        node: &str,
        remotes: &mut HashMap<String, Remote>,
    ) -> Result<(), FieldError> {
        remotes.remove(node);
        let host = self.hosts.of(node).ok_or_else(|| unreached(node))?;
        let mut remote = Remote::reach(host, &self.hosts, &self.program).await?;
        remote.reserve(&reservation("", BESIDES), LEASE).await?;
        remotes.insert(node.to_owned(), remote);
        Ok(())
    }
}

/// Releases all hosts, and waits until their guards have ended. One that does not answer puts everything back by itself.
async fn give_up(reached: &mut Reached) {
    reached.are_taken = false;
    let mut ending = JoinSet::new();
    for (_, remote) in reached.remotes.drain() {
        ending.spawn(async { timeout(GIVING_UP, remote.end()).await });
    }
    ending.join_all().await;
}

/// Keeps all guards from putting everything back while the engine waits for one.
pub async fn keep_alive(remotes: &mut HashMap<String, Remote>) -> Result<(), FieldError> {
    for remote in remotes.values_mut() {
        remote.ping().await?;
    }
    Ok(())
}

/// The host that is a node.
pub fn of<'r>(
    remotes: &'r mut HashMap<String, Remote>,
    node: &str,
) -> Result<&'r mut Remote, FieldError> {
    remotes.get_mut(node).ok_or_else(|| unreached(node))
}

fn unreached(node: &str) -> FieldError {
    FieldError::Gone { node: node.to_owned(), why: "it is not reached".to_owned() }
}

/// By this user, for an experiment that takes so long at most.
fn reservation(title: &str, longest: Duration) -> Reservation {
    let user = env::var("USER").unwrap_or_else(|_| "a user".to_owned());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let until = SystemTime::now() + longest;
    let until_s = until.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Reservation { owner: format!("{user}@{host}"), title: title.to_owned(), until_s }
}

/// Brings congestion controls into the kernels, and makes settings.
async fn deploy(
    run: &Run,
    nodes: &BTreeSet<&str>,
    remotes: &mut HashMap<String, Remote>,
) -> Result<(), FieldError> {
    let mut needs = Needs::of(run);
    for node in nodes {
        let remote = of(remotes, node)?;
        remote.order(&Ask::Load { run: Box::new(run.clone()) }).await?;
        let settings = needs.remove(*node).unwrap_or_default().settings;
        remote.set(settings).await?;
    }
    Ok(())
}

/// How far a part is, and what it says with it.
async fn stand(
    remote: &mut Remote,
    ended: &[String],
    is_over: bool,
) -> Result<(Stand, BTreeMap<String, String>, Vec<String>), FieldError> {
    let ask = Ask::Stand { ended: ended.to_vec(), is_over };
    match remote.part(&ask).await? {
        Answer::Stand { stand, hashes, ended } => Ok((stand, hashes, ended)),
        other => Err(remote.unexpected(&format!("{other:?}"))),
    }
}

async fn await_ready(
    remotes: &mut HashMap<String, Remote>,
    node: &str,
    context: &RunContext<'_>,
) -> Result<BTreeMap<String, String>, ExperimentError> {
    let begun = Instant::now();
    loop {
        keep_alive(remotes).await?;
        let remote = of(remotes, node)?;
        if context.is_interrupted() {
            return Err(ExperimentError::Interrupted);
        }
        match stand(remote, &[], false).await? {
            (Stand::Ready, hashes, _) => return Ok(hashes),
            (Stand::Preparing, ..) if begun.elapsed() < PREPARATION => sleep(LOOK).await,
            (Stand::Preparing, ..) => {
                return Err(remote.fails("its servers do not come up").into());
            }
            (Stand::Running | Stand::Over, ..) => {
                // It says why when it is asked for its record.
                let answer = remote.part(&Ask::Collect { token: "0".repeat(16) }).await;
                let why = || remote.fails("its part ended before it began");
                return Err(answer.map_or_else(|error| error, |_| why()).into());
            }
        }
    }
}

/// Has all parts begin at one time, by each host's own monotonic clock, which is compared right before.
async fn begin(
    remotes: &mut HashMap<String, Remote>,
    nodes: &BTreeSet<&str>,
    hashes: &BTreeMap<String, String>,
) -> Result<(), FieldError> {
    let mut ahead = BTreeMap::new();
    let mut slowest = Duration::ZERO;
    for node in nodes {
        let clock = of(remotes, node)?.clocks().await?.monotonic;
        slowest = slowest.max(2 * clock.error);
        ahead.insert(*node, clock.ahead_ns);
    }
    let orders = u32::try_from(2 * nodes.len()).unwrap_or(u32::MAX);
    let lead = LEAD + slowest.saturating_mul(orders);
    let begin = crate::clock::monotonic_ns() + i64::try_from(lead.as_nanos()).unwrap_or(i64::MAX);
    for node in nodes {
        let at_ns = begin + ahead[node];
        of(remotes, node)?.order(&Ask::Begin { at_ns, hashes: hashes.clone() }).await?;
    }
    Ok(())
}

/// Relays the ends of flows, and events, between hosts until all parts are over.
async fn await_end(
    run: &Run,
    remotes: &mut HashMap<String, Remote>,
    nodes: &BTreeSet<&str>,
    context: &RunContext<'_>,
) -> Result<(), ExperimentError> {
    let longest = Duration::from(run.duration.unwrap_or(run.timeout)) + ENDING;
    let has_followers = !run.events.is_empty() || run.flows.iter().any(|flow| flow.after.is_some());
    let begun = Instant::now();
    let mut ended: BTreeSet<String> = BTreeSet::new();
    let mut over: BTreeSet<&str> = BTreeSet::new();
    while over.len() < nodes.len() {
        if context.is_interrupted() {
            return Err(ExperimentError::Interrupted);
        }
        let is_over = run.flows.iter().all(|flow| ended.contains(&flow.name));
        let known: Vec<String> = ended.iter().cloned().collect();
        for node in nodes {
            let remote = of(remotes, node)?;
            let (stand, _, here) = stand(remote, &known, is_over).await?;
            ended.extend(here);
            if stand == Stand::Over {
                over.insert(node);
            }
            if begun.elapsed() > longest {
                return Err(remote.fails("its part does not end").into());
            }
        }
        sleep(if has_followers { SHORT_LOOK } else { LOOK }).await;
    }
    Ok(())
}

/// Logs of a host's programs are kept under its node's name.
fn keep_logs(from: &FilePath, into: &FilePath, node: &str) -> Result<(), ExperimentError> {
    let failed = |error| ExperimentError::file("keep the logs in", from, error);
    for entry in std::fs::read_dir(from).map_err(failed)?.flatten() {
        if entry.path().extension().is_some_and(|it| it == "log") {
            let name = format!("{node}-{}", entry.file_name().to_string_lossy());
            std::fs::copy(entry.path(), into.join(name)).map_err(failed)?;
        }
    }
    Ok(())
}
