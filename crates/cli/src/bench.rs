// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul bench`: congestion controls and depots at users' tasks.

mod tables;

use crate::{
    cc_file,
    failure::Failure,
    lab::{MethodArg, job_count},
    print::{print_json, print_text},
    progress, runs,
};
use ::congestion::Algorithm;
use benchmark::{
    BenchmarkError, Card, Cell, Extent, Outcomes, Plan,
    compare::{self, Side},
};
use experiment::{Method, Options, RunEvent};
use record::{OfferedFiles, Record};
use std::{
    fs,
    num::{NonZeroU32, NonZeroUsize},
    path::{Path, PathBuf},
};

const RUN_EXAMPLES: &str = "\
Examples:
  longhaul bench run --quick --cc lh_cubic,lh_bbr
  longhaul bench run --cc ./mine.h --task beside --task files --out out/mine";
const SHOW_EXAMPLES: &str = "\
Examples:
  longhaul bench show out/bench
  longhaul bench show out/bench --task files --json";
const COMPARE_EXAMPLES: &str = "\
Examples:
  longhaul bench compare out/bench-before out/bench-after
  longhaul bench compare out/bench --cc lh_cubic --cc lh_bbr --all";

/// The scores, in the benchmark's directory.
const CARD: &str = "card.json";

#[derive(clap::Subcommand)]
pub enum Command {
    /// Run the benchmark's tasks with congestion controls, and score them.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Print the scores of a benchmark.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// Compare two benchmarks, or two congestion controls of one, and tell differences from chance.
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
}

#[derive(clap::Args)]
pub struct RunArgs {
    /// Congestion controls, with commas between: names as in scenarios, or C files [default: all of longhaul's and bbr].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    cc: Vec<String>,
    /// Run only this task. May be repeated [default: all].
    #[arg(long, value_name = "NAME")]
    task: Vec<String>,
    /// Numbers of depots on the long path, with commas between: 0, 1, 2 [default: all].
    #[arg(long, value_name = "N", value_delimiter = ',')]
    via: Vec<u32>,
    /// Fewer seeds, and a part of the points.
    #[arg(long)]
    quick: bool,
    /// How to run the tasks. By emu and field they take as long as they say.
    #[arg(long, value_enum, default_value = "sim")]
    method: MethodArg,
    /// Hosts (TOML) for --method field. See docs/field.md.
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// Number of seeds [default: 10, with --quick 4].
    #[arg(long, value_name = "N")]
    seeds: Option<NonZeroU32>,
    /// The first seed [default: 1].
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// Number of runs to simulate at the same time [default: the number of processors].
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Directory for records and scores. Runs that are on record there are not made again.
    #[arg(long, value_name = "DIR", default_value = "out/bench")]
    out: PathBuf,
    /// Print the scores as one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct ShowArgs {
    /// Directory of `bench run`, or a file of scores.
    dir: PathBuf,
    /// Print all measures of this task. May be repeated.
    #[arg(long, value_name = "NAME")]
    task: Vec<String>,
    /// Print the scores as one JSON document.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print the scores as CSV.
    #[arg(long)]
    csv: bool,
}

#[derive(clap::Args)]
pub struct CompareArgs {
    /// Directory of `bench run`, or a file of scores.
    first: PathBuf,
    /// Another one: all congestion controls that both have are compared.
    second: Option<PathBuf>,
    /// Compare this congestion control. Twice: the first one's with the second one's.
    #[arg(long, value_name = "NAME")]
    cc: Vec<String>,
    /// Also print what chance explains.
    #[arg(long)]
    all: bool,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

pub fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run_tasks(args),
        Command::Show(args) => show(args),
        Command::Compare(args) => compare(args),
    }
}

fn run_tasks(args: &RunArgs) -> Result<(), Failure> {
    let extent = if args.quick { Extent::Quick } else { Extent::Full };
    let plan = Plan::new(&candidates(&args.cc)?, &args.task, &args.via, extent)?
        .with_seeds(args.seed.map(u64::from), args.seeds.map(NonZeroU32::get));
    let method = args.method.method(args.hosts.as_deref())?;
    let jobs = job_count(&*method, args.jobs)?;
    let outcomes = outcomes(&plan, &*method, jobs, &args.out)?;
    let version = env!("CARGO_PKG_VERSION");
    let card = Card::new(&plan, method.name(), version, &outcomes);
    let page = write(&card, &args.out)?;
    if args.json {
        print_json(&card);
    } else {
        print_text(&tables::whole(&card));
        outln!("\nall scores: open {}", page.display());
    }
    Ok(())
}

/// Names of congestion controls, those of files loaded.
fn candidates(asked: &[String]) -> Result<Vec<String>, Failure> {
    if asked.is_empty() {
        let own = Algorithm::all().iter().map(Algorithm::kernel_name);
        let bbr = Algorithm::all().iter().all(|it| it.name != "bbr").then(|| "bbr".to_owned());
        return Ok(own.chain(bbr).collect());
    }
    let name = |word: &String| {
        let path = Path::new(word);
        let is_file = path.components().count() > 1 || path.extension().is_some();
        if is_file { Ok(cc_file::load(path)?.kernel_name()) } else { Ok(word.clone()) }
    };
    asked.iter().map(name).collect()
}

