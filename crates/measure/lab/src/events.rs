// SPDX-License-Identifier: GPL-2.0-or-later
//! What happens in a run at times of its own (`[[event]]`): each event waits in a thread, for another one, for the end of a flow or
//! for its time.

use crate::{
    drive::{Ready, wait_until},
    error::LabError,
};
use record::manifest::HappenedEvent;
use scenario::{Action, Event};
use std::{
    sync::{Mutex, PoisonError, atomic::AtomicBool},
    time::{Duration, Instant},
};

/// The events of a run, as far as they have happened.
#[derive(Debug, Default)]
pub struct Happened(Mutex<Vec<HappenedEvent>>);

impl Happened {
    /// In the order in which they happened.
    pub fn all(self) -> Vec<HappenedEvent> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, event: HappenedEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

impl Ready<'_> {
    /// The events that happen here.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        let is_here =
            |event: &&Event| self.run.place(event).is_some_and(|place| self.stage.has(place));
        self.run.events.iter().filter(is_here)
    }

    /// Waits for an event's time, unless the run is over before, and has it happen.
    ///
    /// # Errors
    /// A depot does not start again, or a link or a node stays as it is.
    pub fn happen(
        &self,
        event: &Event,
        (begun, end): (Instant, Instant),
        over: &AtomicBool,
        happened: &Happened,
    ) -> Result<(), LabError> {
        let mut since = begun;
        if let Some(after) = &event.after {
            if !self.phases.await_end(after, end, over) {
                return Ok(());
            }
            since = Instant::now();
        }
        let at = since + Duration::from(event.at);
        if at >= end {
            return Ok(());
        }
        wait_until(at, over);
        if Instant::now() < at {
            return Ok(());
        }
        let at_s = self.stage.started().elapsed().as_secs_f64();
        match &event.action {
            Action::Kill(node) => self.servers.kill_depots(node),
            Action::Restart(node) => self.servers.restart_depots(self.stage, self.plans, node)?,
            // It waits for this.
            Action::Start(_) => {}
            Action::Change(change) => self.stage.change_link(self.run, change)?,
            Action::Move(moves) => self.stage.move_node(self.run, moves)?,
        }
        happened.add(HappenedEvent { name: event.name.clone(), at_s });
        self.phases.end(&event.name);
        if matches!(event.action, Action::Restart(_)) {
            // A node's programs end with the thread that starts them.
            wait_until(end + Duration::from(self.run.timeout), over);
        }
        Ok(())
    }
}
