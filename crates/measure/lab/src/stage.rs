// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the nodes of a run are: all of them emulated on this machine, or one of them this machine itself.

use crate::error::LabError;
use host::Namespace;
use scenario::{LinkChange, Move, Run};
use std::{collections::BTreeMap, net::IpAddr, process::Command, sync::OnceLock, time::Instant};
use wan::{LinkState, Wan};

/// Where the nodes of a run are.
pub trait Stage: Sync {
    /// Whether programs of a node run here.
    fn has(&self, node: &str) -> bool;

    /// The address that a node's name stands for.
    ///
    /// # Errors
    /// There is no such node.
    fn address(&self, node: &str) -> Result<IpAddr, LabError>;

    /// All addresses that a node has in the course of the run; first the one that its name stands for.
    ///
    /// # Errors
    /// There is no such node.
    fn addresses(&self, node: &str) -> Result<Vec<IpAddr>, LabError> {
        self.address(node).map(|address| vec![address])
    }

    /// How programs name a node, as in a URL.
    ///
    /// # Errors
    /// There is no such node.
    fn authority(&self, node: &str) -> Result<String, LabError>;

    /// The network of a node that is here.
    ///
    /// # Errors
    /// There is no such node here.
    fn namespace(&self, node: &str) -> Result<&Namespace, LabError>;

    /// A command that will run on a node that is here.
    ///
    /// # Errors
    /// There is no such node here, or no more descriptors.
    fn command(&self, node: &str, program: &str) -> Result<Command, LabError>;

    /// The record's time zero.
    fn started(&self) -> Instant;

    /// The names of emulated links' directions.
    fn directed_links(&self) -> &[String];

    /// What they are at, in the same order.
    ///
    /// # Errors
    /// The emulator is gone.
    fn link_states(&self) -> Result<Vec<LinkState>, LabError>;

    /// Changes a link.
    ///
    /// # Errors
    /// Links here are not ours to change.
    fn change_link(&self, run: &Run, change: &LinkChange) -> Result<(), LabError>;

    /// Moves a node to another link.
    ///
    /// # Errors
    /// Nodes here stay where they are.
    fn move_node(&self, run: &Run, moves: &Move) -> Result<(), LabError>;
}

impl Stage for Wan {
    fn has(&self, _node: &str) -> bool {
        true
    }

    fn address(&self, node: &str) -> Result<IpAddr, LabError> {
        Ok(self.address(node)?)
    }

    fn addresses(&self, node: &str) -> Result<Vec<IpAddr>, LabError> {
        Ok(self.addresses(node)?)
    }

    fn authority(&self, node: &str) -> Result<String, LabError> {
        Ok(self.node(node)?.name.clone())
    }

    fn namespace(&self, node: &str) -> Result<&Namespace, LabError> {
        Ok(&self.node(node)?.namespace)
    }

    fn command(&self, node: &str, program: &str) -> Result<Command, LabError> {
        Ok(self.command(node, program)?)
    }

    fn started(&self) -> Instant {
        self.started()
    }

    fn directed_links(&self) -> &[String] {
        self.directed_links()
    }

    fn link_states(&self) -> Result<Vec<LinkState>, LabError> {
        Ok(self.status()?.directed_links)
    }

    fn change_link(&self, run: &Run, change: &LinkChange) -> Result<(), LabError> {
        self.change_link(run, change);
        Ok(())
    }

    fn move_node(&self, run: &Run, moves: &Move) -> Result<(), LabError> {
        Ok(self.move_node(run, moves)?)
    }
}

/// This machine as one node of a run whose others are other machines. Links are what is between them.
#[derive(Debug)]
pub struct ThisHost {
    node: String,
    addresses: BTreeMap<String, IpAddr>,
    namespace: Namespace,
    started: OnceLock<Instant>,
}

impl ThisHost {
    /// As a node; with the addresses of all nodes.
    ///
    /// # Errors
    /// Its network cannot be opened.
    pub fn new(node: &str, addresses: BTreeMap<String, IpAddr>) -> Result<Self, LabError> {
        let namespace = Namespace::current();
        let namespace = namespace.map_err(|e| LabError::system("open this host's network", e))?;
        Ok(Self { node: node.to_owned(), addresses, namespace, started: OnceLock::new() })
    }

    /// Sets the record's time zero, once. Without it that is the first look at it.
    pub fn start_at(&self, zero: Instant) {
        let _ = self.started.set(zero);
    }

    fn require(&self, node: &str) -> Result<(), LabError> {
        if self.has(node) { Ok(()) } else { Err(elsewhere(node)) }
    }
}

fn as_it_is(what: &'static str, name: &str) -> LabError {
    LabError::system(what, std::io::Error::other(format!("{name} of real hosts is as it is")))
}

fn elsewhere(node: &str) -> LabError {
    LabError::system("find a node", std::io::Error::other(format!("{node} is not this host")))
}

impl Stage for ThisHost {
    fn has(&self, node: &str) -> bool {
        node == self.node
    }

    fn address(&self, node: &str) -> Result<IpAddr, LabError> {
        self.addresses.get(node).copied().ok_or_else(|| elsewhere(node))
    }

    /// Other hosts may know no such name.
    fn authority(&self, node: &str) -> Result<String, LabError> {
        Ok(match self.address(node)? {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        })
    }

    fn namespace(&self, node: &str) -> Result<&Namespace, LabError> {
        self.require(node).map(|()| &self.namespace)
    }

    fn command(&self, node: &str, program: &str) -> Result<Command, LabError> {
        self.require(node).map(|()| Command::new(program))
    }

    fn started(&self) -> Instant {
        *self.started.get_or_init(Instant::now)
    }

    fn directed_links(&self) -> &[String] {
        &[]
    }

    fn link_states(&self) -> Result<Vec<LinkState>, LabError> {
        Ok(Vec::new())
    }

    fn change_link(&self, _run: &Run, change: &LinkChange) -> Result<(), LabError> {
        Err(as_it_is("change a link", &change.link))
    }

    fn move_node(&self, _run: &Run, moves: &Move) -> Result<(), LabError> {
        Err(as_it_is("move a node", &moves.node))
    }
}
