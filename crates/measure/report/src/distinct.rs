// SPDX-License-Identifier: GPL-2.0-or-later
//! Values without their repeats.

/// The values in the order in which they first come.
pub(crate) fn distinct<'a, T: PartialEq + Clone + 'a>(all: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut seen: Vec<T> = Vec::new();
    for one in all {
        if !seen.contains(one) {
            seen.push(one.clone());
        }
    }
    seen
}
