// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab`.

mod archive;
mod hosts;
mod sweeps;

use crate::{
    cc_file,
    compare::{self, CompareArgs},
    export::{self, ExportArgs},
    failure::Failure,
    identical_repeats,
    print::{print_json, print_text},
    results_table, runs,
};
use archive::Differences;
use clap::ValueEnum;
use experiment::{
    Method, Options, ReusePolicy,
    archive::{Archive, WRITTEN},
    prepare_all,
};
use record::{RunResults, Summary, results::ScenarioResults};
use scenario::Scenario;
use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};
use units::Probability;

const RUN_EXAMPLES: &str = "\
Examples:
  sudo longhaul lab run scenarios/demo.toml --variant direct --variant warm --ci
  longhaul lab run scenarios/loss-response.toml --method sim --jobs 4 --repeat 5";
const CHECK_EXAMPLES: &str = "\
Examples:
  longhaul lab check scenarios/demo.toml --method emu
  longhaul lab check scenarios/demo.toml --set vars.rtt=20ms --json";
/// Examples of `longhaul sim`.
pub const SIM_EXAMPLES: &str = "\
Examples:
  longhaul sim scenarios/joining-flows.toml
  longhaul sim compare.toml --cc mine.h --set vars.rtt=20ms --out out/mine";

#[derive(clap::Subcommand)]
pub enum Command {
    /// Run a scenario and record each run, except runs that this build has on record.
    #[command(after_help = RUN_EXAMPLES)]
    Run {
        #[command(flatten)]
        args: RunArgs,
        /// How to run the scenario [default: emu; of an archive: as it was run]
        #[arg(long, value_enum)]
        method: Option<MethodArg>,
        /// Hosts (TOML) that are the scenario's nodes, for --method field. See docs/field.md.
        #[arg(long, value_name = "FILE")]
        hosts: Option<PathBuf>,
    },
    /// Check a scenario file and list its runs.
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// Scenario file (TOML), or runs (*.json).
        file: PathBuf,
        /// Also check that this method supports everything in the scenario.
        #[arg(long, value_enum)]
        method: Option<MethodArg>,
        /// Hosts (TOML) that are the scenario's nodes, for --method field. They are reached, and not changed.
        #[arg(long, value_name = "FILE", requires = "method")]
        hosts: Option<PathBuf>,
        /// Accept this congestion control, which only the kernel of another machine has. May be repeated.
        #[arg(long, value_name = "NAME", conflicts_with = "method")]
        allow_cc: Vec<String>,
        /// Change a key of the scenario, as in `--set vars.rtt=20ms`. May be repeated.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Print the runs, with all values filled in, as one JSON document; with --method as that method runs them.
        #[arg(long)]
        json: bool,
    },
    List(sweeps::ListArgs),
    Status(sweeps::StatusArgs),
    Show(sweeps::ShowArgs),
    Stop(sweeps::StopArgs),
    Archive(archive::ArchiveArgs),
    Hosts(hosts::HostsArgs),
    Export(ExportArgs),
    Compare(CompareArgs),
}

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct RunArgs {
    /// Scenario file (TOML); runs as `lab check --json` prints them (*.json); or an archive of `lab archive`, whose runs are made again
    /// and compared.
    file: PathBuf,
    /// Run only this variant. May be repeated [default: all].
    #[arg(long, value_name = "NAME")]
    variant: Vec<String>,
    /// Change a key of the scenario, as in `--set vars.rtt=20ms`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Repeat every run N times [default: the scenario's `repeat`].
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// Leave out further repeats once the 95 % confidence interval of the mean goodput is within this share of it, as in 5%. From
    /// the third repeat on.
    #[arg(long, value_name = "SHARE")]
    until: Option<Probability>,
    /// Number of runs to simulate at the same time [default: the number of processors]. Emulated runs are made one at
    /// a time.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Directory for the records [default: out/SCENARIO, from the file name]. All but emulated runs go to
    /// subdirectories named after their method.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also run again what is on record.
    #[arg(long)]
    again: bool,
    /// Do not run again what another version or build of longhaul has on record.
    #[arg(long, conflicts_with = "again")]
    any_program: bool,
    /// Fail instead of replacing records of the scenario with other settings.
    #[arg(long)]
    keep: bool,
    /// Also print each metric's mean over the repeats, with standard deviation and 95 % confidence interval.
    #[arg(long)]
    ci: bool,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct SimArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Compile a congestion control from this C file. The scenario names it `lh_NAME` for `CC_ALGORITHM(NAME)`. May be
    /// repeated.
    #[arg(long, value_name = "FILE")]
    cc: Vec<PathBuf>,
}

