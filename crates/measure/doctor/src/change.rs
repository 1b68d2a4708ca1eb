// SPDX-License-Identifier: GPL-2.0-or-later
//! A change of this host: the command that makes it, its inverse, and what it does to facts and to the host.
//!
//! Each change sets something to a value, so that its inverse is the same change with the value from before, and either
//! may be done twice.

use crate::facts::{Discipline, Facts, Route, device};
use host::{
    ethtool::{self, Offload},
    iproute, sysctl,
};
use serde::{Deserialize, Serialize};
use std::{fmt::Display, fs, io};

/// A change. Devices, routes and settings below `net` are the network namespace's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Change {
    /// A setting, as sysctl(8) names it.
    Setting {
        /// Its name.
        key: String,
        /// Its value.
        value: String,
    },
    /// An offload of a device.
    Offload {
        /// The device.
        device: String,
        /// The offload, as `ethtool -K` names it.
        offload: String,
        /// Whether it is on.
        on: bool,
    },
    /// The longest packet that a device takes.
    Mtu {
        /// The device.
        device: String,
        /// In bytes.
        bytes: u32,
    },
    /// Packets in a device's default queue.
    QueueLength {
        /// The device.
        device: String,
        /// How many.
        packets: u32,
    },
    /// Segments that a device takes in one packet.
    SegmentsPerPacket {
        /// The device.
        device: String,
        /// How many.
        segments: u32,
    },
    /// Packets in a device's rings.
    Rings {
        /// The device.
        device: String,
        /// Received ones.
        receive: u32,
        /// Those to be sent.
        transmit: u32,
    },
    /// A device's root queueing discipline.
    Discipline {
        /// The device.
        device: String,
        /// Kind and parameters, as tc takes them; empty for the kernel's own choice.
        words: String,
    },
    /// A route.
    Route {
        /// Its words, as `ip route replace` takes them.
        words: String,
        /// Those of the route in whose place it is.
        before: String,
    },
    /// How the speed of all processors is governed.
    Governor {
        /// The governor's name.
        name: String,
    },
}

/// From where on the kernel saves memory, in pages.
const TCP_MEM: &str = "net.ipv4.tcp_mem";
/// Where a processor's speed is governed.
const PROCESSORS: &str = "/sys/devices/system/cpu";

impl Change {
    /// A setting's value.
    pub fn setting(key: &str, value: impl Display) -> Self {
        let value = format!("{value}");
        Self::Setting { key: key.to_owned(), value }
    }

    /// The command that makes the change by hand.
    pub fn command(&self) -> String {
        match self {
            Self::Setting { key, value } if value.contains(' ') => {
                format!("sysctl -w {key}=\"{value}\"")
            }
            Self::Setting { key, value } => format!("sysctl -w {key}={value}"),
            Self::Offload { device, offload, on } => {
                format!("ethtool -K {device} {offload} {}", if *on { "on" } else { "off" })
            }
            Self::Mtu { device, bytes } => format!("ip link set dev {device} mtu {bytes}"),
            Self::QueueLength { device, packets } => {
                format!("ip link set dev {device} txqueuelen {packets}")
            }
            Self::SegmentsPerPacket { device, segments } => {
                format!("ip link set dev {device} gso_max_segs {segments}")
            }
            Self::Rings { device, receive, transmit } => {
                format!("ethtool -G {device} rx {receive} tx {transmit}")
            }
            Self::Discipline { device, words } if words.is_empty() => {
                format!("tc qdisc del dev {device} root")
            }
            Self::Discipline { device, words } => {
                format!("tc qdisc replace dev {device} root {words}")
            }
            Self::Route { words, before } if is_remembered(words, before) => {
                format!("ip route replace {words} && ip tcp_metrics flush all")
            }
            Self::Route { words, .. } => format!("ip route replace {words}"),
            Self::Governor { name } => {
                format!("echo {name} | tee {PROCESSORS}/cpu*/cpufreq/scaling_governor")
            }
        }
    }

    /// The change that takes this one back, by what facts say of before. None where they do not say.
    pub fn inverse(&self, facts: &Facts) -> Option<Self> {
        let of_device = || facts.host.device.as_ref();
        Some(match self {
            Self::Setting { key, .. } => Self::setting(key, facts.host.settings.get(key)?),
            Self::Offload { device, offload, .. } => {
                let on = *of_device()?.offloads.get(offload)?;
                Self::Offload { device: device.clone(), offload: offload.clone(), on }
            }
            Self::Mtu { device, .. } => {
                Self::Mtu { device: device.clone(), bytes: of_device()?.mtu }
            }
            Self::QueueLength { device, .. } => {
                Self::QueueLength { device: device.clone(), packets: of_device()?.queue_length? }
            }
            Self::SegmentsPerPacket { device, .. } => {
                let segments = of_device()?.segments_per_packet;
                Self::SegmentsPerPacket { device: device.clone(), segments }
            }
            Self::Rings { device, .. } => {
                let (receive, transmit) =
                    (of_device()?.receive_ring?.0, of_device()?.transmit_ring?.0);
                Self::Rings { device: device.clone(), receive, transmit }
            }
            Self::Discipline { device, .. } => {
                let words = words_of(&of_device()?.discipline);
                Self::Discipline { device: device.clone(), words }
            }
            Self::Route { words, before } => {
                Self::Route { words: before.clone(), before: words.clone() }
            }
            Self::Governor { .. } => Self::Governor { name: facts.host.governor.clone()? },
        })
    }

