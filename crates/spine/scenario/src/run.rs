// SPDX-License-Identifier: GPL-2.0-or-later
//! One run of a scenario with everything resolved: plain data, equal if and only if its JSON is.

use crate::{json, routes::Routes};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use units::{Bytes, Duration};

mod capture;
mod discipline;
mod event;
mod family;
mod flow;
mod impairments;
mod link;
mod pacing;
mod queue;
mod tcp;
mod traffic;

pub use capture::Capture;
pub use discipline::{Discipline, Thresholds};
pub use event::{Action, Event, LinkChange, Move};
pub use family::Family;
pub use flow::{Client, Flow, Hop, Signalling};
pub use impairments::{
    ChangingRate, JitterDistribution, LatePackets, LinkImpairments, LinkOutage, LinkPolicer,
    PacketJitter,
};
pub use link::{Direction, Heading, Link, Loss};
pub use pacing::{Bottleneck, FlowPacing, PacingRtt, PacingSettings};
pub use queue::Queue;
pub use tcp::{Congestion, LossDetection, Profile, Recovery, Tcp};
pub use traffic::{Burst, FileSize, Source, Traffic};

/// One run: one variant at one point of the sweep, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Unique in the scenario and fit for a file's name: `depots-bbr,rtt=90ms,client=curl,r03`.
    pub id: String,
    /// The scenario's title.
    pub title: String,
    /// The paper and figure it is from.
    pub source: Option<String>,
    /// The variant of the scenario; none in a scenario without variants.
    pub variant: Option<Variant>,
    /// The variant that others are compared with.
    pub baseline: Option<String>,
    /// Where in the sweep: each swept key and its value as written, in the order of the axes.
    pub point: Vec<Setting>,
    /// Which of the repeats, from 1.
    pub repeat: u32,
    /// For every draw of this run, below 2^53. The same for all variants and points of a repeat, so
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
    /// Settings of simulated TCP.
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
    /// Traffic other than the transfers, in the order of the file: first the entries of `[[traffic]]`,
    /// then those that `[[background]]` expands to.
    pub traffic: Vec<Traffic>,
    /// Bottlenecks that hosts schedule their packets for, in the order of the file.
    #[serde(default)]
    pub bottlenecks: Vec<Bottleneck>,
    /// What happens at times of its own, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Measurements of papers for this variant at this point.
    pub references: Vec<Reference>,
}

impl Run {
    /// The shortest paths between all nodes.
    pub fn routes(&self) -> Routes {
        Routes::new(self.nodes.iter().map(|n| n.name.as_str()), &self.links)
    }

    /// The event that starts a flow, if one does.
    pub fn starter(&self, flow: &str) -> Option<&Event> {
        self.events.iter().find(|event| matches!(&event.action, Action::Start(it) if it == flow))
    }

    /// The node where an event happens: of a flow that it starts, where that is received; of a link, its first end.
    pub fn place<'r>(&'r self, event: &'r Event) -> Option<&'r str> {
        match &event.action {
            Action::Kill(node) | Action::Restart(node) | Action::Move(Move { node, .. }) => {
                Some(node)
            }
            Action::Start(flow) => {
                self.flows.iter().find(|it| it.name == *flow).map(|flow| flow.to.as_str())
            }
            Action::Change(LinkChange { link, .. }) => {
                self.links.iter().find(|it| it.name == *link).map(|link| link.a.as_str())
            }
        }
    }

    /// The moves of nodes to other links, in the order of the file.
    pub fn moves(&self) -> impl Iterator<Item = &Move> {
        self.events.iter().filter_map(|event| match &event.action {
            Action::Move(moves) => Some(moves),
            _ => None,
        })
    }

    /// The paths after a node has moved.
    pub fn routes_after(&self, moves: &Move) -> Routes {
        let is_left =
            |link: &&Link| link.name != moves.link && [&link.a, &link.b].contains(&&moves.node);
        Routes::without(self.nodes.iter().map(|n| n.name.as_str()), &self.links, is_left)
    }

    /// The nodes on which programs run: those where flows and traffic begin and end, and depots.
    pub fn active_nodes(&self) -> BTreeSet<&str> {
        let flows =
            self.flows.iter().flat_map(|flow| [&flow.from, &flow.to].into_iter().chain(&flow.via));
        let traffic = self.traffic.iter().flat_map(|traffic| [&traffic.from, &traffic.to]);
        flows.chain(traffic).map(String::as_str).collect()
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.name == name)
    }
}

/// A named variant of the scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
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
    /// Whether its packets are captured, and what of them. Not written where there is none, so that a record from before
    /// there were captures is still one of the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Capture>,
}

/// A paper's measurement or statement, for comparison with the results of this run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The variant it is about.
    pub variant: String,
    /// The points of the sweep it is about; all of them where it is empty.
    pub at: Vec<Setting>,
    /// Goodput of the variant over that of the baseline.
    pub gain: f64,
    /// Where it is from.
    pub note: String,
}
