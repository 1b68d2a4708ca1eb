// SPDX-License-Identifier: GPL-2.0-or-later
//! A timer that is often put off.

use units::Timestamp;

/// A point of time at which something is due, with an entry in the event queue that is at or before it: put
/// off at no cost, looked at again when the entry's time has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer {
    due: Option<Timestamp>,
    planned: Option<Timestamp>,
}

impl Timer {
    pub(crate) const OFF: Self = Self { due: None, planned: None };

    pub(crate) fn set(&mut self, due: Timestamp, plan: impl FnOnce(Timestamp)) {
        self.due = Some(due);
        if self.planned.is_none_or(|planned| planned > due) {
            self.planned = Some(due);
            plan(due);
        }
    }

    /// Sets it, unless it is due before.
    pub(crate) fn bring_forward(&mut self, due: Timestamp, plan: impl FnOnce(Timestamp)) {
        if self.due.is_none_or(|before| before > due) {
            self.set(due, plan);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.due = None;
    }

    pub(crate) fn is_set(&self) -> bool {
        self.due.is_some()
    }

    /// An entry's time has come: whether it is due. Where it was put off, it is planned again.
    pub(crate) fn fires(&mut self, now: Timestamp, plan: impl FnOnce(Timestamp)) -> bool {
        if self.planned.is_none_or(|planned| planned > now) {
            return false; // an entry that was overtaken by an earlier one
        }
        self.planned = None;
        match self.due {
            Some(due) if due <= now => {
                self.due = None;
                true
            }
            Some(due) => {
                self.planned = Some(due);
                plan(due);
                false
            }
            None => false,
        }
    }
}
