// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfers, and the TCP connections that they are made of.

use super::pacing::FlowPacing;
use crate::json;
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Rate};

/// A transfer of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Unique among flows.
    pub name: String,
    /// The node that has the data.
    pub from: String,
    /// The node that wants it.
    pub to: String,
    /// Depots in the direction of the data.
    pub via: Vec<String>,
    /// Congestion control of each hop's sender: one more than there are depots.
    pub cc: Vec<String>,
    /// How each hop's sender spaces its packets.
    #[serde(default)]
    pub pacing: Vec<FlowPacing>,
    /// Size of the file; as much as goes until the run ends where it is none.
    #[serde(with = "json::some_bytes")]
    pub bytes: Option<Bytes>,
    /// How fast the program that sends it produces the data ([`crate::app_rate`]); it has them all at once where it is none.
    #[serde(
        default,
        rename = "app_rate_bps",
        with = "json::some_rate",
        skip_serializing_if = "Option::is_none"
    )]
    pub app_rate: Option<Rate>,
    /// Connections that carry it side by side, over the whole way.
    pub streams: u32,
    /// When it starts, counted from the start of the run.
    #[serde(rename = "start_us", with = "json::micros")]
    pub start: Duration,
    /// The program that downloads it, where one is named.
    pub client: Option<Client>,
    /// How the client is brought to the depots.
    pub signalling: Signalling,
    /// The flow whose end it waits for, and whose connections behind the client's it takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Whether it does no more than prepare connections for another: then it is not part of the results.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prepares: bool,
    /// Whether it only loads the path in the other direction: it is in no comparison of the run's flows then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reverse: bool,
    /// How many idle connections its depots keep open to each other.
    #[serde(default, skip_serializing_if = "is_none_warm")]
    pub warm: u16,
    /// Whether the client asks the depot nearest to it at once, for a site that has the depot's name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub site: bool,
    /// `SO_SNDBUF` of the depots' sockets; the kernel tunes them where it is none.
    #[serde(rename = "sndbuf_bytes", with = "json::some_bytes")]
    pub sndbuf: Option<Bytes>,
    /// `SO_RCVBUF` of the depots' sockets; the kernel tunes them where it is none.
    #[serde(rename = "rcvbuf_bytes", with = "json::some_bytes")]
    pub rcvbuf: Option<Bytes>,
}

impl Flow {
    /// The TCP connections of the flow in the direction of the data.
    pub fn hops(&self) -> impl Iterator<Item = Hop<'_>> {
        let senders = std::iter::once(&self.from).chain(&self.via);
        let receivers = self.via.iter().chain(std::iter::once(&self.to));
        // Records made before there was pacing say nothing of it.
        let pacing = self.pacing.iter().copied().chain(std::iter::repeat(FlowPacing::None));
        let hops = senders.zip(receivers).zip(&self.cc).zip(pacing);
        hops.map(|(((from, to), cc), pacing)| Hop { from, to, cc, pacing })
    }

    /// Why a run does not count in which it ended like this, where it prepares connections.
    pub fn unprepared(&self, outcome: &str) -> String {
        format!("flow {}, which prepares connections: {outcome}", self.name)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_none_warm(warm: &u16) -> bool {
    *warm == 0
}

/// One TCP connection of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop<'f> {
    /// The node that sends the data.
    pub from: &'f str,
    /// The node that receives it.
    pub to: &'f str,
    /// The sender's congestion control.
    pub cc: &'f str,
    /// How the sender spaces its packets.
    pub pacing: FlowPacing,
}

/// A program that downloads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// curl.
    #[default]
    Curl,
    /// GNU Wget.
    Wget,
    /// aria2, over 16 connections.
    Aria2,
}

/// How a client is brought to a flow's depots (`docs/protocol.md`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signalling {
    /// One redirect with the whole route, to the depot nearest the client.
    #[default]
    Fetch,
    /// A redirect at each depot, from the one nearest the source on, as in paper 000, section 4.
    Lead,
}
