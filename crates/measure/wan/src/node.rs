// SPDX-License-Identifier: GPL-2.0-or-later
//! One node on this machine: its namespace, and what is set in it.
//!
//! A node has one IPv4 and one IPv6 address, on its loopback device; links need none. Neighbours
//! are permanent entries, so no ARP or neighbour discovery takes part in the run. Nodes forward.
//! A node's congestion control is a property of its routes (`congctl`): as the default of a
//! namespace the kernel takes only what the machine's administrator allowed to everybody, and
//! that list is not ours to change. A program that chooses its own still can.
//!
//! A device's MTU is that of the direction it sends; what it receives may be longer.

use crate::{error::WanError, moves::MovedAddress, sys};
use host::{Namespace, iproute, sysctl};
use scenario::{
    Family, Link, Node, Routes, Run,
    addresses::{self, device as device_name},
};
use serde::{Deserialize, Serialize};
use std::{
    fmt::Write as _,
    fs::File,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::unix::fs::FileExt,
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
    /// Its other address, which it has where the kernel runs with IPv6.
    pub ipv6: Ipv6Addr,
    /// What it has instead of those after it has moved.
    pub(crate) moved: Vec<MovedAddress>,
    /// `/proc/net/dev`, opened inside and so of this namespace wherever it is read: entering the
    /// namespace for each reading would take a thread.
    counters: File,
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

impl NodeNetwork {
    /// The n-th node, without devices.
    pub(crate) fn new(n: u16, run: &Run, node: &Node) -> Result<Self, WanError> {
        let namespace = Namespace::new().map_err(WanError::no_namespace)?;
        let open = || File::open("/proc/thread-self/net/dev");
        let counters =
            namespace.run(open).map_err(|e| WanError::system("open a node's /proc/net/dev", e))?;
        let node = Self {
            name: node.name.clone(),
            namespace,
            ipv4: addresses::ipv4(n),
            ipv6: addresses::ipv6(n),
            moved: MovedAddress::all(run, &node.name),
            counters,
        };
        // Before there are devices, which take it over: of a device's own value and that for all,
        // the stricter holds, and the machine's default may be strict.
        node.set("net.ipv4.conf.default.rp_filter", "0")?;
        Ok(node)
    }

    /// The address of one family.
    pub fn address(&self, family: Family) -> IpAddr {
        match family {
            Family::Ipv4 => self.ipv4.into(),
            Family::Ipv6 => self.ipv6.into(),
        }
    }

    /// Opens this node's end of a link.
    pub(crate) fn open_device(&self, link: usize) -> Result<File, WanError> {
        self.namespace.run(|| sys::open_tap(&device_name(link))).map_err(WanError::no_tap)
    }

    /// Settings, devices, neighbours and routes.
    pub(crate) fn configure(
        &self,
        run: &Run,
        spec: &Node,
        routes: &Routes,
        nodes: &[Self],
    ) -> Result<(), WanError> {
        let families = families();
        self.set("net.ipv4.ip_forward", "1")?;
        self.set("net.ipv4.conf.all.rp_filter", "0")?;
        if families.contains(&Family::Ipv6) {
            self.set("net.ipv6.conf.all.forwarding", "1")?;
        }
        for (key, max) in
            [("net.ipv4.tcp_rmem", spec.tcp_rmem_max), ("net.ipv4.tcp_wmem", spec.tcp_wmem_max)]
        {
            let Some(max) = max else { continue };
            let now =
                self.namespace.sysctl(key).map_err(|e| WanError::system("read tcp_mem", e))?;
            self.set(key, &with_maximum(&now, max))?;
        }
        for (key, value) in &spec.sysctl {
            self.set(key, value)?;
        }
        self.ip(&self.ip_commands(run, spec, routes, nodes, families))
    }

    /// Leads what this node sends over one of its links, to whichever node, into another device of its own,
    /// which then holds as much as the link's. When that device goes, so do the routes.
    pub(crate) fn divert(
        &self,
        run: &Run,
        spec: &Node,
        nodes: &[Self],
        link: usize,
        device: &str,
    ) -> Result<(), WanError> {
        let routes = run.routes();
        let mut batch = format!("link set {device} txqueuelen {DEVICE_QUEUE}\n");
        for other in nodes {
            if routes.next_hop(&self.name, &other.name) != Some(link) {
                continue;
            }
            for family in families_of(&run.links[link], families()) {
                batch += &self.route(spec, other, *family, &format!("dev {device}"));
            }
        }
        self.ip(&batch)
    }

    fn set(&self, key: &str, value: &str) -> Result<(), WanError> {
        self.namespace.set_sysctl(key, value).map_err(|error| WanError::Sysctl {
            node: self.name.clone(),
            key: key.to_owned(),
            value: value.to_owned(),
            error,
        })
    }

    /// The commands for iproute2, one a line.
    fn ip_commands(
        &self,
        run: &Run,
        spec: &Node,
        routes: &Routes,
        nodes: &[Self],
        families: &[Family],
    ) -> String {
        let mut batch = String::from("link set lo up\n");
        let mut line = |text: std::fmt::Arguments<'_>| writeln!(batch, "{text}").expect("a string");
        for family in families {
            let nodad = if *family == Family::Ipv6 { " nodad" } else { "" };
            line(format_args!("addr add {} dev lo{nodad}", alone(self.address(*family))));
        }
        for (l, link) in run.links.iter().enumerate() {
            let Some(end) = End::of(link, &self.name) else { continue };
            let peer = node_named(nodes, end.peer);
            let device = device_name(l);
            let on_link = families_of(link, families);
            if on_link.contains(&Family::Ipv6) {
                line(format_args!("link set {device} addrgenmode none"));
            }
            line(format_args!(
                "link set {device} multicast off address {} mtu {} txqueuelen {DEVICE_QUEUE} up",
                mac(l, end.number),
                end.mtu
            ));
            let lladdr = mac(l, 1 - end.number);
            for family in on_link {
                let address = peer.address(*family);
                line(format_args!(
                    "neigh replace {address} lladdr {lladdr} dev {device} nud permanent"
                ));
            }
        }
        for other in nodes {
            let Some(l) = routes.next_hop(&self.name, &other.name) else { continue };
            let end = End::of(&run.links[l], &self.name).expect("the next hop is a link of ours");
            let via = node_named(nodes, end.peer);
            for family in families_of(&run.links[l], families) {
                let by = format!("via {} dev {} onlink", via.address(*family), device_name(l));
                batch += &self.route(spec, other, *family, &by);
            }
        }
        batch
    }

    /// The line that makes the one route to a node, by whichever device.
    fn route(&self, spec: &Node, to: &Self, family: Family, by: &str) -> String {
        route(to.address(family), by, self.address(family), &spec.cc)
    }

    /// Has iproute2 do something on this node: commands, each on a line of its own.
    ///
    /// # Errors
    /// The command's error message, or iproute2 is missing.
    pub fn ip(&self, batch: &str) -> Result<(), WanError> {
        let done = iproute::ip_batch(&self.namespace, batch);
        done.map_err(|error| WanError::of_ip(&self.name, error))
    }

    /// Frames that the kernel gave to a device whose queue was full. They were on no link.
    pub(crate) fn device_drops(&self) -> io::Result<u64> {
        let table = read_from_start(&self.counters)?;
        // "wan0: rx bytes packets errs drop … (8 columns), tx bytes packets errs drop …"
        let drops = table
            .lines()
            .filter(|line| line.trim_start().starts_with("wan"))
            .filter_map(|line| line.split_whitespace().nth(12)?.parse::<u64>().ok());
        Ok(drops.sum())
    }
}

/// All of a file of the kernel's, without moving its position: several threads may ask at once.
fn read_from_start(file: &File) -> io::Result<String> {
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match file.read_at(&mut part, text.len() as u64)? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            length => text.extend_from_slice(&part[..length]),
        }
    }
}

