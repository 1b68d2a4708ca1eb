// SPDX-License-Identifier: GPL-2.0-or-later
//! A scenario's nodes and links on this machine: a network namespace for each node, two TAP devices
//! for each link, an emulator between them, addresses and routes.
//!
//! Everything is held by this process: when it ends, by whatever cause, namespaces and devices are
//! gone and so are the commands it started.

#![expect(
    unsafe_code,
    reason = "a command of a node ends with this process, which is set between fork and exec"
)]

use crate::{
    directed_link::{DirectedLink, Outlet},
    emulator::{Emulator, Snapshot},
    error::WanError,
    health::Health,
    moves,
    node::{NodeNetwork, families, node_named},
    port::Port,
    run_files::HostsFile,
    sys,
};
use host::Lack;
use scenario::{Family, Heading, LinkChange, Move, Run};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet, fs::File, io, net::IpAddr, os::unix::process::CommandExt, path::Path,
    process::Command,
};

/// An emulated network that is up. Dropping it takes it down.
pub struct Wan {
    nodes: Vec<NodeNetwork>,
    directed_links: Vec<String>,
    family: Family,
    hosts: HostsFile,
    emulator: Emulator,
    /// Held in addition to the emulator, so that the devices' counters can be read after its end.
    devices: Vec<File>,
}

impl Wan {
    /// Brings a run's nodes and links up.
    ///
    /// # Errors
    /// The machine lacks a requirement ([`WanError::Lacks`]), or the kernel refused a setting.
    pub fn up(run: &Run) -> Result<Self, WanError> {
        let lacking = lacking(run, |_| None)?;
        if !lacking.is_empty() {
            return Err(WanError::Lacks(Lack::all(lacking)));
        }
        HostsFile::remove_abandoned();
        let nodes = (0u16..)
            .zip(&run.nodes)
            .map(|(n, node)| NodeNetwork::new(n, run, node))
            .collect::<Result<Vec<_>, _>>()?;
        let mut directed_links = Vec::new();
        let mut names = Vec::new();
        let mut devices = Vec::new();
        for (n, link) in run.links.iter().enumerate() {
            for end in [&link.a, &link.b] {
                devices.push(node_named(&nodes, end).open_device(n)?);
            }
        }
        // A link's two devices follow one another, and so do its two directed links.
        for (n, directed_link) in run.directed_links().enumerate() {
            directed_links.push(DirectedLink {
                link: directed_link.config,
                max_burst: directed_link.direction.max_burst,
                from: Some(Port::Tap(clone(&devices[n])?)),
                to: Outlet::Port(Port::Tap(clone(&devices[n ^ 1])?)),
                carries_groups: false,
            });
            names.push(directed_link.name);
        }
        let routes = run.routes();
        for (node, spec) in nodes.iter().zip(&run.nodes) {
            node.configure(run, spec, &routes, &nodes)?;
        }
        // Only now: a frame written to a device that is not up would be refused.
        let emulator = Emulator::start(directed_links)
            .map_err(|e| WanError::system("start the emulator", e))?;
        let hosts = hosts_file(&nodes, run.family)
            .map_err(|e| WanError::system("write the nodes' hosts file", e))?;
        Ok(Self { nodes, directed_links: names, family: run.family, hosts, emulator, devices })
    }

    /// The nodes, in the scenario's order.
    pub fn nodes(&self) -> &[NodeNetwork] {
        &self.nodes
    }

    /// The node of that name.
    ///
    /// # Errors
    /// [`WanError::NoSuchNode`] names those there are.
    pub fn node(&self, name: &str) -> Result<&NodeNetwork, WanError> {
        self.nodes.iter().find(|node| node.name == name).ok_or_else(|| WanError::NoSuchNode {
            name: name.to_owned(),
            known: self.nodes.iter().map(|node| node.name.clone()).collect(),
        })
    }

    /// The address that a node's name stands for.
    ///
    /// # Errors
    /// There is no such node.
    pub fn address(&self, name: &str) -> Result<IpAddr, WanError> {
        self.node(name).map(|node| node.address(self.family))
    }

