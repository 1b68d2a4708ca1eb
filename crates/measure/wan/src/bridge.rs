// SPDX-License-Identifier: GPL-2.0-or-later
//! The emulator as a box between two network cards: what comes in at one goes over a scenario's path and out at
//! the other. The hosts beyond them know nothing of it, as with GtrcNET-1 (paper 001, section IV).
//!
//! ```text
//! card A ─▶ packet socket ─▶ link ─▶ link ─▶ packet socket ─▶ card B       and back
//!    └─▶ nftables, netdev ingress and egress: this host's own stack neither receives nor sends
//! ```
//!
//! - Frames of any protocol are carried, PAUSE frames excepted, which end at each port (IEEE 802.3x). So are
//!   those that a learning bridge would keep to itself (spanning tree, LLDP): the box is a wire.
//! - **The cards stay in their namespace, and no setting of theirs is changed.** In a namespace of its own a card would lose its
//!   addresses and come back down, and a veth or VLAN device would be deleted with the namespace. Instead everything is
//!   owned by the kernel for this process's sake: promiscuity and the receiving of frames belong to a packet
//!   socket, the tables that cut this host off and keep other bridges away to a netlink socket. All of it ends with
//!   the process, also after kill -9.
//! - Between two links a frame arrives when it was due, however late the thread is. Only deliveries to a card
//!   count as late.

mod card;
mod host_cut_off;
mod path;

use crate::{
    directed_link::{DirectedLink, Outlet},
    emulator::{Emulator, Snapshot},
    error::WanError,
    health::Health,
    network::LinkStatus,
    port::Port,
};
use card::Card;
use host_cut_off::HostCutOff;
use path::Path;
use scenario::Run;
use serde::Serialize;
use std::sync::Arc;

/// Options of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The two cards. The first one is at the first end of the path.
    pub cards: [String; 2],
    /// The nodes that are the path's ends; none: the two that a single link leads to.
    pub between: Option<[String; 2]>,
    /// Whether to use cards that this host itself uses.
    pub take_over: bool,
}

/// A bridge at work. Dropping it ends it and gives the cards back.
pub struct Bridge {
    // Dropped in this order: the host gets its cards back when nothing else uses them.
    emulator: Emulator,
    cards: [Card; 2],
    _cut_off: HostCutOff,
    title: String,
    path: Path,
    directed_links: Vec<String>,
    notices: Vec<String>,
}

/// Statistics of a bridge so far.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// The scenario's title.
    pub title: String,
    /// How long it has been at work.
    pub up_s: f64,
    /// The two cards, in the order in which they were given.
    pub cards: [CardStatus; 2],
    /// The directed links of the path: there, and back.
    pub links: Vec<LinkStatus>,
    /// How the emulator keeps up.
    pub emulator: Health,
    /// Why what was measured over it is not to be believed; empty if it is.
    pub faults: Vec<String>,
}

/// Statistics of a card.
#[derive(Debug, Clone, Serialize)]
pub struct CardStatus {
    /// Its name.
    pub name: String,
    /// The end of the path that it is at.
    pub node: String,
    /// The longest packet that it takes.
    pub mtu: u32,
    /// Frames that were not sent because one of their packets was longer.
    pub too_long: u64,
    /// Frames that this host dropped before the emulator could read them.
    pub dropped: u64,
}

impl Bridge {
    /// Connects two cards of the calling thread's network namespace by a run's path.
    ///
    /// # Errors
    /// A card or the scenario cannot be used ([`WanError::Usage`]), the machine lacks a requirement, or the
    /// kernel refused something. Nothing is changed then.
    pub fn open(run: &Run, options: &Options) -> Result<Self, WanError> {
        let path = Path::between(run, options.between.as_ref())?;
        let chosen = card::choose(&options.cards, options.take_over)?;
        let notices = path.notices(run, chosen.each_ref());
        let cut_off = HostCutOff::new(chosen.each_ref())?;
        let [a, b] = chosen.map(Card::open);
        let cards = [a?, b?];
        let (links, directed_links) = directed_links(run, &path, &cards);
        let emulator =
            Emulator::start(links).map_err(|e| WanError::system("start the emulator", e))?;
        let title = run.title.clone();
        Ok(Self { emulator, cards, _cut_off: cut_off, title, path, directed_links, notices })
    }

    /// What a person should know before relying on it, each in a sentence.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// The nodes that the cards are at.
    pub fn ends(&self) -> &[String; 2] {
        &self.path.ends
    }

    /// Statistics so far.
    pub fn status(&self) -> Status {
        self.describe(&self.emulator.status())
    }

    fn describe(&self, snapshot: &Snapshot) -> Status {
        // The last link there comes out at the second card, the last link back at the first.
        let (there, all) = (self.path.there.len(), self.directed_links.len());
        let ends_at = [all - 1, there - 1];
        let card = |n: usize| CardStatus {
            name: self.cards[n].device.name.clone(),
            node: self.path.ends[n].clone(),
            mtu: self.cards[n].device.mtu,
            too_long: snapshot.directed_links[ends_at[n]].too_long_at_end,
            dropped: self.cards[n].drops(),
        };
        let cards = [card(0), card(1)];
        let device_drops = cards.iter().map(|card| card.dropped).sum();
        let emulator = Health { device_drops, ..snapshot.health.clone() };
        Status {
            title: self.title.clone(),
            up_s: emulator.elapsed_s,
            links: LinkStatus::all(&self.directed_links, snapshot),
            faults: emulator.faults(),
            cards,
            emulator,
        }
    }
}

/// The path's links between the cards, and their names: those there, and those back.
fn directed_links(run: &Run, path: &Path, [a, b]: &[Card; 2]) -> (Vec<DirectedLink>, Vec<String>) {
    let of_run: Vec<_> = run.directed_links().collect();
    let (mut links, mut names) = (Vec::new(), Vec::new());
    for (way, from, to) in [(&path.there, a, b), (&path.back, b, a)] {
        for (n, &number) in way.iter().enumerate() {
            let (is_first, is_last) = (n == 0, n + 1 == way.len());
            let port = |card: &Card| Port::Card(Arc::clone(&card.socket));
            let directed_link = &of_run[number];
            names.push(directed_link.name.clone());
            links.push(DirectedLink {
                link: directed_link.config.clone(),
                max_burst: directed_link.direction.max_burst,
                from: is_first.then(|| port(from)),
                to: if is_last { Outlet::Port(port(to)) } else { Outlet::Link(links.len() + 1) },
                carries_groups: true,
            });
        }
    }
    (links, names)
}
