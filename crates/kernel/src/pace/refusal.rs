// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a device's packets are not paced as was asked for.

use units::{Bytes, Rate};

/// What does not go, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is none of that name here.
    #[error("there is no device {name} in this network namespace; ip link lists them")]
    NoDevice {
        /// The name.
        name: String,
    },
    /// It has no PAUSE frames.
    #[error("{name} is no Ethernet device ({kind}): gap packets are PAUSE frames of Ethernet")]
    NotEthernet {
        /// The device.
        name: String,
        /// What it is, as `ip link` says.
        kind: String,
    },
    /// Without the rate of its link no gap can be given a length.
    #[error("{name} does not say at what rate it sends; say it, as in --line 1gbit")]
    NoLine {
        /// The device.
        name: String,
    },
    /// Packets can't leave faster than the link is.
    #[error("{rate} is more than the link has, {line}")]
    AboveLine {
        /// What was asked for.
        rate: Rate,
        /// The link's.
        line: Rate,
    },
    /// The gaps for that would be longer than is allowed.
    #[error(
        "{rate} takes gaps of more than {max_gap} behind full packets; {slowest} is the least with \
         that, or say more, as in --max-gap 1MB"
    )]
    TooSlow {
        /// What was asked for.
        rate: Rate,
        /// The least that goes.
        slowest: Rate,
        /// The most gap behind one packet.
        max_gap: Bytes,
    },
    /// Frames or gaps of that size can't be.
    #[error("{why}")]
    Sizes {
        /// Which, and what can be.
        why: String,
    },
    /// The kernel's program has room for no more.
    #[error("there can be {most} rules at most")]
    TooManyRules {
        /// So many.
        most: usize,
    },
    /// Packets would overtake gap frames.
    #[error(
        "{name} has {queues} transmit queues, between which no order is kept; first: \
         ethtool -L {name} combined 1 (or tx 1)"
    )]
    Queues {
        /// The device.
        name: String,
        /// How many.
        queues: usize,
    },
    /// The same, within one queue.
    #[error(
        "{name} has the queueing discipline {kind}, which may send packets in another order than they \
         came in; first: tc qdisc replace dev {name} root pfifo"
    )]
    Discipline {
        /// The device.
        name: String,
        /// The discipline's kind.
        kind: String,
    },
    /// The kernel can't attach it.
    #[error(
        "this kernel attaches no program where packets leave (tcx); it needs Linux 6.6 or newer"
    )]
    NoTcx,
    /// iproute2 is missing.
    #[error("this takes ip, of iproute2: apt-get install iproute2, dnf install iproute")]
    NoIproute,
    /// Nothing is paced there.
    #[error("nothing is paced on {name}")]
    NotPaced {
        /// The device.
        name: String,
    },
    /// It has others.
    #[error("{name} has no rule {number}; longhaul pace show {name} lists them")]
    NoRule {
        /// The device.
        name: String,
        /// What was asked for.
        number: u32,
    },
}

impl Refusal {
    /// Whether the machine lacks something; nothing that was asked for is wrong.
    pub fn is_lack(&self) -> bool {
        matches!(
            self,
            Self::NoTcx | Self::NoIproute | Self::Queues { .. } | Self::Discipline { .. }
        )
    }

    /// Whether something was asked for in the wrong way.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NoDevice { .. }
                | Self::NotEthernet { .. }
                | Self::NoLine { .. }
                | Self::AboveLine { .. }
                | Self::TooSlow { .. }
                | Self::Sizes { .. }
                | Self::TooManyRules { .. }
                | Self::NoRule { .. }
        )
    }
}
