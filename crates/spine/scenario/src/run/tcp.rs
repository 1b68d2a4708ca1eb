// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings of simulated TCP.

use super::family::Family;
use crate::json;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::{Bytes, Duration};

/// A congestion control with parameters of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Congestion {
    /// One of longhaul's, as nodes and flows name it: `lh_htcp`.
    pub name: String,
    /// The named set that its parameters are taken from; its default one where it is none.
    pub set: Option<String>,
    /// Parameters that differ from that set.
    pub parameters: BTreeMap<String, u32>,
}

/// Settings of TCP's endpoints.
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own, as in the file")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// Whose behaviour it is, before the other keys.
    pub profile: Profile,
    /// Whether a connection opens with a handshake and the receiver asks for the data; data starts
    /// at once where not.
    pub handshake: bool,
    /// Segments in the first window.
    pub initial_window: u32,
    /// Where the first slow start ends at the latest; at a loss where it is none.
    #[serde(rename = "initial_ssthresh_segments")]
    pub initial_ssthresh: Option<u32>,
    /// Whether CUBIC ends slow start by `HyStart`.
    pub hystart: bool,
    /// How losses are found.
    pub loss_detection: LossDetection,
    /// Whether a tail loss probe (RFC 8985) precedes the timeout.
    pub tail_probe: bool,
    /// How the window comes down after a loss.
    pub recovery: Recovery,
    /// Segments that one acknowledgement covers at most, unless some arrive in one burst.
    pub ack_every: u32,
    /// Longest wait of an acknowledgement.
    #[serde(rename = "ack_delay_us", with = "json::micros")]
    pub ack_delay: Duration,
    /// Segments that arrive within so long of each other are acknowledged by one acknowledgement, as
    /// after receive offload; zero leaves each on its own.
    #[serde(rename = "ack_stretch_us", with = "json::micros")]
    pub ack_stretch: Duration,
    /// Least retransmission timeout.
    #[serde(rename = "min_rto_us", with = "json::micros")]
    pub min_rto: Duration,
    /// Whether the receive window follows what arrives in a round trip (Linux's autotuning), or is
    /// the receive buffer's limit at once.
    pub autotuning: bool,
    /// Limit of the receive buffer where the node gives none.
    #[serde(rename = "rcvbuf_bytes", with = "json::bytes")]
    pub rcvbuf: Bytes,
    /// Limit of the send buffer where the node gives none.
    #[serde(rename = "sndbuf_bytes", with = "json::bytes")]
    pub sndbuf: Bytes,
    /// Whether senders without a rate of their own space their packets by window and round trip.
    pub pacing: bool,
    /// Whether connections use ECN (RFC 3168).
    pub ecn: bool,
    /// TCP's and IP's headers, with the options that every segment carries.
    #[serde(rename = "header_bytes")]
    pub header: u32,
}

impl Tcp {
    /// The defaults of a profile.
    pub const fn of(profile: Profile, family: Family) -> Self {
        match profile {
            Profile::Linux => Self::linux(family),
            Profile::Ns2 => Self::ns2(),
        }
    }

    /// Linux 6.x: the defaults of its `net.ipv4` settings (ip-sysctl), `TCP_DELACK_MIN` of 40 ms,
    /// `TCP_RTO_MIN` of 200 ms, RFC 6928's initial window, timestamps in every segment.
    const fn linux(family: Family) -> Self {
        Self {
            profile: Profile::Linux,
            handshake: true,
            initial_window: 10,
            initial_ssthresh: None,
            hystart: true,
            loss_detection: LossDetection::Rack,
            tail_probe: true,
            recovery: Recovery::Prr,
            ack_every: 2,
            ack_delay: Duration::from_millis(40),
            ack_stretch: Duration::ZERO,
            min_rto: Duration::from_millis(200),
            autotuning: true,
            rcvbuf: Bytes::new(6 << 20),
            sndbuf: Bytes::new(4 << 20),
            pacing: false,
            ecn: false,
            header: match family {
                Family::Ipv4 => 20 + 20 + 12,
                Family::Ipv6 => 40 + 20 + 12,
            },
        }
    }

    /// ns-2.35's agents as the papers used them: one-way TCP in packets, without a handshake or a
    /// receiver's limit; 40 bytes of header, ns-2's `tcpip_base_hdr_size_`, whatever the family.
    const fn ns2() -> Self {
        Self {
            profile: Profile::Ns2,
            handshake: false,
            initial_window: 2,
            initial_ssthresh: None,
            hystart: false,
            loss_detection: LossDetection::Dupack,
            tail_probe: false,
            recovery: Recovery::Halving,
            ack_every: 1,
            ack_delay: Duration::ZERO,
            ack_stretch: Duration::ZERO,
            min_rto: Duration::from_millis(200),
            autotuning: false,
            rcvbuf: Bytes::new(1 << 40),
            sndbuf: Bytes::new(1 << 40),
            pacing: false,
            ecn: false,
            header: 40,
        }
    }
}

/// Whose behaviour TCP's endpoints have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Linux, 6.x.
    #[default]
    Linux,
    /// ns-2.35's `Agent/TCP/Sack1` and `Agent/TCP/Linux`: the papers' simulator.
    Ns2,
}

/// How losses are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LossDetection {
    /// By time: what was sent before something that was delivered (RFC 8985).
    Rack,
    /// By count: three later segments were delivered (RFC 6675). A lost retransmission is found by
    /// the timeout only.
    Dupack,
}

/// How the window comes down after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recovery {
    /// In proportion to what is delivered (RFC 6937).
    Prr,
    /// At once; what is in flight drains first (RFC 6675).
    Pipe,
    /// One segment goes out for two that are delivered until the window fits what is in flight (rate
    /// halving, Mathis 1999), as in Linux 2.6 and ns-2's `TCP/Linux`.
    Halving,
}
