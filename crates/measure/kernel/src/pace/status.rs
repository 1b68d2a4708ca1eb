// SPDX-License-Identifier: GPL-2.0-or-later
//! Pacing as `longhaul pace show --json` and `longhaul pace methods --json` print it.

use super::{
    counters::Sender,
    method::Method,
    pinned::PacedDevice,
    rules::{Owner, Rule, Target},
};
use netmodel::pacing::Estimator;
use serde::Serialize;
use std::num::NonZeroU16;
use units::Rate;

/// Output of `longhaul pace show --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PacingStatus {
    /// The paced devices.
    pub devices: Vec<DeviceStatus>,
}

impl PacingStatus {
    /// The document of some paced devices.
    pub fn new(attached: &[PacedDevice]) -> Self {
        Self { devices: attached.iter().map(DeviceStatus::new).collect() }
    }
}

/// A paced device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceStatus {
    /// Its name.
    pub device: String,
    /// The mechanism that spaces packets: `gap` or `edt`.
    pub by: &'static str,
    /// Whether the device is given single segments.
    pub single_segments: bool,
    /// The rate of the link; null where it is not known.
    pub line_bps: Option<u64>,
    /// Bytes of the link that a frame takes beyond its length without the check sequence.
    pub overhead_bytes: u64,
    /// The maximum gap behind one packet; null with departure times.
    pub max_gap_bytes: Option<u64>,
    /// The longest gap frame; null with departure times.
    pub max_frame_bytes: Option<u64>,
    /// Why its packets are not paced at present; null where they are.
    pub lacks: Option<String>,
    /// Its rules.
    pub rules: Vec<RuleStatus>,
    /// Packets that a rule paced.
    pub paced_packets: u64,
    /// Their bytes.
    pub paced_bytes: u64,
    /// Gap frames.
    pub gap_frames: u64,
    /// Their bytes.
    pub gap_bytes: u64,
    /// Paced packets that left without gap, because the targets' sum was the link's rate.
    pub line_rate_packets: u64,
    /// Packets not paced before the first round trip.
    pub unpaced_no_rtt_packets: u64,
    /// Packets not paced because other processors held the queue.
    pub unpaced_lock_packets: u64,
    /// Paced packets of several segments.
    pub super_packets: u64,
    /// Bytes of gaps that could not be sent.
    pub lost_gap_bytes: u64,
    /// Packets that found the device's queue full.
    pub lost_packets: u64,
    /// Packets dropped because their departure was more than 2 s ahead.
    pub beyond_horizon_packets: u64,
    /// The senders.
    pub senders: Vec<SenderStatus>,
}

/// A rule of a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RuleStatus {
    /// Its number.
    pub rule: u32,
    /// The network that packets go to; null for any.
    pub destination: Option<String>,
    /// The port that packets go to; null for any.
    pub destination_port: Option<NonZeroU16>,
    /// The port that packets come from; null for any.
    pub source_port: Option<NonZeroU16>,
    /// The rate of all its packets together; null where each socket has its own.
    pub rate_bps: Option<u64>,
    /// How each socket's rate is estimated, `link` or `paper`; null where the rate is set.
    pub estimator: Option<&'static str>,
    /// Whether estimates are cut at what the path is found to carry.
    pub find_cap: Option<bool>,
    /// Whether a depot's configuration put it there.
    pub of_depot: bool,
    /// The rate that estimates are cut at.
    pub max_rate_bps: Option<u64>,
}

/// A socket, or all that a rule with a rate has paced.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SenderStatus {
    /// The rule's number.
    pub rule: u32,
    /// `tcp`, `udp`, or the protocol's number.
    pub protocol: String,
    /// Address and port of the first packet's source.
    pub source: String,
    /// Address and port of the first packet's destination.
    pub destination: String,
    /// The rate aimed at, at the newest packet.
    pub target_bps: u64,
    /// Average rate over the span; null before the second packet.
    pub achieved_bps: Option<u64>,
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of gaps behind them.
    pub gap_bytes: u64,
    /// From the first packet to the newest.
    pub span_us: u64,
}

impl DeviceStatus {
    fn new(attached: &PacedDevice) -> Self {
        let PacedDevice { device, setup, lack, counts, senders } = attached;
        let gaps = setup.method == Method::Gap;
        let rules = setup.rules.iter();
        let owner = |number: &u32| setup.owners.get(number);
        Self {
            device: device.clone(),
            by: setup.method.word(),
            single_segments: setup.method.has_single_segments(),
            line_bps: setup.line.map(Rate::bps),
            overhead_bytes: setup.overhead.get(),
            max_gap_bytes: gaps.then_some(setup.max_gap.get()),
            max_frame_bytes: gaps.then_some(setup.max_frame.get()),
            lacks: lack.clone(),
            rules: rules.map(|(n, rule)| RuleStatus::new(*n, rule, owner(n))).collect(),
            paced_packets: counts.packets,
            paced_bytes: counts.bytes,
            gap_frames: counts.gap_frames,
            gap_bytes: counts.gap_bytes,
            line_rate_packets: counts.at_line_rate,
            unpaced_no_rtt_packets: counts.no_rtt,
            unpaced_lock_packets: counts.lock_failures,
            super_packets: counts.super_packets,
            lost_gap_bytes: counts.lost_gap_bytes,
            lost_packets: counts.lost_packets,
            beyond_horizon_packets: counts.beyond_horizon,
            senders: senders.iter().map(SenderStatus::new).collect(),
        }
    }
}