impl RunArgs {
    fn known(&self) -> ReusePolicy {
        match (self.again, self.any_program) {
            (true, _) => ReusePolicy::Nothing,
            (false, true) => ReusePolicy::AnyProgram,
            (false, false) => ReusePolicy::SameProgram,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MethodArg {
    /// Real kernel TCP and real programs over an emulated network on this machine, in real time. Needs root.
    Emu,
    /// TCP endpoints and links in virtual time.
    Sim,
    /// Closed forms from the literature: each flow's goodput, or why no form is for it.
    Model,
    /// Real programs on real hosts, which --hosts names.
    Field,
}

impl MethodArg {
    /// As in records.
    fn name(self) -> &'static str {
        match self {
            Self::Emu => "emu",
            Self::Sim => "sim",
            Self::Model => "model",
            Self::Field => "field",
        }
    }

    /// Where its records are in a scenario's directory ([`Method::folder`]).
    fn folders() -> impl Iterator<Item = &'static str> {
        let folder = |method: &Self| if *method == Self::Emu { "" } else { method.name() };
        Self::value_variants().iter().map(folder)
    }

    /// `hosts` is for the method that is on real hosts.
    pub fn method(self, hosts: Option<&Path>) -> Result<Box<dyn Method>, Failure> {
        if hosts.is_some() && self != Self::Field {
            return Err(Failure::usage("--hosts is for --method field"));
        }
        Ok(match self {
            Self::Emu => Box::new(runs::emulation()?),
            Self::Sim => Box::new(sim::Simulated),
            Self::Model => Box::new(model::Modelled),
            Self::Field => Box::new(hosts::field(hosts)?),
        })
    }
}

pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run { args, method, hosts } => {
            let loaded = load(&args, method)?;
            let method = method.or(loaded.method).unwrap_or(MethodArg::Emu);
            let method = method.method(hosts.as_deref())?;
            run_loaded(args, loaded, &*method)
        }
        Command::List(args) => sweeps::list(&args),
        Command::Status(args) => sweeps::status(&args),
        Command::Show(args) => sweeps::show(&args),
        Command::Stop(args) => sweeps::stop(&args),
        Command::Hosts(args) => hosts::run(&args),
        Command::Archive(args) => {
            let emulation = runs::emulation()?;
            archive::archive(args, &[&emulation, &sim::Simulated, &model::Modelled])
        }
        Command::Export(args) => export::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Check { file, method, hosts, allow_cc, set, json } => {
            let mut scenario = read_scenario(&file, &set)?;
            match method {
                Some(method) => prepare(&mut scenario, &*method.method(hosts.as_deref())?)?,
                None => experiment::check_congestion_controls(&scenario.runs, &allow_cc)?,
            }
            for warning in ::lab::small_buffers(&scenario.runs) {
                errln!("warning: {warning}");
            }
            for note in ::lab::ungrown_connections(&scenario.runs) {
                errln!("note: {note}");
            }
            print_runs(&scenario, json);
            Ok(())
        }
    }
}

/// `longhaul sim`.
pub fn simulate(args: SimArgs) -> Result<(), Failure> {
    for file in &args.cc {
        cc_file::load(file)?;
    }
    let loaded = load(&args.run, Some(MethodArg::Sim))?;
    run_loaded(args.run, loaded, &sim::Simulated)
}

