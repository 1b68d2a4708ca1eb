// SPDX-License-Identifier: GPL-2.0-or-later
//! Bins of time: from the kernel's ring into a [`netmodel::Monitor`], before the ring comes round.

use super::statistics::{Bin, KernelStatistics};
use netmodel::Monitor;
use units::{Duration, Timestamp};

/// Bins that the kernel keeps, as `src/bpf/monitor.h` has it.
pub(super) const RING_BINS: u64 = 32_768;

/// Bytes in bins of time, data and gap frames. Memory is bounded: after some time, neighbours are
/// added together (see [`Monitor`]); both have bins of the same width.
#[derive(Debug, Clone)]
pub struct Bins {
    width: Duration,
    data: Monitor,
    gaps: Monitor,
    /// The number of the bin at which the monitor's time begins, and of the next to be read.
    first: u64,
    next: u64,
    /// Data and gap bytes in all that was read.
    read_bytes: u64,
    peak: Option<Bin>,
    recent_peak: Option<Bin>,
}

impl Bins {
    pub(super) fn new(width: Duration, first: u64) -> Self {
        Self {
            width,
            data: Monitor::new(width),
            gaps: Monitor::new(width),
            first,
            next: first,
            read_bytes: 0,
            peak: None,
            recent_peak: None,
        }
    }

    /// Bytes of data.
    pub fn data(&self) -> &Monitor {
        &self.data
    }

    /// Bytes of gap frames.
    pub fn gap_frames(&self) -> &Monitor {
        &self.gaps
    }

    /// Takes the full bins out of a copy of the ring that was made after `kernel` was read. They do
    /// not change any more; what is newer in the ring waits for the next time.
    pub(super) fn take(&mut self, kernel: &KernelStatistics, ring: &[u8], now: Timestamp) {
        let open = kernel.open_bin.0;
        let waits = self.next..open;
        let mut full: Vec<_> = bins(ring).filter(|(number, _, _)| waits.contains(number)).collect();
        full.sort_unstable();
        self.recent_peak = None;
        for bin in full {
            self.add(bin);
        }
        self.next = self.next.max(open);
        self.reach(now);
    }

    /// The last bin, which nothing comes into any more.
    pub(super) fn close(&mut self, kernel: &KernelStatistics) {
        self.add(kernel.open_bin);
        self.next = kernel.open_bin.0 + 1;
    }

    /// Writes into the figures what the bins know; `open` is whether the last is still being filled.
    pub(super) fn complete(&self, kernel: &mut KernelStatistics, open: bool) {
        let (_, data, gaps) = kernel.open_bin;
        let figures = &mut kernel.figures;
        let waiting = if open { data + gaps } else { 0 };
        figures.missed_bytes = figures.bytes + figures.gap_bytes - self.read_bytes - waiting;
        figures.peak = self.peak;
        figures.recent_peak = self.recent_peak;
    }

    fn add(&mut self, (number, data, gaps): (u64, u64, u64)) {
        if data + gaps == 0 {
            return;
        }
        let nanos = number.saturating_sub(self.first) * self.width.as_nanos();
        let at = Timestamp::from_nanos(nanos);
        self.data.add(at, data);
        self.gaps.add(at, gaps);
        self.read_bytes += data + gaps;
        for peak in [&mut self.peak, &mut self.recent_peak] {
            if data > peak.map_or(0, |peak| peak.bytes) {
                *peak = Some(Bin { at, bytes: data });
            }
        }
    }

    /// Time goes on also while nothing comes.
    fn reach(&mut self, now: Timestamp) {
        self.data.add(now, 0);
        self.gaps.add(now, 0);
    }
}

/// The bins of `struct ring` of `src/bpf/monitor.h`: number, data, gap bytes.
fn bins(ring: &[u8]) -> impl Iterator<Item = (u64, u64, u64)> {
    debug_assert_eq!(ring.len(), RING_BINS as usize * 24, "as in src/bpf/monitor.h");
    let word = |bytes: &[u8], n: usize| {
        u64::from_ne_bytes(bytes[8 * n..8 * (n + 1)].try_into().expect("8"))
    };
    ring.chunks_exact(24).map(move |bin| (word(bin, 0), word(bin, 1), word(bin, 2)))
}
