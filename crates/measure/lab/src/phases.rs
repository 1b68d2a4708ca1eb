// SPDX-License-Identifier: GPL-2.0-or-later
//! Which flows of a run have begun and ended, and which events have happened: some wait for others, and flows take over their
//! connections.

use scenario::{Flow, Run};
use std::{
    collections::HashMap,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// How often a flow that waits looks whether the run was interrupted.
const LOOK: Duration = Duration::from_millis(100);

/// How far a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Waiting,
    Running,
    Ended,
}

/// How far all of them are.
#[derive(Debug)]
pub struct Phases {
    by_flow: Mutex<HashMap<String, Phase>>,
    changed: Condvar,
    /// The flow that takes over another's connections, by that one's name.
    successors: HashMap<String, String>,
}

impl Phases {
    /// None has begun.
    pub fn of(run: &Run) -> Self {
        let flows = run.flows.iter();
        let events = run.events.iter().map(|event| &event.name);
        let names = flows.clone().map(|flow| &flow.name).chain(events);
        let by_flow = names.map(|name| (name.clone(), Phase::Waiting)).collect();
        let successor = |flow: &Flow| Some((flow.after.clone()?, flow.name.clone()));
        let successors = flows.filter_map(successor).collect();
        Self { by_flow: Mutex::new(by_flow), changed: Condvar::new(), successors }
    }

    /// Returns once a flow has ended or an event has happened, or the run is over or was interrupted; whether it was the former.
    pub fn await_end(&self, name: &str, end: Instant, interrupted: &AtomicBool) -> bool {
        let mut by_flow = self.by_flow();
        while by_flow[name] != Phase::Ended {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || interrupted.load(Relaxed) {
                return false;
            }
            let woken = self.changed.wait_timeout(by_flow, left.min(LOOK));
            by_flow = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// A flow begins.
    pub fn begin(&self, flow: &str) {
        self.set(flow, Phase::Running);
    }

    /// A flow's client has ended, or an event has happened.
    pub fn end(&self, flow: &str) {
        self.set(flow, Phase::Ended);
    }

    /// Whether a flow's client has ended.
    pub fn has_ended(&self, flow: &str) -> bool {
        self.by_flow()[flow] == Phase::Ended
    }

    /// Whether a flow has begun.
    pub fn has_begun(&self, flow: &str) -> bool {
        self.by_flow()[flow] > Phase::Waiting
    }

    /// Whether what the flow's connections carry is this flow's.
    pub fn is_carried(&self, flow: &str) -> bool {
        let by_flow = self.by_flow();
        let has_begun = |flow: &String| by_flow[flow] > Phase::Waiting;
        by_flow[flow] > Phase::Waiting && !self.successors.get(flow).is_some_and(has_begun)
    }

    fn set(&self, flow: &str, phase: Phase) {
        self.by_flow().insert(flow.to_owned(), phase);
        self.changed.notify_all();
    }

    /// Nothing is left half changed, so a panic elsewhere does not spoil it.
    fn by_flow(&self) -> MutexGuard<'_, HashMap<String, Phase>> {
        self.by_flow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
