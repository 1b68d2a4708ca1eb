// SPDX-License-Identifier: GPL-2.0-or-later
//! A run takes place: receivers start at their times, samples are taken, and what arrived is compared with what was sent.

use crate::{
    client,
    ended::Ended,
    error::LabError,
    events::Happened,
    payload::{Payload, sha256_of},
    phases::Phases,
    sampler::{self, Arriving, ArrivingCount},
    servers::{FlowPlan, Servers},
    stage::Stage,
    streams, tcp_timeouts,
    traffic::{self, Sources},
};
use record::manifest::HappenedEvent;
use scenario::{Client, Run, Source};
use std::{
    path::Path,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Where a flow arrives: in a folder.
pub fn arriving(stage: &dyn Stage, folder: &Path, plan: &FlowPlan) -> Arriving {
    let count = match plan.flow.client {
        None => ArrivingCount::Counted(AtomicU64::new(0)),
        Some(Client::Aria2) => ArrivingCount::Blocks,
        Some(Client::Curl | Client::Wget) => ArrivingCount::Length,
    };
    let path = folder.join(format!("{}.received", plan.flow.name));
    let is_here = stage.has(&plan.flow.to);
    Arriving { flow: plan.flow.name.clone(), is_here, path, count }
}

/// A run that has taken place.
pub struct Driven {
    /// How each flow's receiver ended.
    pub ended: Vec<Ended>,
    /// What the sampler saw.
    pub seen: sampler::Observations,
    /// Traffic other than the flows.
    pub traffic: traffic::Outcome,
    /// When the first flow could begin, and when the run was over.
    pub took_place: (Instant, Instant),
    /// The events that happened here.
    pub events: Vec<HappenedEvent>,
}

/// A run whose servers are up.
pub struct Ready<'r> {
    /// Where its nodes are.
    pub stage: &'r dyn Stage,
    /// The run as it takes place.
    pub run: &'r Run,
    /// Its flows.
    pub plans: &'r [FlowPlan],
    /// Where they arrive.
    pub arriving: &'r [Arriving],
    /// How far they are.
    pub phases: &'r Phases,
    /// The servers.
    pub servers: &'r Servers,
    /// Set when the run shall end early.
    pub interrupted: &'r AtomicBool,
}

impl Ready<'_> {
    /// Runs the receivers that are here, each at its time after `begun`, and watches until the last has ended and `others` returns,
    /// which gets the latest end of the run; or to the end of a run that ends by the clock.
    ///
    /// # Errors
    /// A receiver cannot be started, or the kernel does not tell of sockets.
    pub fn drive(
        &self,
        traffic: Sources,
        begun: Instant,
        others: impl FnOnce(Instant),
    ) -> Result<Driven, LabError> {
        let Self { stage, run, plans, arriving, phases, interrupted, .. } = *self;
        let (happened, over_flag) = (Happened::default(), AtomicBool::new(false));
        let hops: Vec<_> = plans.iter().flat_map(|plan| plan.hops.clone()).collect();
        let (running, stop) = mpsc::channel();
        let traffic = traffic.start(begun)?;
        let end = begun + Duration::from(run.duration.unwrap_or(run.timeout));
        thread::scope(|scope| {
            let watcher = scope.spawn({
                let hops = &hops;
                move || sampler::watch(stage, hops, arriving, phases, &stop)
            });
            let start = |(plan, arriving)| scope.spawn(move || self.receive(plan, arriving, end));
            let clients: Vec<_> = plans.iter().zip(arriving).map(start).collect();
            let happen = |event| {
                let (happened, over) = (&happened, &over_flag);
                scope.spawn(move || self.happen(event, (begun, end), over, happened))
            };
            let events: Vec<_> = self.events().map(happen).collect();
            let ended: Result<Vec<Ended>, LabError> = clients
                .into_iter()
                .map(|client| client.join().expect("a client's thread does not panic"))
                .collect();
            if ended.is_ok() {
                match run.duration {
                    Some(_) => wait_until(end, interrupted),
                    None => others(end),
                }
            }
            let over = Instant::now();
            over_flag.store(true, Ordering::Relaxed);
            let failed = events
                .into_iter()
                .find_map(|event| event.join().expect("an event's thread does not panic").err());
            let traffic = traffic.finish(run, stage);
            drop(running);
            let seen = watcher.join().expect("the watcher does not panic");
            let took_place = (begun, over);
            if let Some(failed) = failed {
                return Err(failed);
            }
            let (ended, seen, traffic) = (ended?, seen?, traffic?);
            Ok(Driven { ended, seen, traffic, took_place, events: Vec::new() })
        })
        .map(|driven| Driven { events: happened.all(), ..driven })
    }

    /// One flow, from the wait for its time on.
    fn receive(
        &self,
        plan: &FlowPlan,
        arriving: &Arriving,
        end: Instant,
    ) -> Result<Ended, LabError> {
        let (phases, interrupted) = (self.phases, self.interrupted);
        if !arriving.is_here {
            return Ok(Ended::elsewhere());
        }
        let starter = self.run.starter(&plan.flow.name).map(|event| &event.name);
        if let Some(earlier) = plan.flow.after.as_ref().or(starter) {
            phases.await_end(earlier, end, interrupted);
        }
        wait_until(end.min(Instant::now() + Duration::from(plan.flow.start)), interrupted);
        if Instant::now() >= end {
            return Ok(Ended::before_its_start());
        }
        phases.begin(&plan.flow.name);
        let ended = match &arriving.count {
            ArrivingCount::Counted(bytes) => {
                streams::receive(self.stage, plan, (&arriving.path, bytes), end, interrupted)
            }
            ArrivingCount::Length | ArrivingCount::Blocks => {
                let limit = end.saturating_duration_since(Instant::now());
                client::download(self.stage, plan, &arriving.path, limit, interrupted)
            }
        };
        phases.end(&plan.flow.name);
        ended
    }
}

/// What of each flow has arrived: its bytes, and whether they are the right ones.
///
/// # Errors
/// A file cannot be read.
pub fn verify(
    plans: &[FlowPlan],
    arriving: &[Arriving],
    ended: &[Ended],
) -> Result<Vec<(u64, Option<bool>)>, LabError> {
    let mut verified = Vec::new();
    for ((plan, arriving), ended) in plans.iter().zip(arriving).zip(ended) {
        if !arriving.is_here {
            verified.push((0, None));
            continue;
        }
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
///
/// # Errors
/// The kernel does not show the counters.
pub fn timeouts(
    stage: &dyn Stage,
    run: &Run,
    plans: &[FlowPlan],
) -> Result<Vec<Option<u64>>, LabError> {
    let hops: Vec<_> = plans.iter().flat_map(|plan| &plan.hops).collect();
    let of_hop = |node: &String| {
        let has_traffic = run.traffic.iter().any(|traffic| {
            !matches!(traffic.source, Source::Cbr { .. })
                && [&traffic.from, &traffic.to].contains(&node)
        });
        if has_traffic || hops.iter().filter(|hop| hop.node == *node).count() > 1 {
            return Ok(None);
        }
        let counted = tcp_timeouts::count(stage.namespace(node)?);
        counted.map(Some).map_err(|e| LabError::system("read a node's counters", e))
    };
    hops.iter().map(|hop| of_hop(&hop.node)).collect()
}

/// Sleeps, in steps, so that an interruption is heard.
pub fn wait_until(end: Instant, interrupted: &AtomicBool) {
    while !interrupted.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_millis(100)));
    }
}
