// SPDX-License-Identifier: GPL-2.0-or-later
//! Counters by hop, for a bounded number of hops.
//!
//! A hop has a line of its own in the metrics only if the configuration names it, a connection with it was
//! established or one has failed, and only while the table has space. All others share one line, which bounds the
//! names that the depot and its monitoring have to store. Hops that were never reached have a smaller share of the
//! table: a client that asks for hosts that do not exist must not take the lines of those that do.

use super::Outcome;
use crate::config::{Config, Site, Tcp, UpstreamRule};
use ipnet::IpNet;
use relay::Side;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

/// The most hops of one side that are told apart.
pub(crate) const MOST: usize = 100;
/// The most hops of one side that are told apart although no connection with them was ever established.
const MOST_UNREACHED: usize = 20;
/// The hop that all others are.
pub(crate) const OTHER: &str = "other";
/// The hop of clients that `allow.clients` does not list: strangers, and bearers of tickets.
const UNLISTED: &str = "unlisted";

/// A hop's name.
pub(crate) type Label = Arc<str>;

/// The hops of one side.
#[derive(Debug, Default)]
pub(crate) struct Hops {
    by_label: BTreeMap<Label, Tally>,
    /// Of these, those that only failed so far.
    unreached: BTreeSet<Label>,
}

/// What a hop has done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// Requests that have ended, by how.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Answers of a next hop, by status.
    pub answers: BTreeMap<u16, u64>,
    /// What their bodies moved.
    pub moved: Moved,
    /// Segments that were sent to it again meanwhile.
    pub retransmits: u64,
    /// For how long its connections crept meanwhile, in microseconds.
    pub crept_us: u64,
    /// Transfers in which it was slower than it may be.
    pub stalls: u64,
    /// How fast it is now.
    pub rates: Rates,
}

/// Bytes of bodies, each way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// From clients to origins.
    pub up_bytes: u64,
    /// From origins to clients.
    pub down_bytes: u64,
}

/// Rates between two looks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rates {
    seen: Moved,
    /// From clients to origins.
    pub up_bps: u64,
    /// From origins to clients.
    pub down_bps: u64,
}

impl Moved {
    /// Adds up.
    pub(crate) fn add(&mut self, other: Self) {
        self.up_bytes += other.up_bytes;
        self.down_bytes += other.down_bytes;
    }
}

impl Rates {
    /// So much has moved in all, and so long ago was the last look.
    pub(crate) fn look(&mut self, now: Moved, elapsed: Duration) {
        let rate = |now: u64, before: u64| {
            (now.saturating_sub(before) as f64 * 8.0 / elapsed.as_secs_f64()) as u64
        };
        self.up_bps = rate(now.up_bytes, self.seen.up_bytes);
        self.down_bps = rate(now.down_bytes, self.seen.down_bytes);
        self.seen = now;
    }
}

impl Hops {
    /// The hops that the configuration names, as far as there is room.
    pub(crate) fn named(side: Side, config: &Config) -> Self {
        let mut hops = Self::default();
        match side {
            Side::Upstream => {
                for name in named_upstreams(config) {
                    hops.enter(&name);
                }
            }
            Side::Client => {
                for net in &config.allow.clients {
                    hops.enter(&net.to_string());
                }
            }
        }
        hops
    }

    /// The label of a hop that deserves one, if there is room for it.
    pub(crate) fn enter(&mut self, name: &str) -> Label {
        if let Some((label, _)) = self.by_label.get_key_value(name) {
            self.unreached.remove(name);
            return Arc::clone(label);
        }
        // The two collective ones do not count.
        let is_shared = |name: &&&str| self.by_label.contains_key(**name);
        let shared = [OTHER, UNLISTED].iter().filter(is_shared).count();
        if self.by_label.len() - shared >= MOST && name != UNLISTED {
            return OTHER.into();
        }
        let label = Label::from(name);
        self.by_label.insert(Arc::clone(&label), Tally::default());
        label
    }

    /// The label of a next hop that the rules allow and to which no connection could be established.
    pub(crate) fn enter_unreached(&mut self, name: &str) -> Label {
        if let Some((label, _)) = self.by_label.get_key_value(name) {
            return Arc::clone(label);
        }
        if self.unreached.len() >= MOST_UNREACHED {
            return OTHER.into();
        }
        let label = self.enter(name);
        if &*label != OTHER {
            self.unreached.insert(Arc::clone(&label));
        }
        label
    }

    /// The label of a hop, which has none of its own unless it deserved one before.
    pub(crate) fn known(&self, name: &str) -> Label {
        self.by_label
            .get_key_value(name)
            .map_or_else(|| OTHER.into(), |(label, _)| Arc::clone(label))
    }

    /// A hop's counters.
    pub(crate) fn tally(&mut self, label: &Label) -> &mut Tally {
        self.by_label.entry(Arc::clone(label)).or_default()
    }

    /// All hops.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Label, &Tally)> {
        self.by_label.iter()
    }

    /// All hops.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Label, &mut Tally)> {
        self.by_label.iter_mut()
    }
}

/// The next hops that the configuration names.
fn named_upstreams(config: &Config) -> Vec<String> {
    let rules = config.allow.upstreams.iter().chain(&config.allow.servers);
    let of_rules = rules.filter_map(UpstreamRule::names_one);
    let of_sites = config.sites.iter().map(Site::first_hop);
    let of_ports = config.tcp.iter().map(Tcp::first_hop);
    let of_proxy = config.proxy.iter().filter_map(|proxy| Some(&proxy.via.first()?.authority));
    let fixed = of_sites.chain(of_ports).chain(of_proxy).map(ToString::to_string);
    of_rules.chain(fixed).collect()
}