/// What is to be run.
struct Loaded {
    scenario: Scenario,
    /// The scenario as it was written.
    text: Option<Vec<u8>>,
    /// What the runs of an archive came to, and their method.
    then: Vec<RunResults>,
    method: Option<MethodArg>,
}

/// Output of `lab run --json`; with what differs from an archive.
#[derive(serde::Serialize)]
struct WithDifferences<'r> {
    #[serde(flatten)]
    results: &'r ScenarioResults,
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<Differences>,
}

/// Whether a file has runs instead of a scenario.
fn has_runs(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "json")
}

fn read_scenario(file: &Path, set: &[String]) -> Result<Scenario, Failure> {
    if !has_runs(file) {
        return scenario::load(file, set).map_err(Failure::usage);
    }
    if !set.is_empty() {
        let text = "--set and --repeat are for scenario files: runs have all their values";
        return Err(Failure::usage(text));
    }
    scenario::load_runs(file).map_err(Failure::usage)
}

/// Reads a scenario, or the runs of an archive by a method.
fn load(args: &RunArgs, method: Option<MethodArg>) -> Result<Loaded, Failure> {
    let RunArgs { file, variant, set, repeat, .. } = args;
    if !Archive::is_one(file) {
        let mut set = set.clone();
        set.extend(repeat.map(|n| format!("repeat={n}")));
        let mut scenario = read_scenario(file, &set)?;
        scenario.keep_variants(variant).map_err(Failure::usage)?;
        print_variation(&scenario);
        let text = if has_runs(file) { None } else { fs::read(file).ok() };
        return Ok(Loaded { scenario, text, then: Vec::new(), method: None });
    }
    if !set.is_empty() || repeat.is_some() {
        let text = "--set and --repeat are for scenario files: an archive says what was run";
        return Err(Failure::usage(text));
    }
    let Archive { results, runs } = Archive::read(file)?;
    let mut methods: Vec<String> = results.iter().map(|it| it.manifest.method.clone()).collect();
    methods.dedup();
    let names: Vec<&str> = methods.iter().map(String::as_str).collect();
    let own = match (method, &names[..]) {
        (Some(method), _) => method,
        (None, [name]) => MethodArg::from_str(name, false).map_err(Failure::failed)?,
        (None, names) => {
            let text = format!("--method: the archive has runs by {}: name one", names.join(", "));
            return Err(Failure::usage(text));
        }
    };
    let is_own = |it: &RunResults| names.len() == 1 || it.manifest.method == own.name();
    let (then, runs): (Vec<_>, Vec<_>) =
        results.into_iter().zip(runs).filter(|(it, _)| is_own(it)).unzip();
    let mut scenario = Scenario::of_runs(runs).map_err(Failure::usage)?;
    scenario.keep_variants(variant).map_err(Failure::usage)?;
    Ok(Loaded { scenario, text: None, then, method: Some(own) })
}

