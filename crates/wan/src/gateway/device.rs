// SPDX-License-Identifier: GPL-2.0-or-later
//! What the gateway has to know of the device that it sends by, and of the next hop: asked of
//! iproute2, which answers for the calling thread's network namespace.

use super::{Error, mac::Mac};
use serde::{Deserialize, de::DeserializeOwned};
use std::{
    net::{IpAddr, SocketAddr},
    process::Command,
    thread,
};
use units::{Duration, Rate};

/// A device as `ip -json link show` tells it.
#[derive(Debug, Clone, Deserialize)]
pub struct Device {
    #[serde(rename = "ifname")]
    pub name: String,
    #[serde(rename = "ifindex")]
    pub index: u32,
    pub mtu: u32,
    flags: Vec<String>,
    link_type: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    qdisc: String,
}

/// Queueing disciplines that keep the order of all that they are given.
const IN_ORDER: [&str; 4] = ["noqueue", "pfifo", "bfifo", "pfifo_fast"];

impl Device {
    /// Looks for a device that frames can be sent by.
    pub fn find(name: &str) -> Result<Self, Error> {
        let mut found: Vec<Self> = ip(&["-json", "link", "show", "dev", name])?
            .ok_or_else(|| Error::Usage(format!("there is no device {name}")))?;
        let device = found.pop().ok_or_else(|| Error::Failed("ip tells of no device".into()))?;
        if device.link_type != "ether" {
            let kind = &device.link_type;
            return Err(Error::Usage(format!("{name} is no Ethernet device, but \"{kind}\"")));
        }
        if !device.flags.iter().any(|flag| flag == "UP") {
            return Err(Error::Usage(format!("{name} is down: ip link set {name} up")));
        }
        Ok(device)
    }

    pub fn mac(&self) -> Result<Mac, Error> {
        self.address.parse().map_err(|_| Error::Usage(format!("{} has no address", self.name)))
    }

    /// Whether data and gap frames leave in the order in which they are handed over.
    pub fn require_order(&self) -> Result<(), Error> {
        let (name, qdisc) = (&self.name, &self.qdisc);
        if IN_ORDER.contains(&qdisc.as_str()) {
            return Ok(());
        }
        if qdisc == "mq" {
            return Err(Error::Lacks(format!(
                "{name} has several transmit queues, which don't keep gap frames between packets: \
                 make it one (ethtool -L {name} combined 1), or use --no-gap-frames"
            )));
        }
        Err(Error::Lacks(format!(
            "{name} has the queueing discipline {qdisc}, which doesn't keep gap frames between \
             packets: replace it (tc qdisc replace dev {name} root pfifo), or use --no-gap-frames"
        )))
    }

    /// The rate of its link, where the driver knows it.
    pub fn line(&self) -> Option<Rate> {
        let read = |what| {
            let path = format!("/sys/class/net/{}/{what}", self.name);
            Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
        };
        // /sys may be that of another namespace, with a device of the same name.
        let same = read("ifindex")? == self.index.to_string() && read("address")? == self.address;
        let megabits = read("speed")?.parse::<u64>().ok().filter(|speed| same && *speed > 0)?;
        Some(Rate::bits_per_second(megabits.checked_mul(1_000_000)?))
    }

    /// Asks the neighbour table for the address of Ethernet of a next hop; where it isn't there, has the
    /// kernel ask the network.
    pub fn neighbour(&self, next_hop: IpAddr) -> Result<Mac, Error> {
        const TRIES: u32 = 30;
        const NAP: Duration = Duration::from_millis(100);
        for _ in 0..TRIES {
            if let Some(mac) = self.known_neighbour(next_hop)? {
                return Ok(mac);
            }
            self.provoke(next_hop).map_err(|error| {
                Error::Usage(format!("{next_hop} can't be reached by {}: {error}", self.name))
            })?;
            thread::sleep(NAP.into());
        }
        Err(Error::Failed(format!(
            "{next_hop} does not answer on {}: is it a neighbour there? --next-hop gives its address of \
             Ethernet",
            self.name
        )))
    }

    fn known_neighbour(&self, next_hop: IpAddr) -> Result<Option<Mac>, Error> {
        #[derive(Deserialize)]
        struct Neighbour {
            lladdr: Option<String>,
            #[serde(default)]
            state: Vec<String>,
        }
        let next_hop = next_hop.to_string();
        let found: Option<Vec<Neighbour>> =
            ip(&["-json", "neigh", "show", "to", &next_hop, "dev", &self.name])?;
        let usable = found.unwrap_or_default().into_iter().find(|neighbour| {
            !neighbour.state.iter().any(|state| state == "FAILED" || state == "INCOMPLETE")
        });
        Ok(usable.and_then(|neighbour| neighbour.lladdr?.parse().ok()))
    }

    /// Sends a datagram to the port that discards them.
    fn provoke(&self, next_hop: IpAddr) -> std::io::Result<()> {
        const DISCARD: u16 = 9;
        let to = SocketAddr::new(next_hop, DISCARD);
        let socket = socket2::Socket::new(
            socket2::Domain::for_address(to),
            socket2::Type::DGRAM,
            Some(socket2::Protocol::UDP),
        )?;
        socket.bind_device(Some(self.name.as_bytes()))?;
        match socket.send_to(&[], &to.into()) {
            // Asked before, and not answered yet.
            Err(error) if error.kind() == std::io::ErrorKind::HostUnreachable => Ok(()),
            other => other.map(drop),
        }
    }
}

/// What ip answers; none where it says that there is no such thing.
fn ip<T: DeserializeOwned>(arguments: &[&str]) -> Result<Option<T>, Error> {
    let output = Command::new("ip").args(arguments).output().map_err(|e| Error::no_ip(&e))?;
    if !output.status.success() {
        return Ok(None);
    }
    // Of nothing, some versions print nothing.
    let text = String::from_utf8_lossy(&output.stdout);
    let text = if text.trim().is_empty() { "[]" } else { text.trim() };
    let parsed = serde_json::from_str(text);
    parsed.map(Some).map_err(|error| Error::Failed(format!("ip {}: {error}", arguments.join(" "))))
}

/// Has ip change something.
pub fn configure(arguments: &[&str]) -> Result<(), Error> {
    let output = Command::new("ip").args(arguments).output().map_err(|e| Error::no_ip(&e))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Failed(format!("ip {}: {said}", arguments.join(" "))))
}

/// Packets that the kernel gave to a device whose queue was full.
pub fn dropped(name: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Link {
        stats64: Both,
    }
    #[derive(Deserialize)]
    struct Both {
        tx: Sent,
    }
    #[derive(Deserialize)]
    struct Sent {
        dropped: u64,
    }
    let links: Vec<Link> = ip(&["-json", "-statistics", "link", "show", "dev", name]).ok()??;
    Some(links.first()?.stats64.tx.dropped)
}
