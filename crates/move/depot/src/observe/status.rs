// SPDX-License-Identifier: GPL-2.0-or-later
//! What `/status.json` says, and all that the metrics are made from.
//!
//! *Up* is from clients to origins (bodies of requests), *down* from origins to clients (bodies of
//! answers). Keys carry their units.

use super::credentials::UsedTicket;
pub use relay::Side;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// The version of this document. Keys may be added without a new one.
pub const SCHEMA: u32 = 1;

/// The state of a depot.
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
    /// Time of this document: seconds since 1970.
    pub time_unix_s: f64,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Connections.
    pub connections: Connections,
    /// Memory and files.
    pub memory: Memory,
    /// Sums over all requests.
    pub totals: Totals,
    /// Refusals, by reason.
    pub refusals: Vec<Refusals>,
    /// The access log.
    pub access_log: AccessLogState,
    /// Peers whose packets are spaced below TCP.
    #[serde(default)]
    pub paced: Vec<PeerPacing>,
    /// Depots of `[[detour]]` that are probed.
    #[serde(default)]
    pub detours: Vec<DetourDepot>,
    /// Distributions of durations.
    #[serde(default)]
    pub times: Times,
    /// Failed connections to next hops, by an error of RFC 9209.
    #[serde(default)]
    pub connect_failures: BTreeMap<String, u64>,
    /// Failed TLS handshakes, by side.
    #[serde(default)]
    pub tls_failures: BTreeMap<String, u64>,
    /// Failed attempts to accept a connection.
    #[serde(default)]
    pub accept_failures: u64,
    /// Requests and connections that a defect of the depot has ended.
    #[serde(default)]
    pub panics: u64,
    /// Accepted tickets, by issuer.
    #[serde(default)]
    pub tickets: BTreeMap<String, u64>,
    /// Refused requests with a ticket.
    #[serde(default)]
    pub ticket_refusals: u64,
    /// The configuration and the files that it names, and whether they could be read.
    #[serde(default)]
    pub reloads: Vec<Reload>,
    /// The depot's own certificate, if it has one.
    #[serde(default)]
    pub certificate: Option<Certificate>,
    /// The certificates that clients may see: the depot's own and those of its sites.
    #[serde(default)]
    pub certificates: Vec<ShownCertificate>,
    /// Hops, by side and name.
    pub hops: Vec<HopStatistics>,
    /// Transfers under way, oldest first; the fastest ones if there are more than
    /// [`MOST_TRANSFERS`].
    pub transfers: Vec<Transfer>,
    /// The number of all transfers under way.
    pub live_transfers: usize,
    /// Earlier depots that finish accepted requests.
    #[serde(default)]
    pub draining: Vec<Draining>,
    /// Sums by client, the fastest first; at most [`MOST_SUMS`].
    #[serde(default)]
    pub clients: Vec<Sum>,
    /// Sums by ticket, likewise.
    #[serde(default)]
    pub ticket_transfers: Vec<Sum>,
    /// Sessions.
    #[serde(default)]
    pub sessions: Sessions,
}

/// Maximum number of transfers in a document.
pub const MOST_TRANSFERS: usize = 256;
/// Maximum number of clients, and of tickets, with sums in a document.
pub const MOST_SUMS: usize = 100;
/// Maximum number of characters of a target in a document.
pub const MOST_TARGET: usize = 512;

/// Distributions of durations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// From a relayed request to the head of its response.
    pub first_byte: Histogram,
    /// From a relayed request to the end of the transfer.
    pub duration: Histogram,
    /// Until a connection with a next hop is open, with name lookup and TLS.
    pub connect: Histogram,
}

/// A histogram of durations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// The upper bounds of all buckets except the last, which has none, in seconds.
    pub bounds_s: Vec<f64>,
    /// The count in each bucket.
    pub counts: Vec<u64>,
    /// The sum of all durations, in seconds.
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
    /// Adds a duration.
    pub(crate) fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.counts[self.bounds_s.partition_point(|bound| *bound < seconds)] += 1;
        self.sum_s += seconds;
    }
}

