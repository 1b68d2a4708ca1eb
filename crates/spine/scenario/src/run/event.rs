// SPDX-License-Identifier: GPL-2.0-or-later
//! What happens in a run at a time of its own, or after something else.

use super::link::{Heading, Loss};
use crate::json;
use serde::{Deserialize, Serialize};
use units::{Duration, Rate};

/// Something that happens once in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Unique among events and flows.
    pub name: String,
    /// The flow whose end, or the event that it waits for; the run's start where it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How long after that.
    #[serde(rename = "at_us", with = "json::micros")]
    pub at: Duration,
    /// What happens.
    #[serde(flatten)]
    pub action: Action,
}

/// What an event does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The depots of a node are killed at once, as by `kill -9`.
    Kill(String),
    /// They start again, with the same settings.
    Restart(String),
    /// A flow starts, which waits for that.
    Start(String),
    /// A link changes.
    Change(LinkChange),
    /// A node leaves its network for another one.
    Move(Move),
}

/// What changes of a link; all else stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkChange {
    /// The link.
    pub link: String,
    /// The direction; both where it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Heading>,
    /// The rate.
    #[serde(
        rename = "rate_bps",
        default,
        with = "json::some_rate",
        skip_serializing_if = "Option::is_none"
    )]
    pub rate: Option<Rate>,
    /// Propagation, one way.
    #[serde(
        rename = "delay_us",
        default,
        with = "json::some_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub delay: Option<Duration>,
    /// Which packets are lost on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// Whether all packets are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<bool>,
}

impl LinkChange {
    /// Whether that direction changes.
    pub fn changes(&self, heading: Heading) -> bool {
        self.direction.is_none_or(|only| only == heading)
    }

    /// As links know it.
    pub fn model(&self) -> netmodel::LinkChange {
        netmodel::LinkChange {
            rate: self.rate,
            delay: self.delay,
            loss: self.loss.map(|loss| loss.model()),
            cut: self.cut,
        }
    }
}

/// Where a node moves to: its other links carry nothing for it any longer, and it has another address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The node.
    pub node: String,
    /// One of its links, over which all of its packets go from then on.
    pub link: String,
}
