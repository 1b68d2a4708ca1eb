// SPDX-License-Identifier: GPL-2.0-or-later
//! The structs of `src/bpf/pace_state.h` and `pace_rules.h` as bytes.

use super::{
    counters::{Counts, Sender},
    method::Method,
    rules::{MOST_RULES, Match, Owner, Rule, Setup, Target},
};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netmodel::pacing::{Estimator, Rtt};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU16,
};
use units::{Bytes, Duration, Rate};

/// `struct pace_setup`.
pub fn setup(setup: &Setup) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SETUP);
    bytes.extend((setup.line.map_or(0, Rate::bps) / 8).to_ne_bytes());
    let sizes = [setup.overhead, setup.max_gap, setup.max_frame].map(Bytes::get);
    for word in sizes.into_iter().chain([setup.rules.len() as u64]) {
        bytes.extend((word as u32).to_ne_bytes());
    }
    bytes.extend(setup.mac);
    let method = METHODS.iter().position(|method| *method == setup.method).expect("all are there");
    bytes.extend((method as u16).to_ne_bytes());
    for (number, one) in &setup.rules {
        rule(&mut bytes, *number, setup.owners.get(number).copied(), one);
    }
    bytes.resize(SETUP, 0);
    bytes
}

/// `enum pace_way`.
const METHODS: [Method; 3] = [Method::Gap, Method::EDT, Method::Edt { super_packets: true }];
const RULE: usize = 80;
/// All that there can be.
pub const RULES: usize = MOST_RULES * RULE;
const SETUP: usize = 32 + RULES;

/// `struct pace_rule`.
pub fn rule(bytes: &mut Vec<u8>, number: u32, owner: Option<Owner>, rule: &Rule) {
    let (rate, estimator) = match rule.target {
        Target::Rate(rate) => (rate.bps() / 8, Estimator::LINK),
        Target::Auto(estimator) => (0, estimator),
    };
    let params = estimator.params();
    bytes.extend(rate.to_ne_bytes());
    bytes.extend(params.max_rate.to_ne_bytes());
    for word in [params.rtt, params.payload, params.recovery, params.find_cap] {
        bytes.extend(word.to_ne_bytes());
    }
    let (address, bits) = match rule.matches.destination {
        None => (Ipv6Addr::UNSPECIFIED, 0),
        Some(IpNet::V4(net)) => (net.network().to_ipv6_mapped(), 96 + net.prefix_len()),
        Some(IpNet::V6(net)) => (net.network(), net.prefix_len()),
    };
    bytes.extend(address.octets());
    bytes.extend(u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0).to_be_bytes());
    bytes.extend(number.to_ne_bytes());
    for port in [rule.matches.from_port, rule.matches.to_port] {
        bytes.extend(port.map_or(0, NonZeroU16::get).to_ne_bytes());
    }
    bytes.extend(owner.map_or(0, Owner::get).to_ne_bytes());
}

/// Reads what the kernel gives, one field after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let (first, rest) = self.0.split_first_chunk().expect("as long as the program's struct");
        self.0 = rest;
        *first
    }

    fn port(&mut self) -> u16 {
        u16::from_ne_bytes(self.bytes())
    }

    fn word(&mut self) -> u32 {
        u32::from_ne_bytes(self.bytes())
    }

    fn long(&mut self) -> u64 {
        u64::from_ne_bytes(self.bytes())
    }

    fn size(&mut self) -> Bytes {
        Bytes::new(self.word().into())
    }

    fn rate(&mut self) -> Rate {
        Rate::bits_per_second(self.long() * 8)
    }

    fn address(&mut self) -> IpAddr {
        Ipv6Addr::from(self.bytes::<16>()).to_canonical()
    }
}

/// Reads the bytes that [`setup`] has written.
pub fn read_setup(bytes: &[u8]) -> Setup {
    let mut fields = Fields(bytes);
    let line = Some(fields.rate()).filter(|line| line.bps() > 0);
    let (overhead, max_gap, max_frame) = (fields.size(), fields.size(), fields.size());
    let rules = fields.word();
    let mac = fields.bytes();
    let method = METHODS[usize::from(u16::from_ne_bytes(fields.bytes()))];
    let mut owners = BTreeMap::new();
    let rules = (0..rules).map(|_| {
        let (number, rule) = read_rule(&mut fields);
        owners.extend(Owner::new(fields.long()).map(|owner| (number, owner)));
        (number, rule)
    });
    let rules = rules.collect();
    Setup { method, line, overhead, max_gap, max_frame, mac, rules, owners }
}