/// A file that is reloaded, and the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reload {
    /// `configuration`, or the kind of file.
    pub of: String,
    /// Whether the last reload succeeded.
    pub good: bool,
    /// Time of the last success: seconds since 1970.
    pub good_unix_s: f64,
}

/// The depot's own certificate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// End of validity: seconds since 1970. For a chain, the earliest end.
    pub not_after_unix_s: f64,
}

/// A certificate that clients may see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShownCertificate {
    /// `own`, or the site's name.
    pub of: String,
    /// The names and addresses that it is for.
    pub names: String,
    /// End of validity: seconds since 1970. For a chain, the earliest end.
    pub not_after_unix_s: f64,
    /// What clients refuse it for, each as a word.
    pub problems: Vec<String>,
    /// Why what the file holds now was not taken, if it was not.
    pub refused: Option<String>,
}

impl ShownCertificate {
    /// The words for all problems.
    pub const PROBLEMS: [&'static str; 8] =
        ["expired", "not_yet_valid", "authority", "usage", "no_name", "name", "chain", "refused"];

    /// Whether it has a problem: one of the words above.
    pub fn has(&self, problem: &str) -> bool {
        self.problems.iter().any(|it| it == problem)
            || (problem == "refused" && self.refused.is_some())
    }
}

/// Whether a depot takes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It accepts requests.
    Serving,
    /// It accepts none and finishes those under way.
    Draining,
}

/// Connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Open connections of clients.
    pub open: usize,
    /// Their maximum (`limits.connections`).
    pub limit: usize,
    /// Connections that depots hold open while idle, which `open` excludes.
    #[serde(default)]
    pub held: usize,
    /// Idle connections to next hops.
    pub idle_upstream: usize,
}

/// Memory and files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Kernel memory for the sockets of transfers.
    #[serde(default)]
    pub sockets_held_bytes: u64,
    /// Bytes in pipes.
    #[serde(default)]
    pub pipes_held_bytes: u64,
    /// Capacity of all pipes.
    pub pipes_reserved_bytes: u64,
    /// Capacity of the buffers that the depot has raised.
    #[serde(default)]
    pub raised_buffers_bytes: u64,
    /// Maximum for sockets and pipes together (`limits.memory`).
    #[serde(alias = "pipes_limit_bytes")]
    pub limit_bytes: u64,
    /// What is reserved of it: what transfers hold, or would hold if all of them stopped.
    #[serde(default)]
    pub reserved_bytes: u64,
    /// The share of one client.
    #[serde(default)]
    pub client_share_bytes: u64,
    /// The client for which most is reserved, while it has transfers.
    #[serde(default)]
    pub largest_client: Option<LargestClient>,
    /// Transfers refused for lack of memory, by whose memory it was: `all`, what is `kept` for clients with few
    /// transfers, or that of the `client`.
    #[serde(default)]
    pub refusals: BTreeMap<String, u64>,
    /// What all TCP sockets of the machine hold, where the kernel tells.
    #[serde(default)]
    pub host_tcp_bytes: Option<u64>,
    /// With more than this the kernel is short of memory for TCP (`net.ipv4.tcp_mem`), where it tells.
    #[serde(default)]
    pub host_tcp_pressure_bytes: Option<u64>,
    /// The process's own memory, without pipes and sockets.
    pub resident_bytes: u64,
    /// Open files: sockets and ends of pipes.
    pub open_files: usize,
    /// Their maximum.
    #[serde(default)]
    pub open_files_limit: u64,
}

/// A client, and what is reserved for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargestClient {
    /// Its address, or the network of an IPv6 one.
    pub client: String,
    /// Its transfers under way.
    pub transfers: usize,
    /// What is reserved of `limits.memory`.
    pub reserved_bytes: u64,
}

