// SPDX-License-Identifier: GPL-2.0-or-later
//! Variants x points of the sweep x repeats: one concrete run for each.
//!
//! Repeats are outermost and variants innermost, so that what is compared runs close together and a
//! machine that drifts drifts for all alike.

use crate::{
    diagnostics::{Location, Problems},
    document::{Table, Value},
    keys, network,
    outline::{Outline, Overrides, VariantSpec},
    resolve::{self, Network},
    run::{Run, Setting},
    seeds,
    sweep::AxisSpec,
    vars::Vars,
};
use std::collections::HashMap;

/// More would be a mistyped sweep; a thousand runs of a minute each already take most of a day.
const MOST_RUNS: usize = 10_000;

/// Characters of a point in an id: with a variant's name and a suffix it still fits the 255 bytes of a
/// file's name.
const LONGEST_POINT: usize = 150;

/// Everything about a run that its repeats share.
struct PlannedRun<'o> {
    /// The parts of the run's id, without the repeat.
    id: Vec<String>,
    variant: Option<&'o VariantSpec>,
    point: Vec<Setting>,
    network: Network,
}

/// All runs in the order in which they should run; whatever is wrong goes to `problems`.
pub(crate) fn expand(
    root: &Table,
    outline: &Outline,
    overrides: &Overrides,
    file: &Location,
    problems: &Problems,
) -> Vec<Run> {
    let variants: Vec<Option<&VariantSpec>> = match outline.variants.as_slice() {
        [] => vec![None],
        variants => variants.iter().map(Some).collect(),
    };
    let count = run_count(outline, variants.len());
    if count.is_none_or(|count| count > MOST_RUNS) {
        let count = count.map_or_else(|| format!("more than {}", usize::MAX), |n| n.to_string());
        let message = format!(
            "this makes {count} runs (variants x sweep x repeats); {MOST_RUNS} is the maximum"
        );
        problems.report(file, message);
        return Vec::new();
    }
    let labels = labels(&outline.axes);
    let mut planned_runs = Vec::new();
    for (number, choice) in points(&outline.axes).into_iter().enumerate() {
        for &variant in &variants {
            let tree = tree(root, variant, &outline.axes, &choice, overrides, problems);
            let network = network::read(&tree, file, problems)
                .and_then(|spec| resolve::resolve(spec, file, problems));
            if problems.is_full() {
                return Vec::new();
            }
            let Some(network) = network else { continue };
            let id = id(variant, pick(&labels, &choice), number);
            planned_runs.push(PlannedRun {
                id,
                variant,
                point: point(&outline.axes, &choice),
                network,
            });
        }
    }
    let run =
        |repeat| planned_runs.iter().map(move |planned_run| run(outline, planned_run, repeat));
    (1..=outline.repeat).flat_map(run).collect()
}

/// None where a machine word can't hold it.
fn run_count(outline: &Outline, variants: usize) -> Option<usize> {
    let free = outline.axes.iter().filter(|axis| axis.moves_with.is_none());
    let mut factors = free.map(|axis| axis.values.len()).chain([variants, outline.repeat as usize]);
    factors.try_fold(1, usize::checked_mul)
}

/// The parts of an id, without the repeat. A point too long to spell in a file's name has a number.
fn id<'l>(
    variant: Option<&VariantSpec>,
    labels: impl Iterator<Item = &'l String> + Clone,
    number: usize,
) -> Vec<String> {
    let variant = variant.map(|w| w.variant.name.clone()).into_iter();
    if labels.clone().map(String::len).sum::<usize>() > LONGEST_POINT {
        return variant.chain([format!("p{:04}", number + 1)]).collect();
    }
    variant.chain(labels.cloned()).collect()
}

/// The points of the grid: for each axis the number of a value; the last axis changes fastest. Axes that
/// move together stand where the first of them does.
fn points(axes: &[AxisSpec]) -> Vec<Vec<usize>> {
    axes.iter().fold(vec![Vec::new()], |points, axis| {
        let extended = |point: Vec<usize>| {
            let values = match axis.moves_with {
                Some(first) => point[first]..point[first] + 1,
                None => 0..axis.values.len(),
            };
            values.map(move |value| [point.as_slice(), &[value]].concat())
        };
        points.into_iter().flat_map(extended).collect()
    })
}

/// What each axis holds at a point.
fn pick<'a, T>(axes: &'a [Vec<T>], choice: &'a [usize]) -> impl Iterator<Item = &'a T> + Clone {
    axes.iter().zip(choice).map(|(values, &at)| &values[at])
}

