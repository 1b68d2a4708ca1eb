// SPDX-License-Identifier: GPL-2.0-or-later
//! What a depot tells its successor: the operator's decisions, counts that limits depend on, and counters.
//!
//! Fields that a version does not know are left out or ignored, so that versions may differ.

use crate::{
    admission::trust::UsesSoFar,
    control::{self, kept::Decisions, processes::Known, sharing},
    state::Shared,
};
use relay::guesses::Tried;
use serde::{Deserialize, Serialize};

/// What is inherited.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Inheritance {
    /// Denials and rate limits.
    pub decisions: Decisions,
    /// The number of the last transfer.
    pub last_number: u64,
    /// The number of connections, each of which may bring one more transfer.
    pub connections: usize,
    /// Depots that drain, with this one, and the counters of those that have ended.
    pub known: Known,
    /// Uses of tickets.
    pub uses: UsesSoFar,
    /// Wrong passwords.
    pub tried: Vec<Tried>,
}

impl Inheritance {
    /// What this depot knows. From now on, decisions are made by the successor.
    pub(crate) fn of(shared: &Shared) -> Self {
        let decisions = {
            let mut inherited = shared.lifecycle.sharing.inherited();
            *inherited = true;
            control::decided(&shared.admission)
        };
        Self {
            decisions,
            last_number: shared.observer.last_number(),
            connections: shared.admission.gate.len().saturating_add(shared.admission.gate.held()),
            known: sharing::to_inherit(shared),
            uses: shared.admission.uses.so_far(),
            tried: shared.admission.guesses.tried(),
        }
    }

    /// Lets all of it apply here.
    pub(crate) fn apply(self, shared: &Shared) {
        control::decide(self.decisions, &shared.admission);
        sharing::number_after(self.last_number, self.connections, &shared.observer);
        shared.lifecycle.sharing.inherit(self.known);
        shared.admission.uses.add(self.uses);
        shared.admission.guesses.add(self.tried);
    }
}
