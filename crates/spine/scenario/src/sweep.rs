// SPDX-License-Identifier: GPL-2.0-or-later
//! `[sweep]`: the swept keys, those of them that move together (`zip`), and what a `--set` makes of both.

use crate::{
    diagnostics::{Location, Problems},
    document::{Data, Table, Value},
    keys::{self, Assignment},
    outline::belongs_to_a_run,
};
use std::collections::BTreeSet;
use units::suggest::hint;

/// The key of `[sweep]` that holds lists of keys instead of values. No key that can be swept has this name.
const ZIP: &str = "zip";

/// A swept key and its values.
#[derive(Debug)]
pub(crate) struct AxisSpec {
    pub key: String,
    /// The values in force.
    pub values: Vec<Value>,
    /// The values of the file, where a `--set` replaced them: references are written for these.
    pub in_file: Vec<String>,
    /// The earlier axis that it moves together with: both have the value of the same number.
    pub moves_with: Option<usize>,
    location: Location,
}

/// What `[sweep]` and the `--set`s make of it.
pub(crate) struct Sweep {
    pub axes: Vec<AxisSpec>,
    /// Whether the file's part of it could be read as a whole.
    pub is_sound: bool,
    /// The `--set`s that are not about it.
    pub others: Vec<Assignment>,
}

pub(crate) fn read(root: &Table, overrides: Vec<Assignment>, problems: &Problems) -> Sweep {
    let reports_before = problems.reports();
    let is_sound = || problems.reports() == reports_before;
    let (mut axes, mut zip) = in_file(root, problems);
    let file_is_sound = is_sound();
    let mut others = Vec::new();
    for o in overrides {
        match o.key.strip_prefix("sweep.") {
            None => others.push(o),
            Some(ZIP) => zip = Some(o.value),
            Some(key) => {
                let key = key.to_owned();
                if let Some(new) = axis(Assignment { key, value: o.value }, problems) {
                    put(&mut axes, new);
                }
            }
        }
    }
    let groups = zip.map(|zip| groups(&zip, &axes, problems)).unwrap_or_default();
    for group in &groups {
        check_lengths(&axes, group, problems);
    }
    // What follows takes the keys of a group to have as many values.
    if is_sound() {
        check_distinct(&axes, &groups, problems);
        others.retain(|o| !fix(&mut axes, &groups, o, problems));
        for group in &groups {
            group[1..].iter().for_each(|&at| axes[at].moves_with = Some(group[0]));
        }
    }
    Sweep { axes, is_sound: file_is_sound, others }
}

/// The axes of the file, and its `zip`.
fn in_file(root: &Table, problems: &Problems) -> (Vec<AxisSpec>, Option<Value>) {
    let assignments = match root.get("sweep") {
        None => Vec::new(),
        Some(Value { data: Data::Table(sweep), .. }) => keys::assignments(sweep),
        Some(other) => {
            problems.report(&other.location, "\"sweep\" is written as a [sweep] table");
            Vec::new()
        }
    };
    let (zip, swept): (Vec<_>, Vec<_>) = assignments.into_iter().partition(|a| a.key == ZIP);
    let axes = swept.into_iter().filter_map(|a| axis(a, problems)).collect();
    (axes, zip.into_iter().next().map(|a| a.value))
}

fn axis(Assignment { key, value }: Assignment, problems: &Problems) -> Option<AxisSpec> {
    let Value { location, data: Data::List(values), .. } = value else {
        let found = value.describe();
        problems.report(
            &value.location,
            format!("sweep of \"{key}\": {found} is not a list of values"),
        );
        return None;
    };
    if values.is_empty() {
        problems.report(&location, format!("sweep of \"{key}\": the list is empty"));
        return None;
    }
    belongs_to_a_run(&key, &location, "swept", problems);
    let in_file: Vec<String> = values.iter().map(Value::plain).collect();
    Some(AxisSpec { key, values, in_file, moves_with: None, location })
}

/// Adds an axis, or gives one that there is its values.
fn put(axes: &mut Vec<AxisSpec>, mut new: AxisSpec) {
    match axes.iter_mut().find(|a| a.key == new.key) {
        None => axes.push(new),
        Some(old) => {
            new.in_file = std::mem::take(&mut old.in_file);
            *old = new;
        }
    }
}

