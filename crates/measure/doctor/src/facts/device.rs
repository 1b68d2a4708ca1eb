// SPDX-License-Identifier: GPL-2.0-or-later
//! Facts of a network device: offloads, rings, queue and its discipline.

use host::{
    ethtool::{self, Offload},
    iproute,
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Devices that pass the rate of the hardware below them.
const OVER_HARDWARE: [&str; 3] = ["bond", "team", "vlan"];

/// Devices without a wire.
const WHOLE: [&str; 3] = ["veth", "netkit", "tun"];

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Device {
    /// What the kernel calls it.
    pub name: String,
    /// Whether it is at an Ethernet link.
    pub is_ethernet: bool,
    /// The longest packet that it takes, in bytes.
    pub mtu: u32,
    /// The rate of its link, where the driver knows it.
    pub line_rate_bps: Option<u64>,
    /// Whether its link carries one direction at a time.
    pub is_half_duplex: bool,
    /// Packets that its default queue holds (`txqueuelen`).
    pub queue_length: Option<u32>,
    /// Segments that it takes in one packet.
    pub segments_per_packet: u32,
    /// Its root discipline.
    pub discipline: Discipline,
    /// Offloads by their names in `ethtool -K`, on or off.
    pub offloads: BTreeMap<String, bool>,
    /// Whether packets come as another kernel or program made them, of many segments, so that nothing joins them here.
    pub receives_whole: bool,
    /// Received packets that its ring holds, now and at most.
    pub receive_ring: Option<(u32, u32)>,
    /// Packets to be sent that its ring holds, now and at most.
    pub transmit_ring: Option<(u32, u32)>,
    /// Packets that were received and dropped, since it was made.
    pub receive_drops: u64,
    /// Processors that take its interrupts; none where it has none of its own, as a virtual device.
    pub interrupt_processors: Option<usize>,
}

/// A root queueing discipline, as `tc qdisc show` prints it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Discipline {
    /// `pfifo`, `tbf` and others.
    pub kind: String,
    /// Its parameters, as tc takes them.
    pub parameters: String,
    /// Whether the kernel chose it.
    pub is_default: bool,
}

impl Discipline {
    /// Of a line such as `qdisc tbf 8001: root refcnt 2 rate 100Mbit burst 32Kb lat 50ms`.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        if words.next()? != "qdisc" {
            return None;
        }
        let (kind, handle) = (words.next()?.to_owned(), words.next()?);
        let mut kept = Vec::new();
        while let Some(word) = words.next() {
            match word {
                "root" => {}
                "refcnt" | "dev" => drop(words.next()),
                // A number of packets, which tc does not read back.
                _ => kept.push(packets(word).unwrap_or(word)),
            }
        }
        Some(Self { kind, parameters: kept.join(" "), is_default: handle == "0:" })
    }

    /// The word behind another among its parameters.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.parameters.split_whitespace().skip_while(|word| *word != name).nth(1)
    }

    /// The rate that it lets through, of a discipline that shapes.
    pub fn rate_bps(&self) -> Option<u64> {
        let name = match self.kind.as_str() {
            "tbf" | "netem" => "rate",
            "fq" => "maxrate",
            "cake" => "bandwidth",
            _ => return None,
        };
        let rate: units::Rate = self.value(name)?.parse().ok()?;
        Some(rate.bps())
    }

    /// Packets that it holds, of one that holds a number of packets.
    pub fn most_packets(&self) -> Option<u32> {
        let counts = matches!(self.kind.as_str(), "pfifo" | "fq" | "fq_codel" | "codel" | "netem");
        if counts { self.value("limit")?.parse().ok() } else { None }
    }
}

/// The number of `1000p`.
fn packets(word: &str) -> Option<&str> {
    word.strip_suffix('p').filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Device {
    /// The facts of the device of that name. None if there is none, or iproute2 is missing.
    pub fn gather(name: &str) -> Option<Self> {
        let shown = host::Device::find(name).ok()??;
        let offloads = Offload::ALL.into_iter().filter_map(|offload| {
            let is_on = ethtool::offload(&shown.name, offload).ok()??;
            Some((offload.name().to_owned(), is_on))
        });
        let rings = ethtool::rings(&shown.name).ok().flatten();
        let attribute = |name| shown.attribute(name);
        // Others, such as TAP and veth devices, name a rate that means nothing.
        let is_of_hardware = shown.driver.as_deref().is_none_or(|it| OVER_HARDWARE.contains(&it));
        let discipline = iproute::tc(&["qdisc", "show", "dev", &shown.name, "root"]).ok();
        let discipline = discipline
            .and_then(|text| Discipline::parse(String::from_utf8_lossy(&text).lines().next()?));
        Some(Self {
            receives_whole: shown.driver.as_deref().is_some_and(|it| WHOLE.contains(&it)),
            is_ethernet: shown.is_ethernet(),
            mtu: shown.mtu,
            line_rate_bps: is_of_hardware
                .then(|| shown.line_rate().ok().flatten().map(units::Rate::bps))
                .flatten(),
            is_half_duplex: attribute("duplex").is_some_and(|duplex| duplex == "half"),
            queue_length: attribute("tx_queue_len").and_then(|text| text.parse().ok()),
            segments_per_packet: shown.gso_max_segs,
            discipline: discipline.unwrap_or_default(),
            offloads: offloads.collect(),
            receive_ring: rings.map(|rings| (rings.receive, rings.most_receive)),
            transmit_ring: rings.map(|rings| (rings.transmit, rings.most_transmit)),
            interrupt_processors: is_of_hardware
                .then(|| interrupt_processors(&shown.name))
                .flatten(),
            receive_drops: host::receive_drops(&shown.name).unwrap_or(0),
            name: shown.name,
        })
    }
}

/// Processors that take the interrupts of a device.
fn interrupt_processors(device: &str) -> Option<usize> {
    let interrupts = fs::read_dir(format!("/sys/class/net/{device}/device/msi_irqs")).ok()?;
    let mut processors = BTreeSet::new();
    for interrupt in interrupts.flatten() {
        let number = interrupt.file_name();
        let list = format!("/proc/irq/{}/effective_affinity_list", number.to_str()?);
        processors.insert(fs::read_to_string(list).ok()?.trim().to_owned());
    }
    (!processors.is_empty()).then_some(processors.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disciplines_are_read_as_tc_prints_them() {
        let tbf = "qdisc tbf 8001: root refcnt 2 rate 100Mbit burst 32Kb lat 50ms ";
        let tbf = Discipline::parse(tbf).unwrap();
        assert_eq!((tbf.kind.as_str(), tbf.rate_bps()), ("tbf", Some(100_000_000)));
        assert_eq!(tbf.parameters, "rate 100Mbit burst 32Kb lat 50ms");
        assert!(!tbf.is_default);
        let pfifo = Discipline::parse("qdisc pfifo 8002: dev v0 root refcnt 2 limit 10p").unwrap();
        assert_eq!((pfifo.most_packets(), pfifo.parameters.as_str()), (Some(10), "limit 10"));
        let default = Discipline::parse("qdisc noqueue 0: root refcnt 2").unwrap();
        assert!(default.is_default && default.rate_bps().is_none());
        for text in ["", "class htb 1:1", "qdisc", "qdisc tbf"] {
            assert_eq!(Discipline::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn loopback_device_is_described() {
        let lo = Device::gather("lo").unwrap();
        assert!(!lo.is_ethernet && lo.mtu > 0);
        assert!(lo.offloads.contains_key("gro"), "{lo:?}");
        assert_eq!(Device::gather("no-such-device"), None);
    }
}
