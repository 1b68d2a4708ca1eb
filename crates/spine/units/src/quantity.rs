// SPDX-License-Identifier: GPL-2.0-or-later
//! Texts that may be of any quantity: values of swept keys, of which only the scenario knows what they count.

use crate::{Bytes, Duration, Probability, Rate};

/// What a number of a scenario's key counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueKind {
    /// A number without a unit.
    Plain,
    /// A time.
    Time,
    /// A probability.
    Probability,
    /// A rate.
    Rate,
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
}

impl ValueKind {
    /// The name for people, as in "in bytes".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "numbers without a unit",
            Self::Time => "units of time",
            Self::Probability => "probabilities",
            Self::Rate => "rates",
            Self::Bytes => "bytes",
            Self::Packets => "packets",
        }
    }
}

/// The kind of a value and its number in the basic unit: seconds, bit/s, bytes. `None` for other texts.
pub fn quantity(text: &str) -> Option<(ValueKind, f64)> {
    // A loss is shown as it is end to end, whatever it is spread over.
    let text = text.split(" over ").next().unwrap_or(text);
    let plain = text.parse::<f64>().ok().filter(|n| n.is_finite());
    let plain = plain.map(|number| (ValueKind::Plain, number));
    plain
        .or_else(|| Some((ValueKind::Time, text.parse::<Duration>().ok()?.as_secs_f64())))
        .or_else(|| Some((ValueKind::Probability, text.parse::<Probability>().ok()?.get())))
        .or_else(|| Some((ValueKind::Rate, text.parse::<Rate>().ok()?.bps() as f64)))
        .or_else(|| Some((ValueKind::Bytes, text.parse::<Bytes>().ok()?.get() as f64)))
        // A queue's limit in packets.
        .or_else(|| Some((ValueKind::Packets, text.strip_suffix('p')?.parse::<u32>().ok()?.into())))
}
