// SPDX-License-Identifier: GPL-2.0-or-later
//! The monitor's counts of one direction, in the kernel's format.

use super::flow::Flow;
use netmodel::Histogram;
use units::{Duration, Timestamp};

/// Slots of the histograms, as `src/bpf/monitor.h` has them.
const GAP_SLOTS: usize = 1152;
const BURST_SLOTS: usize = 512;

/// The figures of one direction since the monitor was attached. They agree with each other exactly.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionStatistics {
    /// Data packets as they are on the wire: a super-packet counts as what it is cut into.
    pub packets: u64,
    /// Their bytes including the link's header, without checksum, preamble and the wire's own gap.
    pub bytes: u64,
    /// Times that the driver was handed data: [`DirectionStatistics::packets`], with a super-packet as one.
    pub handovers: u64,
    /// Hand-overs that were super-packets. Gaps inside them can't be seen.
    pub super_handovers: u64,
    /// Their packets on the wire.
    pub super_packets: u64,
    /// PAUSE frames that space packets. They carry no data.
    pub gap_frames: u64,
    /// Their bytes.
    pub gap_bytes: u64,
    /// Hand-overs of data right after data, without a gap frame between.
    pub unspaced: u64,
    /// When data was handed over first and last; none without data.
    pub span: Option<(Timestamp, Timestamp)>,
    /// The bin with most data bytes so far.
    pub peak: Option<Bin>,
    /// The same, of the bins that were full since the last time that figures were read.
    pub recent_peak: Option<Bin>,
    /// Data and gap bytes that are in no bin, because these were not read in time.
    pub missed_bytes: u64,
    /// Times between hand-overs.
    pub gaps: Gaps,
    /// Packets close behind each other.
    pub bursts: Bursts,
    /// Each flow, if they were asked for: most bytes first.
    pub flows: Vec<FlowStatistics>,
}

/// One bin of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bin {
    /// When it begins.
    pub at: Timestamp,
    /// Bytes of data in it.
    pub bytes: u64,
}

/// Times from one hand-over of data to the next: one fewer than there are hand-overs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gaps {
    /// How many.
    pub count: u64,
    /// Their sum in nanoseconds.
    pub sum_ns: u64,
    /// The sum of their squares.
    pub squares_ns2: u128,
    /// The shortest.
    pub least: Option<Duration>,
    /// The longest.
    pub most: Option<Duration>,
    /// All of them, in nanoseconds.
    pub histogram: Histogram,
}

/// Runs of packets in which no gap is longer than [`super::Options::burst_gap`], and no gap frame
/// separates two packets. A packet on its own is a burst of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bursts {
    /// How many; the one that goes on is not among them until the monitor is stopped.
    pub count: u64,
    /// Packets in the longest.
    pub most_packets: u64,
    /// Bytes in the largest.
    pub most_bytes: u64,
    /// Their lengths in packets.
    pub histogram: Histogram,
}

/// Counts of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowStatistics {
    /// Which.
    pub flow: Flow,
    /// Packets, as they are on the wire.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the first and the last of them came.
    pub span: (Timestamp, Timestamp),
}

impl Gaps {
    /// The mean in nanoseconds; `None` without gaps.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// The standard deviation in nanoseconds, of these gaps and not of others that they stand for
    /// (divided by their number); `None` without gaps.
    pub fn deviation_ns(&self) -> Option<f64> {
        let mean = self.mean_ns()?;
        let (count, sum) = (u128::from(self.count), u128::from(self.sum_ns));
        // Whole numbers as far as they reach: the difference of two large ones is what matters.
        let scaled = count.checked_mul(self.squares_ns2).zip(sum.checked_mul(sum));
        let variance = match scaled {
            Some((squares, square)) => {
                squares.saturating_sub(square) as f64 / (count as f64).powi(2)
            }
            None => (self.squares_ns2 as f64 / count as f64 - mean * mean).max(0.0),
        };
        Some(variance.sqrt())
    }
}

