// SPDX-License-Identifier: GPL-2.0-or-later
//! The runs of a figure over time: those below some folders, in their order, and what each is called.

use crate::{Error, distinct::distinct, swept_value::compare_points};
use record::{Manifest, Record, RunResults, manifest::short_key};
use std::path::PathBuf;

/// The records at and below the folders, in this order; in a folder by the point, and the baseline first. There is one at
/// least.
///
/// # Errors
/// One of the folders has no record, one cannot be read, or they are of several scenarios.
pub fn ordered_runs(dirs: &[PathBuf]) -> Result<Vec<(PathBuf, RunResults)>, Error> {
    let mut found: Vec<(PathBuf, RunResults)> = Vec::new();
    for dir in dirs {
        let folders = record::find_records(dir)?;
        if folders.is_empty() {
            return Err(Error::Empty(dir.clone()));
        }
        let read = |dir: PathBuf| {
            let results = Record::results(&dir)?;
            Ok::<_, Error>((dir, results))
        };
        let mut here = folders.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        here.sort_by(|(_, a), (_, b)| {
            let (a, b) = (&a.manifest, &b.manifest);
            let other = |run: &Manifest| {
                run.variant.as_ref().map(|variant| &variant.name) != run.baseline.as_ref()
            };
            compare_points(&a.point, &b.point).then(other(a).cmp(&other(b)))
        });
        found.extend(here);
    }
    if found.is_empty() {
        return Err(Error::Figure("no folder is named".to_owned()));
    }
    check_one_scenario(found.iter().map(|(_, results)| results))?;
    Ok(found)
}

/// A figure is of one scenario.
pub fn check_one_scenario<'r>(runs: impl IntoIterator<Item = &'r RunResults>) -> Result<(), Error> {
    let mut titles = runs.into_iter().map(|results| &results.manifest.title);
    let Some(first) = titles.next() else { return Ok(()) };
    titles.find(|title| *title != first).map_or(Ok(()), |other| {
        Err(Error::Figure(format!(
            "these are records of several scenarios, \"{first}\" and \"{other}\"; name the folder of one"
        )))
    })
}

/// What each run is called: its variant, and what the runs differ in.
pub fn run_labels(runs: &[&Manifest]) -> Vec<String> {
    let several_methods = distinct(runs.iter().map(|run| &run.method)).len() > 1;
    let several_repeats = distinct(runs.iter().map(|run| &run.repeat)).len() > 1;
    let varies = |pair: &&(String, String)| !runs.iter().all(|run| run.point.contains(pair));
    let label = |run: &&Manifest| {
        let mut parts: Vec<String> =
            run.variant.iter().map(|variant| variant.label.clone()).collect();
        let point = run.point.iter().filter(varies);
        parts.extend(point.map(|(key, value)| format!("{} {value}", short_key(key))));
        if several_methods {
            parts.push(run.method.clone());
        }
        if several_repeats {
            parts.push(format!("repeat {}", run.repeat));
        }
        if parts.is_empty() { run.id.clone() } else { parts.join(", ") }
    };
    runs.iter().map(label).collect()
}

/// What stands above a run, or above several that are drawn together.
pub fn heading(label: &str, counts: bool) -> String {
    format!("{label}{}", if counts { "" } else { " (does not count)" })
}
