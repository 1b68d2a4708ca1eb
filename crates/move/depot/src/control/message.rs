// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands and answers, as they travel: one line of JSON each.

use super::{Denial, Shunned};
pub use crate::admission::limits::OpenConnections;
use crate::{
    observe::Counters,
    status::{Draining, Transfer},
};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What a depot is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// List transfers.
    Transfers(Which),
    /// End transfers.
    End(Which),
    /// Deny a client or ticket for this many seconds, and end its transfers.
    Deny {
        /// The client or ticket.
        who: Shunned,
        /// For how long.
        seconds: u64,
        /// Why, for the client and for operators.
        #[serde(default)]
        why: String,
    },
    /// Remove a denial.
    Allow {
        /// The client or ticket.
        who: Shunned,
    },
    /// List the denials.
    Denied,
    /// Limit the total rate of a client's or ticket's transfers, present and future, replacing an earlier
    /// limit; or remove the limit.
    Limit {
        /// Whose.
        whose: Limited,
        /// The rate in bit/s. `None` removes the limit.
        rate_bps: Option<u64>,
    },
    /// Have a transfer or session share the rates of its client, ticket, key and depot by this policy.
    Policy {
        /// A transfer, or all transfers of a session.
        whose: Limited,
        /// How it shares.
        policy: Policy,
        /// Its target: the highest rate in bit/s. `None`: no limit of its own.
        rate_bps: Option<u64>,
    },
    /// List the rates that were set for clients, tickets, keys and the depot.
    Limits,
    /// Say what is still under way, to the depot that has taken over.
    Draining,
    /// To a depot that drains: count what other processes have in your limits, and say what you have.
    Share(Box<Elsewhere>),
}

/// What other processes have, as far as it matters to one that drains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Elsewhere {
    /// Their connections.
    pub connections: OpenConnections,
    /// The numbers of their transfers by client and ticket.
    pub transfers: Vec<(Limited, usize)>,
    /// Whether the answer is to have [`Share::told`].
    pub in_full: bool,
}

/// What a process has that drains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Share {
    /// Its connections.
    pub connections: OpenConnections,
    /// The numbers of its transfers by client and ticket, where a rate is limited.
    pub transfers: Vec<(Limited, usize)>,
    /// The number of its last transfer.
    pub last_number: u64,
    /// Whether it has finished, and says so for the last time.
    pub is_over: bool,
    /// Its transfers and statistics.
    pub told: Option<(Draining, Counters)>,
}

/// What is held to a rate.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limited {
    /// All transfers of a client.
    Client(IpAddr),
    /// All transfers of the tickets of this name.
    Ticket(String),
    /// All transfers of tickets that the key of this name (`kid`) has signed.
    Key(String),
    /// All transfers of the depot.
    Depot,
    /// The transfer of this number.
    Transfer(u64),
    /// The transfers of the session of this name, as 32 hexadecimal digits.
    Session(String),
}

/// How a transfer shares rates with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Its target, whatever the congestion: refused, as TCP gives way to congestion.
    Fixed,
    /// Twice the share of a fair one.
    High,
    /// An equal share.
    Fair,
    /// What others leave.
    Low {
        /// What it has at least, in bit/s, if an equal share is not less.
        minimum_bps: u64,
    },
}

/// A rate that was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The client, ticket or key, or the depot.
    pub whose: Limited,
    /// In bit/s.
    pub rate_bps: u64,
}

/// Of the transfers under way those for which all of this holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Which {
    /// It has this number.
    pub transfer: Option<u64>,
    /// A client of this network asked for it, here or of a depot before this one.
    pub client: Option<IpNet>,
    /// It was asked for by a ticket of this name (`jti`).
    pub ticket: Option<String>,
    /// What it asks for contains this text: its URL, or its target.
    pub file: Option<String>,
}

impl Which {
    /// Whether no field is set, which selects all transfers.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

/// What a depot answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The transfers, oldest first, and how many more there are.
    Transfers {
        /// They.
        transfers: Vec<Transfer>,
        /// Further ones.
        more: usize,
    },
    /// The depot has ended this many transfers.
    Ended(usize),
    /// The denials.
    Denied(Vec<Denial>),
    /// A denial was removed, if there was one.
    Allowed {
        /// Whether that one was.
        was_denied: bool,
    },
    /// The rate applies to present and later transfers.
    Limited {
        /// For all but transfers and sessions always.
        is_there: bool,
    },
    /// The policy applies to this many transfers.
    Policy {
        /// How many.
        transfers: usize,
        /// How many of them share a rate now. The policy of the others changes nothing until one is set.
        sharing: usize,
    },
    /// The rates that were set.
    Limits(Vec<Limit>),
    /// What is still under way.
    Draining(Draining),
    /// The same, and what it takes of the limits.
    Share(Box<Share>),
    /// It has not done it, and why.
    Error(String),
}
