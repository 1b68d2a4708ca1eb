// SPDX-License-Identifier: GPL-2.0-or-later
//! Warm-ups that are longer than what they are cut from.

use crate::{Error, format};
use record::Summary;

/// Whether a run, or a flow of it, ended in its warm-up. A run without flows has no end.
pub fn has_ended(run: &Summary, flow: Option<&str>, warm_up_s: f64) -> bool {
    let flows = run.flows.iter().filter(|one| flow.is_none_or(|name| one.name == name));
    let end_s = flows.map(|flow| flow.end_s).reduce(f64::max);
    warm_up_s > 0.0 && end_s.is_some_and(|end_s| end_s <= warm_up_s)
}

/// Refuses a warm-up that leaves nothing of any run.
///
/// # Errors
/// All runs ended in it.
pub fn check<'s>(
    runs: impl Iterator<Item = &'s Summary> + Clone,
    warm_up_s: f64,
) -> Result<(), Error> {
    if !runs.clone().all(|run| has_ended(run, None, warm_up_s)) {
        return Ok(());
    }
    let longest_s = runs.flat_map(|run| &run.flows).map(|flow| flow.end_s).fold(0.0, f64::max);
    Err(Error::WarmUp(format!(
        "--warm-up {warm_up_s}s leaves nothing: the longest run ended after {}. Choose a shorter one",
        format::seconds(longest_s)
    )))
}
