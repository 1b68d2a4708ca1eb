// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab archive`, and what differs when the runs of an archive are made again.

use crate::{failure::Failure, text_table::TextTable};
use ::report::format;
use clap::Args;
use experiment::{
    Method,
    archive::{self, Description},
};
use record::{
    RunResults,
    repeats::{self, RepeatKey},
    stats::{self, two_samples},
};
use serde::Serialize;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

const EXAMPLES: &str = "\
Examples:
  longhaul lab archive out/demo
  longhaul lab archive out/demo demo.crate.zip --license https://creativecommons.org/licenses/by/4.0/";

/// Put all records of a scenario into one file, for others.
///
/// It is a zip file in the form of a Process Run Crate: ro-crate-metadata.json says what it holds and how that was made. `longhaul
/// lab run FILE` makes the runs again and says what differs.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ArchiveArgs {
    /// Directory with records, as given to `lab run --out`
    directory: PathBuf,
    /// The file [default: the directory's name with .crate.zip, next to it]
    file: Option<PathBuf>,
    /// Licence of the records: its https address, or a text
    #[arg(long, value_name = "LICENCE")]
    license: Option<String>,
}

pub fn archive(args: ArchiveArgs, methods: &[&dyn Method]) -> Result<(), Failure> {
    let ArchiveArgs { directory, file, license } = args;
    let directory: PathBuf = directory.components().collect();
    let file = file.unwrap_or_else(|| {
        let name = directory.file_name().unwrap_or("records".as_ref()).to_string_lossy();
        directory.with_file_name(format!("{name}.crate.zip"))
    });
    let program = std::env::current_exe().ok();
    let sources = methods.iter().map(|method| method.source_hash().to_owned()).collect();
    let description = Description { license, program, sources };
    let records = archive::write(&directory, &file, &description)?;
    errln!("{records} records in {}", file.display());
    Ok(())
}

/// What differs between records of an archive and those made again.
#[derive(Debug, PartialEq, Serialize)]
pub struct Differences {
    /// Programs and machines.
    environment: Vec<String>,
    /// Results, by what repeats share.
    results: Vec<CellDifference>,
}

#[derive(Debug, PartialEq, Serialize)]
struct CellDifference {
    method: String,
    variant: Option<String>,
    point: record::manifest::Point,
    /// Mean goodput of the archive's runs, and of those now.
    then_bps: Option<f64>,
    now_bps: Option<f64>,
    /// Whether the results are equal to the last digit.
    identical: bool,
    /// The probability of such a difference or a larger one by chance, by Welch's test; null where it cannot be told.
    p: Option<f64>,
}

impl Differences {
    pub fn between(then: &[RunResults], now: &[RunResults]) -> Self {
        Self { environment: environment(then, now), results: results(then, now) }
    }

    pub fn text(&self) -> String {
        let mut text = self.environment.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        let mut table = TextTable::default();
        table.left("variant", 20);
        table.right("then", 10);
        table.right("now", 10);
        table.right("now/then", 8);
        for cell in &self.results {
            let rate = |bps: Option<f64>| bps.map_or_else(|| "-".to_owned(), format::rate);
            let ratio = cell.then_bps.zip(cell.now_bps).map(|(then, now)| now / then);
            let point = cell.point.iter().map(|(key, value)| format!(" {key}={value}"));
            let name = cell.variant.clone().unwrap_or_else(|| "all".to_owned());
            let remark = match cell.p {
                _ if cell.identical => "  identical".to_owned(),
                Some(p) => format!("  p {p:.3}"),
                None => String::new(),
            };
            let cells = vec![
                name + &point.collect::<String>(),
                rate(cell.then_bps),
                rate(cell.now_bps),
                ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
            ];
            table.row(cells, remark);
        }
        text += &table.text();
        text
    }
}

fn environment(then: &[RunResults], now: &[RunResults]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut compare = |what: &str, of: &dyn Fn(&RunResults) -> Vec<String>| {
        let all =
            |records: &[RunResults]| -> BTreeSet<String> { records.iter().flat_map(of).collect() };
        let (before, after) = (all(then), all(now));
        if before != after {
            let text = |all: BTreeSet<String>| match all.len() {
                0 => "unknown".to_owned(),
                _ => all.into_iter().collect::<Vec<_>>().join(", "),
            };
            lines.push(format!("{what}: {}, was {}", text(after), text(before)));
        }
    };
    let short = |hash: &String| hash.chars().take(12).collect::<String>();
    compare("longhaul's sources", &|it| it.manifest.sources.iter().map(short).collect());
    compare("programs", &|it| {
        it.manifest.versions.iter().map(|(name, version)| format!("{name} {version}")).collect()
    });
    compare("kernel", &|it| it.manifest.machine.iter().map(|it| it.kernel.clone()).collect());
    compare("processor", &|it| {
        it.manifest.machine.iter().map(|it| format!("{} x {}", it.cores, it.cpu)).collect()
    });
    compare("method", &|it| vec![it.manifest.method.clone()]);
    lines
}

fn results(then: &[RunResults], now: &[RunResults]) -> Vec<CellDifference> {
    let group = |records: &'_ [RunResults]| {
        let included = records.iter().filter(|record| record.verdict().in_medians()).cloned();
        // By what is the same also where another method made them.
        repeats::group(included.collect::<Vec<_>>(), |it| {
            let RepeatKey { variant, point, .. } = it.manifest.repeat_key();
            (variant, point)
        })
    };
    let (before, after) = (group(then), group(now));
    let of = |(key, now): &((Option<String>, record::manifest::Point), Vec<RunResults>)| {
        let then = before.iter().find(|(other, _)| other == key).map(|(_, then)| then);
        let goodputs = |records: &[RunResults]| -> Vec<f64> {
            records.iter().filter_map(|it| it.summary.metrics.goodput_bps).collect()
        };
        let then_bps = then.map_or_else(Vec::new, |then| goodputs(then));
        let now_bps = goodputs(now);
        let is_same = |then: &Vec<RunResults>| {
            let by_id =
                |it: &RunResults| then.iter().find(|then| then.manifest.id == it.manifest.id);
            now.iter().all(|it| by_id(it).is_some_and(|then| then.summary == it.summary))
        };
        CellDifference {
            method: now[0].manifest.method.clone(),
            variant: key.0.clone(),
            point: key.1.clone(),
            then_bps: stats::mean(&then_bps),
            now_bps: stats::mean(&now_bps),
            identical: then.is_some_and(is_same),
            p: two_samples::welch(&then_bps, &now_bps).map(|welch| welch.p),
        }
    };
    after.iter().map(of).collect()
}

/// The name of an archive's file, for a directory of records.
pub fn stem(file: &Path) -> PathBuf {
    let stem = Path::new(file.file_stem().unwrap_or(file.as_os_str()));
    let is_crate = stem.extension().is_some_and(|extension| extension == "crate");
    if is_crate { stem.with_extension("") } else { stem.to_owned() }
}
