// SPDX-License-Identifier: GPL-2.0-or-later
//! When a destination is reached directly although a route leads there, since its connections are short.

use serde::Deserialize;
use std::str::FromStr;
use units::Bytes;

/// When a route's destination is reached directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortRule {
    /// Connections that move less are short.
    pub below: Bytes,
    /// How a destination is reached that is not known yet.
    pub first: FirstContact,
}

/// How a destination is reached of which nothing is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirstContact {
    /// Through depots, until three connections were short.
    #[default]
    Depots,
    /// Directly, until one was not short.
    Direct,
}

impl FromStr for FirstContact {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "depots" => Ok(Self::Depots),
            "direct" => Ok(Self::Direct),
            _ => Err("it is `depots` or `direct`"),
        }
    }
}
