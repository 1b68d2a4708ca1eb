// SPDX-License-Identifier: GPL-2.0-or-later
//! One run of a scenario with everything resolved: plain data, equal if and only if its JSON is.

use crate::{json, routes::Routes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::{Bytes, Duration, Probability, Rate};

mod discipline;
mod pacing;
mod tcp;
mod traffic;

pub use discipline::{Discipline, Thresholds};
pub use pacing::{Bottleneck, Pacing, PacingRtt, PacingSettings};
pub use tcp::{Congestion, LossDetection, Profile, Recovery, Tcp};
pub use traffic::{Burst, FileSize, Source, Traffic};

/// One run: one way at one point of the sweep, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Unique in the scenario and fit for a file's name: `depots-bbr,rtt=90ms,client=curl,r03`.
    pub id: String,
    /// The scenario's title.
    pub title: String,
    /// The paper and figure it is from.
    pub source: Option<String>,
    /// The variant of the scenario; none in a scenario without ways.
    pub way: Option<Way>,
    /// The way that others are compared with.
    pub baseline: Option<String>,
    /// Where in the sweep: each swept key and its value as written, in the order of the axes.
    pub point: Vec<Setting>,
    /// Which of the repeats, from 1.
    pub repeat: u32,
    /// For every draw of this run, below 2^53. The same for all ways and points of a repeat, so
    /// that what is compared meets the same chance.
    pub seed: u64,
    /// A run that takes longer is cut off.
    #[serde(rename = "timeout_s", with = "json::seconds")]
    pub timeout: Duration,
    /// The run ends then, whatever is under way; when every flow has ended where it is none.
    #[serde(rename = "duration_s", with = "json::some_seconds")]
    pub duration: Option<Duration>,
    /// How far apart the samples of a series are.
    #[serde(rename = "sample_us", with = "json::micros")]
    pub sample: Duration,
    /// What TCP is like; of use where it is simulated.
    pub tcp: Tcp,
    /// Congestion controls that run with other parameters than their default ones.
    pub congestion: Vec<Congestion>,
    /// How paced senders estimate their rates, and their gap frames.
    #[serde(default)]
    pub pacing: PacingSettings,
    /// Which of a node's addresses its name stands for.
    pub family: Family,
    /// Hosts, in the order of the file.
    pub nodes: Vec<Node>,
    /// Links, in the order of the file.
    pub links: Vec<Link>,
    /// Transfers, in the order of the file.
    pub flows: Vec<Flow>,
    /// Traffic beside the transfers, in the order of the file; what `[[background]]` stands for
    /// after what `[[traffic]]` names.
    pub traffic: Vec<Traffic>,
    /// Bottlenecks that hosts schedule their packets for, in the order of the file.
    #[serde(default)]
    pub bottlenecks: Vec<Bottleneck>,
    /// What a paper measured for this way at this point.
    pub references: Vec<Reference>,
}

impl Run {
    /// The shortest paths between all nodes.
    pub fn routes(&self) -> Routes {
        Routes::new(self.nodes.iter().map(|n| n.name.as_str()), &self.links)
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.name == name)
    }
}

/// A named variant of the scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// For the command line and file names.
    pub name: String,
    /// For people.
    pub label: String,
}

/// A swept key and the value it has in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// As in `vars.rtt`.
    pub key: String,
    /// As written in the sweep, without quotes.
    pub value: String,
}

/// An address family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Unique among nodes.
    pub name: String,
    /// Congestion control of what it sends, unless a flow says otherwise.
    pub cc: String,
    /// Third value of `net.ipv4.tcp_rmem`; the kernel's where it is none.
    #[serde(rename = "tcp_rmem_max_bytes", with = "json::some_bytes")]
    pub tcp_rmem_max: Option<Bytes>,
    /// Third value of `net.ipv4.tcp_wmem`; the kernel's where it is none.
    #[serde(rename = "tcp_wmem_max_bytes", with = "json::some_bytes")]
    pub tcp_wmem_max: Option<Bytes>,
    /// Further kernel settings by their dotted names, all under `net.`.
    pub sysctl: BTreeMap<String, String>,
}

/// A link between two nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Unique among links.
    pub name: String,
    /// One end.
    pub a: String,
    /// The other end.
    pub b: String,
    /// From `a` to `b`.
    pub forward: Direction,
    /// From `b` to `a`.
    pub backward: Direction,
}