/// All requests since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Ended requests, by outcome.
    pub requests: BTreeMap<String, u64>,
    /// Bytes of bodies towards origins.
    pub up_bytes: u64,
    /// The part of `up_bytes` moved in the kernel.
    pub up_spliced_bytes: u64,
    /// Bytes of bodies towards clients.
    pub down_bytes: u64,
    /// The part of `down_bytes` moved in the kernel.
    pub down_spliced_bytes: u64,
}

/// Refusals of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// The status of the response.
    pub status: u16,
    /// The reason, a word of RFC 9209.
    pub error: String,
    /// The number of requests.
    pub requests: u64,
}

/// The access log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessLogState {
    /// The destination: `stderr` or a file.
    pub to: String,
    /// Lines that could not be written, in the access log or to standard error.
    pub dropped_lines: u64,
}

/// Peers whose packets are spaced below TCP: a `[[hop]]` whose `pacing` is `gap` or `edt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerPacing {
    /// Their network.
    pub peer: String,
    /// The method: `gap` or `edt`.
    pub pacing: String,
    /// Whether pacing is in force, as of the last second.
    pub in_force: bool,
}

/// A depot of a `[[detour]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetourDepot {
    /// Its name in the configuration, with the port.
    pub depot: String,
    /// Whether it is up. A depot that was not probed yet counts as up.
    pub up: bool,
}

/// A hop. Socket statistics are those of the connections with a transfer now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HopStatistics {
    /// Its side.
    pub side: Side,
    /// The next hop's host and port; or the clients' network, `unlisted`; or `other`.
    pub hop: String,
    /// Ended requests, by outcome.
    pub requests: BTreeMap<String, u64>,
    /// Responses of a next hop, by status; unregistered ones by class, such as `4xx`.
    #[serde(default)]
    pub answers: BTreeMap<String, u64>,
    /// Connections with a transfer, by congestion control in force.
    pub connections: BTreeMap<String, usize>,
    /// The same, plus the connections that have joined them.
    #[serde(default)]
    pub streams: u64,
    /// Bytes of bodies towards origins, since the start.
    pub up_bytes: u64,
    /// Bytes of bodies towards clients, since the start.
    pub down_bytes: u64,
    /// The rate over the last second towards origins, in bit/s.
    pub up_bps: u64,
    /// The rate over the last second towards clients, in bit/s.
    pub down_bps: u64,
    /// Segments retransmitted to it during transfers, since the start.
    pub retransmitted_segments: u64,
    /// Transfers in which it was slower than `stall` permits.
    pub stalls: u64,
    /// The time during transfers, since the start and summed over connections, in which the kernel offered it less than an initial
    /// window although all that came was read, in microseconds.
    #[serde(default)]
    pub crept_us: u64,
    /// The mean of the smoothed round-trip times, in microseconds.
    pub rtt_us: Option<u32>,
    /// The minimum round-trip time, in microseconds.
    pub min_rtt_us: Option<u32>,
    /// The sum of all congestion windows, in bytes.
    pub cwnd_bytes: u64,
    /// The sum of all send buffers, in bytes.
    #[serde(default)]
    pub sndbuf_bytes: u64,
    /// The sum of all receive buffers, in bytes.
    #[serde(default)]
    pub rcvbuf_bytes: u64,
    /// The sum of the last delivery rates of all connections, in bit/s.
    pub delivery_rate_bps: Option<u64>,
}

/// Sessions. Open ones are among the transfers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// Open sessions: both sides are connected.
    pub open: usize,
    /// Connections that wait for the other end of their session.
    pub meetings_waiting: usize,
    /// Sessions that have ended or were refused.
    pub ended: Vec<EndedSessions>,
}

/// Sessions with one kind of target and one outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedSessions {
    /// The kind of target: `end`, `tcp` or `meet`.
    pub target: String,
    /// Their outcome.
    pub outcome: String,
    /// Their number.
    pub sessions: u64,
}