fn read_rule(fields: &mut Fields<'_>) -> (u32, Rule) {
    let rate = fields.rate();
    let max_rate = Some(fields.rate()).filter(|rate| rate.bps() > 0);
    let rtt = if fields.word() == 0 { Rtt::Smoothed } else { Rtt::Smallest };
    let headers = fields.word() == 0;
    let recovery = fields.word() != 0;
    let find_cap = fields.word() != 0;
    let estimator = Estimator { rtt, headers, recovery, max_rate, find_cap };
    let target = if rate.bps() > 0 { Target::Rate(rate) } else { Target::Auto(estimator) };
    let address = Ipv6Addr::from(fields.bytes::<16>());
    let bits = u128::from_be_bytes(fields.bytes()).leading_ones() as u8;
    let destination = (bits > 0).then(|| match address.to_ipv4_mapped() {
        Some(v4) if bits >= 96 => Ipv4Net::new(v4, bits - 96).expect("at most 32").into(),
        _ => Ipv6Net::new(address, bits).expect("at most 128").into(),
    });
    let number = fields.word();
    let from_port = NonZeroU16::new(fields.port());
    let to_port = NonZeroU16::new(fields.port());
    (number, Rule { matches: Match { destination, to_port, from_port }, target })
}

/// The counts of a `struct pace_work`, one processor's.
pub fn read_counts(bytes: &[u8]) -> Counts {
    let mut fields = Fields(bytes);
    Counts {
        packets: fields.long(),
        bytes: fields.long(),
        gap_frames: fields.long(),
        gap_bytes: fields.long(),
        at_line_rate: fields.long(),
        no_rtt: fields.long(),
        lock_failures: fields.long(),
        super_packets: fields.long(),
        lost_gap_bytes: fields.long(),
        lost_packets: fields.long(),
        beyond_horizon: fields.long(),
    }
}

/// `struct pace_seen`.
pub fn read_sender(bytes: &[u8]) -> Sender {
    let mut fields = Fields(bytes);
    let (source, destination) = (fields.address(), fields.address());
    let (from_port, to_port) = (fields.port(), fields.port());
    let protocol = fields.word();
    let rule = fields.word();
    let _padding = fields.word();
    let target = fields.rate();
    let (packets, bytes, gap_bytes) = (fields.long(), fields.long(), fields.long());
    let (first, last) = (fields.long(), fields.long());
    Sender {
        source: (source, from_port).into(),
        destination: (destination, to_port).into(),
        protocol: protocol as u8,
        rule,
        target,
        packets,
        bytes: Bytes::new(bytes),
        gap_bytes: Bytes::new(gap_bytes),
        span: Duration::from_nanos(last.saturating_sub(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_is_read_as_it_was_written() {
        let rate = Rate::bits_per_second(800_000_000);
        let estimator = Estimator { max_rate: Some(rate), find_cap: true, ..Estimator::PAPER };
        let matches = |destination: Option<&str>| Match {
            destination: destination.map(|net| net.parse().unwrap()),
            to_port: NonZeroU16::new(443),
            from_port: NonZeroU16::new(5001),
        };
        let rules = vec![
            (1, Rule { matches: Match::default(), target: Target::Rate(rate) }),
            (3, Rule { matches: matches(Some("10.1.0.0/16")), target: Target::Auto(estimator) }),
            (4, Rule { matches: matches(Some("0.0.0.0/0")), target: Target::Rate(rate) }),
            (9, Rule { matches: matches(Some("fd00::/8")), target: Target::Auto(Estimator::LINK) }),
            (10, Rule { matches: matches(Some("2001:db8::1/128")), target: Target::Rate(rate) }),
        ];
        let whole = Setup {
            method: Method::Gap,
            line: Some(Rate::bits_per_second(1_000_000_000)),
            overhead: Bytes::new(24),
            max_gap: Bytes::new(65_536),
            max_frame: Bytes::new(4096),
            mac: [2, 0, 0, 0, 0, 7],
            rules,
            owners: BTreeMap::from([(9, Owner::MIN), (10, Owner::MAX)]),
        };
        let of_times = |method| Setup { method, line: None, ..whole.clone() };
        for whole in METHODS.map(of_times).into_iter().chain([whole.clone()]) {
            let bytes = setup(&whole);
            assert_eq!(bytes.len(), SETUP);
            assert_eq!(read_setup(&bytes), whole);
        }
    }
}
