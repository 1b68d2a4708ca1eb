// SPDX-License-Identifier: GPL-2.0-or-later
//! What belongs to the scenario as a whole: title, repeats, variants, the sweep (`sweep`) and the
//! references. The rest of the tree is read once for each variant (`network`).

use crate::{
    diagnostics::{Location, Problems},
    document::{self, Table, Value},
    fields::{Field, Fields, Located, Mismatch, Name, Whole, from_text},
    keys::{self, Assignment},
    network,
    resolve::unique,
    run::{Reference, Setting, Variant},
    sweep::{self, AxisSpec, Sweep},
};
use units::suggest::hint;

/// The scenario without its network.
#[derive(Debug)]
pub(crate) struct Outline {
    pub title: String,
    pub source: Option<String>,
    pub baseline: Option<String>,
    pub repeat: u32,
    pub vary: bool,
    pub variants: Vec<VariantSpec>,
    pub axes: Vec<AxisSpec>,
    pub references: Vec<Reference>,
}

/// A variant and what it changes.
#[derive(Debug)]
pub(crate) struct VariantSpec {
    pub location: Location,
    pub variant: Variant,
    pub set: Vec<Assignment>,
}

/// The `--set`s that are not about the sweep: they go into every variant, last of all.
#[derive(Debug)]
pub(crate) struct Overrides(pub Vec<Assignment>);

/// Reads the outline and applies the overrides to `root`.
pub(crate) fn read(
    root: &mut Table,
    overrides: &[impl AsRef<str>],
    file: &Location,
    problems: &Problems,
) -> Option<(Outline, Overrides)> {
    let overrides: Vec<_> =
        overrides.iter().filter_map(|text| parse_override(text.as_ref(), problems)).collect();
    let Sweep { axes, is_sound, others: overrides } = sweep::read(root, overrides, problems);
    for o in &overrides {
        if let Err(message) = keys::assign(root, &o.key, &o.value) {
            problems.report(&o.value.location, message);
        }
    }

    let mut top = Fields::new(root, file.clone(), String::new(), problems);
    let title: Option<String> = top.required("title");
    let source = top.optional("source");
    let baseline: Option<Located<Name>> = top.optional("baseline");
    let repeat = top.or("repeat", Whole::<1, 1000>(1)).0 as u32;
    let vary = top.or("vary", true);
    let variants = variants(&mut top, problems);
    let references = references(&mut top, &variants, is_sound.then_some(axes.as_slice()), problems);
    check_vars(&mut top);
    top.allow(&["sweep"]);
    top.allow(&keys::RUN_KEYS);
    top.allow(&network::SECTIONS);
    top.finish();

    match &baseline {
        Some(Located { location, value: Name(name) }) => {
            known_variant(name, location, "baseline", &variants, problems);
        }
        None if !references.is_empty() => {
            problems.report(file, "\"baseline\" is missing: references compare with that variant");
        }
        None => {}
    }
    let baseline = baseline.map(|b| b.value.0);
    Some((
        Outline { title: title?, source, baseline, repeat, vary, variants, axes, references },
        Overrides(overrides),
    ))
}

fn parse_override(text: &str, problems: &Problems) -> Option<Assignment> {
    let location = Location::Override(text.into());
    let Some((key, value)) = text.split_once('=') else {
        problems.report(&location, "key=value is expected, as in vars.rtt=50ms");
        return None;
    };
    let value = document::parse_override(value.trim(), &location);
    Some(Assignment { key: key.trim().to_owned(), value })
}

/// Refuses a key that is the same for all runs.
pub(crate) fn belongs_to_a_run(key: &str, location: &Location, how: &str, problems: &Problems) {
    if keys::SCENARIO_KEYS.contains(&key) {
        let message = format!("\"{key}\" is the same for all runs and can't be {how}");
        problems.report(location, message);
    }
}

