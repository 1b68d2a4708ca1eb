// SPDX-License-Identifier: GPL-2.0-or-later
//! What `/status.json` says, and all that the metrics are made from.
//!
//! *Up* is from clients to origins (bodies of requests), *down* from origins to clients (bodies of
//! answers). Keys carry their units.

use super::live::UsedTicket;
pub use relay::Side;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// The version of this document. Keys may be added without a new one.
pub const SCHEMA: u32 = 1;

/// A depot as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The depot's name in `Via`.
    pub id: String,
    /// The version of longhaul.
    pub version: String,
    /// Whether it takes requests.
    pub state: State,
    /// When this was read: seconds since 1970.
    pub time_unix_s: f64,
    /// For how long it has run.
    pub uptime_s: f64,
    /// Connections.
    pub connections: Connections,
    /// Memory and files.
    pub memory: Memory,
    /// All requests together.
    pub totals: Totals,
    /// Refusals, by reason.
    pub refusals: Vec<Refusals>,
    /// The access log.
    pub access_log: AccessLogState,
    /// Peers to whom packets are to be spaced below TCP.
    #[serde(default)]
    pub paced: Vec<PacedPeer>,
    /// Depots of `[[detour]]` that are asked whether they are up.
    #[serde(default)]
    pub detours: Vec<DetourDepot>,
    /// How long things took.
    #[serde(default)]
    pub times: Times,
    /// Connections to next hops that failed, by an error of RFC 9209.
    #[serde(default)]
    pub connect_failures: BTreeMap<String, u64>,
    /// TLS handshakes that failed, by side.
    #[serde(default)]
    pub tls_failures: BTreeMap<String, u64>,
    /// Tries to accept a connection that failed.
    #[serde(default)]
    pub accept_failures: u64,
    /// Tickets that were taken, by issuer.
    #[serde(default)]
    pub tickets: BTreeMap<String, u64>,
    /// Requests with a ticket that were refused.
    #[serde(default)]
    pub ticket_refusals: u64,
    /// The configuration and the files that it names, and how it went when they were read.
    #[serde(default)]
    pub reloads: Vec<Reload>,
    /// The depot's own certificate, if it has one.
    #[serde(default)]
    pub certificate: Option<Certificate>,
    /// Hops, by side and name.
    pub hops: Vec<Hop>,
    /// Transfers under way, oldest first; the fastest ones if there are more than
    /// [`MOST_TRANSFERS`].
    pub transfers: Vec<Transfer>,
    /// Transfers under way in all.
    pub live_transfers: usize,
    /// Depots before this one that finish what they have accepted.
    #[serde(default)]
    pub draining: Vec<Draining>,
    /// Those of each client together, the fastest first; at most [`MOST_SUMS`].
    #[serde(default)]
    pub clients: Vec<Sum>,
    /// Those of each ticket together, likewise.
    #[serde(default)]
    pub ticket_transfers: Vec<Sum>,
    /// Sessions.
    #[serde(default)]
    pub sessions: Sessions,
}

/// The most transfers that a document lists.
pub const MOST_TRANSFERS: usize = 256;
/// The most clients, and tickets, whose sums a document has.
pub const MOST_SUMS: usize = 100;
/// The most characters of a target that a document has.
pub const MOST_TARGET: usize = 512;

/// How long things took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// From a request that is passed on to the head of its answer.
    pub first_byte: Histogram,
    /// From a request that is passed on to the end of the transfer.
    pub duration: Histogram,
    /// To a connection with a next hop, its name's look-up and TLS counted in.
    pub connect: Histogram,
}

/// How often something took how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// The upper bounds of all parts but the last, which has none.
    pub bounds_s: Vec<f64>,
    /// How often, in each part.
    pub counts: Vec<u64>,
    /// All of it together.
    pub sum_s: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        let bounds_s =
            vec![0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0, 3600.0];
        Self { counts: vec![0; bounds_s.len() + 1], bounds_s, sum_s: 0.0 }
    }
}

impl Histogram {
    /// Once more.
    pub(crate) fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.counts[self.bounds_s.partition_point(|bound| *bound < seconds)] += 1;
        self.sum_s += seconds;
    }
}

/// What is read again, and how that went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reload {
    /// `configuration`, or what the files hold.
    pub of: String,
    /// Whether it could be used the last time.
    pub good: bool,
    /// When it last could: seconds since 1970.
    pub good_unix_s: f64,
}