    /// The facts after the change.
    pub fn apply(&self, facts: &mut Facts) {
        if let Self::Setting { key, value } = self {
            let before = facts.host.three(TCP_MEM);
            facts.host.settings.insert(key.clone(), value.clone());
            // Pages there, bytes here.
            if let (true, Some(before), Some(after), Some(memory)) =
                (key == TCP_MEM, before, facts.host.three(TCP_MEM), &mut facts.host.memory)
            {
                let page = memory.begins_bytes / before[1].max(1);
                memory.begins_bytes = after[1].saturating_mul(page);
            }
            return;
        }
        if let Self::Governor { name } = self {
            facts.host.governor = Some(name.clone());
            return;
        }
        if let Self::Route { words, .. } = self {
            facts.host.route = Some(Route { text: words.clone() });
            return;
        }
        let Some(device) = &mut facts.host.device else { return };
        match self {
            Self::Offload { offload, on, .. } => {
                device.offloads.insert(offload.clone(), *on);
            }
            Self::Mtu { bytes, .. } => device.mtu = *bytes,
            Self::QueueLength { packets, .. } => device.queue_length = Some(*packets),
            Self::SegmentsPerPacket { segments, .. } => device.segments_per_packet = *segments,
            Self::Rings { receive, transmit, .. } => {
                device.receive_ring = device.receive_ring.map(|(_, most)| (*receive, most));
                device.transmit_ring = device.transmit_ring.map(|(_, most)| (*transmit, most));
            }
            Self::Discipline { words, .. } => {
                let (kind, parameters) = words.split_once(' ').unwrap_or((words, ""));
                device.discipline = Discipline {
                    kind: kind.to_owned(),
                    parameters: parameters.to_owned(),
                    is_default: words.is_empty(),
                };
            }
            Self::Setting { .. } | Self::Route { .. } | Self::Governor { .. } => {}
        }
    }

