// SPDX-License-Identifier: GPL-2.0-or-later
//! The runs that are compared: each is on one side, and each record is read once.

use super::compared_by::ComparedBy;
use crate::{
    Error,
    distinct::distinct,
    metrics_table::entities::{self, Row},
    warm_up,
};
use record::{Record, RunResults};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// As many sides have colours of their own.
const MOST_SIDES: usize = 9;

/// The valid runs and their sides.
pub struct ComparedRuns {
    pub by: ComparedBy,
    /// The names of the sides, in the order in which they first come.
    pub sides: Vec<String>,
    pub runs: Vec<ComparedRun>,
    /// Runs that medians leave out.
    pub left_out: usize,
}

/// A valid run.
pub struct ComparedRun {
    /// Which of the sides it is on.
    pub side: usize,
    pub folder: PathBuf,
    pub results: RunResults,
    /// Its metrics that count.
    pub rows: Vec<Row>,
}

/// A record and which of the directories it is from.
type Found = (usize, PathBuf, RunResults);

impl ComparedRuns {
    /// Reads all records at and below these directories.
    ///
    /// # Errors
    /// A directory has no record, one record is below two of them, one cannot be read, there are not two to nine sides, or all
    /// runs ended in the first `warm_up_s` seconds, which are left out.
    pub fn read(
        dirs: &[PathBuf],
        asked: Option<ComparedBy>,
        warm_up_s: f64,
    ) -> Result<Self, Error> {
        let found = find(dirs)?;
        let all = found.len();
        let is_valid = |(_, _, run): &Found| run.verdict().in_medians();
        let valid: Vec<Found> = found.into_iter().filter(is_valid).collect();
        if valid.is_empty() {
            return refuse(format!(
                "none of the {all} records is of a valid run: there is nothing to compare. `longhaul report DIR` \
                 shows why each run does not count"
            ));
        }
        warm_up::check(valid.iter().map(|(_, _, run)| &run.summary), warm_up_s)?;
        let names = directory_names(dirs);
        let by = asked.unwrap_or_else(|| choose(dirs, &valid));
        let name_of = |(dir, _, run): &Found| by.name_of(run, &names[*dir]);
        let of_runs: Vec<String> = valid.iter().map(name_of).collect();
        let sides = distinct(of_runs.iter());
        check_sides(by, &sides, dirs)?;
        let runs = valid.into_iter().zip(of_runs).map(|((_, folder, results), name)| {
            let side = sides.iter().position(|side| *side == name).unwrap_or_default();
            let mut rows = entities::rows_of_record(&folder, &results, warm_up_s)?;
            rows.retain(Row::is_counted);
            Ok(ComparedRun { side, folder, results, rows })
        });
        let runs = runs.collect::<Result<Vec<_>, Error>>()?;
        Ok(Self { by, left_out: all - runs.len(), sides, runs })
    }
}

fn find(dirs: &[PathBuf]) -> Result<Vec<Found>, Error> {
    let (mut found, mut seen) = (Vec::new(), BTreeMap::<PathBuf, &Path>::new());
    for (index, dir) in dirs.iter().enumerate() {
        let folders = record::find_records(dir)?;
        if folders.is_empty() {
            return refuse(format!(
                "there is no record at or below {}: it is not a directory that `longhaul lab run --out` wrote. Name one \
                 that is",
                dir.display()
            ));
        }
        for folder in folders {
            let place = folder.canonicalize().unwrap_or_else(|_| folder.clone());
            if let Some(other) = seen.insert(place, dir) {
                return refuse(format!(
                    "the record {} is named twice, by {} and by {}: a run cannot be compared with itself. Name each \
                     directory once, and none below another",
                    folder.display(),
                    other.display(),
                    dir.display()
                ));
            }
            let results = Record::results(&folder)?;
            found.push((index, folder, results));
        }
    }
    Ok(found)
}

/// Directories if there are several, otherwise the first thing that differs between the runs.
fn choose(dirs: &[PathBuf], runs: &[Found]) -> ComparedBy {
    let differs = |by: &ComparedBy| {
        let mut names = runs.iter().map(|(_, _, run)| by.name_of(run, ""));
        let first = names.next();
        names.any(|name| Some(name) != first)
    };
    let one = ComparedBy::OF_RUNS.into_iter().find(|by| dirs.len() == 1 && differs(by));
    one.unwrap_or(ComparedBy::Directory)
}

/// The last part of each path, or all of it where these are not distinct.
fn directory_names(dirs: &[PathBuf]) -> Vec<String> {
    let last = |dir: &PathBuf| Some(dir.file_name()?.to_string_lossy().into_owned());
    let short: Option<Vec<String>> = dirs.iter().map(last).collect();
    let short = short.filter(|names| distinct(names.iter()).len() == names.len());
    short.unwrap_or_else(|| dirs.iter().map(|dir| dir.display().to_string()).collect())
}

fn check_sides(by: ComparedBy, sides: &[String], dirs: &[PathBuf]) -> Result<(), Error> {
    match (sides, dirs) {
        ([_], [_]) if by == ComparedBy::Directory => refuse(
            "all runs have the same variant, congestion control, method and version: there is nothing to compare. Name \
             another directory"
                .to_owned(),
        ),
        ([one], _) if by == ComparedBy::Directory => {
            refuse(format!("only {one} has valid runs: there is nothing to compare it with"))
        }
        ([one], _) => refuse(format!(
            "all runs are of one {}, {one}: there is nothing to compare. Name more directories, or choose something \
             else with --by",
            by.name()
        )),
        _ if sides.len() > MOST_SIDES => refuse(format!(
            "there are {} to compare by {}, and {MOST_SIDES} at most have colours of their own. Name directories with \
             fewer",
            sides.len(),
            by.name()
        )),
        _ => Ok(()),
    }
}

pub(super) fn refuse<T>(text: String) -> Result<T, Error> {
    Err(Error::Comparison(text))
}