/// Runs what is not on record.
fn outcomes(
    plan: &Plan,
    method: &dyn Method,
    jobs: usize,
    out: &Path,
) -> Result<Outcomes, Failure> {
    let batches = plan.batches()?;
    let all: usize = batches.iter().map(|batch| batch.runs.len()).sum();
    let (mut outcomes, mut done, mut invalid) = (Outcomes::default(), 0, 0);
    let running = Options { predict: |_| None, ..runs::options(out)? };
    let line = progress::line();
    for batch in batches {
        let folder = out.join("runs").join(&batch.folder);
        let options = Options { out: folder.clone(), jobs, ..running.clone() };
        let records = experiment::run_all(&batch.runs, method, &options, |event| {
            if matches!(event.what, RunEvent::Known(_) | RunEvent::Ended(_)) {
                done += 1;
                line.set_message(format!("{done} of {all} runs: {}", batch.folder));
                line.tick();
            }
        })?;
        for results in records {
            if !results.manifest.valid {
                invalid += 1;
                continue;
            }
            let has_files = results.summary.metrics.files_offered.is_some();
            let record = method.folder(&folder).join(&results.manifest.id);
            let files = if has_files {
                Record::files(&record).map_err(Failure::failed)?
            } else {
                OfferedFiles::default()
            };
            let cell = Cell::new(batch.other.as_deref(), results, files);
            outcomes.add(&batch.candidate, batch.scenario, cell);
        }
    }
    line.finish_and_clear();
    if invalid > 0 {
        errln!("{invalid} of {all} runs are invalid and left out. lab show prints the reasons");
    }
    Ok(outcomes)
}

/// Writes all forms of a card, and answers where the page is.
fn write(card: &Card, out: &Path) -> Result<PathBuf, Failure> {
    let file = |name: &str, text: String| {
        let path = out.join(name);
        let written = fs::write(&path, text);
        written.map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
        Ok::<_, Failure>(path)
    };
    let json = serde_json::to_string_pretty(card).expect("plain data");
    file(CARD, json + "\n")?;
    file("card.csv", card.csv())?;
    file("card.html", ::report::score_card_page(card))
}

fn show(args: &ShowArgs) -> Result<(), Failure> {
    let card = read(&args.dir)?;
    if let Some(name) = args.task.iter().find(|name| card.tasks.iter().all(|it| it.name != **name))
    {
        let known = card.tasks.iter().map(|task| task.name.clone()).collect();
        return Err(BenchmarkError::NoSuchTask { name: name.clone(), known }.into());
    }
    if args.json {
        print_json(&card);
    } else if args.csv {
        print_text(&card.csv());
    } else if args.task.is_empty() {
        print_text(&tables::whole(&card));
    } else {
        for name in &args.task {
            print_text(&tables::task(&card, name));
        }
    }
    Ok(())
}

/// The scores in a directory or a file.
fn read(path: &Path) -> Result<Card, Failure> {
    let file = if path.is_dir() { path.join(CARD) } else { path.to_owned() };
    let text = fs::read(&file).map_err(|error| {
        Failure::failed(format!("{}: {error}. bench run makes it", file.display()))
    })?;
    serde_json::from_slice(&text).map_err(|error| {
        Failure::failed(format!("{}: no scores of bench run: {error}", file.display()))
    })
}

fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let first = read(&args.first)?;
    let second = args.second.as_deref().map(read).transpose()?;
    let changes = match (&second, &args.cc[..]) {
        (Some(second), []) => compare::cards(&first, second)?,
        (None, [] | [_]) => {
            let text = "one benchmark: name two of its congestion controls with --cc, or another benchmark";
            return Err(Failure::usage(text));
        }
        (second, [from]) => pair(&first, second.as_ref().unwrap_or(&first), from, from)?,
        (second, [from, to]) => pair(&first, second.as_ref().unwrap_or(&first), from, to)?,
        (_, _) => return Err(Failure::usage("--cc: two at most")),
    };
    if args.json {
        print_json(&changes);
    } else {
        print_text(&tables::changes(&changes, args.all));
    }
    Ok(())
}

/// Two candidates, each of its card.
fn pair(a: &Card, b: &Card, from: &str, to: &str) -> Result<Vec<compare::Change>, Failure> {
    for (card, name) in [(a, from), (b, to)] {
        if card.candidates.iter().all(|it| it != name) {
            let known = card.candidates.join(", ");
            return Err(Failure::usage(format!("--cc {name}: the benchmark has {known}")));
        }
    }
    let sides = (Side { card: a, candidate: from }, Side { card: b, candidate: to });
    Ok(compare::changes(&[sides])?)
}
