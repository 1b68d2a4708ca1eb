// SPDX-License-Identifier: GPL-2.0-or-later
//! Properties of the gateway's device and of its next hop, as reported by
//! iproute2, which answers for the calling thread's network namespace.

use super::Error;
use host::{Device, IprouteError, Lack, Mac, iproute};
use serde::Deserialize;
use std::{
    net::{IpAddr, SocketAddr},
    thread,
};
use units::{Duration, Rate};

/// Queueing disciplines that keep the order of all that they are given.
const IN_ORDER: [&str; 4] = ["noqueue", "pfifo", "bfifo", "pfifo_fast"];

/// Looks for a device that frames can be sent by.
pub fn find(name: &str) -> Result<Device, Error> {
    let device =
        Device::find(name)?.ok_or_else(|| Error::Usage(format!("there is no device {name}")))?;
    if !device.is_ethernet() {
        let kind = &device.kind;
        return Err(Error::Usage(format!("{name} is no Ethernet device, but \"{kind}\"")));
    }
    if !device.is_up {
        return Err(Error::Usage(format!("{name} is down: ip link set {name} up")));
    }
    Ok(device)
}

pub fn mac(device: &Device) -> Result<Mac, Error> {
    device.mac.ok_or_else(|| Error::Usage(format!("{} has no address", device.name)))
}

/// Whether data and gap frames leave in the order in which they are handed over.
pub fn require_order(device: &Device) -> Result<(), Error> {
    let (name, qdisc) = (&device.name, &device.qdisc);
    if IN_ORDER.contains(&qdisc.as_str()) {
        return Ok(());
    }
    let (what, remedy) = if qdisc == "mq" {
        (
            "several transmit queues, which don't keep gap frames between packets".to_owned(),
            format!("make it one (ethtool -L {name} combined 1), or use --no-gap-frames"),
        )
    } else {
        (
            format!(
                "the queueing discipline {qdisc}, which doesn't keep gap frames between packets"
            ),
            format!("replace it (tc qdisc replace dev {name} root pfifo), or use --no-gap-frames"),
        )
    };
    Err(Error::Lacks(Lack::new(format_args!("{name} has {what}"), remedy)))
}

/// The rate of a device's link, where the driver knows it.
pub fn line_rate(device: &Device) -> Option<Rate> {
    device.line_rate().ok().flatten()
}

/// Asks the neighbour table for the address of Ethernet of a next hop; where it isn't there, has the
/// kernel ask the network.
pub fn neighbour(device: &Device, next_hop: IpAddr) -> Result<Mac, Error> {
    const TRIES: u32 = 30;
    const NAP: Duration = Duration::from_millis(100);
    for _ in 0..TRIES {
        if let Some(mac) = known_neighbour(device, next_hop)? {
            return Ok(mac);
        }
        provoke(device, next_hop).map_err(|error| {
            Error::Usage(format!("{next_hop} can't be reached by {}: {error}", device.name))
        })?;
        thread::sleep(NAP.into());
    }
    Err(Error::Failed(format!(
        "{next_hop} does not answer on {}: is it a neighbour there? --next-hop gives its address of \
         Ethernet",
        device.name
    )))
}

fn known_neighbour(device: &Device, next_hop: IpAddr) -> Result<Option<Mac>, Error> {
    #[derive(Deserialize)]
    struct Neighbour {
        lladdr: Option<String>,
        #[serde(default)]
        state: Vec<String>,
    }
    let next_hop = next_hop.to_string();
    let found = match iproute::ip_json(&["neigh", "show", "to", &next_hop, "dev", &device.name]) {
        Err(IprouteError::Refused { .. }) => Vec::new(),
        found => found?,
    };
    let usable = found.into_iter().find(|neighbour: &Neighbour| {
        !neighbour.state.iter().any(|state| state == "FAILED" || state == "INCOMPLETE")
    });
    Ok(usable.and_then(|neighbour| neighbour.lladdr?.parse().ok()))
}

/// Sends a datagram to the port that discards them.
fn provoke(device: &Device, next_hop: IpAddr) -> std::io::Result<()> {
    const DISCARD: u16 = 9;
    let to = SocketAddr::new(next_hop, DISCARD);
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(to),
        socket2::Type::DGRAM,
        Some(socket2::Protocol::UDP),
    )?;
    socket.bind_device(Some(device.name.as_bytes()))?;
    match socket.send_to(&[], &to.into()) {
        // Asked before, and not answered yet.
        Err(error) if error.kind() == std::io::ErrorKind::HostUnreachable => Ok(()),
        other => other.map(drop),
    }
}
