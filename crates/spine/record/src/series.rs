// SPDX-License-Identifier: GPL-2.0-or-later
//! Samples over time: a curve for each entity and quantity.
//!
//! All samples of a run are held in memory, 16 bytes each: 30 s of six link directions in bins of
//! 500 microseconds with four quantities are 1.4 million samples, 23 MB. A run of an hour wants
//! wider bins.

use crate::units::Unit;
use std::{collections::BTreeMap, fmt};

/// The samples of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    curves: BTreeMap<(Entity, Quantity), Curve>,
}

impl Series {
    /// Adds a sample. Samples of one curve come in the order of time.
    ///
    /// `time_s` is in seconds since the run's start, `value` in the quantity's unit.
    pub fn push(&mut self, entity: &Entity, quantity: Quantity, time_s: f64, value: f64) {
        self.curve_mut(entity, quantity).push(time_s, value);
    }

    /// Adds a link's throughput from a monitor's bins: bytes in each, all of the same width.
    pub fn add_throughput(&mut self, link: &Entity, width_s: f64, bins: &[u64]) {
        let curve = self.curve_mut(link, Quantity::ThroughputBps);
        for (n, bytes) in bins.iter().enumerate() {
            curve.push(n as f64 * width_s, *bytes as f64 * 8.0 / width_s);
        }
    }

    /// The curve to add many samples to; made where there is none yet.
    pub fn curve_mut(&mut self, entity: &Entity, quantity: Quantity) -> &mut Curve {
        self.curves.entry((entity.clone(), quantity)).or_default()
    }

    /// The curve of one quantity of one entity.
    pub fn curve(&self, entity: &Entity, quantity: Quantity) -> Option<&Curve> {
        self.curves.get(&(entity.clone(), quantity))
    }

    /// All curves, by entity and then by quantity.
    pub fn curves(&self) -> impl Iterator<Item = (&Entity, Quantity, &Curve)> {
        self.curves.iter().map(|((entity, quantity), curve)| (entity, *quantity, curve))
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.curves.values().map(|curve| curve.time_s.len()).sum()
    }

    /// Whether nothing was sampled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The entity of a curve.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entity {
    /// One direction of a link: `link:NAME/forward`.
    Link {
        /// The link's name in the scenario.
        name: String,
        /// Which way.
        direction: Direction,
    },
    /// One TCP connection of a flow, at its sender: `hop:FLOW/0`.
    Hop {
        /// The flow's name.
        flow: String,
        /// Counted in the direction of the data; 0 leaves the source.
        index: u32,
    },
    /// A flow at its client: `flow:NAME`.
    Flow(
        /// The flow's name.
        String,
    ),
}

/// The two directions of a link: `forward` from the first to the second of the ends it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the first end to the second.
    Forward,
    /// From the second end to the first.
    Backward,
}

impl Entity {
    /// Reads an entity as it is written in the series; `None` for a kind that is not known here.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "link" => {
                let (name, direction) = rest.rsplit_once('/')?;
                let direction = match direction {
                    "forward" => Direction::Forward,
                    "backward" => Direction::Backward,
                    _ => return None,
                };
                Some(Self::Link { name: name.to_owned(), direction })
            }
            "hop" => {
                let (flow, index) = rest.rsplit_once('/')?;
                Some(Self::Hop { flow: flow.to_owned(), index: index.parse().ok()? })
            }
            "flow" => Some(Self::Flow(rest.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        })
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { name, direction } => write!(f, "link:{name}/{direction}"),
            Self::Hop { flow, index } => write!(f, "hop:{flow}/{index}"),
            Self::Flow(name) => write!(f, "flow:{name}"),
        }
    }
}

