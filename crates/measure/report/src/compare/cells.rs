// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs with the same parameters put together: only these are compared with one another.
//!
//! A run's parameters are its scenario's title, its variant, its method and the point of the sweep, without what is compared.
//! Values are equal if they are the same quantity, however it is written: `20ms` is `0.02s`.

use super::{
    compared_by::{ComparedBy, congestion_controls, variant},
    compared_runs::{ComparedRun, ComparedRuns, refuse},
};
use crate::Error;
use record::{manifest::short_key, repeats};
use std::collections::{BTreeMap, BTreeSet};
use units::{ValueKind, quantity};

const VARIANT: &str = "variant";

/// Names and values.
pub type Parameters = Vec<(String, String)>;

/// The runs of equal parameters.
pub struct Cell<'r> {
    pub parameters: Parameters,
    /// The runs of each side; empty for a side without such runs.
    pub sides: Vec<Vec<&'r ComparedRun>>,
}

/// A value by which runs are matched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Value {
    Quantity(ValueKind, u64),
    Text(String),
}

impl Value {
    fn of(text: &str) -> Self {
        // Texts such as "0.1% over 3" have more than the number.
        let whole = quantity(text).filter(|_| !text.contains(' '));
        whole.map_or_else(
            || Self::Text(text.to_owned()),
            |(kind, n)| Self::Quantity(kind, n.to_bits()),
        )
    }

    /// Its kind; none of a text, nor of a zero without a unit, which is of any.
    fn kind(&self) -> Option<ValueKind> {
        match self {
            Self::Quantity(ValueKind::Plain, zero) if f64::from_bits(*zero) == 0.0 => None,
            Self::Quantity(kind, _) => Some(*kind),
            Self::Text(_) => None,
        }
    }
}

/// The cells in which two sides or more have runs, and how many others there are.
///
/// # Errors
/// No two sides have equal parameters, a parameter has values of different units, or a side has one run.
pub fn common_cells(compared: &ComparedRuns) -> Result<(Vec<Cell<'_>>, usize), Error> {
    let all: Vec<Parameters> =
        compared.runs.iter().map(|run| parameters(run, compared.by)).collect();
    let follows = if compared.by == ComparedBy::CongestionControl {
        parameters_of_controls(&compared.runs, &all)
    } else {
        BTreeSet::new()
    };
    let without = |mut of_run: Parameters| {
        of_run.retain(|(name, _)| !follows.contains(name));
        of_run
    };
    let runs = compared.runs.iter().zip(all.into_iter().map(without)).collect::<Vec<_>>();
    check_units(&compared.sides, &runs)?;
    let key = |(_, parameters): &&(&ComparedRun, Parameters)| {
        parameters.iter().map(|(name, value)| (name.clone(), Value::of(value))).collect::<Vec<_>>()
    };
    let cells = repeats::group(&runs, key).into_iter().map(|(_, runs)| {
        let mut sides = vec![Vec::new(); compared.sides.len()];
        for (run, _) in &runs {
            sides[run.side].push(*run);
        }
        Cell { parameters: runs[0].1.clone(), sides }
    });
    let has_several =
        |cell: &Cell<'_>| cell.sides.iter().filter(|runs| !runs.is_empty()).count() > 1;
    let (common, others): (Vec<_>, Vec<_>) = cells.partition(has_several);
    if common.is_empty() {
        return refuse(no_common_text(compared, &runs));
    }
    check_repeats(&compared.sides, &common)?;
    Ok((common, others.len()))
}

fn parameters(run: &ComparedRun, by: ComparedBy) -> Parameters {
    let manifest = &run.results.manifest;
    let mut found = vec![("scenario".to_owned(), manifest.title.clone())];
    if by != ComparedBy::Variant {
        found.push((VARIANT.to_owned(), variant(manifest).to_owned()));
    }
    if by != ComparedBy::Method {
        found.push(("method".to_owned(), manifest.method.clone()));
    }
    let point =
        manifest.point.iter().map(|(key, value)| (short_key(key).to_owned(), value.clone()));
    found.extend(point);
    found
}

