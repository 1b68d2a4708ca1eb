// SPDX-License-Identifier: GPL-2.0-or-later
//! `rate` as a table: steps, or a trace from a file.

use super::values::PositiveDuration;
use crate::{
    diagnostics::Location,
    document::{Data, Value},
    fields::{Field, Fields, Mismatch, mismatch},
    run::ChangingRate,
};
use netmodel::{DeliveryOpportunities, RateOverTimeError, RateSteps};
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};
use units::{Duration, Rate};

/// The largest trace, in bytes: what a run is said to be has it whole.
const LARGEST: u64 = 4 << 20;
/// The most entries of a trace.
const MOST_ENTRIES: usize = 500_000;

/// The rate of a direction and, where it changes, how.
pub(super) fn rate(fields: &mut Fields<'_>) -> (Option<Rate>, Option<ChangingRate>) {
    if fields.raw("rate").is_none_or(|v| !matches!(v.data, Data::Table(_))) {
        return (fields.optional("rate"), None);
    }
    let Some(mut keys) = fields.section("rate") else { return (None, None) };
    let file = |value: &Value, text: &str| from_scenario(&value.location, text);
    let (steps, csv, mahimahi) = (keys.raw("steps"), keys.raw("csv"), keys.raw("mahimahi"));
    let repeats = keys.optional::<PositiveDuration>("repeat").map(|repeats| repeats.0);
    let hold = keys.or("hold", false);
    let read = match (steps, csv, mahimahi) {
        (Some(value), None, None) => keys
            .optional::<Vec<Step>>("steps")
            .map(|steps| made(value, of_steps(steps.into_iter().map(|s| (s.0, s.1)), repeats))),
        (None, Some(value), None) => keys.optional::<String>("csv").map(|text| {
            if repeats.is_none() && !hold {
                let message = "a trace ends: give \"repeat\" (after what time it begins again), or \"hold = true\" \
                               (the last rate stays)";
                return Err((value.location.clone(), message.to_owned()));
            }
            let path = file(value, &text);
            csv_trace(&path, repeats).map_err(|error| (value.location.clone(), error))
        }),
        (None, None, Some(value)) => keys.optional::<String>("mahimahi").map(|text| {
            mahimahi_trace(&file(value, &text)).map_err(|error| (value.location.clone(), error))
        }),
        _ => {
            keys.report(keys.location(), "exactly one of steps, csv, mahimahi is expected");
            None
        }
    };
    let rate = read
        .and_then(|read| read.map_err(|(location, message)| keys.report(&location, &message)).ok());
    keys.finish();
    (rate.as_ref().map(|rate| rate.model().nominal()), rate)
}

/// `["10s", "50mbit"]`.
struct Step(Duration, Rate);

impl Field for Step {
    const EXPECTED: &'static str = "a list of a time and a rate, as in [\"10s\", \"50mbit\"]";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        match &value.data {
            Data::List(pair) if pair.len() == 2 => {
                Ok(Self(Duration::read(&pair[0])?, Rate::read(&pair[1])?))
            }
            _ => Err(mismatch(value, Self::EXPECTED)),
        }
    }
}

fn of_steps(
    steps: impl Iterator<Item = (Duration, Rate)>,
    repeats: Option<Duration>,
) -> Result<ChangingRate, RateOverTimeError> {
    RateSteps::new(steps.collect(), repeats).map(ChangingRate::Steps)
}

fn made(
    value: &Value,
    rate: Result<ChangingRate, RateOverTimeError>,
) -> Result<ChangingRate, Mismatch> {
    rate.map_err(|error| (value.location.clone(), error.to_string()))
}

/// A path as the file that names it means it: beside that file.
fn from_scenario(location: &Location, text: &str) -> PathBuf {
    let file = match location {
        Location::File(file) | Location::Line { file, .. } => Path::new(&**file),
        Location::Override(_) => Path::new(""),
    };
    file.parent().unwrap_or(Path::new("")).join(text)
}

/// The lines of a trace that say something, with their numbers.
fn lines(path: &Path, text: &str) -> Result<Vec<(usize, String)>, String> {
    let lines: Vec<_> = (1..)
        .zip(text.lines())
        .map(|(number, line)| (number, line.trim().to_owned()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect();
    match lines.len() {
        0 => Err(format!("{} is empty", path.display())),
        n if n > MOST_ENTRIES => {
            Err(format!("{} has more than {MOST_ENTRIES} entries", path.display()))
        }
        _ => Ok(lines),
    }
}

fn text(path: &Path) -> Result<String, String> {
    let failed = |error| format!("{} can't be read: {error}", path.display());
    let file = File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LARGEST {
        return Err(format!("{} has more than {} MB", path.display(), LARGEST >> 20));
    }
    Ok(text)
}

/// The problem with one of its entries, with the line that it is on.
///
/// `of_earlier` says what a time must not be in this kind of trace.
fn at_line(
    path: &Path,
    lines: &[(usize, String)],
    error: RateOverTimeError,
    of_earlier: &str,
) -> String {
    let entry = match error {
        RateOverTimeError::Backwards(entry) | RateOverTimeError::NoRate(entry) => entry,
        _ => 1,
    };
    let line = lines.get(entry - 1).map_or(1, |(number, _)| *number);
    let what = match error {
        RateOverTimeError::Backwards(_) => {
            format!("its time is {of_earlier} that of the line above")
        }
        RateOverTimeError::NoRate(_) => {
            "a rate of 0: \"outages\" says when nothing passes".to_owned()
        }
        other => other.to_string(),
    };
    format!("{}:{line}: {what}", path.display())
}

/// Lines of seconds and bits a second; a heading may come first.
fn csv_trace(path: &Path, repeats: Option<Duration>) -> Result<ChangingRate, String> {
    let mut lines = lines(path, &text(path)?)?;
    let read = |line: &str| {
        let (seconds, rate) = line.split_once(',')?;
        let seconds: f64 = seconds.trim().parse().ok().filter(|s| (0.0..1e9).contains(s))?;
        let rate = rate.trim();
        let bps = rate.parse::<u64>().map(Rate::bits_per_second);
        let rate = bps.ok().or_else(|| rate.parse().ok())?;
        Some((Duration::from_nanos((seconds * 1e9).round() as u64), rate))
    };
    if lines.len() > 1
        && read(&lines[0].1).is_none()
        && lines[0].1.contains(|c: char| c.is_alphabetic())
    {
        lines.remove(0);
    }
    let steps = lines.iter().map(|(number, line)| {
        read(line).ok_or_else(|| {
            format!(
                "{}:{number}: \"{line}\" is not a time in seconds, a comma and a rate, as in 0.5,20000000 or \
                 0.5,20mbit",
                path.display()
            )
        })
    });
    let steps = steps.collect::<Result<Vec<_>, _>>()?;
    of_steps(steps.into_iter(), repeats)
        .map_err(|error| at_line(path, &lines, error, "before, or the same as,"))
}

/// Lines of milliseconds, each an opportunity for 1500 bytes.
fn mahimahi_trace(path: &Path) -> Result<ChangingRate, String> {
    let lines = lines(path, &text(path)?)?;
    let millis = lines.iter().map(|(number, line)| {
        line.parse::<u32>().map_err(|_| {
            format!(
                "{}:{number}: \"{line}\" is not a number of milliseconds: each line of a mahimahi trace is one",
                path.display()
            )
        })
    });
    let millis = millis.collect::<Result<Vec<_>, _>>()?;
    DeliveryOpportunities::new(millis)
        .map(ChangingRate::Opportunities)
        .map_err(|error| at_line(path, &lines, error, "before"))
}
