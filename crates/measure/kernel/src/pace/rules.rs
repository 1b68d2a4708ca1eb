// SPDX-License-Identifier: GPL-2.0-or-later
//! Pacing rules of a device: matched packets and their rates.

use super::{Method, Refusal};
use host::Device;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netmodel::pacing::Estimator;
use std::{
    collections::BTreeMap,
    num::{NonZeroU16, NonZeroU64},
};
use units::{Bytes, Duration, Rate};

/// The rate of a rule's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Each TCP socket at its own target. What isn't TCP, or carries no payload, isn't paced.
    Auto(Estimator),
    /// All of them together at that rate of the link.
    Rate(Rate),
}

/// Which packets a rule is for: those that all of it is true for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Match {
    /// Sent to one of these addresses.
    pub destination: Option<IpNet>,
    /// Sent to that port.
    pub to_port: Option<NonZeroU16>,
    /// Sent from that port.
    pub from_port: Option<NonZeroU16>,
}

/// Which packets leave at what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Which.
    pub matches: Match,
    /// At what.
    pub target: Target,
}

/// Link overhead of frames, and sizes of gap frames; omitted values are the defaults, or stay as
/// they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames {
    /// The rate of the link. By default what the device says; times of departure do without.
    pub line: Option<Rate>,
    /// Bytes of the link that a frame takes beyond its length without the check sequence. By default 24: that,
    /// preamble and inter-frame gap.
    pub overhead: Option<Bytes>,
    /// The most gap behind one packet, on the link. By default 64 KB. Only of gap frames.
    pub max_gap: Option<Bytes>,
    /// Bytes of the link that the longest takes. By default 4 KB, or what the device's MTU allows if that
    /// is less: not every device sends longer frames. Only of gap frames.
    pub max_frame: Option<Bytes>,
}

/// How a device's packets are to be paced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The device's name, in the calling thread's network namespace.
    pub device: String,
    /// The first that matches a packet is its own; without any, it isn't paced.
    pub rules: Vec<Rule>,
    /// Sizes of frames on the link.
    pub frames: Frames,
    /// The mechanism that spaces packets. By default the device's present one. If there is none, departure times
    /// with the queueing discipline fq, otherwise gap frames.
    pub method: Option<Method>,
}

/// Number that identifies a program whose rules are replaced together. Rules set by hand have no owner.
pub type Owner = NonZeroU64;

/// The setup in force at a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The mechanism that spaces packets.
    pub method: Method,
    /// The rate of the link; with times of departure it need not be known.
    pub line: Option<Rate>,
    /// See [`Frames::overhead`].
    pub overhead: Bytes,
    /// See [`Frames::max_gap`].
    pub max_gap: Bytes,
    /// See [`Frames::max_frame`].
    pub max_frame: Bytes,
    /// The device's address, which its gap frames come from.
    pub(super) mac: [u8; 6],
    /// Rules, each by its number.
    pub rules: Vec<(u32, Rule)>,
    /// Whose they are, by number, where they are not a person's.
    pub owners: BTreeMap<u32, Owner>,
}

/// Rules that a device can have.
pub(super) const MOST_RULES: usize = 16;
const ETHERNET: u64 = 14;
/// An Ethernet frame's least length, without the check sequence.
const SHORTEST: u64 = 60;
/// How far ahead a packet's time of departure may be: `PACE_HORIZON_NS` of `cc/pace.h`.
pub(super) const HORIZON: Duration = Duration::from_secs(2);
/// Full packets that have to find room in it: TCP's first window (RFC 6928).
const FIRST_WINDOW: u64 = 10;
/// Sizes stay where their products do not overflow in the kernel.
const MOST_BYTES: u64 = 1 << 24;

impl Setup {
    /// Nothing paced yet.
    pub(super) fn of(device: &Device, method: Method, line: Option<Rate>) -> Self {
        let overhead = Bytes::new(24);
        let longest = u64::from(device.mtu) + ETHERNET + overhead.get();
        Self {
            method,
            line,
            overhead,
            max_gap: Bytes::new(64 << 10),
            max_frame: Bytes::new(longest.clamp(2 * (SHORTEST + overhead.get()), 4 << 10)),
            mac: device.mac.map_or([0; 6], |mac| mac.0),
            rules: Vec::new(),
            owners: BTreeMap::new(),
        }
    }

