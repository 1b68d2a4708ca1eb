// SPDX-License-Identifier: GPL-2.0-or-later
//! A node's devices as interfaces of its capture: one for each of its links, in the order of the links.

use super::pcapng::Interface;
use scenario::{Run, addresses};

/// The links of a node by their numbers in the run: the n-th is interface n of the node's capture.
pub fn links_of<'a>(run: &'a Run, node: &'a str) -> impl Iterator<Item = usize> + 'a {
    let links = run.links.iter().enumerate();
    links.filter(move |(_, link)| link.a == node || link.b == node).map(|(n, _)| n)
}

pub(super) fn interfaces(run: &Run, node: &str) -> Vec<Interface> {
    let interface = |n: usize| {
        let link = &run.links[n];
        let other = if link.a == node { &link.b } else { &link.a };
        Interface {
            name: addresses::device(n),
            description: format!("link {} to {other}", link.name),
        }
    };
    links_of(run, node).map(interface).collect()
}