impl RuleStatus {
    fn new(number: u32, rule: &Rule, owner: Option<&Owner>) -> Self {
        let (rate, estimator) = match rule.target {
            Target::Rate(rate) => (Some(rate.bps()), None),
            Target::Auto(estimator) => (None, Some(estimator)),
        };
        Self {
            rule: number,
            destination: rule.matches.destination.map(|net| net.to_string()),
            destination_port: rule.matches.to_port,
            source_port: rule.matches.from_port,
            rate_bps: rate,
            estimator: estimator.map(estimator_name),
            find_cap: estimator.map(|estimator| estimator.find_cap),
            of_depot: owner.is_some(),
            max_rate_bps: estimator.and_then(|estimator| estimator.max_rate).map(Rate::bps),
        }
    }
}

impl SenderStatus {
    fn new(sender: &Sender) -> Self {
        Self {
            rule: sender.rule,
            protocol: sender.protocol_name(),
            source: sender.source.to_string(),
            destination: sender.destination.to_string(),
            target_bps: sender.target.bps(),
            achieved_bps: sender.achieved().map(Rate::bps),
            packets: sender.packets,
            bytes: sender.bytes.get(),
            gap_bytes: sender.gap_bytes.get(),
            span_us: sender.span.as_nanos() / 1000,
        }
    }
}

/// An estimator's name: `link` (sizes as on the link) or `paper` (sizes without headers).
pub fn estimator_name(estimator: Estimator) -> &'static str {
    if estimator.headers { "link" } else { "paper" }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Counts, Match, Setup},
        *,
    };
    use std::collections::BTreeMap;
    use units::{Bytes, Duration};

    #[test]
    fn status_has_every_key_in_order() {
        let to = Match {
            destination: "10.0.0.0/8".parse().ok(),
            to_port: NonZeroU16::new(80),
            ..Match::default()
        };
        let rules = vec![
            (1, Rule { matches: to, target: Target::Auto(Estimator::LINK) }),
            (2, Rule { matches: Match::default(), target: Target::Rate(Rate::bits_per_second(5)) }),
        ];
        let sender = Sender {
            source: "192.0.2.1:5".parse().unwrap(),
            destination: "10.0.0.1:80".parse().unwrap(),
            protocol: 6,
            rule: 1,
            target: Rate::bits_per_second(9),
            packets: 2,
            bytes: Bytes::new(20),
            gap_bytes: Bytes::new(30),
            span: Duration::from_micros(8),
        };
        let attached = PacedDevice {
            device: "eth0".to_owned(),
            setup: Setup {
                method: Method::Gap,
                line: Some(Rate::bits_per_second(1_000)),
                overhead: Bytes::new(24),
                max_gap: Bytes::new(65_536),
                max_frame: Bytes::new(4096),
                mac: [0; 6],
                rules,
                owners: BTreeMap::from([(2, Owner::MIN)]),
            },
            lack: None,
            counts: Counts {
                packets: 2,
                bytes: 20,
                gap_frames: 3,
                gap_bytes: 30,
                ..Counts::default()
            },
            senders: vec![sender],
        };
        let expected = r#"{"devices":[{"device":"eth0","by":"gap","single_segments":true,"line_bps":1000,"overhead_bytes":24,"max_gap_bytes":65536,"max_frame_bytes":4096,"lacks":null,"rules":[{"rule":1,"destination":"10.0.0.0/8","destination_port":80,"source_port":null,"rate_bps":null,"estimator":"link","find_cap":false,"of_depot":false,"max_rate_bps":null},{"rule":2,"destination":null,"destination_port":null,"source_port":null,"rate_bps":5,"estimator":null,"find_cap":null,"of_depot":true,"max_rate_bps":null}],"paced_packets":2,"paced_bytes":20,"gap_frames":3,"gap_bytes":30,"line_rate_packets":0,"unpaced_no_rtt_packets":0,"unpaced_lock_packets":0,"super_packets":0,"lost_gap_bytes":0,"lost_packets":0,"beyond_horizon_packets":0,"senders":[{"rule":1,"protocol":"tcp","source":"192.0.2.1:5","destination":"10.0.0.1:80","target_bps":9,"achieved_bps":10000000,"packets":2,"bytes":20,"gap_bytes":30,"span_us":8}]}]}"#;
        let text = serde_json::to_string(&PacingStatus::new(&[attached])).unwrap();
        assert_eq!(text, expected);
    }
}