    /// Replaces an owner's rules by these, if possible. Those that are there already stay
    /// as they are.
    pub(super) fn with_rules_of(
        mut self,
        owner: Owner,
        device: &Device,
        frames: &Frames,
        rules: &[Rule],
    ) -> Result<Self, Refusal> {
        let is_owned =
            |number: &u32, owners: &BTreeMap<u32, Owner>| owners.get(number) == Some(&owner);
        let owners = std::mem::take(&mut self.owners);
        self.rules.retain(|(number, rule)| !is_owned(number, &owners) || rules.contains(rule));
        let there: Vec<u32> = self.rules.iter().map(|(number, _)| *number).collect();
        self.owners = owners.into_iter().filter(|(number, _)| there.contains(number)).collect();
        let kept = self.rules.iter().filter(|(number, _)| is_owned(number, &self.owners));
        let kept: Vec<Rule> = kept.map(|(_, rule)| *rule).collect();
        let new: Vec<Rule> = rules.iter().filter(|rule| !kept.contains(rule)).copied().collect();
        let mut setup = self.with(device, frames, &new)?;
        let added = setup.rules.iter().rev().take(new.len()).map(|(number, _)| (*number, owner));
        let added: Vec<_> = added.collect();
        setup.owners.extend(added);
        Ok(setup)
    }

    /// How many rules an owner has.
    pub(super) fn count(&self, owner: Owner) -> usize {
        self.owners.values().filter(|other| **other == owner).count()
    }

    /// Without an owner's rules; whether there were any.
    pub(super) fn remove_rules_of(&mut self, owner: Owner) -> bool {
        let Self { rules, owners, .. } = self;
        let before = rules.len();
        rules.retain(|(number, _)| owners.get(number) != Some(&owner));
        owners.retain(|_, other| *other != owner);
        rules.len() < before
    }

    /// The networks to which all is paced, whatever its ports.
    pub(super) fn networks_paced_on_every_port(&self) -> impl Iterator<Item = IpNet> {
        let every_port = |matches: &Match| matches.to_port.is_none() && matches.from_port.is_none();
        let whole = self.rules.iter().map(|(_, rule)| rule.matches).filter(every_port);
        whole.flat_map(|matches| match matches.destination {
            Some(net) => vec![net],
            None => vec![Ipv4Net::default().into(), Ipv6Net::default().into()],
        })
    }

    /// With other frames and one more rule, if that can be.
    pub(super) fn with(
        mut self,
        device: &Device,
        frames: &Frames,
        rules: &[Rule],
    ) -> Result<Self, Refusal> {
        if let (Some(overhead), None) = (frames.overhead, frames.max_frame) {
            let longest = (u64::from(device.mtu) + ETHERNET + overhead.get()).min(4 << 10);
            self.max_frame = Bytes::new(longest.max(2 * (SHORTEST + overhead.get())));
        }
        self.line = frames.line.or(self.line);
        self.overhead = frames.overhead.unwrap_or(self.overhead);
        self.max_gap = frames.max_gap.unwrap_or(self.max_gap);
        self.max_frame = frames.max_frame.unwrap_or(self.max_frame);
        for rule in rules {
            let number = self.rules.iter().map(|(number, _)| number + 1).max().unwrap_or(1);
            self.rules.push((number, *rule));
        }
        if self.rules.len() > MOST_RULES {
            return Err(Refusal::TooManyRules { most: MOST_RULES });
        }
        self.check_sizes(frames)?;
        for (_, rule) in &self.rules {
            self.check(rule, device)?;
        }
        Ok(self)
    }

    fn check_sizes(&self, frames: &Frames) -> Result<(), Refusal> {
        let refuse = |why| Err(Refusal::Sizes { why });
        let shortest = SHORTEST + self.overhead.get();
        if self.overhead.get() > 1000 {
            return refuse("a frame takes at most 1000 bytes of the link beyond its length".into());
        }
        if let Some(line) = self.line.filter(|line| line.bps() < 8000) {
            return refuse(format!("a link of {line} is too slow"));
        }
        if self.method != Method::Gap {
            return match (frames.max_gap, frames.max_frame) {
                (None, None) => Ok(()),
                _ => refuse("departure times have no gap frames that could have a size".into()),
            };
        }
        if self.max_frame.get() < 2 * shortest || self.max_frame.get() > 9000 {
            return refuse(format!(
                "the longest gap frame takes {} to 9000 bytes of the link, not {}",
                2 * shortest,
                self.max_frame.get()
            ));
        }
        if self.max_gap.get() < shortest || self.max_gap.get() > MOST_BYTES {
            return refuse(format!(
                "the longest gap takes {shortest} to {MOST_BYTES} bytes of the link, not {}",
                self.max_gap.get()
            ));
        }
        Ok(())
    }

