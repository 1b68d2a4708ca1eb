// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a device's packets are not paced as was asked for.

use super::Method;
use ipnet::IpNet;
use units::{Bytes, Duration, Rate};

/// A request that pacing cannot fulfil, with its cause and remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is none of that name here.
    #[error("there is no device {name} in this network namespace; ip link lists them")]
    NoDevice {
        /// The name.
        name: String,
    },
    /// Its packets are of another kind, and PAUSE frames are Ethernet's.
    #[error("{name} is no Ethernet device ({kind}), and only those are paced")]
    NotEthernet {
        /// The device.
        name: String,
        /// Kind of the device, as in `ip link`.
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
        /// The requested rate.
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
        /// The requested rate.
        rate: Rate,
        /// The least that goes.
        slowest: Rate,
        /// The most gap behind one packet.
        max_gap: Bytes,
    },
    /// Too many packets would have to wait for too long.
    #[error(
        "{rate} has ten full packets wait for more than {horizon}, after which they are dropped; \
         {slowest} is the least"
    )]
    BeyondHorizon {
        /// The requested rate.
        rate: Rate,
        /// The least that goes.
        slowest: Rate,
        /// How far ahead a time of departure may be.
        horizon: Duration,
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
        "{name} has {queues} transmit queues, between which no order is kept for gap packets; first: \
         ethtool -L {name} combined 1 (or tx 1). Departure times (--by edt) do with several, where \
         the kernel has fq: tc qdisc replace dev {name} root fq flow_limit 1000"
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
         came in; for gap packets, first: tc qdisc replace dev {name} root pfifo; for departure times \
         (--by edt), where the kernel has fq: tc qdisc replace dev {name} root fq flow_limit 1000"
    )]
    Discipline {
        /// The device.
        name: String,
        /// The discipline's kind.
        kind: String,
    },
    /// Nothing would hold packets until their departure time.
    #[error(
        "{name} has the queueing discipline {kind}, and only fq lets packets wait for their time of \
         departure; first: tc qdisc replace dev {name} root fq flow_limit 1000"
    )]
    NotFq {
        /// The device.
        name: String,
        /// The discipline's kind.
        kind: String,
    },
    /// It would drop them before, or let them go.
    #[error(
        "fq on {name} takes times up to {horizon} ahead, and packets may have to wait for {least}; first: \
         tc qdisc replace dev {name} root fq horizon 10s"
    )]
    Horizon {
        /// The device.
        name: String,
        /// The horizon of fq.
        horizon: Duration,
        /// The required minimum.
        least: Duration,
    },
    /// It is not in the kernel, nor among its modules.
    #[error(
        "this kernel has no fq, which lets packets wait for their time of departure: it needs \
         CONFIG_NET_SCH_FQ"
    )]
    KernelWithoutFq,
    /// A device is paced by one method at a time.
    #[error("{name} is paced by {present} already; longhaul pace del {name} ends that")]
    OtherMethod {
        /// The device.
        name: String,
        /// The method in force.
        present: Method,
    },
    /// The kernel can't attach it.
    #[error(
        "this kernel attaches no program where packets leave (tcx); it needs Linux 6.6 or newer"
    )]
    NoTcx,
    /// Packets can't be sent there.
    #[error("this host has no route to {net}")]
    NoRoute {
        /// The network.
        net: IpNet,
    },
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
        /// The requested number.
        number: u32,
    },
}

impl Refusal {
    /// Whether the machine lacks something; nothing that was asked for is wrong.
    pub fn is_lack(&self) -> bool {
        matches!(
            self,
            Self::NoTcx
                | Self::Queues { .. }
                | Self::Discipline { .. }
                | Self::NotFq { .. }
                | Self::Horizon { .. }
                | Self::KernelWithoutFq
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
                | Self::BeyondHorizon { .. }
                | Self::OtherMethod { .. }
                | Self::Sizes { .. }
                | Self::TooManyRules { .. }
                | Self::NoRule { .. }
        )
    }
}
