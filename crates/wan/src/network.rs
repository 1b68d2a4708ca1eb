// SPDX-License-Identifier: GPL-2.0-or-later
//! A scenario's nodes and links on this machine: a network namespace for each node, two TAP devices
//! for each link, an emulator between them, addresses and routes.
//!
//! Each node has one IPv4 and one IPv6 address, on its loopback device; links need none. Neighbours
//! are permanent entries, so no ARP or neighbour discovery takes part in the run. Nodes forward.
//! A node's congestion control is a property of its routes (`congctl`): as the default of a
//! namespace the kernel takes only what the machine's administrator allowed to everybody, and
//! that list is not ours to change. A program that chooses its own still can.
//!
//! Everything is held by this process: when it ends, by whatever cause, namespaces and devices are
//! gone and so are the commands it started.

use crate::{
    emulator::{Emulator, Lane, Snapshot},
    error::WanError,
    health::Health,
    namespace::Namespace,
    sys,
};
use netmodel::{LinkConfig, LossModel, QueueLimit};
use scenario::{Direction, Family, Link, Loss, Node, Queue, Routes, Run};
use serde::{Deserialize, Serialize};
use std::{
    fmt::Write as _,
    fs::File,
    io::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};
use units::Bytes;

/// Frames that a device holds for the emulator to read. A sender's burst must fit: it is the
/// link's queue that drops, never the device.
const DEVICE_QUEUE: u32 = 20_000;

/// One node on this machine.
#[derive(Debug)]
pub struct NodeNetwork {
    /// As the scenario calls it.
    pub name: String,
    /// Its network namespace.
    pub namespace: Namespace,
    /// Its address.
    pub ipv4: Ipv4Addr,
    /// Its other address.
    pub ipv6: Ipv6Addr,
}

/// An emulated network that is up. Dropping it takes it down.
pub struct Wan {
    nodes: Vec<NodeNetwork>,
    lanes: Vec<String>,
    family: Family,
    hosts: tempfile::NamedTempFile,
    emulator: Emulator,
}

impl Wan {
    /// Brings a run's nodes and links up.
    ///
    /// # Errors
    /// What this machine lacks ([`WanError::Lacks`]), or what the kernel refused.
    pub fn up(run: &Run) -> Result<Self, WanError> {
        check_congestion_controls(run)?;
        let nodes = (0u16..)
            .zip(&run.nodes)
            .map(|(n, node)| NodeNetwork::new(n, node))
            .collect::<Result<Vec<_>, _>>()?;
        let mut lanes = Vec::new();
        let mut names = Vec::new();
        for (n, link) in run.links.iter().enumerate() {
            let [a, b] = [&link.a, &link.b].map(|name| node_named(&nodes, name));
            let [device_a, device_b] = [open_device(a, n)?, open_device(b, n)?];
            for (name, direction, from, to) in [
                ("forward", &link.forward, &device_a, &device_b),
                ("backward", &link.backward, &device_b, &device_a),
            ] {
                let name = format!("{}/{name}", link.name);
                lanes.push(Lane {
                    link: link_config(direction, lane_seed(run.seed, &name)),
                    max_burst: direction.max_burst,
                    from: clone(from)?,
                    to: clone(to)?,
                });
                names.push(name);
            }
        }
        let routes = run.routes();
        for (node, spec) in nodes.iter().zip(&run.nodes) {
            node.configure(run, spec, &routes, &nodes)?;
        }
        // Only now: a frame written to a device that is not up would be refused.
        let emulator =
            Emulator::start(lanes).map_err(|e| WanError::system("start the emulator", e))?;
        let hosts = hosts_file(&nodes, run.family)
            .map_err(|e| WanError::system("write the nodes' hosts file", e))?;
        Ok(Self { nodes, lanes: names, family: run.family, hosts, emulator })
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
            .attach(&mut command, self.hosts.path().to_owned())
            .map_err(|e| WanError::system("prepare a command", e))?;
        // SAFETY: only a system call is made between fork and exec.
        unsafe { command.pre_exec(sys::die_with_parent) };
        Ok(command)
    }