/// The groups of keys that move together: each the numbers of its axes, ascending.
fn groups(zip: &Value, axes: &[AxisSpec], problems: &Problems) -> Vec<Vec<usize>> {
    let Some(lists) = key_lists(zip) else {
        let found = zip.describe();
        let message = format!(
            "sweep, zip: {found} is not a list of lists of swept keys, two or more in each, as in \
             [[\"vars.loss\", \"duration\"]]"
        );
        problems.report(&zip.location, message);
        return Vec::new();
    };
    let mut used = BTreeSet::new();
    let mut at_axis = |key: &str| {
        let Some(at) = axes.iter().position(|axis| axis.key == key) else {
            let hint = hint(key, axes.iter().map(|a| a.key.as_str()));
            problems.report(&zip.location, format!("sweep, zip: \"{key}\" is not swept{hint}"));
            return None;
        };
        if !used.insert(at) {
            problems.report(&zip.location, format!("sweep, zip: \"{key}\" comes twice"));
        }
        Some(at)
    };
    let group = |keys: Vec<&str>| {
        let mut group: Vec<usize> = keys.into_iter().filter_map(&mut at_axis).collect();
        group.sort_unstable();
        group
    };
    lists.into_iter().map(group).filter(|group| !group.is_empty()).collect()
}

fn key_lists(zip: &Value) -> Option<Vec<Vec<&str>>> {
    let Data::List(lists) = &zip.data else { return None };
    lists.iter().map(two_keys_or_more).collect()
}

fn two_keys_or_more(list: &Value) -> Option<Vec<&str>> {
    let Data::List(keys) = &list.data else { return None };
    let keys: Option<Vec<&str>> = keys.iter().map(Value::as_text).collect();
    keys.filter(|keys| keys.len() > 1)
}

fn check_lengths(axes: &[AxisSpec], group: &[usize], problems: &Problems) {
    let first = &axes[group[0]];
    for other in group[1..].iter().map(|&at| &axes[at]) {
        let (have, need) = (other.values.len(), first.values.len());
        if have != need {
            let message = format!(
                "sweep, zip: \"{}\" has {need} values and \"{}\" has {have}; keys that move together \
                 need as many",
                first.key, other.key
            );
            problems.report(&other.location, message);
        }
    }
}

/// Whether the `--set` is about a swept key. Such a key then has this value alone, and the keys that
/// are swept together with it get the corresponding values.
fn fix(axes: &mut [AxisSpec], groups: &[Vec<usize>], o: &Assignment, problems: &Problems) -> bool {
    let Some(at) = axes.iter().position(|a| a.key == o.key) else { return false };
    let Some(group) = groups.iter().find(|group| group.contains(&at)) else {
        axes[at].values = vec![o.value.clone()];
        return true;
    };
    let wanted = o.value.plain();
    let is_wanted: Vec<bool> = axes[at].values.iter().map(|v| v.plain() == wanted).collect();
    if !is_wanted.contains(&true) {
        let known: Vec<String> = axes[at].values.iter().map(Value::plain).collect();
        let with: Vec<&str> = group
            .iter()
            .filter(|&&other| other != at)
            .map(|&other| axes[other].key.as_str())
            .collect();
        let message = format!(
            "\"{}\" moves together with \"{}\" and is one of: {}; another value needs --set \
             'sweep.KEY=[...]' for each of them",
            o.key,
            with.join("\", \""),
            known.join(", ")
        );
        problems.report(&o.value.location, message);
        return true;
    }
    for &at in group {
        let mut kept = is_wanted.iter();
        axes[at].values.retain(|_| *kept.next().expect("as many values"));
    }
    true
}

/// That no point comes twice: keys that move together may repeat a value, but not all of them at once.
fn check_distinct(axes: &[AxisSpec], groups: &[Vec<usize>], problems: &Problems) {
    let alone = (0..axes.len()).filter(|at| !groups.iter().any(|group| group.contains(at)));
    for group in groups.iter().cloned().chain(alone.map(|at| vec![at])) {
        let keys: Vec<&str> = group.iter().map(|&at| axes[at].key.as_str()).collect();
        let mut seen = BTreeSet::new();
        for (number, value) in axes[group[0]].values.iter().enumerate() {
            let texts: Vec<String> =
                group.iter().map(|&at| axes[at].values[number].plain()).collect();
            let text = texts.join("\", \"");
            if !seen.insert(texts) {
                let message =
                    format!("sweep of \"{}\": \"{text}\" comes twice", keys.join("\", \""));
                problems.report(&value.location, message);
            }
        }
    }
}
