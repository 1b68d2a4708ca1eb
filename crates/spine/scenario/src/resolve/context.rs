// SPDX-License-Identifier: GPL-2.0-or-later
//! The network that flows and traffic cross.

use crate::{
    diagnostics::Problems,
    routes::Routes,
    run::{Family, Link, Node},
};

/// The network that flows and traffic cross.
pub(super) struct NetworkContext<'s> {
    pub family: Family,
    pub nodes: &'s [Node],
    pub links: &'s [Link],
    pub routes: &'s Routes,
    pub problems: &'s Problems,
}

/// What a node sends with.
pub(super) fn cc_of(name: &str, nodes: &[Node]) -> String {
    nodes.iter().find(|n| n.name == name).map_or_else(String::new, |n| n.cc.clone())
}