/// The families that this kernel has: it may have been started with `ipv6.disable=1`.
pub(crate) fn families() -> &'static [Family] {
    let ipv6 = sysctl::path("net.ipv6.conf").exists();
    if ipv6 { &[Family::Ipv4, Family::Ipv6] } else { &[Family::Ipv4] }
}

/// Of those, the ones that a link carries: the kernel has no IPv6 on a device whose MTU is less than
/// IPv6 asks of every link.
pub(crate) fn families_of<'a>(link: &Link, families: &'a [Family]) -> &'a [Family] {
    const LEAST: u32 = 1280;
    let carries_ipv6 = link.forward.mtu.min(link.backward.mtu) >= LEAST;
    if carries_ipv6 { families } else { &[Family::Ipv4] }
}

pub(crate) fn node_named<'a>(nodes: &'a [NodeNetwork], name: &str) -> &'a NodeNetwork {
    nodes.iter().find(|node| node.name == name).expect("a checked scenario's links join its nodes")
}

/// A node's end of a link.
pub(crate) struct End<'a> {
    /// 0 sends forward, 1 backward.
    pub(crate) number: usize,
    /// The node at the other end.
    pub(crate) peer: &'a str,
    /// Of the direction that this end sends.
    mtu: u32,
}

impl<'a> End<'a> {
    pub(crate) fn of(link: &'a Link, node: &str) -> Option<Self> {
        match node {
            _ if link.a == node => Some(Self { number: 0, peer: &link.b, mtu: link.forward.mtu }),
            _ if link.b == node => Some(Self { number: 1, peer: &link.a, mtu: link.backward.mtu }),
            _ => None,
        }
    }
}

pub(crate) fn mac(link: usize, end: usize) -> String {
    addresses::mac(link, end).map(|byte| format!("{byte:02x}")).join(":")
}

/// The network of this one address.
pub(crate) fn alone(address: IpAddr) -> String {
    let bits = if address.is_ipv6() { 128 } else { 32 };
    format!("{address}/{bits}")
}

/// The line that makes the one route to an address, by whichever device.
pub(crate) fn route(to: IpAddr, by: &str, from: IpAddr, cc: &str) -> String {
    format!("route replace {} {by} src {from} congctl {cc}\n", alone(to))
}

/// The three values of `tcp_rmem` or `tcp_wmem` with another maximum; the others give way to it.
fn with_maximum(now: &str, max: Bytes) -> String {
    let least = now.split(' ').take(2).map(|value| value.parse().unwrap_or(4096).min(max.get()));
    let values: Vec<String> =
        least.chain([max.get()]).map(|value: u64| value.to_string()).collect();
    values.join(" ")
}
