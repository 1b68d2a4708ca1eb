// SPDX-License-Identifier: GPL-2.0-or-later
//! Scenario files: nodes, links and flows in a line each.
//!
//! Keys are written `rate=100mbit delay=5ms`, with a space between two. A value that TOML takes as it
//! stands is left (numbers, `true`, `[..]`, `{..}`, quoted text; without spaces), all others are quoted.
//!
//! It is a file and no crate, since it takes no dependency, and no module of `scenario`, since what
//! that contains decides which records are kept.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::fmt::{self, Display, Formatter};

/// The text of a scenario, as far as it is written.
#[derive(Debug, Clone)]
pub struct Draft(String);

impl Draft {
    /// A scenario with a title, and keys of the file itself.
    pub fn new(title: &str, keys: &str) -> Self {
        Self(String::new()).line(&format!("title = {title:?}")).keys(keys)
    }

    /// One more node.
    #[must_use]
    pub fn node(self, name: &str, keys: &str) -> Self {
        self.line(&format!("[[node]]\nname = {name:?}")).keys(keys)
    }

    /// Nodes that have nothing but a name.
    #[must_use]
    pub fn nodes(self, names: &[&str]) -> Self {
        names.iter().fold(self, |draft, name| draft.node(name, ""))
    }

    /// A link between two nodes.
    #[must_use]
    pub fn link(self, from: &str, to: &str, keys: &str) -> Self {
        self.line(&format!("[[link]]\nbetween = [{from:?}, {to:?}]")).keys(keys)
    }

    /// A flow from one node to another.
    #[must_use]
    pub fn flow(self, from: &str, to: &str, keys: &str) -> Self {
        self.line(&format!("[[flow]]\nfrom = {from:?}\nto = {to:?}")).keys(keys)
    }

    /// Whatever else, in TOML.
    #[must_use]
    pub fn line(mut self, toml: &str) -> Self {
        self.0 += toml;
        self.0.push('\n');
        self
    }

    fn keys(self, keys: &str) -> Self {
        keys.split_whitespace().fold(self, |draft, key| {
            let (name, value) = key.split_once('=').expect("name=value");
            if as_it_stands(value) {
                draft.line(&format!("{name} = {value}"))
            } else {
                draft.line(&format!("{name} = {value:?}"))
            }
        })
    }
}

fn as_it_stands(value: &str) -> bool {
    value.starts_with(['[', '{', '"'])
        || matches!(value, "true" | "false")
        || value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

impl Display for Draft {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