/// The parameters by which a scenario chooses the congestion controls: the variant, and keys whose values name them, where
/// each value goes with one control and each control with one value.
fn parameters_of_controls(runs: &[ComparedRun], all: &[Parameters]) -> BTreeSet<String> {
    let value = |of_run: &Parameters, name: &str| {
        of_run.iter().find(|(one, _)| one == name).map(|(_, value)| value.clone())
    };
    let names: BTreeSet<&String> = all.iter().flatten().map(|(name, _)| name).collect();
    let follows = |name: &String| {
        let (mut of_value, mut of_side) = (BTreeMap::new(), BTreeMap::new());
        let mut names_controls = true;
        let is_one_to_one = runs.iter().zip(all).all(|(run, of_run)| {
            let value = value(of_run, name);
            names_controls &= value.as_deref().is_some_and(|value| {
                congestion_controls(&run.results).split(" and ").any(|control| control == value)
            });
            *of_value.entry(value.clone()).or_insert(run.side) == run.side
                && *of_side.entry(run.side).or_insert_with(|| value.clone()) == value
        });
        is_one_to_one
            && (name == VARIANT || name.rsplit('.').next() == Some("cc") || names_controls)
    };
    names.into_iter().filter(|name| follows(name)).cloned().collect()
}

/// A parameter that is a time on one side and a size on the other has no common value.
fn check_units(sides: &[String], runs: &[(&ComparedRun, Parameters)]) -> Result<(), Error> {
    // Of each parameter and side, an example of each kind.
    let mut kinds: BTreeMap<&str, BTreeMap<usize, BTreeMap<ValueKind, &str>>> = BTreeMap::new();
    for (run, parameters) in runs {
        for (name, value) in
            parameters.iter().filter(|(name, _)| name != "scenario" && name != VARIANT)
        {
            if let Some(kind) = Value::of(value).kind() {
                kinds.entry(name).or_default().entry(run.side).or_default().insert(kind, value);
            }
        }
    }
    for (name, of_sides) in kinds {
        let mut rest = of_sides.iter();
        let Some((first, of_first)) = rest.next() else { continue };
        let other = rest.find(|(_, kinds)| kinds.keys().all(|kind| !of_first.contains_key(kind)));
        let Some((second, of_second)) = other else { continue };
        let example = |side: &usize, kinds: &BTreeMap<ValueKind, &str>| {
            let (kind, value) = kinds.first_key_value().map_or(("", ""), |(k, v)| (k.name(), *v));
            format!("{kind} for {} ({value})", sides[*side])
        };
        return refuse(format!(
            "the values of \"{name}\" have different units: {} and {}. Run both with the same unit",
            example(first, of_first),
            example(second, of_second)
        ));
    }
    Ok(())
}

fn check_repeats(sides: &[String], cells: &[Cell<'_>]) -> Result<(), Error> {
    for cell in cells {
        if let Some(side) = cell.sides.iter().position(|runs| runs.len() == 1) {
            let run = &cell.sides[side][0].results.manifest;
            return refuse(format!(
                "{} has one valid run, {}, at {}: a single run does not show what is chance. Repeat it: longhaul \
                 lab run SCENARIO --repeat 5",
                sides[side],
                run.id,
                text_of(&cell.parameters)
            ));
        }
    }
    Ok(())
}

/// Which parameters have no value that two sides share.
fn no_common_text(compared: &ComparedRuns, runs: &[(&ComparedRun, Parameters)]) -> String {
    let mut of_sides: BTreeMap<&str, BTreeMap<usize, &str>> = BTreeMap::new();
    let mut shared: BTreeMap<(&str, Value), BTreeSet<usize>> = BTreeMap::new();
    for (run, parameters) in runs {
        for (name, value) in parameters {
            of_sides.entry(name).or_default().entry(run.side).or_insert(value);
            shared.entry((name, Value::of(value))).or_default().insert(run.side);
        }
    }
    let has_shared =
        |name: &str| shared.iter().any(|((one, _), sides)| *one == name && sides.len() > 1);
    let differing = of_sides.iter().filter(|(name, _)| !has_shared(name)).map(|(name, values)| {
        let mut values =
            values.iter().map(|(side, v)| format!("{v} for {}", compared.sides[*side]));
        let examples: Vec<String> = values.by_ref().take(2).collect();
        format!("\"{name}\" is {}", examples.join(" and "))
    });
    let differing: Vec<String> = differing.take(3).collect();
    let why = if differing.is_empty() {
        "each value occurs on two sides, but no combination does".to_owned()
    } else {
        differing.join("; ")
    };
    let by = [("method", ComparedBy::Method), (VARIANT, ComparedBy::Variant)].into_iter();
    let mut by = by.filter(|(name, by)| {
        of_sides.get(name).is_some_and(|values| values.len() > 1)
            && !has_shared(name)
            && compared.by != *by
    });
    let remedy =
        by.next().map_or_else(String::new, |(_, by)| format!(", or compare --by {}", by.option()));
    format!(
        "no runs of two sides have the same parameters, so no difference has one cause: {why}. Run the same scenario and \
         sweep for each{remedy}"
    )
}

/// Parameters as one text.
pub fn text_of(parameters: &[(String, String)]) -> String {
    let pairs = parameters.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(", ")
}