/// Which way a link is crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heading {
    /// From `a` to `b`.
    Forward,
    /// From `b` to `a`.
    Backward,
}

impl Heading {
    /// The other way.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

impl Link {
    /// What the link is like in that direction.
    pub const fn direction(&self, heading: Heading) -> &Direction {
        match heading {
            Heading::Forward => &self.forward,
            Heading::Backward => &self.backward,
        }
    }
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// Unlimited where it is none.
    #[serde(rename = "rate_bps", with = "json::some_rate")]
    pub rate: Option<Rate>,
    /// Propagation, one way.
    #[serde(rename = "delay_us", with = "json::micros")]
    pub delay: Duration,
    /// Which packets are lost on the way.
    pub loss: Loss,
    /// How much waits for the link before packets are dropped; unlimited where it is none.
    #[serde(flatten)]
    pub queue: Option<Queue>,
    /// What decides about the packets that wait; a record that says nothing is of taildrop.
    #[serde(default, skip_serializing_if = "Discipline::is_taildrop")]
    pub discipline: Discipline,
    /// How much waits for the link when packets of ECN-capable senders begin to be marked
    /// (RFC 3168); none are where it is none.
    #[serde(flatten, with = "json::mark")]
    pub mark: Option<Queue>,
    /// Largest IP packet in bytes.
    #[serde(rename = "mtu_bytes")]
    pub mtu: u32,
    /// Longest span of link time in one delivered super-packet; zero means single packets.
    #[serde(rename = "max_burst_us", with = "json::micros")]
    pub max_burst: Duration,
    /// Width of the monitor's bins.
    #[serde(rename = "monitor_us", with = "json::micros")]
    pub monitor: Duration,
    /// Whether gaps and bursts are counted.
    #[serde(default = "json::yes")]
    pub spacing: bool,
    /// What a packet takes on the link beyond its IP length, in bytes.
    #[serde(rename = "overhead_bytes")]
    pub overhead: u32,
}

/// A limit of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Queue {
    /// So many packets.
    #[serde(rename = "queue_packets")]
    Packets(u64),
    /// So many bytes.
    #[serde(rename = "queue_bytes", with = "json::bytes")]
    Bytes(Bytes),
}

/// A process of loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Loss {
    /// Nothing is lost.
    None,
    /// Each packet with the same probability.
    Uniform {
        /// Of losing a packet.
        #[serde(with = "json::probability")]
        probability: Probability,
    },
    /// One packet in so many, regularly.
    Periodic {
        /// The first that is lost, and then each after as many again; at least 1.
        every: u64,
    },
    /// Two states, as in `tc netem loss gemodel`.
    GilbertElliott {
        /// From good to bad.
        #[serde(with = "json::probability")]
        p: Probability,
        /// From bad to good.
        #[serde(with = "json::probability")]
        r: Probability,
        /// Loss in the bad state.
        #[serde(with = "json::probability")]
        loss_bad: Probability,
        /// Loss in the good state.
        #[serde(with = "json::probability")]
        loss_good: Probability,
    },
}

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
    pub pacing: Vec<Pacing>,
    /// Size of the file; as much as goes until the run ends where it is none.
    #[serde(with = "json::some_bytes")]
    pub bytes: Option<Bytes>,
    /// Connections that carry it side by side, over the whole way.
    pub streams: u32,
    /// When it starts, counted from the start of the run.
    #[serde(rename = "start_us", with = "json::micros")]
    pub start: Duration,
    /// The program that downloads it, where one is named.
    pub client: Option<Client>,
    /// How the client is brought to the depots.
    pub signalling: Signalling,
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
        let pacing = self.pacing.iter().copied().chain(std::iter::repeat(Pacing::None));
        let hops = senders.zip(receivers).zip(&self.cc).zip(pacing);
        hops.map(|(((from, to), cc), pacing)| Hop { from, to, cc, pacing })
    }
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
    pub pacing: Pacing,
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

/// What a paper measured or says, to stand beside what was measured here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The way it is about.
    pub way: String,
    /// The points of the sweep it is about; all of them where it is empty.
    pub at: Vec<Setting>,
    /// Goodput of the way over that of the baseline.
    pub gain: f64,
    /// Where it is from.
    pub note: String,
}