/// `longhaul lab run`, and the part of `longhaul sim` that is the same.
fn run_loaded(args: RunArgs, loaded: Loaded, method: &dyn Method) -> Result<(), Failure> {
    let known = args.known();
    let RunArgs { file, until, jobs, out, keep, ci, json, .. } = args;
    let Loaded { scenario, text, then, .. } = loaded;
    let until = until.map(Probability::get);
    if until == Some(0.0) {
        return Err(Failure::usage("--until: expected a share above 0, as in 5%"));
    }
    let jobs = job_count(method, jobs)?;
    let out = out.unwrap_or_else(|| Path::new("out").join(archive::stem(&file)));
    print_ignored(method, &scenario);
    let options = Options { jobs, known, keep, until, ..runs::options(&out)? };
    let records = runs::run_all(&scenario.runs, method, &options)?;
    if let Some(text) = text {
        // For an archive. Without it nothing else is missing.
        let _ = fs::write(out.join(WRITTEN), text);
    }
    let differences = (!then.is_empty()).then(|| Differences::between(&then, &records));
    identical_repeats::warn_of_identical(&records);
    warn_of_incomplete_captures(&records);
    let results = ScenarioResults::new(scenario.title, out, &records, scenario.baseline.as_deref());
    if json {
        print_json(&WithDifferences { results: &results, differences });
    } else {
        let most_flows = records.iter().map(|record| record.summary.flows.len()).max();
        match most_flows.unwrap_or(0) {
            0 => results_table::print_traffic(&results.traffic),
            flows if flows > Summary::MOST_LISTED => results_table::print_runs(&results.totals),
            flows => {
                if flows > 1 {
                    results_table::print_runs(&results.totals);
                }
                results_table::print_flows(&results.medians);
            }
        }
        if ci {
            results_table::print_intervals(&results.intervals);
        }
        if let Some(differences) = differences {
            print_text(&format!("\nof the archive\n{}", differences.text()));
        }
        errln!("records in {}. To make a page of them: longhaul report {0}", results.out.display());
    }
    let unpredicted = |cell: &record::results::FlowMedians| usize::from(cell.unpredicted.is_some());
    let of_flows =
        results.medians.iter().map(|cell| (cell.variant.as_deref(), cell.runs + unpredicted(cell)));
    let of_traffic = results.traffic.iter().map(|cell| (cell.variant.as_deref(), cell.runs));
    let left = method.left_changed();
    if !left.is_empty() {
        return Err(Failure::failed(left.join("\n")));
    }
    runs::check(&results.runs, of_flows.chain(of_traffic))
}

fn warn_of_incomplete_captures(records: &[RunResults]) {
    for RunResults { manifest, .. } in records {
        for capture in manifest.captures.iter().filter(|capture| !capture.complete) {
            let (run, file) = (&manifest.id, &capture.file);
            let reasons = capture.incomplete_reasons.join("; ");
            errln!("warning: {run}: the capture {file} is not complete: {reasons}");
        }
    }
}

pub fn job_count(method: &dyn Method, asked: Option<NonZeroUsize>) -> Result<usize, Failure> {
    match (method.runs_side_by_side(), asked.map(NonZeroUsize::get)) {
        (true, Some(jobs)) => Ok(jobs),
        (true, None) => Ok(std::thread::available_parallelism().map_or(1, NonZeroUsize::get)),
        (false, None | Some(1)) => Ok(1),
        (false, Some(jobs)) => Err(Failure::usage(format!(
            "--jobs {jobs}: runs by method {} at the same time would slow each other down. Leave out --jobs, or use \
             --method sim",
            method.name()
        ))),
    }
}

/// Makes the runs those that the method carries out.
fn prepare(scenario: &mut Scenario, method: &dyn Method) -> Result<(), Failure> {
    print_ignored(method, scenario);
    scenario.runs = prepare_all(method, &scenario.runs)?;
    Ok(())
}

fn print_runs(scenario: &Scenario, json: bool) {
    if json {
        return print_json(&scenario.runs);
    }
    let prediction = |run: &scenario::Run| match model::predicted(run) {
        Some(predicted) => {
            format!("  {:.1} Mb/s by {}", predicted.goodput_bps / 1e6, predicted.source)
        }
        None => String::new(),
    };
    let runs = scenario.runs.iter().map(|run| format!("  {}{}\n", run.id, prediction(run)));
    let text = format!("{}: {} runs\n", scenario.title, scenario.runs.len());
    print_text(&(text + &runs.collect::<String>()));
}

fn print_ignored(method: &dyn Method, scenario: &Scenario) {
    for ignored in method.ignored(&scenario.runs) {
        errln!("method {}: {ignored}", method.name());
    }
}

fn print_variation(scenario: &Scenario) {
    if scenario.repeat > 1 && scenario.vary {
        errln!(
            "repeats after the first vary: starts by up to a round trip, links of hosts by up to 10 us. To \
             repeat without variation: --set vary=false"
        );
    }
}
