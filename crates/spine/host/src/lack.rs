// SPDX-License-Identifier: GPL-2.0-or-later
//! What a machine, or the user's rights on it, lack for what was asked.

use std::fmt::{self, Display};

/// What this machine lacks, and how to get it. Nothing that was asked for is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack(String);

impl Lack {
    /// What is lacking, and the remedy.
    pub fn new(what: impl Display, remedy: impl Display) -> Self {
        Self(format!("{what}: {remedy}"))
    }

    /// A program that is not installed, and its package.
    pub fn program(program: &str, package: &str) -> Self {
        Self::new(
            format_args!("there is no program {program}"),
            format_args!("install the package {package}"),
        )
    }

    /// Root's rights. `what` says what takes them.
    pub fn root(what: impl Display) -> Self {
        Self::new(what, "run this with sudo")
    }

    /// The device that TUN and TAP devices are made by.
    pub fn tun() -> Self {
        Self::new(
            "there is no /dev/net/tun",
            "load the module tun (modprobe tun), or give the container that device",
        )
    }

    /// Several, each on a line of its own.
    pub fn all(lacks: impl IntoIterator<Item = Self>) -> Self {
        let lines: Vec<String> = lacks.into_iter().map(|Self(text)| text).collect();
        Self(lines.join("\n"))
    }

    /// One that was put into words elsewhere: by another process, or as another error.
    pub fn from_text(text: String) -> Self {
        Self(text)
    }
}

impl Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Lack {}
