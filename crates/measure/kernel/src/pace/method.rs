// SPDX-License-Identifier: GPL-2.0-or-later
//! The two methods of pacing.

use std::fmt;

/// The mechanism that spaces packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Gap frames behind packets: the wire's clock. The device is given single segments.
    Gap,
    /// Earliest departure times, which the queueing discipline fq keeps: the kernel's timers. The wire
    /// idles between.
    Edt {
        /// Super-packets go on to come whole, each leaving as one burst: less work, less even. Otherwise the
        /// device gets single segments, as with gap frames.
        super_packets: bool,
    },
}

impl Method {
    /// Departure times of single segments.
    pub const EDT: Self = Self::Edt { super_packets: false };

    /// The word for it, in notices and documents; whether super-packets are let be is all one.
    pub fn word(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::Edt { .. } => "edt",
        }
    }

    /// Whether devices are given single segments.
    pub(super) fn has_single_segments(self) -> bool {
        self != Self::Edt { super_packets: true }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gap => "gap packets",
            Self::Edt { super_packets: false } => "departure times",
            Self::Edt { super_packets: true } => "departure times of super-packets",
        })
    }
}