/// The depot's own certificate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// End of validity: seconds since 1970. For a chain, the earliest end.
    pub not_after_unix_s: f64,
}

/// Whether a depot takes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It does.
    Serving,
    /// It was told to stop and finishes what is under way.
    Draining,
}

/// Connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Of clients, open.
    pub open: usize,
    /// The most of them (`limits.connections`).
    pub limit: usize,
    /// Of depots that may hold them open while they are idle; not among the others.
    #[serde(default)]
    pub held: usize,
    /// To next hops, waiting for work.
    pub idle_upstream: usize,
}

/// Memory and files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What the kernel holds for the sockets of transfers.
    #[serde(default)]
    pub sockets_held_bytes: u64,
    /// What is in pipes.
    #[serde(default)]
    pub pipes_held_bytes: u64,
    /// What all pipes may hold.
    pub pipes_reserved_bytes: u64,
    /// What buffers may hold that the depot has raised.
    #[serde(default)]
    pub raised_buffers_bytes: u64,
    /// The most that sockets and pipes hold together (`limits.memory`).
    #[serde(alias = "pipes_limit_bytes")]
    pub limit_bytes: u64,
    /// The process's own memory, without pipes and sockets.
    pub resident_bytes: u64,
    /// Open files: sockets and ends of pipes.
    pub open_files: usize,
    /// The most of them.
    #[serde(default)]
    pub open_files_limit: u64,
}

/// All requests since the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests that have ended, by how.
    pub requests: BTreeMap<String, u64>,
    /// Bytes of bodies towards origins.
    pub up_bytes: u64,
    /// Of those, moved in the kernel.
    pub up_spliced_bytes: u64,
    /// Bytes of bodies towards clients.
    pub down_bytes: u64,
    /// Of those, moved in the kernel.
    pub down_spliced_bytes: u64,
}

/// Refusals of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// The status that was answered.
    pub status: u16,
    /// The reason, a word of RFC 9209.
    pub error: String,
    /// How many.
    pub requests: u64,
}

/// The access log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessLogState {
    /// Where it goes: `stderr`, or a file.
    pub to: String,
    /// Lines that could not be written, there or to standard error.
    pub dropped_lines: u64,
}

/// Peers to whom packets are to be spaced below TCP: a `[[hop]]` whose `pacing` is `gap` or `edt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacedPeer {
    /// Their network.
    pub peer: String,
    /// By what: `gap` or `edt`.
    pub pacing: String,
    /// Whether they are, as of the last second.
    pub in_force: bool,
}

/// A depot of a `[[detour]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetourDepot {
    /// As the configuration names it, with its port.
    pub depot: String,
    /// Whether it is up. One that was not asked yet is.
    pub up: bool,
}

/// A hop. Figures of sockets are those of the connections that have a transfer now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    /// Its side.
    pub side: Side,
    /// The next hop's host and port; or the clients' network, `unlisted`; or `other`.
    pub hop: String,
    /// Requests that have ended, by how.
    pub requests: BTreeMap<String, u64>,
    /// Answers of a next hop, by status; of those that have no name, by class, as in `4xx`.
    #[serde(default)]
    pub answers: BTreeMap<String, u64>,
    /// Connections with a transfer, by congestion control in force.
    pub connections: BTreeMap<String, usize>,
    /// The same, those counted that have joined them.
    #[serde(default)]
    pub streams: u64,
    /// Bytes of bodies towards origins, since the start.
    pub up_bytes: u64,
    /// Bytes of bodies towards clients, since the start.
    pub down_bytes: u64,
    /// The rate of the last second towards origins.
    pub up_bps: u64,
    /// The rate of the last second towards clients.
    pub down_bps: u64,
    /// Segments sent to it again during transfers, since the start.
    pub retransmitted_segments: u64,
    /// Transfers in which it was slower than `stall` lets it be.
    pub stalls: u64,
    /// The mean of the smoothed round trips.
    pub rtt_us: Option<u32>,
    /// The shortest round trip.
    pub min_rtt_us: Option<u32>,
    /// All congestion windows together.
    pub cwnd_bytes: u64,
    /// All send buffers together.
    #[serde(default)]
    pub sndbuf_bytes: u64,
    /// All receive buffers together.
    #[serde(default)]
    pub rcvbuf_bytes: u64,
    /// How fast all connections together were last seen to deliver what the depot sends.
    pub delivery_rate_bps: Option<u64>,
}