/// `struct figures` of `src/bpf/monitor.h`, all of whose members are words of 64 bits but the first,
/// which holds the lock.
pub(super) struct KernelStatistics {
    pub(super) figures: DirectionStatistics,
    /// The bin that is being filled: its number, data, gap bytes.
    pub(super) open_bin: (u64, u64, u64),
    /// The burst that goes on: packets, bytes.
    open_burst: (u64, u64),
}

impl KernelStatistics {
    /// `origin` is where the monitor's time begins in the kernel's.
    pub(super) fn read(value: &[u8], origin: Duration) -> Self {
        let words = value.chunks_exact(8);
        let mut words = words.map(|word| u64::from_ne_bytes(word.try_into().expect("8"))).skip(1);
        let mut next = || words.next().expect("the value is a struct figures");
        let [_entries, _now] = [next(), next()];
        let [packets, bytes, handovers, super_handovers, super_packets] =
            [next(), next(), next(), next(), next()];
        let [gap_frames, gap_bytes, unspaced, first, last] =
            [next(), next(), next(), next(), next()];
        let [bin, _bin_ends, bin_bytes, bin_gap_bytes] = [next(), next(), next(), next()];
        let [sum_ns, squares_low, squares_high, least, most] =
            [next(), next(), next(), next(), next()];
        let open_burst = (next(), next());
        let [count, most_packets, most_bytes] = [next(), next(), next()];
        let gap_counts = (0..GAP_SLOTS).map(|_| next()).collect();
        let burst_counts = (0..BURST_SLOTS).map(|_| next()).collect();
        let time = |ns: u64| Timestamp::from_nanos(ns) - origin;
        let gap_count = handovers.saturating_sub(1);
        let if_any = |ns: u64| (gap_count > 0).then(|| Duration::from_nanos(ns));
        let figures = DirectionStatistics {
            packets,
            bytes,
            handovers,
            super_handovers,
            super_packets,
            gap_frames,
            gap_bytes,
            unspaced,
            span: (handovers > 0).then(|| (time(first), time(last))),
            peak: None,
            recent_peak: None,
            missed_bytes: 0,
            gaps: Gaps {
                count: gap_count,
                sum_ns,
                squares_ns2: u128::from(squares_high) << 64 | u128::from(squares_low),
                least: if_any(least),
                most: if_any(most),
                histogram: Histogram::of_counts(gap_counts),
            },
            bursts: Bursts {
                count,
                most_packets,
                most_bytes,
                histogram: Histogram::of_counts(burst_counts),
            },
            flows: Vec::new(),
        };
        Self { figures, open_bin: (bin, bin_bytes, bin_gap_bytes), open_burst }
    }

    /// The burst that went on is over.
    pub(super) fn end_burst(&mut self) {
        let (packets, bytes) = self.open_burst;
        if packets > 0 {
            let bursts = &mut self.figures.bursts;
            bursts.count += 1;
            bursts.most_packets = bursts.most_packets.max(packets);
            bursts.most_bytes = bursts.most_bytes.max(bytes);
            bursts.histogram.add(packets);
            self.open_burst = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(values: &[u64]) -> Gaps {
        Gaps {
            count: values.len() as u64,
            sum_ns: values.iter().sum(),
            squares_ns2: values.iter().map(|v| u128::from(*v).pow(2)).sum(),
            least: None,
            most: None,
            histogram: Histogram::default(),
        }
    }

    #[test]
    fn mean_and_deviation_by_hand() {
        let of = |values: &[u64]| (gaps(values).mean_ns(), gaps(values).deviation_ns());
        assert_eq!(of(&[]), (None, None));
        assert_eq!(of(&[7]), (Some(7.0), Some(0.0)));
        assert_eq!(of(&[2, 4, 4, 4, 5, 5, 7, 9]), (Some(5.0), Some(2.0)));
        // In floating point the two would cancel each other out.
        let far = 1 << 40;
        assert_eq!(of(&[far, far + 2]), (Some((far + 1) as f64), Some(1.0)));
    }
}
