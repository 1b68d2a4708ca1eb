// SPDX-License-Identifier: GPL-2.0-or-later
//! The cards of a bridge: which devices can be one, and what is held of them meanwhile.

use super::host_cut_off::MARK;
use crate::{card_socket::CardSocket, error::WanError};
use host::{Device, Lack, ethtool, receive_drops};
use std::sync::Arc;

/// Devices in pairs, of which each shows the other as its link.
const PAIRS: [&str; 2] = ["veth", "netkit"];

/// A card that a bridge uses.
pub struct Card {
    /// What it is.
    pub device: Device,
    /// Where its frames are read and written.
    pub socket: Arc<CardSocket>,
    dropped_before: u64,
}

impl Card {
    /// Begins to receive.
    pub fn open(device: Device) -> Result<Self, WanError> {
        let failed = |error| WanError::system("read the card's counters", error);
        let dropped_before = receive_drops(&device.name).map_err(failed)?;
        let socket = CardSocket::open(device.index, device.mtu, MARK)
            .map_err(|error| WanError::system("open a packet socket on the card", error))?;
        Ok(Self { device, socket: Arc::new(socket), dropped_before })
    }

    /// Frames that this host dropped since the beginning, before they could be read.
    pub fn drops(&self) -> u64 {
        // One that is gone has no counters; that it is gone is reported by itself.
        let by_device = receive_drops(&self.device.name).unwrap_or(self.dropped_before);
        by_device.saturating_sub(self.dropped_before) + self.socket.drops().unwrap_or(0)
    }
}

/// Checks that two devices can be the cards of a bridge.
pub fn choose(names: &[String; 2], take_over: bool) -> Result<[Device; 2], WanError> {
    require_rights()?;
    let devices = Device::all()?;
    let [a, b] = names.each_ref().map(|name| ethernet(name, &devices));
    let (a, b) = (a?, b?);
    require_distinct(a, b)?;
    for card in [a, b] {
        if !take_over {
            require_unused(card, &devices)?;
        }
        require_whole_packets(card)?;
    }
    Ok([a.clone(), b.clone()])
}

fn require_rights() -> Result<(), WanError> {
    use rustix::thread::{CapabilitySet, capabilities};
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    let held = capabilities(None).is_ok_and(|held| held.effective.contains(needed));
    if held {
        return Ok(());
    }
    let what = "a bridge between cards requires root (CAP_NET_ADMIN and CAP_NET_RAW)";
    Err(WanError::Lacks(Lack::root(what)))
}

/// The device of that name, if frames can be sent by it.
fn ethernet<'d>(name: &str, devices: &'d [Device]) -> Result<&'d Device, WanError> {
    let known = || devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = Device::find(name)?;
    let device = found.and_then(|found| devices.iter().find(|device| device.index == found.index));
    let device = device.ok_or_else(|| {
        usage(format!("there is no network device {name}; there are: {}", known()))
    })?;
    let name = &device.name;
    if !device.is_ethernet() {
        let kind = &device.kind;
        return Err(usage(format!(
            "{name} is not an Ethernet device (its type is {kind}): name a card, or a VLAN device"
        )));
    }
    if !device.is_up {
        return Err(usage(format!("{name} is down: ip link set {name} up")));
    }
    // As nftables quotes them, there is no escaping.
    if name.contains(['"', '\\', '*']) {
        return Err(usage(format!("{name} has a name that nftables cannot take: rename it")));
    }
    Ok(device)
}

fn require_distinct(a: &Device, b: &Device) -> Result<(), WanError> {
    let (name, other) = (&a.name, &b.name);
    if a.index == b.index {
        return Err(usage(format!("{name} is named twice: a bridge is between two cards")));
    }
    let is_link_of = |device: &Device, other: &Device| device.link.as_ref() == Some(&other.name);
    if is_link_of(a, b) || is_link_of(b, a) {
        return Err(usage(format!(
            "{name} and {other} are connected in this host: frames would go round between them. Name two cards \
             that lead to different hosts"
        )));
    }
    Ok(())
}

/// A card that this host uses would be cut off from it.
fn require_unused(card: &Device, devices: &[Device]) -> Result<(), WanError> {
    let mut uses = card.addresses_and_default_routes()?;
    uses.extend(card.master.as_ref().map(|master| format!("a place in {master}")));
    let is_pair =
        |device: &Device| device.driver.as_deref().is_some_and(|driver| PAIRS.contains(&driver));
    let upon = devices.iter().filter(|device| device.link.as_ref() == Some(&card.name));
    uses.extend(
        upon.filter(|device| !is_pair(device)).map(|device| format!("{} upon it", device.name)),
    );
    if uses.is_empty() {
        return Ok(());
    }
    let name = &card.name;
    Err(usage(format!(
        "{name} is in use by this host, which would be cut off from it: it has {}. Name another card, or add \
         --take-over",
        uses.join(", ")
    )))
}

/// LRO merges packets so that nobody can tell what they were.
fn require_whole_packets(card: &Device) -> Result<(), WanError> {
    let name = &card.name;
    let failed = |error| WanError::system("ask for the card's offloads", error);
    if ethtool::merges_packets(name).map_err(failed)? {
        return Err(usage(format!(
            "{name} merges packets irrecoverably (LRO): ethtool -K {name} lro off"
        )));
    }
    Ok(())
}

fn usage(text: String) -> WanError {
    WanError::Usage(text)
}
