// SPDX-License-Identifier: GPL-2.0-or-later
//! What a rule finds.

use crate::{change::Change, facts::Facts};
use serde::Serialize;

/// Whether a cause holds every transfer down, or some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Every transfer over a path like the target.
    Always,
    /// Some transfers: the cause says which.
    Sometimes,
}

/// Which transfers of this host a cause holds down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Those that this host sends.
    Send,
    /// Those that it receives.
    Receive,
    /// All.
    Both,
}

impl Direction {
    /// The single directions.
    pub const fn each(self) -> &'static [Self] {
        match self {
            Self::Send => &[Self::Send],
            Self::Receive => &[Self::Receive],
            Self::Both => &[Self::Send, Self::Receive],
        }
    }

    /// The opposite direction.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Send => Self::Receive,
            Self::Receive => Self::Send,
            Self::Both => Self::Both,
        }
    }

    /// Whether it is among those of `other`.
    pub fn is_in(self, other: Self) -> bool {
        other == Self::Both || self == other
    }
}

pub use crate::outside_limit::Limit;

/// Takes a limit out of facts.
fn lift(limit: Limit, facts: &mut Facts) {
    let Facts { host, sockets, path, sent, thins_acknowledgements } = facts;
    match limit {
        Limit::Acknowledgements => *thins_acknowledgements = true,
        Limit::LineRate => host.device.iter_mut().for_each(|it| it.line_rate_bps = None),
        Limit::ProgramSendBuffer => {
            for socket in sockets {
                socket.sets_send_buffer = false;
            }
        }
        Limit::ProgramReceiveBuffer => {
            for socket in sockets {
                socket.sets_receive_buffer = false;
            }
        }
        path_limit => {
            if let Some(path) = path {
                path.lift(path_limit);
            }
            if let Some(sent) = sent {
                sent.lift(path_limit);
            }
        }
    }
}

/// What helps against a cause.
#[derive(Debug, Clone, PartialEq)]
pub enum Remedy {
    /// Changes of this host.
    Changes(Vec<Change>),
    /// What has to be done elsewhere, and the limit that it lifts, if the model has it.
    Advice(String, Option<Limit>),
}

/// What the model can tell of a remedy's gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gain {
    /// It predicts the rate before and after.
    Modelled,
    /// Nothing, for this reason.
    NoForm(&'static str),
}

/// A cause that keeps transfers below the target.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The name of its rule.
    pub id: &'static str,
    /// What is wrong, and what it does to a transfer.
    pub cause: String,
    /// What shows it.
    pub evidence: String,
    /// Whether it concerns every transfer.
    pub scope: Scope,
    /// Which transfers it concerns.
    pub direction: Direction,
    /// What helps.
    pub remedy: Remedy,
    /// What is known of the gain.
    pub gain: Gain,
}

impl Finding {
    /// The facts as the remedy would leave them.
    #[must_use]
    pub fn fixed(&self, facts: &Facts) -> Facts {
        let mut fixed = facts.clone();
        match &self.remedy {
            Remedy::Changes(changes) => changes.iter().for_each(|change| change.apply(&mut fixed)),
            Remedy::Advice(_, limit) => limit.iter().for_each(|limit| lift(*limit, &mut fixed)),
        }
        fixed
    }

    /// The changes of this host that it asks for.
    pub fn changes(&self) -> &[Change] {
        match &self.remedy {
            Remedy::Changes(changes) => changes,
            Remedy::Advice(..) => &[],
        }
    }
}