/// Sessions: those that are open are among the transfers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// Open: both sides are connected.
    pub open: usize,
    /// Connections that wait for the other end of their session.
    pub meetings_waiting: usize,
    /// Sessions that have ended or were refused.
    pub ended: Vec<EndedSessions>,
}

/// Sessions that led to one kind of target and ended in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedSessions {
    /// The kind of target: `end`, `tcp` or `meet`.
    pub target: String,
    /// How they ended.
    pub outcome: String,
    /// How many.
    pub sessions: u64,
}

/// A transfer under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Its number since the start.
    pub number: u64,
    /// The session's name; none for a request.
    #[serde(default)]
    pub session: Option<String>,
    /// Who asked; it may be another depot.
    pub client: String,
    /// The next hop.
    pub upstream: String,
    /// The request's method.
    pub method: String,
    /// What was asked for, without what makes a ticket good.
    pub target: String,
    /// The client for which a depot asks.
    #[serde(default)]
    pub asked_for: Option<String>,
    /// What is at the end of the route.
    #[serde(default)]
    pub url: Option<String>,
    /// The ticket by which it was asked for.
    #[serde(default)]
    pub ticket: Option<TicketName>,
    /// The user of the proxy by whose password it was asked for.
    #[serde(default)]
    pub user: Option<String>,
    /// The answer's status, once there is one.
    pub status: Option<u16>,
    /// The length of the answer's body, if it is known.
    pub expected_bytes: Option<u64>,
    /// Bytes of the request's body so far.
    pub up_bytes: u64,
    /// Bytes of the answer's body so far.
    pub down_bytes: u64,
    /// The rate of the last second towards the origin.
    pub up_bps: u64,
    /// The rate of the last second towards the client.
    pub down_bps: u64,
    /// For how long it has run.
    pub age_s: f64,
    /// The client's connection.
    pub client_tcp: Option<Tcp>,
    /// The next hop's.
    pub upstream_tcp: Option<Tcp>,
}

/// A depot that another one has taken over from, and which finishes what it has accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draining {
    /// Its process.
    pub process: u32,
    /// For how long it goes on at most.
    pub seconds_left: f64,
    /// Its transfers in all.
    pub live_transfers: usize,
    /// Its oldest transfers, at most [`MOST_TRANSFERS`].
    pub transfers: Vec<Transfer>,
}

/// Transfers under way that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// The client's address, for which a depot may ask, or the ticket's `jti`.
    pub of: String,
    /// How many.
    pub transfers: usize,
    /// Bytes of requests' bodies so far.
    pub up_bytes: u64,
    /// Bytes of answers' bodies so far.
    pub down_bytes: u64,
    /// The rate of the last second towards origins.
    pub up_bps: u64,
    /// The rate of the last second towards clients.
    pub down_bps: u64,
}

/// A ticket, as operators name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketName {
    /// Its `jti`.
    pub id: String,
    /// Its `iss`.
    pub issuer: Option<String>,
}

impl From<&UsedTicket> for TicketName {
    fn from(ticket: &UsedTicket) -> Self {
        Self { id: ticket.id.clone(), issuer: ticket.issuer.clone() }
    }
}

/// What the kernel says of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// The congestion control in force.
    pub congestion: String,
    /// The smoothed round trip.
    pub rtt_us: u32,
    /// The shortest round trip.
    pub min_rtt_us: Option<u32>,
    /// The congestion window.
    pub cwnd_bytes: u64,
    /// How fast the peer was last seen to take what the depot sends.
    pub delivery_rate_bps: Option<u64>,
    /// Segments sent again during this transfer.
    pub retransmitted_segments: u32,
    /// The send buffer, as the kernel counts it.
    pub sndbuf_bytes: u64,
    /// The receive buffer, as the kernel counts it.
    pub rcvbuf_bytes: u64,
    /// What both hold, as the kernel counts it.
    #[serde(default)]
    pub held_bytes: u64,
    /// By what its packets are spaced, if by anything but its congestion control: `gap`, `edt` or `tcp`.
    #[serde(default)]
    pub pacing: Option<String>,
    /// The rate to which it is held, if it is to one.
    pub pacing_bps: Option<u64>,
    /// How much the kernel keeps unsent, if that is limited.
    pub notsent_lowat_bytes: Option<u64>,
    /// Whether it is Multipath TCP.
    pub mptcp: bool,
    /// Over how many connections this transfer goes, of which this is the first.
    #[serde(default)]
    pub streams: u32,
    /// Over how many it was asked for.
    #[serde(default)]
    pub streams_asked: Option<u8>,
}
