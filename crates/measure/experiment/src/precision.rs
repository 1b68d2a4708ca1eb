// SPDX-License-Identifier: GPL-2.0-or-later
//! When the repeats of a run are enough: the confidence interval of their goodput is narrow.

use record::{RunResults, stats};
use scenario::Run;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Fewer values say too little of their spread.
const LEAST: usize = 3;

/// What repeats share: the variant, and the point of the sweep.
type Key = (Option<String>, Vec<(String, String)>);

/// The goodput of the runs so far, by what their repeats share.
#[derive(Debug, Default)]
pub(crate) struct Precision {
    /// Half the interval's width as a share of the mean, below which no more repeats are needed.
    until: Option<f64>,
    values: Mutex<HashMap<Key, Vec<f64>>>,
}

impl Precision {
    pub fn new(until: Option<f64>) -> Self {
        Self { until, values: Mutex::default() }
    }

    /// A run is on record.
    pub fn add(&self, run: &Run, results: &RunResults) {
        let goodput = results.summary.metrics.goodput_bps;
        if let Some(bps) = goodput.filter(|_| results.verdict().in_medians()) {
            self.values().entry(key(run)).or_default().push(bps);
        }
    }

    /// Why a run is not needed, if that is so.
    pub fn is_enough(&self, run: &Run) -> Option<String> {
        let until = self.until?;
        let values = self.values();
        let values = values.get(&key(run)).filter(|values| values.len() >= LEAST)?;
        let estimate = stats::mean_ci95(values)?;
        let half = estimate.half_width? / estimate.mean;
        (half <= until)
            .then(|| format!("{} repeats give the mean within {:.1} %", values.len(), half * 100.0))
    }

    fn values(&self) -> MutexGuard<'_, HashMap<Key, Vec<f64>>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(run: &Run) -> Key {
    let variant = run.variant.as_ref().map(|variant| variant.name.clone());
    (variant, run.point.iter().map(|at| (at.key.clone(), at.value.clone())).collect())
}
