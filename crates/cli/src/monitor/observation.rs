// SPDX-License-Identifier: GPL-2.0-or-later
//! A device that was watched.

use ::kernel::monitor::{EndReason, Monitor, MonitorReport, Options, Snapshot};

/// What was watched, how, and what was seen.
pub struct Observation<'a> {
    pub options: &'a Options,
    pub monitor: &'a Monitor,
    pub snapshot: &'a Snapshot,
    pub ended: EndReason,
}

impl Observation<'_> {
    /// The report for programs.
    pub fn report(&self) -> MonitorReport {
        MonitorReport::new(self.options, self.monitor.namespace(), self.snapshot, self.ended)
    }
}
