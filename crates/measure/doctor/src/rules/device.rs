// SPDX-License-Identifier: GPL-2.0-or-later
//! The network device: its link, queue, offloads and rings, and the processors that serve it.

use crate::{
    Target,
    change::Change,
    facts::{Device, Facts},
    finding::{Direction, Finding, Gain, Limit, Remedy, Scope},
    rule::{Check, Rule, finding},
};
use units::Rate;

pub const RULES: &[Rule] = &[
    Rule {
        id: "line-rate",
        about: "a link slower than the target",
        source: "ethtool(8)",
        check: Check::Facts(line_rate),
    },
    Rule {
        id: "half-duplex",
        about: "a link that carries one direction at a time",
        source: "ethtool(8)",
        check: Check::Facts(half_duplex),
    },
    Rule {
        id: "small-mtu",
        about: "packets smaller than the link's usual ones",
        source: "IEEE 802.3; crate model",
        check: Check::Facts(small_mtu),
    },
    Rule {
        id: "large-mtu",
        about: "large packets without probes of the path's MTU",
        source: "RFC 4821; ESnet, fasterdata",
        check: Check::Facts(large_mtu),
    },
    Rule {
        id: "shaper",
        about: "a discipline that shapes below the target",
        source: "tc(8); crate model",
        check: Check::Facts(shaper),
    },
    Rule {
        id: "emulated-path",
        about: "a discipline that delays or loses packets",
        source: "tc-netem(8)",
        check: Check::Facts(emulated_path),
    },
    Rule {
        id: "short-queue",
        about: "a queue of few packets at the device",
        source: "tc-pfifo(8)",
        check: Check::Facts(short_queue),
    },
    Rule {
        id: "segmentation-offload",
        about: "TSO and GSO",
        source: "Linux, segmentation-offloads.rst",
        check: Check::Facts(segmentation),
    },
    Rule {
        id: "receive-offload",
        about: "GRO",
        source: "Linux, segmentation-offloads.rst",
        check: Check::Facts(receive_offload),
    },
    Rule {
        id: "checksum-offload",
        about: "checksums and scatter-gather",
        source: "Linux, segmentation-offloads.rst",
        check: Check::Facts(checksums),
    },
    Rule {
        id: "single-segments",
        about: "segments in a packet to the device (gso_max_segs)",
        source: "ip-link(8)",
        check: Check::Facts(single_segments),
    },
    Rule {
        id: "receive-ring",
        about: "the ring of received packets",
        source: "ethtool(8)",
        check: Check::Facts(receive_ring),
    },
    Rule {
        id: "interrupts",
        about: "processors that take the card's interrupts",
        source: "Linux, scaling.rst",
        check: Check::Facts(interrupts),
    },
    Rule {
        id: "governor",
        about: "processors that save power",
        source: "Linux, cpufreq.rst",
        check: Check::Facts(governor),
    },
];

/// From this rate on, work for each packet is what a processor is busy with.
const FAST: Rate = Rate::bits_per_second(500_000_000);
/// From this rate on, a processor that saves power is late.
const VERY_FAST: Rate = Rate::bits_per_second(5_000_000_000);
/// The usual longest packet of Ethernet, and the shortest one that a tunnel leaves of it.
const USUAL_MTU: u32 = 1500;
const LEAST_MTU: u32 = 1280;
/// A queue of fewer packets does not hold a burst.
const SHORT: u32 = 50;
/// The kernel's own length.
const USUAL_LENGTH: u32 = 1000;
/// Packets of so few segments are as good as single ones.
const FEW_SEGMENTS: u32 = 4;
const MOST_SEGMENTS: u32 = 65_535;

const PROCESSOR: Gain = Gain::NoForm("what a packet costs the processor is not in the model");

fn ethernet(facts: &Facts) -> Option<&Device> {
    facts.host.device.as_ref().filter(|device| device.is_ethernet)
}

fn line_rate(facts: &Facts, target: &Target) -> Option<Finding> {
    let device = ethernet(facts)?;
    let line = Rate::bits_per_second(device.line_rate_bps?);
    (line < target.rate_of(Direction::Both)).then(|| finding! {
        cause: format!("the link of {} is slower than the target", device.name),
        evidence: format!("{} runs at {line}", device.name),
        scope: Scope::Always,
        direction: Direction::Both,
        remedy: Remedy::Advice(
            format!("look at cable and switch port (ethtool {}), or use a faster card", device.name),
            Some(Limit::LineRate),
        ),
        gain: Gain::Modelled,
    })
}