    /// The file that commands on the nodes see as `/etc/hosts`.
    pub fn hosts(&self) -> &Path {
        self.hosts.path()
    }

    /// The directions of the links, `LINK/forward` and `LINK/backward`, in the order in which
    /// snapshots have them.
    pub fn lanes(&self) -> &[String] {
        &self.lanes
    }

    /// Time zero of the links, and of what the snapshots say.
    pub fn started(&self) -> std::time::Instant {
        self.emulator.started()
    }

    /// Counts so far, without the monitors' bins.
    ///
    /// # Errors
    /// A namespace can't be read.
    pub fn status(&self) -> Result<Snapshot, WanError> {
        self.complete(self.emulator.status())
    }

    /// Takes everything down; answers what the links did, with the monitors' bins.
    ///
    /// # Errors
    /// A namespace can't be read.
    pub fn down(self) -> Result<Snapshot, WanError> {
        let last = self.emulator.finish();
        self.complete(last)
    }

    fn complete(&self, mut snapshot: Snapshot) -> Result<Snapshot, WanError> {
        snapshot.health = Health { device_drops: self.device_drops()?, ..snapshot.health };
        Ok(snapshot)
    }

    /// Frames that the kernel gave to a device whose queue was full. They were on no link.
    fn device_drops(&self) -> Result<u64, WanError> {
        let mut drops = 0;
        for node in &self.nodes {
            let table = node
                .namespace
                .run(|| std::fs::read_to_string("/proc/thread-self/net/dev"))
                .map_err(|e| WanError::system("read the devices' counters", e))?;
            // "wan0: rx bytes packets errs drop … (8 columns), tx bytes packets errs drop …"
            drops += table
                .lines()
                .filter(|line| line.trim_start().starts_with("wan"))
                .filter_map(|line| line.split_whitespace().nth(12)?.parse::<u64>().ok())
                .sum::<u64>();
        }
        Ok(drops)
    }
}

/// Where a node is to be found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeAddress {
    /// As the scenario calls it.
    pub name: String,
    /// Its address.
    pub ipv4: Ipv4Addr,
    /// Its other address.
    pub ipv6: Ipv6Addr,
    /// Its namespace's descriptor in the process that holds the network.
    pub descriptor: i32,
}

impl NodeAddress {
    pub(crate) fn of(node: &NodeNetwork) -> Self {
        Self {
            name: node.name.clone(),
            ipv4: node.ipv4,
            ipv6: node.ipv6,
            descriptor: node.namespace.descriptor(),
        }
    }
}

/// What one direction of a link did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Counted {
    /// `LINK/forward` or `LINK/backward`.
    pub name: String,
    /// Packets offered to the link.
    pub offered: u64,
    /// Packets that arrived, or will.
    pub delivered: u64,
    /// Packets dropped at the full queue.
    pub queue_drops: u64,
    /// Packets lost on the wire.
    pub losses: u64,
    /// Packets longer than the MTU.
    pub too_long: u64,
    /// Bytes on the wire, with layer 2 and lost ones.
    pub carried_bytes: u64,
    /// Bytes that wait now.
    pub queue_bytes: u64,
    /// The most packets that waited at once.
    pub queue_max_packets: u64,
}

impl Counted {
    pub(crate) fn all(wan: &Wan, snapshot: &Snapshot) -> Vec<Self> {
        let lanes = wan.lanes().iter().zip(&snapshot.lanes);
        lanes
            .map(|(name, lane)| Self {
                name: name.clone(),
                offered: lane.counters.offered,
                delivered: lane.counters.delivered,
                queue_drops: lane.counters.queue_drops,
                losses: lane.counters.losses,
                too_long: lane.counters.too_long,
                carried_bytes: lane.counters.carried_bytes,
                queue_bytes: lane.queue_bytes,
                queue_max_packets: lane.counters.queue_max_packets,
            })
            .collect()
    }
}

