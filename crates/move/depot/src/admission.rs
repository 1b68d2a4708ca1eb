// SPDX-License-Identifier: GPL-2.0-or-later
//! Access control: which clients the depot serves, and which next hops it connects to.

pub(crate) mod address_class;
pub(crate) mod allowance;
pub(crate) mod denied;
pub(crate) mod identity;
pub(crate) mod limit_reached;
pub(crate) mod limits;
pub(crate) mod listed_names;
pub(crate) mod logins;
pub(crate) mod passwords;
pub(crate) mod rules;
pub(crate) mod ticket_client;
pub(crate) mod trust;
pub(crate) mod verdict;

use crate::config::Config;
use denied::Denied;
use identity::Identity;
use limits::Gate;
use relay::{guesses::Guesses, rates::Rates};
use std::sync::Arc;
use trust::Uses;

/// What all requests of a depot are judged by, beside its configuration.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The names of the depot.
    pub identity: Identity,
    /// Counts of open connections.
    pub gate: Arc<Gate>,
    /// Rate limits of clients.
    pub rates: Rates,
    /// The operator's deny list.
    pub denied: Denied,
    /// Clients with failed password attempts.
    pub guesses: Guesses,
    /// Use counts of tickets.
    pub uses: Uses,
}

impl Admission {
    /// Of a depot that has served nobody yet.
    pub(crate) fn new(identity: Identity, config: &Config) -> Self {
        Self {
            identity,
            gate: Arc::default(),
            rates: Rates::new(config.limits.client_rate),
            denied: Denied::default(),
            guesses: Guesses::default(),
            uses: Uses::new(&config.trust),
        }
    }
}