/// A transfer under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Its number since the start.
    pub number: u64,
    /// The process that finishes it, if that is one from before a takeover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// The session's name. `None` for a request.
    #[serde(default)]
    pub session: Option<String>,
    /// The address of the peer that sent the request, which may be a depot.
    pub client: String,
    /// The next hop.
    pub upstream: String,
    /// The request's method.
    pub method: String,
    /// The request's target, without the secret part of a ticket.
    pub target: String,
    /// The client that a depot sends the request for.
    #[serde(default)]
    pub asked_for: Option<String>,
    /// The URL at the end of the route.
    #[serde(default)]
    pub url: Option<String>,
    /// The ticket of the request.
    #[serde(default)]
    pub ticket: Option<TicketName>,
    /// The proxy user of the request.
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
    /// The rate over the last second towards the origin, in bit/s.
    pub up_bps: u64,
    /// The rate over the last second towards the client, in bit/s.
    pub down_bps: u64,
    /// Seconds since its start.
    pub age_s: f64,
    /// The client's connection.
    pub client_tcp: Option<Tcp>,
    /// The next hop's.
    pub upstream_tcp: Option<Tcp>,
}

/// A depot that has handed over to a successor, and finishes accepted requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draining {
    /// Its process ID.
    pub process: u32,
    /// Maximum remaining time, in seconds.
    pub seconds_left: f64,
    /// The number of its transfers.
    pub live_transfers: usize,
    /// Open connections of its clients.
    #[serde(default)]
    pub connections: usize,
    /// Its oldest transfers, at most [`MOST_TRANSFERS`].
    pub transfers: Vec<Transfer>,
}

/// Sums over transfers of one client or ticket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// The client's address (also behind a depot), or the ticket's `jti`.
    pub of: String,
    /// The number of transfers.
    pub transfers: usize,
    /// Bytes of request bodies so far.
    pub up_bytes: u64,
    /// Bytes of response bodies so far.
    pub down_bytes: u64,
    /// The rate over the last second towards origins, in bit/s.
    pub up_bps: u64,
    /// The rate over the last second towards clients, in bit/s.
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

/// A connection as the kernel reports it (`TCP_INFO` and socket options).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// The congestion control in force.
    pub congestion: String,
    /// The smoothed round-trip time, in microseconds.
    pub rtt_us: u32,
    /// The minimum round-trip time, in microseconds.
    pub min_rtt_us: Option<u32>,
    /// The congestion window, in bytes.
    pub cwnd_bytes: u64,
    /// The last rate at which the peer acknowledged data, in bit/s.
    pub delivery_rate_bps: Option<u64>,
    /// Segments retransmitted during this transfer.
    pub retransmitted_segments: u32,
    /// The time of this transfer in which the kernel offered the peer less than an initial window although all that came was
    /// read, in microseconds.
    #[serde(default)]
    pub crept_us: u64,
    /// The send buffer in bytes, by the kernel's accounting.
    pub sndbuf_bytes: u64,
    /// The receive buffer in bytes, by the kernel's accounting.
    pub rcvbuf_bytes: u64,
    /// Bytes that both hold, by the kernel's accounting.
    #[serde(default)]
    pub held_bytes: u64,
    /// What spaces its packets: `gap`, `edt` or `tcp`. `None`: only its congestion control.
    #[serde(default)]
    pub pacing: Option<String>,
    /// Its pacing rate in bit/s, if it has one.
    pub pacing_bps: Option<u64>,
    /// Maximum bytes that the kernel keeps unsent, if limited.
    pub notsent_lowat_bytes: Option<u64>,
    /// Whether it is Multipath TCP.
    pub mptcp: bool,
    /// The number of connections of this transfer, of which this is the first.
    #[serde(default)]
    pub streams: u32,
    /// The number of connections requested for it.
    #[serde(default)]
    pub streams_asked: Option<u8>,
}