    /// A command that will run on a node and dies with the thread that starts it.
    ///
    /// # Errors
    /// There is no such node, or no more descriptors.
    pub fn command(&self, node: &str, program: &str) -> Result<Command, WanError> {
        let mut command = Command::new(program);
        self.node(node)?
            .namespace
            .enter_on_exec(&mut command, self.hosts.path().to_owned())
            .map_err(|e| WanError::system("prepare a command", e))?;
        let parent = std::process::id();
        // SAFETY: only system calls are made between fork and exec.
        unsafe { command.pre_exec(move || sys::die_with_parent(parent)) };
        Ok(command)
    }

    /// Leads what a node sends over one of its links, the n-th of the run that this network was made of, into
    /// another device in its namespace, until that device goes.
    ///
    /// # Errors
    /// There is no such node or device.
    pub fn divert(&self, run: &Run, node: &str, link: usize, device: &str) -> Result<(), WanError> {
        let node = self.node(node)?;
        let spec = run.node(&node.name).expect("the network was made of this run");
        node.divert(run, spec, &self.nodes, link, device)
    }

    /// Changes a link of the run that this network was made of, from now on.
    pub fn change_link(&self, run: &Run, change: &LinkChange) {
        let Some(link) = run.links.iter().position(|link| link.name == change.link) else { return };
        for (end, heading) in [Heading::Forward, Heading::Backward].into_iter().enumerate() {
            if change.changes(heading) {
                self.emulator.change(2 * link + end, change.model());
            }
        }
    }

    /// Moves a node to one of its links, as in an event of the run that this network was made of: it has another address
    /// from now on, and what is sent to the one before arrives at nothing.
    ///
    /// # Errors
    /// The kernel refused an address or a route.
    pub fn move_node(&self, run: &Run, moves: &Move) -> Result<(), WanError> {
        moves::move_node(run, moves, &self.nodes)
    }

    /// All addresses that a node has in the course of its run; first the one that its name stands for.
    ///
    /// # Errors
    /// There is no such node.
    pub fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, WanError> {
        let node = self.node(name)?;
        let later = node.moved.iter().map(|moved| moved.address(self.family));
        Ok([node.address(self.family)].into_iter().chain(later).collect())
    }

    /// The file that commands on the nodes see as `/etc/hosts`.
    pub fn hosts(&self) -> &Path {
        self.hosts.path()
    }

    /// The directions of the links, `LINK/forward` and `LINK/backward`, in the order in which
    /// snapshots have them.
    pub fn directed_links(&self) -> &[String] {
        &self.directed_links
    }

    /// Time zero of the links, and of what the snapshots say.
    pub fn started(&self) -> std::time::Instant {
        self.emulator.started()
    }

    /// Has what links do over time (rates that change, outages) begin now. Until then it counts from their start.
    pub fn begin_schedules(&self) {
        self.emulator.begin_schedules();
    }

    /// Counts so far, without the monitors' bins.
    ///
    /// # Errors
    /// A node's counters can't be read.
    pub fn status(&self) -> Result<Snapshot, WanError> {
        with_device_drops(self.emulator.status(), &self.nodes)
    }

    /// Takes everything down; answers what the links did, with the monitors' bins.
    ///
    /// # Errors
    /// A node's counters can't be read.
    pub fn down(self) -> Result<Snapshot, WanError> {
        let Self { nodes, emulator, devices, .. } = self;
        let last = with_device_drops(emulator.finish(), &nodes);
        // Only now: with the devices, what they dropped is forgotten.
        drop(devices);
        last
    }
}

fn with_device_drops(mut snapshot: Snapshot, nodes: &[NodeNetwork]) -> Result<Snapshot, WanError> {
    let drops: io::Result<u64> = nodes.iter().map(NodeNetwork::device_drops).sum();
    let device_drops = drops.map_err(|e| WanError::system("read the devices' counters", e))?;
    snapshot.health = Health { device_drops, ..snapshot.health };
    Ok(snapshot)
}