fn point(axes: &[AxisSpec], choice: &[usize]) -> Vec<Setting> {
    let setting = |(axis, &at): (&AxisSpec, &usize)| Setting {
        key: axis.key.clone(),
        value: axis.values[at].plain(),
    };
    axes.iter().zip(choice).map(setting).collect()
}

/// The file's tree as changed by the variant, the point and the overrides, in this order.
fn tree(
    root: &Table,
    variant: Option<&VariantSpec>,
    axes: &[AxisSpec],
    choice: &[usize],
    overrides: &Overrides,
    problems: &Problems,
) -> Table {
    let mut tree = root.clone();
    let mut assign = |key: &str, value: &Value| {
        if let Err(message) = keys::assign(&mut tree, key, value) {
            problems.report(&value.location, message);
        }
    };
    variant.iter().flat_map(|w| &w.set).for_each(|a| assign(&a.key, &a.value));
    axes.iter().zip(choice).for_each(|(axis, &at)| assign(&axis.key, &axis.values[at]));
    overrides.0.iter().for_each(|o| assign(&o.key, &o.value));

    let vars = tree.get("vars").and_then(Value::as_table).cloned();
    let mut vars = Vars::new(vars.as_ref(), problems);
    for key in network::SECTIONS.into_iter().chain(keys::RUN_KEYS) {
        if let Some(value) = tree.get_mut(key) {
            vars.fill(value);
        }
    }
    tree
}

fn run(outline: &Outline, planned_run: &PlannedRun<'_>, repeat: u32) -> Run {
    let PlannedRun { id, variant, point, network } = planned_run;
    let variant = variant.map(|w| w.variant.clone());
    let applies = |at: &[Setting]| at.iter().all(|s| point.contains(s));
    let references = outline.references.iter();
    let seed = seeds::seed(network.seed, repeat);
    // The first is the scenario as written: so it stays the same when repeats are added.
    let varies = outline.vary && repeat > 1;
    Run {
        id: [id.as_slice(), &[format!("r{repeat:02}")]].concat().join(","),
        title: outline.title.clone(),
        source: outline.source.clone(),
        baseline: outline.baseline.clone(),
        point: point.clone(),
        repeat,
        seed,
        timeout: network.timeout,
        duration: network.duration,
        sample: network.sample,
        tcp: network.tcp.clone(),
        congestion: network.congestion.clone(),
        pacing: network.pacing,
        bottlenecks: network.bottlenecks.clone(),
        events: network.events.clone(),
        family: network.family,
        nodes: network.nodes.clone(),
        links: network.links.iter().map(|l| l.drawn(seed, varies)).collect(),
        flows: network.flows.iter().map(|f| f.drawn(seed, varies)).collect(),
        traffic: network.traffic.iter().map(|t| t.drawn(seed, varies)).collect(),
        references: references
            .filter(|r| variant.as_ref().is_some_and(|w| w.name == r.variant) && applies(&r.at))
            .cloned()
            .collect(),
        variant,
    }
}

/// For each axis and value the part of an id, `rtt=90ms`: the last part of the key where that
/// tells the axes apart, and the value in characters that no file system, shell or URL minds.
fn labels(axes: &[AxisSpec]) -> Vec<Vec<String>> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let short_name = |axis: &AxisSpec| {
        let short = last(&axis.key);
        let alone = axes.iter().filter(|a| last(&a.key) == short).count() == 1;
        file_safe(if alone { &short } else { &axis.key })
    };
    let of_axis = |axis: &AxisSpec| {
        let mut seen: HashMap<String, String> = HashMap::new();
        let label = |(at, value): (usize, &Value)| {
            let label = format!("{}={}", short_name(axis), file_safe(&value.plain()));
            // Different values may look alike once made safe or cut: number those.
            let same = seen.entry(label.clone()).or_insert_with(|| value.plain());
            if *same == value.plain() { label } else { format!("{label}~{}", at + 1) }
        };
        axis.values.iter().enumerate().map(label).collect()
    };
    axes.iter().map(of_axis).collect()
}

/// At most 24 characters of letters, digits, `.`, `-`, `_` and `+`; a `%` becomes `pct`.
fn file_safe(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' | '_' | '+' => safe.push(c),
            '%' => safe += "pct",
            _ if !safe.ends_with('-') => safe.push('-'),
            _ => {}
        }
    }
    safe.truncate(24);
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_safe_for_files() {
        assert_eq!(file_safe("0.1% over 3"), "0.1pct-over-3");
        assert_eq!(file_safe("depot2 + depot1"), "depot2-+-depot1");
        assert_eq!(file_safe("../ü"), "..-");
    }
}