impl NodeNetwork {
    fn new(n: u16, node: &Node) -> Result<Self, WanError> {
        let namespace = Namespace::new().map_err(|e| WanError::no_namespace(&e))?;
        let [high, low] = (n + 1).to_be_bytes();
        Ok(Self {
            name: node.name.clone(),
            namespace,
            ipv4: Ipv4Addr::new(10, 110, high, low),
            ipv6: Ipv6Addr::new(0xfd6c, 0x6f6e, 0x6768, 0, 0, 0, 0, n + 1),
        })
    }

    /// The address of one family.
    pub fn address(&self, family: Family) -> IpAddr {
        match family {
            Family::Ipv4 => self.ipv4.into(),
            Family::Ipv6 => self.ipv6.into(),
        }
    }

    /// Settings, devices, neighbours and routes.
    fn configure(
        &self,
        run: &Run,
        spec: &Node,
        routes: &Routes,
        nodes: &[Self],
    ) -> Result<(), WanError> {
        let mut sysctls: Vec<(String, String)> = [
            ("net.ipv4.ip_forward", "1"),
            ("net.ipv4.conf.all.rp_filter", "0"),
            ("net.ipv6.conf.all.forwarding", "1"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        for (key, max) in
            [("net.ipv4.tcp_rmem", spec.tcp_rmem_max), ("net.ipv4.tcp_wmem", spec.tcp_wmem_max)]
        {
            let Some(max) = max else { continue };
            let now =
                self.namespace.sysctl(key).map_err(|e| WanError::system("read tcp_mem", e))?;
            sysctls.push((key.to_owned(), with_maximum(&now, max)));
        }
        sysctls.extend(spec.sysctl.clone());
        for (key, value) in sysctls {
            self.namespace.set_sysctl(&key, &value).map_err(|error| WanError::Sysctl {
                node: self.name.clone(),
                key,
                value,
                error,
            })?;
        }
        self.ip(&self.ip_commands(run, spec, routes, nodes))
    }

    /// What iproute2 shall do, a command a line.
    fn ip_commands(&self, run: &Run, spec: &Node, routes: &Routes, nodes: &[Self]) -> String {
        let mut batch = format!(
            "link set lo up\naddr add {}/32 dev lo\naddr add {}/128 dev lo nodad\n",
            self.ipv4, self.ipv6
        );
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(batch, "{text}").expect("a string");
        for (l, link) in run.links.iter().enumerate() {
            let Some((end, peer)) = end_of(link, &self.name) else { continue };
            let peer = node_named(nodes, peer);
            let device = device_name(l);
            let mtu = link.forward.mtu.max(link.backward.mtu);
            line(format_args!("link set {device} addrgenmode none multicast off"));
            line(format_args!(
                "link set {device} address {} mtu {mtu} txqueuelen {DEVICE_QUEUE} up",
                mac(l, end)
            ));
            let lladdr = mac(l, 1 - end);
            for address in [IpAddr::from(peer.ipv4), peer.ipv6.into()] {
                line(format_args!(
                    "neigh replace {address} lladdr {lladdr} dev {device} nud permanent"
                ));
            }
        }
        for other in nodes {
            let Some(l) = routes.next_hop(&self.name, &other.name) else { continue };
            let (_, via) =
                end_of(&run.links[l], &self.name).expect("the next hop is a link of ours");
            let via = node_named(nodes, via);
            let device = device_name(l);
            for (length, to, via, source) in [
                (32, IpAddr::from(other.ipv4), IpAddr::from(via.ipv4), IpAddr::from(self.ipv4)),
                (128, other.ipv6.into(), via.ipv6.into(), self.ipv6.into()),
            ] {
                line(format_args!(
                    "route add {to}/{length} via {via} dev {device} src {source} onlink \
                     congctl {}",
                    spec.cc
                ));
            }
        }
        batch
    }

    /// Has iproute2 do something on this node: commands, each on a line of its own.
    ///
    /// # Errors
    /// What it says.
    pub fn ip(&self, batch: &str) -> Result<(), WanError> {
        let failed = |e| WanError::system("run ip (from the package iproute2)", e);
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let namespace = &self.namespace;
        let mut child = namespace.run(|| command.spawn()).map_err(failed)?;
        child.stdin.take().expect("piped").write_all(batch.as_bytes()).map_err(failed)?;
        let output = child.wait_with_output().map_err(failed)?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(WanError::Configure { node: self.name.clone(), message })
    }
}

fn node_named<'a>(nodes: &'a [NodeNetwork], name: &str) -> &'a NodeNetwork {
    nodes.iter().find(|node| node.name == name).expect("a checked scenario's links join its nodes")
}