fn half_duplex(facts: &Facts, _: &Target) -> Option<Finding> {
    let device = ethernet(facts).filter(|device| device.is_half_duplex)?;
    Some(finding! {
        cause: "the link carries one direction at a time: acknowledgements collide with data".to_owned(),
        evidence: format!("{} is half duplex", device.name),
        scope: Scope::Always,
        direction: Direction::Both,
        remedy: Remedy::Advice(format!("switch autonegotiation on at both ends (ethtool -s {} autoneg on)", device.name), None),
        gain: Gain::NoForm("the model has no collisions"),
    })
}

fn small_mtu(facts: &Facts, _: &Target) -> Option<Finding> {
    let device = ethernet(facts).filter(|device| device.mtu < LEAST_MTU)?;
    Some(finding! {
        cause: format!("packets of {} bytes: headers take more of each, and each loss costs more of the window", device.mtu),
        evidence: format!("the MTU of {} is {}", device.name, device.mtu),
        scope: Scope::Always,
        direction: Direction::Both,
        remedy: Remedy::Changes(vec![Change::Mtu { device: device.name.clone(), bytes: USUAL_MTU }]),
        gain: Gain::Modelled,
    })
}

fn large_mtu(facts: &Facts, _: &Target) -> Option<Finding> {
    let key = "net.ipv4.tcp_mtu_probing";
    let device = ethernet(facts).filter(|device| device.mtu > USUAL_MTU)?;
    (facts.host.number(key) == Some(0)).then(|| finding! {
        cause: "packets larger than those of most paths: where a router drops them without saying so, transfers stall".to_owned(),
        evidence: format!("the MTU of {} is {}, and {key} is 0", device.name, device.mtu),
        scope: Scope::Sometimes,
        direction: Direction::Send,
        remedy: Remedy::Changes(vec![Change::setting(key, 1)]),
        gain: Gain::NoForm("the path's MTU is not known"),
    })
}

fn shaper(facts: &Facts, target: &Target) -> Option<Finding> {
    let device = facts.host.device.as_ref()?;
    let rate = Rate::bits_per_second(device.discipline.rate_bps()?);
    (rate < target.send_rate).then(|| finding! {
        cause: format!("this host shapes what it sends to {rate}"),
        evidence: format!("{} has {} {}", device.name, device.discipline.kind, device.discipline.parameters),
        scope: Scope::Always,
        direction: Direction::Send,
        remedy: Remedy::Changes(vec![default_discipline(device)]),
        gain: Gain::Modelled,
    })
}

fn default_discipline(device: &Device) -> Change {
    Change::Discipline { device: device.name.clone(), words: String::new() }
}

fn emulated_path(facts: &Facts, _: &Target) -> Option<Finding> {
    let device = facts.host.device.as_ref().filter(|device| device.discipline.kind == "netem")?;
    let does =
        ["delay", "loss", "corrupt", "reorder"].map(|name| device.discipline.value(name).is_some());
    does.contains(&true).then(|| {
        finding! {
            cause: "this host delays or loses what it sends, as a test of a path does".to_owned(),
            evidence: format!("{} has netem {}", device.name, device.discipline.parameters),
            scope: Scope::Always,
            direction: Direction::Send,
            remedy: Remedy::Changes(vec![default_discipline(device)]),
            gain: Gain::NoForm("the path without it is not known"),
        }
    })
}

fn short_queue(facts: &Facts, _: &Target) -> Option<Finding> {
    let device = facts.host.device.as_ref()?;
    let kind = device.discipline.kind.as_str();
    let name = device.name.clone();
    let (length, change) = match (kind, device.discipline.most_packets()) {
        ("pfifo_fast", _) => {
            (device.queue_length?, Change::QueueLength { device: name, packets: USUAL_LENGTH })
        }
        ("pfifo", Some(length)) => (
            length,
            Change::Discipline { device: name, words: format!("pfifo limit {USUAL_LENGTH}") },
        ),
        _ => return None,
    };
    (length < SHORT).then(|| finding! {
        cause: "the queue at the device does not hold a burst of TCP: this host drops its own packets".to_owned(),
        evidence: format!("{} has {kind} with room for {length} packets", device.name),
        scope: Scope::Always,
        direction: Direction::Send,
        remedy: Remedy::Changes(vec![change]),
        gain: Gain::NoForm("the model has no queue between TCP and the device"),
    })
}

/// Those of the offloads that are off, from a rate on that makes them matter.
fn off<'n>(facts: &Facts, target: &Target, names: &[&'n str]) -> Option<Vec<&'n str>> {
    let device = ethernet(facts).filter(|_| target.rate_of(Direction::Both) >= FAST)?;
    let is_off = |name: &&str| device.offloads.get(*name) == Some(&false);
    let off: Vec<&str> = names.iter().copied().filter(is_off).collect();
    (!off.is_empty()).then_some(off)
}

