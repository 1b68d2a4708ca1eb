// SPDX-License-Identifier: GPL-2.0-or-later
//! A distribution of durations.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A histogram of durations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// The upper bounds of all buckets except the last, which has none, in seconds.
    pub bounds_s: Vec<f64>,
    /// The count in each bucket.
    pub counts: Vec<u64>,
    /// The sum of all durations, in seconds.
    pub sum_s: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        let bounds_s =
            vec![0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0, 3600.0];
        Self { counts: vec![0; bounds_s.len() + 1], bounds_s, sum_s: 0.0 }
    }
}

impl Histogram {
    /// Adds a duration.
    pub(crate) fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        self.counts[self.bounds_s.partition_point(|bound| *bound < seconds)] += 1;
        self.sum_s += seconds;
    }

    /// Adds the durations of another histogram, if it has the same buckets.
    pub(super) fn merge(&mut self, other: &Self) {
        if self.bounds_s != other.bounds_s || self.counts.len() != other.counts.len() {
            return;
        }
        for (own, n) in self.counts.iter_mut().zip(&other.counts) {
            *own = own.saturating_add(*n);
        }
        self.sum_s += other.sum_s;
    }
}
