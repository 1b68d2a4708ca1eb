// SPDX-License-Identifier: GPL-2.0-or-later
//! Repeats of a run: records that differ only in their number and seed, put together. The one place that
//! does so; tables, figures and pages call it.

use crate::{Manifest, RunResults, Summary, manifest::Point};
use std::{collections::HashMap, hash::Hash};

/// Key that the repeats of a run share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepeatKey {
    /// `model`, `sim`, `emu` or `field`.
    pub method: String,
    /// The variant, in a scenario with variants.
    pub variant: Option<String>,
    /// The point of the sweep; empty without a sweep.
    pub point: Point,
}

impl Manifest {
    /// The key that this run shares with its repeats.
    pub fn repeat_key(&self) -> RepeatKey {
        RepeatKey {
            method: self.method.clone(),
            variant: self.variant.as_ref().map(|variant| variant.name.clone()),
            point: self.point.clone(),
        }
    }
}

/// Items with equal keys put together, in the order in which the keys first come.
pub fn group<T, K: Hash + Eq + Clone>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let (mut groups, mut index_of) = (Vec::<(K, Vec<T>)>::new(), HashMap::new());
    for item in items {
        let key = key(&item);
        let index = *index_of.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[index].1.push(item);
    }
    groups
}

/// Valid repeats, two or more, whose results are equal to the last digit: how many, and of what. They look
/// like a certain result, and are one measurement.
pub fn identical(records: &[RunResults]) -> Vec<(RepeatKey, usize)> {
    let valid = records.iter().filter(|record| record.manifest.valid);
    group(valid, |record| record.manifest.repeat_key())
        .into_iter()
        .filter(|(_, repeats)| repeats.len() > 1 && all_equal(repeats.iter().map(|r| &r.summary)))
        .map(|(key, repeats)| (key, repeats.len()))
        .collect()
}

fn all_equal<'a>(mut summaries: impl Iterator<Item = &'a Summary>) -> bool {
    let first = summaries.next();
    summaries.all(|summary| Some(summary) == first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_the_order_of_their_first_items() {
        let groups = group(["b1", "a1", "b2", "c1", "a2"], |item| item.as_bytes()[0]);
        assert_eq!(
            groups,
            [(b'b', vec!["b1", "b2"]), (b'a', vec!["a1", "a2"]), (b'c', vec!["c1"])]
        );
        assert_eq!(group(Vec::<u8>::new(), |item| *item), []);
    }
}