/// Which end of a link a node is, and who is at the other.
fn end_of<'a>(link: &'a Link, node: &str) -> Option<(usize, &'a str)> {
    match node {
        _ if link.a == node => Some((0, &link.b)),
        _ if link.b == node => Some((1, &link.a)),
        _ => None,
    }
}

fn device_name(link: usize) -> String {
    format!("wan{link}")
}

fn mac(link: usize, end: usize) -> String {
    let [high, low] = (link as u16).to_be_bytes();
    format!("02:6c:68:{high:02x}:{low:02x}:{:02x}", end + 1)
}

fn open_device(node: &NodeNetwork, link: usize) -> Result<File, WanError> {
    node.namespace.run(|| sys::open_tap(&device_name(link))).map_err(WanError::no_tap)
}

fn clone(device: &File) -> Result<File, WanError> {
    device.try_clone().map_err(|e| WanError::system("duplicate a device's descriptor", e))
}

/// A seed for each direction of each link, so that none repeats another's losses: FNV-1a over the
/// name, mixed with the run's.
fn lane_seed(seed: u64, lane: &str) -> u64 {
    lane.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn link_config(direction: &Direction, seed: u64) -> LinkConfig {
    LinkConfig {
        rate: direction.rate,
        delay: direction.delay,
        queue: match direction.queue {
            None => QueueLimit::Unlimited,
            Some(Queue::Packets(packets)) => QueueLimit::Packets(packets),
            Some(Queue::Bytes(bytes)) => QueueLimit::Bytes(bytes),
        },
        loss: loss_model(&direction.loss),
        mtu: Bytes::new(direction.mtu.into()),
        overhead: Bytes::new(direction.overhead.into()),
        monitor: direction.monitor,
        seed,
    }
}

/// A scenario's loss as the links know it.
pub fn loss_model(loss: &Loss) -> LossModel {
    match *loss {
        Loss::None => LossModel::None,
        Loss::Uniform { probability } => LossModel::Uniform(probability),
        Loss::Periodic { every } => LossModel::Periodic(every),
        Loss::GilbertElliott { p, r, loss_bad, loss_good } => {
            LossModel::GilbertElliott { p, r, loss_bad, loss_good }
        }
    }
}

/// The three values of `tcp_rmem` or `tcp_wmem` with another maximum; the others give way to it.
fn with_maximum(now: &str, max: Bytes) -> String {
    let least = now.split(' ').take(2).map(|value| value.parse().unwrap_or(4096).min(max.get()));
    let values: Vec<String> =
        least.chain([max.get()]).map(|value: u64| value.to_string()).collect();
    values.join(" ")
}

fn check_congestion_controls(run: &Run) -> Result<(), WanError> {
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map_err(|e| WanError::system("read which congestion controls there are", e))?;
    let lacks = |name: &str| !available.split_whitespace().any(|known| known == name);
    let wanted = run.nodes.iter().map(|node| &node.cc).chain(run.flows.iter().flat_map(|f| &f.cc));
    match wanted.into_iter().find(|name| lacks(name)) {
        None => Ok(()),
        Some(name) => Err(WanError::Lacks(format!(
            "this kernel has no congestion control \"{name}\"; it has: {}. Others may be loadable: \
             modprobe tcp_{name}",
            available.trim()
        ))),
    }
}

fn hosts_file(nodes: &[NodeNetwork], family: Family) -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("longhaul-hosts-").tempfile()?;
    writeln!(file, "127.0.0.1 localhost\n::1 localhost ip6-localhost")?;
    for node in nodes {
        writeln!(file, "{} {}", node.address(family), node.name)?;
    }
    // Programs on the nodes may run as another user.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(readable)?;
    Ok(file)
}