fn variants(top: &mut Fields<'_>, problems: &Problems) -> Vec<VariantSpec> {
    let read = |mut fields: Fields<'_>| {
        let name: Option<Name> = fields.required("name");
        let label: Option<String> = fields.optional("label");
        let set = fields.section("set").map(|set| keys::assignments(set.table()));
        let location = fields.location().clone();
        fields.finish();
        let set = set.unwrap_or_default();
        for a in &set {
            belongs_to_a_run(&a.key, &a.value.location, "set by a variant", problems);
        }
        let name = name?.0;
        let label = label.unwrap_or_else(|| name.clone());
        Some(VariantSpec { location, variant: Variant { name, label }, set })
    };
    let variants: Vec<VariantSpec> = top.sections("variant").into_iter().filter_map(read).collect();
    unique("variant", variants.iter().map(|w| (&w.location, w.variant.name.as_str())), problems);
    variants
}

fn known_variant(
    name: &str,
    location: &Location,
    what: &str,
    variants: &[VariantSpec],
    problems: &Problems,
) {
    let names = variants.iter().map(|w| w.variant.name.as_str());
    if !names.clone().any(|n| n == name) {
        let hint = hint(name, names);
        problems.report(location, format!("{what}: there is no variant \"{name}\"{hint}"));
    }
}

fn references(
    top: &mut Fields<'_>,
    variants: &[VariantSpec],
    axes: Option<&[AxisSpec]>,
    problems: &Problems,
) -> Vec<Reference> {
    let read = |mut fields: Fields<'_>| {
        let variant: Option<Located<Name>> = fields.required("variant");
        let gain: Option<Gain> = fields.required("gain");
        let note: Option<String> = fields.optional("note");
        let at = fields.section("at").map(|at| keys::assignments(at.table())).unwrap_or_default();
        fields.finish();
        if let Some(axes) = axes {
            for a in &at {
                check_point(a, axes, problems);
            }
        }
        let Located { location, value: Name(variant) } = variant?;
        known_variant(&variant, &location, "reference", variants, problems);
        let setting = |a: Assignment| Setting { value: a.value.plain(), key: a.key };
        Some(Reference {
            variant,
            at: at.into_iter().map(setting).collect(),
            gain: gain?.0,
            note: note.unwrap_or_default(),
        })
    };
    top.sections("reference").into_iter().filter_map(read).collect()
}

fn check_point(at: &Assignment, axes: &[AxisSpec], problems: &Problems) {
    let Assignment { key, value } = at;
    let text = value.plain();
    let message = match axes.iter().find(|a| a.key == *key) {
        None => {
            let hint = hint(key, axes.iter().map(|a| a.key.as_str()));
            format!("reference: \"{key}\" is not swept{hint}")
        }
        Some(axis) if !axis.in_file.contains(&text) => {
            let known = axis.in_file.join(", ");
            format!("reference: \"{text}\" is none of the values of \"{key}\": {known}")
        }
        Some(_) => return,
    };
    problems.report(&value.location, message);
}

/// Variables are texts, numbers or truth values, and their names fit between `${` and `}` and after `vars.`.
fn check_vars(top: &mut Fields<'_>) {
    let Some(vars) = top.section("vars") else { return };
    for entry in vars.table().entries() {
        let is_name = !entry.key.is_empty()
            && entry.key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        if !is_name {
            let message = format!("\"{}\" is not a name of letters, digits, _ and -", entry.key);
            vars.report(&entry.location, &message);
        }
        if entry.value.as_variable().is_none() {
            let found = entry.value.describe();
            vars.report(&entry.value.location, &format!("{}: {found} is not a text", entry.key));
        }
    }
}

/// A ratio of goodputs.
struct Gain(f64);

impl Field for Gain {
    const EXPECTED: &'static str = "a ratio of goodputs above zero, as in 2.5";
    fn read(value: &Value) -> Result<Self, Mismatch> {
        from_text(value, Self::EXPECTED, |text| {
            text.parse().ok().filter(|g: &f64| g.is_finite() && *g > 0.0).map(Self)
        })
    }
}
