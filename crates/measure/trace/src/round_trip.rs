// SPDX-License-Identifier: GPL-2.0-or-later
//! Round trips between the point of capture and one end of a connection.
//!
//! A sample is the time from a packet towards that end to the first packet of that end which answers it: by acknowledgement
//! of data that was sent once (Karn's rule), by the echo of a timestamp, or in the handshake. The two ends' shortest round trips
//! add up to the path's, and tell where the capture was taken.

/// Round trips to one end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RoundTrips {
    /// By acknowledgements of data.
    pub(crate) samples: u64,
    pub(crate) sum_ns: u64,
    pub(crate) max_ns: u64,
    min_of_samples_ns: Option<u64>,
    /// Shortest of all, also by timestamps and by the handshake.
    min_ns: Option<u64>,
    smoothed_ns: u64,
    variation_ns: u64,
    /// A `TSval` on its way to this end, and when.
    pending: Option<(u32, u64)>,
    last_sent: Option<u32>,
}

impl RoundTrips {
    /// A sample by an acknowledgement of data. Smoothed as in RFC 6298.
    pub(crate) fn sample(&mut self, ns: u64) {
        if self.samples == 0 {
            (self.smoothed_ns, self.variation_ns) = (ns, ns / 2);
        } else {
            let deviation = self.smoothed_ns.abs_diff(ns);
            self.variation_ns = self.variation_ns - self.variation_ns / 4 + deviation / 4;
            self.smoothed_ns = self.smoothed_ns - self.smoothed_ns / 8 + ns / 8;
        }
        self.samples += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        self.min_of_samples_ns = Some(self.min_of_samples_ns.map_or(ns, |min| min.min(ns)));
        self.bound(ns);
    }

    /// A round trip that bounds the shortest one and is no sample: the answer may have waited for something else.
    pub(crate) fn bound(&mut self, ns: u64) {
        self.min_ns = Some(self.min_ns.map_or(ns, |min| min.min(ns)));
    }

    /// A packet goes to this end with this `TSval`.
    pub(crate) fn timestamp_goes(&mut self, value: u32, now_ns: u64) {
        // One at a time; the first packet of those that have it.
        if self.pending.is_none() && self.last_sent != Some(value) {
            self.pending = Some((value, now_ns));
        }
        self.last_sent = Some(value);
    }

    /// A packet of this end comes with this `TSecr`.
    pub(crate) fn echo_comes(&mut self, echo: u32, now_ns: u64) {
        if let Some((value, sent_ns)) = self.pending {
            let later = echo.wrapping_sub(value).cast_signed();
            if later == 0 {
                self.bound(now_ns.saturating_sub(sent_ns));
            }
            if later >= 0 {
                self.pending = None;
            }
        }
    }

    pub(crate) fn min_ns(&self) -> Option<u64> {
        self.min_ns
    }

    pub(crate) fn min_of_samples_ns(&self) -> Option<u64> {
        self.min_of_samples_ns
    }

    /// Smoothed round trip and its variation. `None` before the first sample.
    pub(crate) fn smoothed_ns(&self) -> Option<(u64, u64)> {
        (self.samples > 0).then_some((self.smoothed_ns, self.variation_ns))
    }
}