fn offloads(facts: &Facts, off: &[&str], direction: Direction, cause: &str) -> Option<Finding> {
    let device = ethernet(facts)?;
    let on = |offload: &&str| Change::Offload {
        device: device.name.clone(),
        offload: (*offload).to_owned(),
        on: true,
    };
    Some(finding! {
        cause: cause.to_owned(),
        evidence: format!("{} of {}: off", off.join(", "), device.name),
        scope: Scope::Always,
        direction: direction,
        remedy: Remedy::Changes(off.iter().map(on).collect()),
        gain: PROCESSOR,
    })
}

fn segmentation(facts: &Facts, target: &Target) -> Option<Finding> {
    let off = off(facts, target, &["tso", "gso"])?;
    // They are off with the checksums that they need, which another rule names.
    let device = ethernet(facts)?;
    if ["tx", "sg"].iter().any(|needed| device.offloads.get(*needed) == Some(&false)) {
        return None;
    }
    offloads(
        facts,
        &off,
        Direction::Send,
        "TCP makes each packet by itself: the processor is busy with packets before the link is full",
    )
}

fn receive_offload(facts: &Facts, target: &Target) -> Option<Finding> {
    let off = off(facts, target, &["gro"])?;
    if ethernet(facts)?.receives_whole {
        return None;
    }
    offloads(
        facts,
        &off,
        Direction::Receive,
        "each received packet passes the stack by itself, and each pair of them is acknowledged",
    )
}

fn checksums(facts: &Facts, target: &Target) -> Option<Finding> {
    let off = off(facts, target, &["rx", "tx", "sg"])?;
    offloads(
        facts,
        &off,
        Direction::Both,
        "the processor makes or verifies checksums, and cannot hand over packets of many segments",
    )
}

fn single_segments(facts: &Facts, target: &Target) -> Option<Finding> {
    let device = ethernet(facts).filter(|_| target.rate_of(Direction::Both) >= FAST)?;
    // 0 where iproute2 does not show it.
    let few = (1..FEW_SEGMENTS).contains(&device.segments_per_packet);
    few.then(|| finding! {
        cause: "TCP hands over packets of few segments, as with segmentation offload off; pacing by gap packets needs that".to_owned(),
        evidence: format!("gso_max_segs of {} is {}", device.name, device.segments_per_packet),
        scope: Scope::Always,
        direction: Direction::Send,
        remedy: Remedy::Changes(vec![Change::SegmentsPerPacket { device: device.name.clone(), segments: MOST_SEGMENTS }]),
        gain: PROCESSOR,
    })
}

fn receive_ring(facts: &Facts, _: &Target) -> Option<Finding> {
    let device = ethernet(facts).filter(|device| device.receive_drops > 0)?;
    let (now, most) = device.receive_ring?;
    let transmit = device.transmit_ring.map_or(0, |(now, _)| now);
    (now < most).then(|| finding! {
        cause: "the card dropped received packets, and its ring can be larger".to_owned(),
        evidence: format!("{} drops; the ring of {} has {now} of {most} packets", device.receive_drops, device.name),
        scope: Scope::Sometimes,
        direction: Direction::Receive,
        remedy: Remedy::Changes(vec![Change::Rings { device: device.name.clone(), receive: most, transmit }]),
        gain: Gain::NoForm("when they were dropped is not known"),
    })
}

fn interrupts(facts: &Facts, target: &Target) -> Option<Finding> {
    let device = ethernet(facts).filter(|_| target.rate_of(Direction::Both) >= VERY_FAST)?;
    let alone = device.interrupt_processors == Some(1) && facts.host.processors > 1;
    alone.then(|| finding! {
        cause: "one processor takes all interrupts of the card".to_owned(),
        evidence: format!("/proc/irq of {}: one of {} processors", device.name, facts.host.processors),
        scope: Scope::Sometimes,
        direction: Direction::Both,
        remedy: Remedy::Advice(format!("run irqbalance, or give {} more queues (ethtool -L)", device.name), None),
        gain: PROCESSOR,
    })
}

fn governor(facts: &Facts, target: &Target) -> Option<Finding> {
    let governor = facts.host.governor.as_deref()?;
    let saves = matches!(governor, "powersave" | "conservative");
    (saves && target.rate_of(Direction::Both) >= VERY_FAST).then(|| {
        finding! {
            cause: "processors slow down between packets".to_owned(),
            evidence: format!("the governor is {governor}"),
            scope: Scope::Sometimes,
            direction: Direction::Both,
            remedy: Remedy::Changes(vec![Change::Governor { name: "performance".to_owned() }]),
            gain: PROCESSOR,
        }
    })
}
