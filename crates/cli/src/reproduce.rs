// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul reproduce`: the papers' figures and tables, what became of them, and their numbers beside ours.

use crate::{
    failure::Failure,
    lab::{MethodArg, job_count},
    print::{print_json, print_text},
    runs,
    text_table::TextTable,
};
use ::report::format;
use clap::ValueEnum;
use experiment::Options;
use record::RunResults;
use std::{num::NonZeroUsize, path::PathBuf};
use study::{Compared, Ledger, Row, StudyError, compared};

const EXAMPLES: &str = "\
Examples:
  longhaul reproduce 001
  longhaul reproduce 001 III --out out/scalable";

/// List the figures and tables of the papers, and run one and compare its numbers.
///
/// Without arguments, all rows are listed; with a paper, its rows. With a figure, its scenario is run, quickly by
/// default, and the paper's numbers are printed beside ours. A quick run shows the tendency: the results of the list
/// are of full runs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReproduceArgs {
    /// The paper, 000 to 004.
    paper: Option<String>,
    /// The figure's number, or the table's name: 8, III, "table 1".
    figure: Option<String>,
    /// Run the whole scenario. Some take hours; what is on record is not run again.
    #[arg(long, requires = "figure")]
    full: bool,
    /// How to run it [default: as the list says; quickly by sim].
    #[arg(long, value_enum, requires = "figure")]
    method: Option<MethodArg>,
    /// Number of runs to simulate at the same time [default: the number of processors].
    #[arg(long, value_name = "N", requires = "figure")]
    jobs: Option<NonZeroUsize>,
    /// Directory for the records [default: out/reproduce/SCENARIO, or with --full out/SCENARIO].
    #[arg(long, value_name = "DIR", requires = "figure")]
    out: Option<PathBuf>,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

/// A row that was run.
#[derive(serde::Serialize)]
struct Reproduced<'r> {
    row: &'r Row,
    runs: usize,
    numbers: Vec<Compared>,
}

pub fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    let ledger = Ledger::own();
    match (&args.paper, &args.figure) {
        (Some(paper), Some(figure)) => {
            let row = ledger.find(paper, figure).map_err(Failure::usage)?;
            reproduce(row, args)
        }
        (Some(paper), None) => {
            list(&ledger.of_paper(paper).map_err(Failure::usage)?, args.json);
            Ok(())
        }
        _ => {
            list(&ledger.rows.iter().collect::<Vec<_>>(), args.json);
            Ok(())
        }
    }
}

fn list(rows: &[&Row], json: bool) {
    if json {
        return print_json(&rows);
    }
    let mut table = TextTable::default();
    table.left("paper", 5);
    table.left("figure", 8);
    table.left("result", 10);
    table.left("", 10);
    for row in rows {
        let what = format!("{}: {}", row.title, without_links(&row.note));
        let result = row.result.name().to_owned();
        table.row(vec![row.paper.clone(), row.item.clone(), result, what], String::new());
    }
    print_text(&table.text());
}

/// A line of Markdown without the addresses of its links.
fn without_links(text: &str) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().replace('[', "");
    let rest =
        parts.map(|part| part.split_once(')').map_or(part, |(_, rest)| rest).replace('[', ""));
    first + &rest.collect::<String>()
}

fn reproduce(row: &Row, args: &ReproduceArgs) -> Result<(), Failure> {
    let (scenario, method) = row.scenario(!args.full).map_err(failure)?;
    let own = MethodArg::from_str(&method, false).map_err(Failure::failed)?;
    let method = args.method.unwrap_or(own).method(None)?;
    let jobs = job_count(&*method, args.jobs)?;
    let name = row.scenario.as_deref().unwrap_or("row");
    let folder = if args.full { "out" } else { "out/reproduce" };
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(folder).join(name));
    let options = Options { jobs, ..runs::options(&out)? };
    let results = runs::run_all(&scenario.runs, &*method, &options)?;
    let numbers = compared(row, &results);
    if args.json {
        print_json(&Reproduced { row, runs: results.len(), numbers });
        return Ok(());
    }
    outln!("paper {}, {}: {}", row.paper, row.item, row.title);
    outln!("full runs: {}. {}", row.result.name(), without_links(&row.note));
    print_text(&table(&numbers, &results));
    outln!("\nrecords in {}. To make a page of them: longhaul report {0}", out.display());
    Ok(())
}

fn failure(error: StudyError) -> Failure {
    match error {
        StudyError::Scenario(problems) => Failure::failed(problems),
        other => Failure::usage(other),
    }
}

fn table(numbers: &[Compared], results: &[RunResults]) -> String {
    if numbers.is_empty() {
        let runs = results.len();
        return format!("the paper prints no numbers of it; {runs} runs are on record\n");
    }
    let mut table = TextTable::default();
    table.left("", 24);
    table.left("metric", 12);
    table.right("paper", 12);
    table.right("ours", 12);
    table.right("ours over paper", 12);
    for number in numbers {
        let write = |value: f64| {
            let (value, unit) = match number.metric.rsplit('_').next() {
                Some("bps") if number.paper > 1e4 => (value / 1e6, " Mb/s"),
                Some("s") => (value, " s"),
                _ => (value, ""),
            };
            format::significant(value, 4) + unit
        };
        let ours = number.ours.map_or_else(|| "-".to_owned(), write);
        let ratio = number.ratio.map_or_else(|| "-".to_owned(), |it| format::significant(it, 3));
        let cells =
            vec![number.what.clone(), number.metric.clone(), write(number.paper), ours, ratio];
        table.row(cells, String::new());
    }
    table.text()
}