/// Statistics of one direction of a link.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkStatus {
    /// `LINK/forward` or `LINK/backward`.
    pub name: String,
    /// Packets offered to the link.
    pub offered: u64,
    /// Packets that arrived, or will.
    pub delivered: u64,
    /// Packets dropped by the queue, at its limit or by its discipline.
    pub queue_drops: u64,
    /// Of those, packets that the discipline dropped.
    #[serde(default)]
    pub early_drops: u64,
    /// Packets lost on the wire.
    pub losses: u64,
    /// Packets longer than the MTU.
    pub too_long: u64,
    /// Packets marked by the queue (ECN).
    pub marks: u64,
    /// Bytes on the wire, with layer 2 and lost ones.
    pub carried_bytes: u64,
    /// Bytes that wait now.
    pub queue_bytes: u64,
    /// The most packets that waited at once.
    pub queue_max_packets: u64,
    /// Gap frames on the wire, which are in no other figure.
    pub gap_frames: u64,
    /// Their bytes.
    pub gap_bytes: u64,
    /// The mean gap between two packets, from the last bit of one to the first of the next; none before the
    /// second, and none where the link's `spacing` is false.
    pub gap_mean_us: Option<f64>,
    /// The standard deviation of these gaps.
    pub gap_deviation_us: Option<f64>,
}

impl LinkStatus {
    pub(crate) fn all(names: &[String], snapshot: &Snapshot) -> Vec<Self> {
        let directed_links = names.iter().zip(&snapshot.directed_links);
        directed_links
            .map(|(name, directed_link)| Self {
                name: name.clone(),
                offered: directed_link.counters.offered,
                delivered: directed_link.counters.delivered,
                queue_drops: directed_link.counters.queue_drops,
                early_drops: directed_link.counters.early_drops,
                losses: directed_link.counters.losses,
                too_long: directed_link.counters.too_long,
                marks: directed_link.counters.marks,
                carried_bytes: directed_link.counters.carried_bytes,
                queue_bytes: directed_link.queue_bytes,
                queue_max_packets: directed_link.counters.queue_max_packets,
                gap_frames: directed_link.counters.gaps,
                gap_bytes: directed_link.counters.gap_bytes,
                gap_mean_us: directed_link.gap.map(|gap| gap.mean_ns / 1e3),
                gap_deviation_us: directed_link.gap.map(|gap| gap.deviation_ns / 1e3),
            })
            .collect()
    }
}

fn clone(device: &File) -> Result<File, WanError> {
    device.try_clone().map_err(|e| WanError::system("duplicate a device's descriptor", e))
}

/// Requirements of a run's nodes that this kernel does not meet, each with its remedy.
///
/// Modules count once they are loaded: nothing loads them on demand. Nor does this ask for the congestion
/// controls that the caller brings. `stand_in` answers which that is for a name: the same, or another to propose.
///
/// # Errors
/// The kernel doesn't tell what it has.
pub fn lacking(
    run: &Run,
    stand_in: impl Fn(&str) -> Option<String>,
) -> Result<Vec<Lack>, WanError> {
    let available = host::sysctl::available_congestion_controls()
        .map_err(|e| WanError::system("read which congestion controls there are", e))?;
    let there = |name: &str| available.split_whitespace().any(|known| known == name);
    let of_flows = run.flows.iter().flat_map(|flow| &flow.cc);
    let of_traffic = run.traffic.iter().map(|traffic| &traffic.cc);
    let of_nodes = run.nodes.iter().map(|node| &node.cc);
    let wanted: BTreeSet<&String> = of_nodes.chain(of_flows).chain(of_traffic).collect();
    let missing = wanted.into_iter().filter(|name| !there(name)).filter_map(|name| {
        let what = format!("this kernel has no congestion control \"{name}\"; it has: {available}");
        match stand_in(name) {
            Some(same) if same == *name => None,
            Some(own) => Some(Lack::new(what, format_args!("longhaul brings its own: cc = \"{own}\""))),
            None => Some(Lack::new(
                format_args!("{what}. Others may be loadable"),
                "`longhaul cc list` says which longhaul brings, others come as modules (modprobe tcp_bic)",
            )),
        }
    });
    let mut lacking: Vec<Lack> = missing.collect();
    if !families().contains(&run.family) {
        lacking.push(Lack::new(
            "the scenario's family is ipv6, and this kernel runs without",
            "start it without ipv6.disable=1, or run with --set family=ipv4",
        ));
    }
    Ok(lacking)
}

fn hosts_file(nodes: &[NodeNetwork], family: Family) -> io::Result<HostsFile> {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    for node in nodes {
        text += &format!("{} {}\n", node.address(family), node.name);
    }
    HostsFile::write(&text)
}
