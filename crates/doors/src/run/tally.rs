// SPDX-License-Identifier: GPL-2.0-or-later
//! What connections a program has asked for, and what became of them.

use session::lsl::HopReport;
use std::{collections::VecDeque, net::SocketAddr, time::Duration};

/// So many are kept, the latest.
const KEPT: usize = 1000;

/// What became of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It goes through these depots; with what they say of their own connections.
    Chain(Vec<HopReport>),
    /// The program has made it itself, since no route leads there.
    Direct,
    /// The program has made it itself, since the chain failed.
    FellBack(String),
    /// The program was told an error.
    Failed {
        /// Which.
        errno: i32,
        /// Why.
        why: String,
    },
}

/// A connection that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Where to.
    pub destination: SocketAddr,
    /// What became of it.
    pub outcome: Outcome,
    /// How long connect(2) took, as far as it was the supervisor's work.
    pub took: Duration,
}

/// All connections of a program.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    latest: VecDeque<Connection>,
    all: u64,
    through_chain: u64,
    direct: u64,
    failed: u64,
}

impl Tally {
    pub(super) fn add(&mut self, connection: Connection) {
        self.all += 1;
        match connection.outcome {
            Outcome::Chain(_) => self.through_chain += 1,
            Outcome::Direct | Outcome::FellBack(_) => self.direct += 1,
            Outcome::Failed { .. } => self.failed += 1,
        }
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        self.latest.push_back(connection);
    }

    /// The latest ones, at most 1 000.
    pub fn latest(&self) -> impl ExactSizeIterator<Item = &Connection> {
        self.latest.iter()
    }

    /// How many there were.
    pub fn all(&self) -> u64 {
        self.all
    }

    /// Of these, through the chain.
    pub fn through_chain(&self) -> u64 {
        self.through_chain
    }

    /// Of these, those that the program was left to make itself. Whether they failed is not known.
    pub fn direct(&self) -> u64 {
        self.direct
    }

    /// Of these, those that failed.
    pub fn failed(&self) -> u64 {
        self.failed
    }
}