    fn check(&self, rule: &Rule, device: &Device) -> Result<(), Refusal> {
        let rate = match rule.target {
            Target::Rate(rate) => Some(rate),
            Target::Auto(estimator) => estimator.max_rate,
        };
        let Some(rate) = rate else { return Ok(()) };
        if let Some(line) = self.line.filter(|line| rate > *line) {
            return Err(Refusal::AboveLine { rate, line });
        }
        let slowest = self.slowest(device);
        if rate >= slowest {
            return Ok(());
        }
        Err(match self.method {
            Method::Gap => Refusal::TooSlow { rate, slowest, max_gap: self.max_gap },
            Method::Edt { .. } => Refusal::BeyondHorizon { rate, slowest, horizon: HORIZON },
        })
    }

    /// The least rate that full packets can be paced to.
    fn slowest(&self, device: &Device) -> Rate {
        let packet = u64::from(device.mtu) + ETHERNET + self.overhead.get();
        let bps = match (self.method, self.line) {
            (Method::Gap, Some(line)) => {
                let whole = u128::from(packet + self.max_gap.get());
                (u128::from(line.bps()) * u128::from(packet) / whole) as u64
            }
            // In its bits and a second.
            _ => packet * 8 * FIRST_WINDOW * 1_000_000_000 / HORIZON.as_nanos(),
        };
        Rate::bits_per_second(bps.max(8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(destination: &str, port: u16) -> Rule {
        let matches = Match {
            destination: destination.parse().ok(),
            to_port: NonZeroU16::new(port),
            from_port: None,
        };
        Rule { matches, target: Target::Auto(Estimator::LINK) }
    }

    fn numbers(setup: &Setup) -> Vec<(u32, Option<u64>)> {
        let owner = |number| setup.owners.get(number).map(|owner| owner.get());
        setup.rules.iter().map(|(number, _)| (*number, owner(number))).collect()
    }

    #[test]
    fn replacing_rules_changes_only_the_owners() {
        let device = Device { mtu: 1500, gso_max_segs: 65_535, ..Device::default() };
        let [one, other] = [1, 2].map(|number| Owner::new(number).unwrap());
        let [a, b, c] = ["10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32"].map(|net| rule(net, 0));
        let frames = Frames::default();
        let owned = |setup: Setup, owner, rules: &[Rule]| {
            setup.with_rules_of(owner, &device, &frames, rules).unwrap()
        };
        let setup = Setup::of(&device, Method::Gap, Some(Rate::bits_per_second(1_000_000_000)));
        let setup = setup.with(&device, &frames, &[a]).unwrap();
        let setup = owned(setup, one, &[a, b]);
        let setup = owned(setup, other, &[b]);
        let all = [(1, None), (2, Some(1)), (3, Some(1)), (4, Some(2))];
        assert_eq!(numbers(&setup), all);
        assert_eq!(owned(setup.clone(), one, &[b, a]), setup, "they are there");
        // What stays has its number.
        let setup = owned(setup, one, &[c, b]);
        assert_eq!(numbers(&setup), [(1, None), (3, Some(1)), (4, Some(2)), (5, Some(1))]);
        let mut setup = owned(setup, one, &[]);
        assert_eq!(numbers(&setup), [(1, None), (4, Some(2))]);
        assert!(!setup.remove_rules_of(one) && setup.remove_rules_of(other));
        assert_eq!(numbers(&setup), [(1, None)]);
        let many: Vec<_> = (0..16).map(|n| rule(&format!("10.{n}.0.0/16"), 0)).collect();
        assert!(setup.with_rules_of(one, &device, &frames, &many).is_err(), "there is no room");
    }

    #[test]
    fn a_rule_for_a_port_paces_no_whole_network() {
        let device = Device { mtu: 1500, gso_max_segs: 1, ..Device::default() };
        let whole = |rules: &[Rule]| {
            let setup = Setup::of(&device, Method::Gap, Some(Rate::bits_per_second(1_000_000_000)));
            let setup = setup.with(&device, &Frames::default(), rules).unwrap();
            setup.networks_paced_on_every_port().map(|net| net.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(whole(&[rule("10.0.0.0/8", 443), rule("10.1.0.0/16", 0)]), ["10.1.0.0/16"]);
        assert_eq!(whole(&[rule("", 0)]), ["0.0.0.0/0", "::/0"]);
        assert!(whole(&[rule("", 443)]).is_empty());
    }
}
