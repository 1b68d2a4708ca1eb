// SPDX-License-Identifier: GPL-2.0-or-later
//! The result of watching a device.

use ::kernel::monitor::{EndReason, Monitor, MonitorReport, Options, Snapshot};

/// The options, the monitor and its last snapshot.
pub struct Observation<'a> {
    pub options: &'a Options,
    pub monitor: &'a Monitor,
    pub snapshot: &'a Snapshot,
    pub ended: EndReason,
}

impl Observation<'_> {
    /// The report of `--json` and monitor.json.
    pub fn report(&self) -> MonitorReport {
        MonitorReport::new(self.options, self.monitor.namespace(), self.snapshot, self.ended)
    }
}
