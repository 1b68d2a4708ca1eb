// SPDX-License-Identifier: GPL-2.0-or-later
//! How packets to a peer are spaced.

use relay::tcp::info::SocketPacing;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use units::{ParseError, Rate, suggest::nearest};

/// How packets to a hop's peers are spaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HopPacing {
    /// Not at all, beyond what the congestion control does.
    #[default]
    None,
    /// By TCP itself, at a rate that it makes of window and round trip.
    Tcp,
    /// By TCP itself, at this rate at most.
    Rate(Rate),
    /// Below TCP, by a queueing discipline. The depot only checks that it is installed.
    Below(PacingMethod),
}

/// How packets are spaced below TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacingMethod {
    /// By gap packets behind them.
    Gap,
    /// By times of departure.
    Edt,
}

/// What stands for each, a rate aside.
const WORDS: [(&str, HopPacing); 4] = [
    ("none", HopPacing::None),
    ("gap", HopPacing::Below(PacingMethod::Gap)),
    ("edt", HopPacing::Below(PacingMethod::Edt)),
    ("tcp", HopPacing::Tcp),
];

impl HopPacing {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// How TCP spaces what it sends.
    pub(crate) fn spacing(self) -> SocketPacing {
        match self {
            Self::Tcp => SocketPacing::Own,
            Self::Rate(rate) => SocketPacing::AtMost(rate),
            Self::None | Self::Below(_) => SocketPacing::Free,
        }
    }

    /// The rate that TCP is held to.
    pub(crate) fn rate(self) -> Option<Rate> {
        if let Self::Rate(rate) = self { Some(rate) } else { None }
    }

    /// The method below TCP, if it is one.
    pub fn below(self) -> Option<PacingMethod> {
        if let Self::Below(method) = self { Some(method) } else { None }
    }
}

impl FromStr for HopPacing {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, pacing)) = WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(*pacing);
        }
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return text.parse().map(Self::Rate).map_err(|error: ParseError| error.to_string());
        }
        let words = WORDS.map(|(word, _)| word);
        let near = nearest(text, words);
        let near = near.map_or(String::new(), |word| format!("; did you mean \"{word}\"?"));
        let [none, gap, edt, tcp] = words;
        Err(format!(
            "there is no pacing \"{text}\": expected {none}, {gap}, {edt}, {tcp} or a rate with its unit, \
             as in 500mbit{near}"
        ))
    }
}

impl TryFrom<String> for HopPacing {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<HopPacing> for String {
    fn from(pacing: HopPacing) -> Self {
        pacing.to_string()
    }
}

impl fmt::Display for HopPacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, WORDS.iter().find(|(_, pacing)| pacing == self)) {
            (_, Some((word, _))) => f.write_str(word),
            (Self::Rate(rate), _) => rate.fmt(f),
            (_, None) => unreachable!("every pacing except a rate has a word"),
        }
    }
}

impl PacingMethod {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::Edt => "edt",
        }
    }
}

impl fmt::Display for PacingMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
