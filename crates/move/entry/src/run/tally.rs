// SPDX-License-Identifier: GPL-2.0-or-later
//! What connections a program has asked for, and what became of them.

use protocol::session::{Congestion, HopReport};
use serde::{Serialize, Serializer};
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
    /// The program has made it itself, since its destination's connections are short.
    Short,
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

/// What a connection has carried. Sessions' headers are not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of the program's that were sent.
    pub sent: u64,
    /// Bytes that have come for the program.
    pub received: u64,
    /// How long it was open, or is.
    pub lasted: Duration,
    /// Whether a process still has it.
    pub is_open: bool,
}

impl Traffic {
    /// Bytes in both directions.
    pub fn moved(&self) -> u64 {
        self.sent + self.received
    }

    /// Bits a second in both directions together.
    pub fn rate_bps(&self) -> u64 {
        let seconds = self.lasted.as_secs_f64();
        if seconds > 0.0 { (self.moved() as f64 * 8.0 / seconds) as u64 } else { 0 }
    }
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
    /// What it has carried, if that is known.
    pub traffic: Option<Traffic>,
}

/// All connections of a program.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    latest: VecDeque<Connection>,
    all: u64,
    through_chain: u64,
    direct: u64,
    failed: u64,
    known: u64,
    sent: u64,
    received: u64,
    unknown_because: Option<String>,
}

impl Tally {
    /// Counts a connection; returns its number.
    pub(super) fn add(&mut self, connection: Connection) -> u64 {
        self.all += 1;
        match connection.outcome {
            Outcome::Chain(_) => self.through_chain += 1,
            Outcome::Direct | Outcome::Short | Outcome::FellBack(_) => self.direct += 1,
            Outcome::Failed { .. } => self.failed += 1,
        }
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        self.latest.push_back(connection);
        self.all - 1
    }

    /// Says what the connection with this number has carried, once.
    pub(super) fn account(&mut self, number: u64, traffic: Traffic) {
        self.known += 1;
        self.sent += traffic.sent;
        self.received += traffic.received;
        let first = self.all - self.latest.len() as u64;
        let at = number.checked_sub(first).and_then(|at| usize::try_from(at).ok());
        if let Some(connection) = at.and_then(|at| self.latest.get_mut(at)) {
            connection.traffic = Some(traffic);
        }
    }

    /// Says why it may not be known what connections have carried.
    pub(super) fn set_unknown_because(&mut self, why: &str) {
        self.unknown_because.get_or_insert_with(|| why.to_owned());
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

    /// Bytes that all connections have sent of which that is known.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that they have received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How many connections were made of which it is not known what they have carried.
    pub fn unknown(&self) -> u64 {
        self.all - self.failed - self.known
    }

    /// Why that is so, if it is not the connections' own doing.
    pub fn unknown_because(&self) -> Option<&str> {
        self.unknown_because.as_deref()
    }
}

/// A tally as a document.
#[derive(Debug, Serialize)]
pub struct Report<'t> {
    /// All connections that were asked for.
    pub connections: u64,
    /// Of these, through depots.
    pub through: u64,
    /// Of these, made by the program itself.
    pub direct: u64,
    /// Of these, those that failed.
    pub failed: u64,
    /// Bytes sent by connections of which that is known.
    pub sent_bytes: u64,
    /// Bytes received by them.
    pub received_bytes: u64,
    /// Connections of which it is not known what they have carried.
    pub unknown: u64,
    /// Why, if it is not their own doing.
    pub unknown_because: Option<&'t str>,
    /// The latest connections, at most 1 000.
    pub latest: Vec<ReportedConnection<'t>>,
}

/// A connection of a [`Report`].
#[derive(Debug, Serialize)]
pub struct ReportedConnection<'t> {
    /// Where to.
    pub destination: SocketAddr,
    /// The depots, the nearest first; none if it is direct or has failed.
    pub through: Vec<ReportedHop<'t>>,
    /// Why the program has made it itself: `no route`, `short`, or what the chain's failure was.
    pub direct_because: Option<&'t str>,
    /// Why it has failed.
    pub failed_because: Option<&'t str>,
    /// How long connect(2) took, as far as it was the supervisor's work.
    #[serde(serialize_with = "microseconds")]
    pub connect_us: Duration,
    /// Bytes sent; null if that is not known.
    pub sent_bytes: Option<u64>,
    /// Bytes received.
    pub received_bytes: Option<u64>,
    /// How long it was open, or is.
    pub seconds: Option<f64>,
    /// Bits a second in both directions together.
    pub rate_bps: Option<u64>,
    /// Whether a process still had it when the program had ended.
    pub open: Option<bool>,
}

/// A depot's connection to the next one, or to the server.
#[derive(Debug, Serialize)]
pub struct ReportedHop<'t> {
    /// The depot's name.
    pub depot: String,
    /// The congestion control in force.
    pub congestion: Option<&'t str>,
    /// The round trip.
    pub rtt_us: u32,
}

fn microseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

impl<'t> From<&'t Tally> for Report<'t> {
    fn from(tally: &'t Tally) -> Self {
        Self {
            connections: tally.all,
            through: tally.through_chain,
            direct: tally.direct,
            failed: tally.failed,
            sent_bytes: tally.sent,
            received_bytes: tally.received,
            unknown: tally.unknown(),
            unknown_because: tally.unknown_because(),
            latest: tally.latest.iter().map(ReportedConnection::from).collect(),
        }
    }
}

impl<'t> From<&'t Connection> for ReportedConnection<'t> {
    fn from(connection: &'t Connection) -> Self {
        let hop = |hop: &'t HopReport| ReportedHop {
            depot: hop.depot.to_string(),
            congestion: hop.congestion.as_ref().map(Congestion::as_str),
            rtt_us: hop.rtt_us,
        };
        let (through, direct_because, failed_because) = match &connection.outcome {
            Outcome::Chain(hops) => (hops.iter().map(hop).collect(), None, None),
            Outcome::Direct => (Vec::new(), Some("no route"), None),
            Outcome::Short => (Vec::new(), Some("short"), None),
            Outcome::FellBack(why) => (Vec::new(), Some(why.as_str()), None),
            Outcome::Failed { why, .. } => (Vec::new(), None, Some(why.as_str())),
        };
        let traffic = connection.traffic;
        Self {
            destination: connection.destination,
            through,
            direct_because,
            failed_because,
            connect_us: connection.took,
            sent_bytes: traffic.map(|traffic| traffic.sent),
            received_bytes: traffic.map(|traffic| traffic.received),
            seconds: traffic.map(|traffic| traffic.lasted.as_secs_f64()),
            rate_bps: traffic.map(|traffic| traffic.rate_bps()),
            open: traffic.map(|traffic| traffic.is_open),
        }
    }
}