    /// Makes the change on this host.
    ///
    /// # Errors
    /// This user may not, or the host does not take it.
    pub fn make(&self) -> io::Result<()> {
        let by_ip = |words: &[&str]| iproute::ip(words).map(drop).map_err(io::Error::other);
        match self {
            Self::Setting { key, value } => sysctl::write(key, value),
            Self::Offload { device, offload, on } => {
                let offload = Offload::of_name(offload).ok_or(io::ErrorKind::InvalidData)?;
                ethtool::set_offload(device, offload, *on)
            }
            Self::Mtu { device, bytes } => {
                by_ip(&["link", "set", "dev", device, "mtu", &bytes.to_string()])
            }
            Self::QueueLength { device, packets } => {
                by_ip(&["link", "set", "dev", device, "txqueuelen", &packets.to_string()])
            }
            Self::SegmentsPerPacket { device, segments } => {
                by_ip(&["link", "set", "dev", device, "gso_max_segs", &segments.to_string()])
            }
            Self::Rings { device, receive, transmit } => {
                ethtool::set_rings(device, *receive, *transmit)
            }
            Self::Discipline { device, words } => {
                let verb = if words.is_empty() { "del" } else { "replace" };
                let mut arguments = vec!["qdisc", verb, "dev", device.as_str(), "root"];
                arguments.extend(words.split_whitespace());
                iproute::tc(&arguments).map(drop).map_err(io::Error::other)
            }
            Self::Route { words, before } => {
                let mut arguments = vec!["route", "replace"];
                arguments.extend(words.split_whitespace());
                by_ip(&arguments)?;
                if is_remembered(words, before) {
                    by_ip(&["tcp_metrics", "flush", "all"])?;
                }
                Ok(())
            }
            Self::Governor { name } => {
                for processor in fs::read_dir(PROCESSORS)?.flatten() {
                    let file = processor.path().join("cpufreq/scaling_governor");
                    if file.exists() {
                        fs::write(file, name)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// The name of the device that it changes.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::Offload { device, .. }
            | Self::Mtu { device, .. }
            | Self::QueueLength { device, .. }
            | Self::SegmentsPerPacket { device, .. }
            | Self::Rings { device, .. }
            | Self::Discipline { device, .. } => Some(device),
            Self::Setting { .. } | Self::Route { .. } | Self::Governor { .. } => None,
        }
    }

    /// Whether the host is as the change leaves it. None where that cannot be read.
    pub fn holds(&self) -> Option<bool> {
        let device = |name: &str| device::Device::gather(name);
        Some(match self {
            Self::Setting { key, value } => sysctl::read(key).ok()? == *value,
            Self::Offload { device: name, offload, on } => {
                device(name)?.offloads.get(offload)? == on
            }
            Self::Mtu { device: name, bytes } => device(name)?.mtu == *bytes,
            Self::QueueLength { device: name, packets } => device(name)?.queue_length? == *packets,
            Self::SegmentsPerPacket { device: name, segments } => {
                device(name)?.segments_per_packet == *segments
            }
            Self::Rings { device: name, receive, transmit } => {
                let device = device(name)?;
                device.receive_ring?.0 == *receive && device.transmit_ring?.0 == *transmit
            }
            Self::Discipline { device: name, words } => {
                words_of(&device(name)?.discipline) == *words
            }
            Self::Route { words, .. } => {
                let family = if words.contains(':') { "-6" } else { "-4" };
                let shown = iproute::ip(&[family, "route", "show"]).ok()?;
                let shown = String::from_utf8_lossy(&shown).into_owned();
                shown.lines().any(|line| sorted_words(line) == sorted_words(words))
            }
            Self::Governor { name } => {
                let file = format!("{PROCESSORS}/cpu0/cpufreq/scaling_governor");
                fs::read_to_string(file).ok()?.trim() == name
            }
        })
    }
}

/// Whether the kernel copies something of one of these routes to what it remembers of peers, for an hour: a locked window.
fn is_remembered(words: &str, before: &str) -> bool {
    [words, before].iter().any(|text| Route { text: (*text).to_owned() }.is_locked("cwnd"))
}

/// The words of a route, in whatever order ip prints them.
fn sorted_words(route: &str) -> Vec<&str> {
    let mut words: Vec<&str> = route.split_whitespace().collect();
    words.sort_unstable();
    words
}

/// A discipline as tc takes it; nothing for the kernel's own choice.
fn words_of(discipline: &Discipline) -> String {
    if discipline.is_default {
        return String::new();
    }
    format!("{} {}", discipline.kind, discipline.parameters).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Device;

    fn facts() -> Facts {
        let mut facts = Facts::default();
        facts
            .host
            .settings
            .insert("net.ipv4.tcp_rmem".to_owned(), "4096 131072 6291456".to_owned());
        facts.host.governor = Some("powersave".to_owned());
        facts.host.route =
            Some(Route { text: "default via 10.0.0.1 dev v0 window 9000".to_owned() });
        facts.host.device = Some(Device {
            name: "v0".to_owned(),
            mtu: 576,
            queue_length: Some(5),
            segments_per_packet: 1,
            receive_ring: Some((256, 4096)),
            transmit_ring: Some((256, 4096)),
            discipline: Discipline::parse("qdisc tbf 1: root rate 100Mbit burst 32Kb lat 50ms")
                .unwrap(),
            offloads: [("tso".to_owned(), false)].into(),
            ..Device::default()
        });
        facts
    }

    fn changes() -> Vec<(Change, &'static str)> {
        let device = || "v0".to_owned();
        let route = "default via 10.0.0.1 dev v0";
        vec![
            (
                Change::setting("net.ipv4.tcp_rmem", "4096 131072 67108864"),
                "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 67108864\"",
            ),
            (
                Change::Offload { device: device(), offload: "tso".to_owned(), on: true },
                "ethtool -K v0 tso on",
            ),
            (Change::Mtu { device: device(), bytes: 1500 }, "ip link set dev v0 mtu 1500"),
            (
                Change::QueueLength { device: device(), packets: 1000 },
                "ip link set dev v0 txqueuelen 1000",
            ),
            (
                Change::SegmentsPerPacket { device: device(), segments: 65535 },
                "ip link set dev v0 gso_max_segs 65535",
            ),
            (
                Change::Rings { device: device(), receive: 4096, transmit: 1024 },
                "ethtool -G v0 rx 4096 tx 1024",
            ),
            (
                Change::Discipline { device: device(), words: String::new() },
                "tc qdisc del dev v0 root",
            ),
            (
                Change::Route { words: route.to_owned(), before: format!("{route} window 9000") },
                "ip route replace default via 10.0.0.1 dev v0",
            ),
            (
                Change::Governor { name: "performance".to_owned() },
                "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
            ),
        ]
    }

    #[test]
    fn change_and_inverse_leave_facts_as_they_were() {
        for (change, command) in changes() {
            let before = facts();
            let inverse = change.inverse(&before).unwrap_or_else(|| panic!("{change:?}"));
            let mut after = before.clone();
            change.apply(&mut after);
            assert_ne!(after, before, "{change:?}");
            inverse.apply(&mut after);
            assert_eq!(after, before, "{change:?}");
            assert_eq!(change.command(), command);
        }
    }

    #[test]
    fn changes_survive_the_journal() {
        for (change, _) in changes() {
            let text = serde_json::to_string(&change).unwrap();
            assert_eq!(serde_json::from_str::<Change>(&text).unwrap(), change);
        }
    }

    #[test]
    fn without_the_value_from_before_there_is_no_inverse() {
        for (change, _) in changes() {
            let is_route = matches!(change, Change::Route { .. });
            assert_eq!(change.inverse(&Facts::default()).is_some(), is_route, "{change:?}");
        }
    }
}
