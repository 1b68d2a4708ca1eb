// SPDX-License-Identifier: GPL-2.0-or-later
//! What `/status.json` says, and all statistics of a depot, each declared once (`statistics`).
//!
//! *Up* is from clients to origins (bodies of requests), *down* from origins to clients (bodies of
//! answers). Keys carry their units.

use super::{
    credentials::UsedTicket,
    statistics::{Kind, Statistics, Value, field, statistics},
};
pub use super::{
    histogram::Histogram,
    overlay_status::{DetourForecast, RegisteredDepot, RegisteredHop},
    statistics::{Field, Statistic},
};
pub use limits::{Cause, CauseTimes, Row};
pub use relay::Side;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of this document. Keys may be added without a new one.
pub const SCHEMA: u32 = 1;

statistics! {
    /// The state of a depot.
    pub struct Status {
        /// [`SCHEMA`].
        schema: u32,
        /// The depot's name in `Via`.
        id: String,
        /// The version of longhaul.
        version: String,
        /// Whether it takes requests.
        state: State,
        /// Time of this document: seconds since 1970.
        time_unix_s: f64,
        /// Seconds since the start.
        uptime_s: f64 => gauge("uptime"),
        /// Connections.
        connections: Connections => nested,
        /// Memory and files.
        memory: Memory => nested,
        /// Sums over all requests.
        totals: Totals => nested,
        /// Refusals, by reason.
        refusals: Vec<Refusals> => nested,
        /// The access log.
        access_log: AccessLogState => nested,
        /// Peers whose packets are spaced below TCP.
        #[serde(default)]
        paced: Vec<PeerPacing> => nested,
        /// Depots of `[[detour]]` that are probed.
        #[serde(default)]
        detours: Vec<DetourDepot> => nested,
        /// Announced depots.
        #[serde(default)]
        register: Vec<RegisteredDepot> => nested,
        /// Routes of detours that are chosen by forecast.
        #[serde(default)]
        forecasts: Vec<DetourForecast> => nested,
        /// Distributions of durations.
        #[serde(default)]
        times: Times => nested,
        /// Failed connections to next hops, by error.
        #[serde(default)]
        connect_failures: BTreeMap<String, u64> => counter("connect_failures", by "error"),
        /// Failed TLS handshakes, by side.
        #[serde(default)]
        tls_failures: BTreeMap<String, u64> => counter("tls_handshake_failures", by "side"),
        /// Failed attempts to accept a connection.
        #[serde(default)]
        accept_failures: u64 => counter("accept_failures"),
        /// Requests and connections that a defect of the depot has ended.
        #[serde(default)]
        panics: u64 => counter("panics"),
        /// Accepted tickets, by issuer.
        #[serde(default)]
        tickets: BTreeMap<String, u64> => counter("tickets", by "issuer"),
        /// Refused requests with a ticket.
        #[serde(default)]
        ticket_refusals: u64 => counter("ticket_refusals"),
        /// The configuration and the files that it names, and whether they could be read.
        #[serde(default)]
        reloads: Vec<Reload> => nested,
        /// The depot's own certificate, if it has one.
        #[serde(default)]
        certificate: Option<Certificate> => nested,
        /// The certificates that clients may see: the depot's own and those of its sites.
        #[serde(default)]
        certificates: Vec<ShownCertificate>,
        /// Hops, by side and name.
        hops: Vec<HopStatistics> => nested,
        /// Transfers under way, oldest first; the fastest ones if there are more than
        /// [`MOST_TRANSFERS`].
        transfers: Vec<Transfer>,
        /// Transfers under way.
        live_transfers: usize => gauge("live_transfers"),
        /// Earlier depots that finish accepted requests.
        #[serde(default)]
        draining: Vec<Draining>,
        /// Sums by client, the fastest first; at most [`MOST_SUMS`].
        #[serde(default)]
        clients: Vec<Sum>,
        /// Sums by ticket, likewise.
        #[serde(default)]
        ticket_transfers: Vec<Sum>,
        /// Sessions.
        #[serde(default)]
        sessions: Sessions => nested,
        /// The store of sessions, if the depot has one.
        #[serde(default)]
        store: Option<StoreState> => nested,
    }

    /// Sessions that the depot keeps.
    #[derive(Default, Eq)]
    pub struct StoreState {
        /// 1 if the store is open, 0 while another process has it.
        open: bool => gauge("store_open"),
        /// Sessions that the depot keeps.
        sessions: usize => gauge("store_sessions"),
        /// Space that they have, or have reserved.
        used_bytes: u64 => gauge("store_used"),
        /// Maximum of that space: `store.size`.
        size_bytes: u64 => gauge("store_size"),
        /// Requests that the store has refused.
        refused: u64 => counter("store_refusals"),
        /// Sessions that were removed because their time was over.
        expired: u64 => counter("store_expired"),
    }

    /// Connections.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct Connections {
        /// Open connections of clients.
        open: usize => gauge("client_connections"),
        /// Maximum of open client connections: `limits.connections`.
        limit: usize => gauge("client_connections_limit"),
        /// Connections that other depots may hold open while idle.
        held: usize => gauge("held_connections"),
        /// Idle connections to next hops.
        idle_upstream: usize => gauge("idle_upstream_connections"),
    }

    /// Memory and files.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct Memory {
        /// Kernel memory for the sockets of transfers.
        sockets_held_bytes: u64 => gauge("sockets_held"),
        /// Bytes in pipes.
        pipes_held_bytes: u64 => gauge("pipes_held"),
        /// Capacity of all pipes.
        pipes_reserved_bytes: u64 => gauge("pipes_reserved"),
        /// Capacity of the socket buffers that the depot has raised.
        raised_buffers_bytes: u64 => gauge("raised_buffers"),
        /// Maximum for sockets and pipes together: `limits.memory`.
        #[serde(alias = "pipes_limit_bytes")]
        limit_bytes: u64 => gauge("memory_limit"),
        /// What is reserved of `limits.memory`: what transfers hold, or would if all of them stopped.
        reserved_bytes: u64 => gauge("memory_reserved"),
        /// The share of `limits.memory` of one client.
        client_share_bytes: u64 => gauge("memory_client_share"),
        /// The client for which most is reserved, while it has transfers.
        largest_client: Option<LargestClient>,
        /// Transfers refused for lack of memory: all of it, what is kept for clients with few, or the client's share.
        refusals: BTreeMap<String, u64> => counter("memory_refusals", by "of"),
        /// What all TCP sockets of the machine hold.
        host_tcp_bytes: Option<u64> => gauge("host_tcp_memory"),
        /// With more the kernel is short of memory for TCP, and connections creep (`tcp_mem`).
        host_tcp_pressure_bytes: Option<u64> => gauge("host_tcp_memory_pressure"),
        /// The process's memory, without pipes and sockets.
        resident_bytes: u64 => gauge("resident_memory"),
        /// Open files of the process.
        open_files: usize => gauge("open_files"),
        /// Maximum of open files of the process.
        open_files_limit: u64 => gauge("open_files_limit"),
    }

    /// All requests since the start.
    #[derive(Default, Eq)]
    pub struct Totals {
        /// Ended requests, by outcome.
        requests: BTreeMap<String, u64> => counter("requests", by "outcome"),
        /// Relayed body bytes: up to origins, down to clients.
        up_bytes: u64 => counter("relayed", direction "up"),
        /// Relayed body bytes that moved in the kernel.
        up_spliced_bytes: u64 => counter("spliced", direction "up"),
        /// Those towards clients.
        down_bytes: u64 => counter("relayed", direction "down"),
        /// Those towards clients that moved in the kernel.
        down_spliced_bytes: u64 => counter("spliced", direction "down"),
    }

    /// Refusals of one kind.
    #[derive(Eq)]
    pub struct Refusals {
        /// The status of the response.
        status: u16 => label,
        /// The reason, a word of RFC 9209.
        error: String => label,
        /// Requests that the depot answered with an error of its own.
        requests: u64 => counter("refusals"),
    }

    /// The access log.
    #[derive(Eq)]
    pub struct AccessLogState {
        /// The destination: `stderr` or a file.
        to: String,
        /// Lines of the log that could not be written.
        dropped_lines: u64 => counter("access_log_dropped_lines"),
    }

    /// Peers whose packets are spaced below TCP: a `[[hop]]` whose `pacing` is `gap` or `edt`.
    #[derive(Eq)]
    pub struct PeerPacing {
        /// Their network.
        peer: String => label,
        /// The method: `gap` or `edt`.
        pacing: String => label,
        /// 1 if packets to the peer are paced below TCP as configured, else 0.
        in_force: bool => gauge("paced"),
    }

    /// A depot of a `[[detour]]`. One that was not probed yet counts as up.
    #[derive(Eq)]
    pub struct DetourDepot {
        /// Its name in the configuration, with the port.
        depot: String => label,
        /// 1 if the depot of a detour is up, else 0.
        up: bool => gauge("detour_up"),
    }

    /// Distributions of durations, in seconds.
    #[derive(Default)]
    pub struct Times {
        /// From a relayed request to the head of its response.
        first_byte: Histogram => counter("first_byte"),
        /// From a relayed request to the end of the transfer.
        duration: Histogram => counter("transfer_duration"),
        /// To a connection with a next hop: name, TCP and TLS.
        connect: Histogram => counter("connect"),
    }

    /// A file that is reloaded, and the result.
    pub struct Reload {
        /// `configuration`, or the kind of file.
        of: String => label,
        /// 1 if the last reload succeeded, else 0.
        good: bool => gauge("last_reload_successful"),
        /// Time of the last successful reload.
        good_unix_s: f64 => gauge("last_reload_success_timestamp"),
    }

    /// The depot's own certificate. Of a chain, the earliest end counts.
    #[derive(Copy)]
    pub struct Certificate {
        /// End of validity of the depot's certificate.
        not_after_unix_s: f64 => gauge("certificate_expiry_timestamp"),
    }

    /// A hop. Socket statistics are those of the connections with a transfer now.
    #[derive(Default)]
    #[serde(default)]
    pub struct HopStatistics {
        /// Its side.
        side: Side => label,
        /// The next hop's host and port; or the clients' network, `unlisted`; or `other`.
        hop: String => label,
        /// Ended requests, by hop and outcome.
        requests: BTreeMap<String, u64> => counter("hop_requests", by "outcome", cli "ended"),
        /// Ended responses of a next hop, by status.
        answers: BTreeMap<String, u64> => counter("hop_answers", by "status"),
        /// Connections with a transfer, by congestion control in force.
        connections: BTreeMap<String, usize> => gauge("hop_connections", by "congestion"),
        /// Connections with a transfer, with those that have joined one.
        streams: u64 => gauge("hop_streams"),
        /// Relayed body bytes, by hop.
        up_bytes: u64 => counter("hop_relayed", direction "up"),
        /// Those towards clients.
        down_bytes: u64 => counter("hop_relayed", direction "down"),
        /// Rate over the last second, by hop.
        down_bps: u64 => gauge("hop_rate", direction "down", cli "down"),
        /// The rate towards origins.
        up_bps: u64 => gauge("hop_rate", direction "up", cli "up"),
        /// Mean of the smoothed round-trip times of connections with a transfer.
        rtt_us: Option<u32> => gauge("hop_rtt", cli "RTT"),
        /// Minimum round-trip time of connections with a transfer.
        min_rtt_us: Option<u32> => gauge("hop_min_rtt", page "shortest RTT", cli "shortest"),
        /// Sum of the congestion windows of connections with a transfer.
        cwnd_bytes: u64 => gauge("hop_cwnd", page "cwnd"),
        /// TCP segments retransmitted to the hop.
        retransmitted_segments: u64 => counter("hop_retransmitted_segments", page "segments sent again", cli "again"),
        /// Last rate at which the hop acknowledged data.
        delivery_rate_bps: Option<u64> => gauge("hop_delivery_rate", page "delivery rate"),
        /// Transfers in which the hop was slower than `stall.rate`.
        stalls: u64 => counter("hop_stalls"),
        /// Time in which the kernel offered the hop less than an initial window, with all that came read.
        crept_us: u64 => counter("hop_crept"),
        /// Sum of the send buffers of connections with a transfer.
        sndbuf_bytes: u64 => gauge("hop_sndbuf"),
        /// Sum of the receive buffers of connections with a transfer.
        rcvbuf_bytes: u64 => gauge("hop_rcvbuf"),
    }

    /// Sessions. Open ones are among the transfers.
    #[derive(Default, Eq)]
    pub struct Sessions {
        /// Sessions with both sides connected.
        open: usize => gauge("sessions_open"),
        /// Connections that wait for their session's other end.
        meetings_waiting: usize => gauge("session_meetings_waiting"),
        /// Sessions that have ended or were refused.
        ended: Vec<EndedSessions> => nested,
    }

    /// Sessions with one kind of target and one outcome.
    #[derive(Eq)]
    pub struct EndedSessions {
        /// The kind of target: `end`, `tcp`, `meet` or `store`.
        target: String => label,
        /// Their outcome.
        outcome: String => label,
        /// Ended or refused sessions, by target and outcome.
        sessions: u64 => counter("sessions"),
    }
}

impl HopStatistics {
    /// The columns of a table of hops.
    pub fn columns() -> impl Iterator<Item = &'static Field<Self>> {
        Self::fields().filter(|field| field.statistic.cli.is_some())
    }
}

/// Maximum number of transfers in a document.
pub const MOST_TRANSFERS: usize = 256;
/// Maximum number of clients, and of tickets, with sums in a document.
pub const MOST_SUMS: usize = 100;
/// Maximum number of characters of a target in a document.
pub const MOST_TARGET: usize = 512;

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
    /// What has limited it most so far.
    #[serde(default)]
    pub limited_by: Option<TransferLimit>,
    /// For how long each cause has limited it, by side.
    #[serde(default)]
    pub limits_us: Option<Row>,
    /// The client's connection.
    pub client_tcp: Option<Tcp>,
    /// The next hop's.
    pub upstream_tcp: Option<Tcp>,
}

/// What limits a transfer at this depot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TransferLimit {
    /// The side that the depot waits for.
    pub side: Side,
    /// The cause.
    pub cause: Cause,
    /// Its share of the transfer's time, 0 to 1.
    pub share: f64,
}

impl std::fmt::Display for TransferLimit {
    /// As in `client congestion`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.side, self.cause.words())
    }
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
