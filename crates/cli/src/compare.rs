// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab compare`.

use crate::{
    failure::Failure,
    print::{print_json, print_text},
    text_table::TextTable,
};
use ::report::compare::{
    ComparedBy, Comparison, ComparisonQuery, Difference, SIGNIFICANCE, Test, written_p,
};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul lab compare out/before out/after
  longhaul lab compare out/loss-response --by cc --metric goodput_bps --out out/controls";

/// Compare methods, congestion controls, versions or directories, and tell differences from chance.
///
/// Each metric is compared for each pair, among runs with equal parameters. Welch's t test decides, corrected for the
/// number of tests (Holm). A difference that chance explains is called chance. Every run needs repeats.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// Directories to search for records, with all directories below.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// What to compare [default: directories if there are several, otherwise the first other one that differs].
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Metric to compare: a key of `metrics` in a run's summary, or ENTITY/METRIC of `lab export`, as in
    /// `flow:bulk/rtt_mean_us`. May be repeated [default: goodput, completion times, utilisation, queueing,
    /// retransmissions and fairness].
    #[arg(long, value_name = "METRIC")]
    metric: Vec<String>,
    /// Leave out the first part of each run.
    #[arg(long, value_name = "DURATION")]
    warm_up: Option<units::Duration>,
    /// Write a page, figures (SVG, PNG) and their data (CSV, Parquet) to this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// The directories that are named.
    Dir,
    /// Variants of the scenario.
    Variant,
    /// The congestion controls in force.
    Cc,
    /// Emulation, simulation, model.
    Method,
    /// Versions of longhaul, and builds of one version.
    Version,
}

impl From<By> for ComparedBy {
    fn from(by: By) -> Self {
        match by {
            By::Dir => Self::Directory,
            By::Variant => Self::Variant,
            By::Cc => Self::CongestionControl,
            By::Method => Self::Method,
            By::Version => Self::Version,
        }
    }
}

pub fn run(args: &CompareArgs) -> Result<(), Failure> {
    let asked = ComparisonQuery {
        by: args.by.map(Into::into),
        metrics: args.metric.clone(),
        warm_up_s: args.warm_up.map_or(0.0, units::Duration::as_secs_f64),
    };
    let comparison = match &args.out {
        Some(out) => {
            let written = ::report::compare::write(&args.dirs, &asked, out)?;
            errln!("{} and {} files of its figures", written.page.display(), written.files);
            written.comparison
        }
        None => Comparison::read(&args.dirs, &asked)?,
    };
    if args.json {
        print_json(&comparison);
    } else {
        print_text(&text(&comparison));
    }
    Ok(())
}

fn text(comparison: &Comparison) -> String {
    let by = comparison.by.name();
    let mut text = format!("by {by}: {}\n", comparison.sides.join(", "));
    text += &format!("{}\n", comparison.common_parameters());
    for (cell, label) in comparison.cells.iter().zip(comparison.labels()) {
        text += &if label.is_empty() { "\n".to_owned() } else { format!("\n{label}\n") };
        text += &table(&cell.differences);
    }
    text += &format!(
        "\n{} tests; p is Welch's and, as U, Mann-Whitney's, corrected by Holm for all of them. Welch decides: \"different\" \
         if p < {SIGNIFICANCE}\n",
        comparison.tests
    );
    text + &left_out_text(comparison)
}

fn left_out_text(comparison: &Comparison) -> String {
    let mut text = String::new();
    if comparison.left_out > 0 {
        text += &format!("{} invalid or failed runs left out\n", comparison.left_out);
    }
    if comparison.uncommon > 0 {
        text += &format!(
            "{} combinations of parameters that only one has left out\n",
            comparison.uncommon
        );
    }
    text + &comparison.cut_off_texts().map(|line| line + "\n").collect::<String>()
}

fn table(differences: &[Difference]) -> String {
    let mut table = TextTable::default();
    let has_entities = differences.iter().any(|one| one.entity != "run");
    if has_entities {
        table.left("entity", 8);
    }
    table.left("metric", 18);
    table.left("A", 6);
    table.right("mean", 14);
    table.left(" B", 6);
    table.right("mean", 14);
    table.right("B to A", 26);
    table.right("g", 7);
    table.right("p", 8);
    table.right("U", 8);
    table.left(" verdict", 10);
    for one in differences {
        let p = |test: &Option<Test>| {
            test.as_ref().map_or_else(|| "-".to_owned(), |test| written_p(test.p_corrected))
        };
        let mut row: Vec<String> = has_entities.then(|| one.entity.clone()).into_iter().collect();
        row.extend([
            one.metric.clone(),
            one.a.side.clone(),
            one.a.text(&one.metric),
            format!(" {}", one.b.side),
            one.b.text(&one.metric),
            one.relative_text(),
            one.hedges_g.map_or_else(|| "-".to_owned(), |g| format!("{g:+.2}")),
            p(&one.welch),
            p(&one.mann_whitney),
            format!(" {}", one.verdict.name()),
        ]);
        table.row(row, String::new());
    }
    table.text()
}