/// The hops that clients belong to, by their networks.
#[derive(Debug)]
pub(crate) struct Clients {
    nets: Vec<(IpNet, Label)>,
    unlisted: Label,
    other: Label,
}

impl Clients {
    /// Those that the configuration has.
    pub(crate) fn of(config: &Config) -> Self {
        let nets = config.allow.clients.iter().chain(config.hops.iter().map(|hop| &hop.peer));
        let nets = nets.map(|net| (*net, net.to_string().into())).collect();
        Self { nets, unlisted: UNLISTED.into(), other: OTHER.into() }
    }

    /// The hop of one: the narrowest network that the configuration has for it.
    pub(crate) fn hop(&self, ip: IpAddr, config: &Config) -> Label {
        let ip = ip.to_canonical();
        if !config.allow.client(ip) {
            return Arc::clone(&self.unlisted);
        }
        let nets = self.nets.iter().filter(|(net, _)| net.contains(&ip));
        let narrowest = nets.max_by_key(|(net, _)| net.prefix_len());
        Arc::clone(narrowest.map_or(&self.other, |(_, label)| label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surplus_hops_share_one_metrics_line() {
        let mut hops = Hops::default();
        for n in 0..MOST + 50 {
            let label = hops.enter(&format!("host{n}:80"));
            assert_eq!(&*label == OTHER, n >= MOST, "{n}");
            hops.tally(&label).retransmits += 1;
        }
        assert_eq!(hops.iter().count(), MOST + 1);
        assert_eq!(hops.tally(&OTHER.into()).retransmits, 50);
        assert_eq!(&*hops.enter("host3:80"), "host3:80", "those that have one keep it");
        assert_eq!(&*hops.enter(UNLISTED), UNLISTED, "strangers are told from hops all the same");
    }

    #[test]
    fn failed_hop_has_a_line_within_its_share() {
        let mut hops = Hops::default();
        assert_eq!(&*hops.enter_unreached("down:80"), "down:80");
        hops.enter("real:80");
        assert_eq!(&*hops.enter_unreached("real:80"), "real:80", "it fails now");
        for n in 0..MOST_UNREACHED * 2 {
            let label = hops.enter_unreached(&format!("made-up{n}:80"));
            assert_eq!(&*label == OTHER, n >= MOST_UNREACHED - 1, "{n}");
        }
        // One that is reached at last no longer takes from the share.
        hops.enter("down:80");
        assert_eq!(&*hops.enter_unreached("next:80"), "next:80");
        for n in 0..MOST {
            hops.enter(&format!("host{n}:80"));
        }
        hops.enter("made-up0:80");
        assert_eq!(&*hops.enter_unreached("late:80"), OTHER, "the table is full");
        assert_eq!(&*hops.known("host0:80"), "host0:80");
    }

    #[test]
    fn unreached_hop_has_no_metrics_line() {
        let mut hops = Hops::default();
        assert_eq!(&*hops.known("made-up:80"), OTHER);
        hops.enter("real:80");
        assert_eq!(&*hops.known("real:80"), "real:80");
        assert_eq!(hops.iter().count(), 1);
    }

    #[test]
    fn configured_hops_have_metrics_lines() {
        let text = "[allow]\nclients = [\"10.0.0.0/8\", \"10.1.0.0/16\"]\n\
                    upstreams = [\"d2:3880\", \"192.0.2.1:80\", \"[2001:db8::1]:80\", \"o:*\", \"192.0.2.0/24:80\"]\n\
                    servers = [\"data:80\"]\n\
                    [[site]]\nname = \"s\"\norigin = \"http://o1\"\nvia = [\"d3\", \"d4\"]\n\
                    [[site]]\nname = \"t\"\norigin = \"http://o2\"\n\
                    [proxy]\nvia = [\"p\"]\npasswords = \"x\"\n\
                    [[hop]]\npeer = \"10.1.2.3/32\"\n[[hop]]\npeer = \"192.0.2.9/32\"";
        let config = Config::from_toml(text, "x").unwrap();
        let names = |side| {
            let hops = Hops::named(side, &config);
            hops.iter().map(|(label, _)| label.to_string()).collect::<Vec<_>>()
        };
        let expected = [
            "192.0.2.1:80",
            "[2001:db8::1]:80",
            "d2:3880",
            "d3:3880",
            "data:80",
            "o2:80",
            "p:3880",
        ];
        assert_eq!(names(Side::Upstream), expected);
        assert_eq!(names(Side::Client), ["10.0.0.0/8", "10.1.0.0/16"]);
        for (ip, label) in [
            ("10.2.0.1", "10.0.0.0/8"),
            ("10.1.0.1", "10.1.0.0/16"),
            ("::ffff:10.1.2.3", "10.1.2.3/32"),
            ("192.0.2.9", UNLISTED),
        ] {
            let hop = Clients::of(&config).hop(ip.parse().unwrap(), &config);
            assert_eq!(&*hop, label, "{ip}");
        }
    }

    #[test]
    fn rates_cover_time_since_last_look() {
        let mut rates = Rates::default();
        let at = |down_bytes| Moved { up_bytes: 0, down_bytes };
        rates.look(at(1000), Duration::from_secs(1));
        assert_eq!((rates.up_bps, rates.down_bps), (0, 8000));
        rates.look(at(1500), Duration::from_millis(500));
        assert_eq!(rates.down_bps, 8000);
        rates.look(at(1500), Duration::from_secs(1));
        assert_eq!(rates.down_bps, 0);
    }
}