/// Declares the quantities once: variant, and name in the file, which gives the unit.
macro_rules! quantities {
    ($($(#[$doc:meta])* $variant:ident $name:literal;)*) => {
        /// The quantity of a curve. The comments name the sampled entity.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Quantity { $($(#[$doc])* $variant,)* }

        impl Quantity {
            /// Every quantity.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name in the `quantity` column.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

quantities! {
    /// Link: what it carried in the bin that starts at the sample's time, headers included.
    ThroughputBps "throughput_bps";
    /// Link: the queue at the sample's time.
    QueueBytes "queue_bytes";
    /// Link: segments that the queue refused in the bin.
    Drops "drops";
    /// Link: segments that were lost in the bin.
    Losses "losses";
    /// Hop: acknowledged so far.
    AckedBytes "acked_bytes";
    /// Hop: delivered so far, in whole segments: acknowledged, also selectively. Unlike the
    /// acknowledged bytes it does not stand still at a hole and leap when that is filled.
    DeliveredBytes "delivered_bytes";
    /// Hop: congestion window.
    CwndSegments "cwnd_segments";
    /// Hop: slow-start threshold.
    SsthreshSegments "ssthresh_segments";
    /// Hop: smoothed round-trip time.
    SrttUs "srtt_us";
    /// Hop: smallest round-trip time so far.
    MinRttUs "min_rtt_us";
    /// Hop: segments sent again so far.
    Retransmits "retransmits";
    /// Hop: the kernel's estimate of the delivery rate.
    DeliveryRateBps "delivery_rate_bps";
    /// Hop: the pacing rate.
    PacingRateBps "pacing_rate_bps";
    /// Flow: content that the client received so far.
    ReceivedBytes "received_bytes";
}

impl Quantity {
    /// The name in the `unit` column.
    pub fn unit(self) -> &'static str {
        Unit::of_key(self.name()).name()
    }

    /// Whether it comes in the bins of a link's monitor, which a record has in a table of their own.
    pub const fn is_binned(self) -> bool {
        matches!(self, Self::ThroughputBps)
    }

    /// Reads a quantity's name; `None` for one that is not known here.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|quantity| quantity.name() == text)
    }
}

/// Samples of one quantity of one entity, in the order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// When, in seconds since the run's start; never falling.
    pub time_s: Vec<f64>,
    /// The values in the quantity's unit, one for each time.
    pub value: Vec<f64>,
}

impl Curve {
    /// Adds a sample, not earlier than the last one.
    pub fn push(&mut self, time_s: f64, value: f64) {
        debug_assert!(self.time_s.last().is_none_or(|last| *last <= time_s), "time runs forward");
        self.time_s.push(time_s);
        self.value.push(value);
    }

    /// When the first and the last sample were taken, in seconds; `None` without samples.
    pub fn span_s(&self) -> Option<(f64, f64)> {
        Some((*self.time_s.first()?, *self.time_s.last()?))
    }

    /// The value at a time, interpolated between the samples next to it; the first or the last
    /// value outside of them, and 0 without samples. Meant for running totals.
    pub fn at(&self, time_s: f64) -> f64 {
        let after = self.time_s.partition_point(|t| *t < time_s);
        let (Some(&v1), Some(&t1)) = (self.value.get(after), self.time_s.get(after)) else {
            return self.value.last().copied().unwrap_or(0.0);
        };
        if after == 0 {
            return v1;
        }
        let (t0, v0) = (self.time_s[after - 1], self.value[after - 1]);
        v0 + (v1 - v0) * (time_s - t0) / (t1 - t0)
    }

    /// How much a running total grew in each of `bins` bins of `bin_s` seconds that begin at `from_s`.
    pub fn increments(&self, from_s: f64, bin_s: f64, bins: usize) -> Vec<f64> {
        let edges: Vec<f64> = (0..=bins).map(|i| self.at(from_s + bin_s * i as f64)).collect();
        edges.windows(2).map(|edge| edge[1] - edge[0]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_read_as_they_are_written() {
        let name = "a/b:c".to_owned();
        for entity in [
            Entity::Link { name: name.clone(), direction: Direction::Backward },
            Entity::Hop { flow: name.clone(), index: 2 },
            Entity::Flow(name),
        ] {
            assert_eq!(Entity::parse(&entity.to_string()), Some(entity));
        }
        for text in ["", "flow", "link:a", "link:a/up", "hop:f/x", "host:a"] {
            assert_eq!(Entity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn quantity_units_are_those_of_their_names() {
        let units: Vec<_> = Quantity::ALL.iter().map(|quantity| quantity.unit()).collect();
        let segments = ["segment"; 2];
        let hop = ["byte", "byte", "segment", "segment", "us", "us", "segment", "bit/s", "bit/s"];
        assert_eq!(units, [&["bit/s", "byte"][..], &segments, &hop, &["byte"]].concat());
    }

    #[test]
    fn totals_are_interpolated_and_cut_into_bins() {
        let mut total = Curve::default();
        for (t, v) in [(1.0, 0.0), (2.0, 100.0), (4.0, 140.0)] {
            total.push(t, v);
        }
        for (time_s, value) in [(0.0, 0.0), (1.5, 50.0), (2.0, 100.0), (3.0, 120.0), (9.0, 140.0)] {
            assert_eq!(Some(total.at(time_s)), Some(value), "at {time_s} s");
        }
        assert_eq!(total.increments(0.0, 1.5, 3), [50.0, 70.0, 20.0]);
        assert_eq!(Curve::default().increments(0.0, 1.0, 2), [0.0, 0.0]);
    }

    #[test]
    fn a_jump_has_the_value_before_it_until_it_happens() {
        let jump = Curve { time_s: vec![1.0, 1.0, 2.0], value: vec![0.0, 8.0, 8.0] };
        assert_eq!([1.0, 1.5].map(|t| jump.at(t)).to_vec(), [0.0, 8.0]);
    }
}
