// SPDX-License-Identifier: GPL-2.0-or-later
//! The classes of a gateway: a bottleneck's rate, and the networks behind it.

use ipnet::IpNet;
use std::{collections::HashSet, net::IpAddr, str::FromStr};
use units::Rate;

/// One class, as in `west=100mbit:10.1.0.0/16,10.2.0.0/16`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayClass {
    /// Its name.
    pub name: String,
    /// The rate of its bottleneck, in bytes on the link.
    pub rate: Rate,
    /// The networks behind it; none: all that are in no other class.
    pub prefixes: Vec<IpNet>,
}

/// Of what is in no class, unless a class says that it takes the rest.
pub const OTHER: &str = "other";

impl FromStr for GatewayClass {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text
            .split_once('=')
            .ok_or("expected NAME=RATE:NETWORK[,NETWORK], as in west=100mbit:10.1.0.0/16")?;
        if name.is_empty() || name == OTHER {
            return Err(format!("a class needs a name, which is not \"{OTHER}\""));
        }
        let (rate, networks) = match rest.split_once(':') {
            Some((rate, networks)) => (rate, networks.split(',').map(network).collect()),
            None => (rest, Ok(Vec::new())),
        };
        let rate = rate.parse::<Rate>().map_err(|error| format!("rate: {error}"))?;
        Ok(Self { name: name.to_owned(), rate, prefixes: networks? })
    }
}

/// A network, or a host alone.
fn network(text: &str) -> Result<IpNet, String> {
    let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let net = net.map_err(|_| format!("\"{text}\" is not a network, such as 10.1.0.0/16"))?;
    match net.trunc() {
        trunc if trunc == net => Ok(net),
        trunc => Err(format!("{net} has bits behind its length: {trunc}?")),
    }
}

/// Checks that a wire of this rate can carry these classes.
pub fn check(classes: &[GatewayClass], line: Rate) -> Result<(), String> {
    let mut names = HashSet::new();
    if let Some(twice) = classes.iter().find(|class| !names.insert(&class.name)) {
        return Err(format!("there are two classes \"{}\"", twice.name));
    }
    let mut rests = classes.iter().filter(|class| class.prefixes.is_empty());
    if let (Some(one), Some(two)) = (rests.next(), rests.next()) {
        let (one, two) = (&one.name, &two.name);
        return Err(format!("{one} and {two} have no networks: only one class can have the rest"));
    }
    for class in classes {
        if class.rate > line {
            let GatewayClass { name, rate, .. } = class;
            return Err(format!("class {name}: {rate} is above the line's rate, {line}"));
        }
    }
    overlap(classes).map_or(Ok(()), Err)
}

fn overlap(classes: &[GatewayClass]) -> Option<String> {
    let networks = |class: &'_ GatewayClass| -> Vec<(String, IpNet)> {
        class.prefixes.iter().map(|network| (class.name.clone(), *network)).collect()
    };
    let all: Vec<_> = classes.iter().flat_map(networks).collect();
    all.iter().enumerate().find_map(|(n, (of, one))| {
        let (other_of, other) =
            all[n + 1..].iter().find(|(_, other)| one.contains(other) || other.contains(one))?;
        Some(format!("{one} of class {of} and {other} of class {other_of} overlap"))
    })
}

/// Assigns packets to classes.
#[derive(Debug)]
pub struct Classifier {
    /// The networks do not overlap, so their order is of no concern.
    networks: Vec<(IpNet, usize)>,
    rest: usize,
}

impl Classifier {
    /// The number of the class behind the last is that of the rest, unless a class has it.
    pub fn new(classes: &[GatewayClass]) -> Self {
        let numbered = classes.iter().enumerate();
        let networks = numbered.flat_map(|(n, class)| class.prefixes.iter().map(move |p| (*p, n)));
        let rest = classes.iter().position(|class| class.prefixes.is_empty());
        Self { networks: networks.collect(), rest: rest.unwrap_or(classes.len()) }
    }

    pub fn class_of(&self, destination: IpAddr) -> usize {
        let found = self.networks.iter().find(|(network, _)| network.contains(&destination));
        found.map_or(self.rest, |(_, class)| *class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(texts: &[&str]) -> Vec<GatewayClass> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_destination_is_in_one_class() {
        let all = classes(&["a=10mbit:10.1.0.0/16,fd00:1::/32", "b=20mbit:10.2.0.7"]);
        assert_eq!(all[0].rate, Rate::bits_per_second(10_000_000));
        check(&all, Rate::bits_per_second(20_000_000)).unwrap();
        let classifier = Classifier::new(&all);
        let class = |to: &str| classifier.class_of(to.parse().unwrap());
        assert_eq!((class("10.1.9.9"), class("fd00:1::9"), class("10.2.0.7")), (0, 0, 1));
        assert_eq!((class("10.2.0.8"), class("fd00:2::9")), (2, 2));
        let with_rest = classes(&["a=10mbit", "b=20mbit:10.2.0.7"]);
        assert_eq!(Classifier::new(&with_rest).class_of("10.2.0.8".parse().unwrap()), 0);
    }

    #[test]
    fn contradictory_classes_are_refused() {
        let line = Rate::bits_per_second(100_000_000);
        for (texts, expected) in [
            (&["a=101mbit:10.0.0.0/8"][..], "above the line"),
            (&["a=1mbit:10.0.0.0/8", "b=1mbit:10.1.0.0/16"], "overlap"),
            (&["a=1mbit:10.1.0.0/16,10.1.0.0/16"], "overlap"),
            (&["a=1mbit:10.1.0.0/16", "a=1mbit:10.2.0.0/16"], "two classes"),
            (&["a=1mbit", "b=1mbit"], "only one"),
        ] {
            let said = check(&classes(texts), line).expect_err(expected);
            assert!(said.contains(expected), "{said}");
        }
        for wrong in [
            "",
            "a",
            "=1mbit",
            "other=1mbit",
            "a=fast",
            "a=0mbit:10.0.0.0/8",
            "a=1mbit:",
            "a=1mbit:10.0.0.1/8",
        ] {
            wrong.parse::<GatewayClass>().expect_err(wrong);
        }
    }
}
