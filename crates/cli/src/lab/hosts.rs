// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab hosts`: reaches the hosts of an experiment, and says what they are and what they lack.

use crate::{
    failure::Failure,
    print::{print_json, print_text},
    text_table::TextTable,
};
use ::report::format;
use clap::Args;
use field::{
    ClockOffset, Field, FieldError, Host, Hosts, Needs, Path, PathFound, PathMeasured, Program,
    Survey, Surveyed, survey,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path as FilePath, PathBuf},
};
use units::{ClassifyFailure, FailureClass, text::printable};

/// A clock that is off by more is worth a remark.
const NOTABLE_NS: u64 = 1_000_000_000;

const EXAMPLES: &str = "\
Examples:
  longhaul lab hosts hosts.toml
  longhaul lab hosts hosts.toml scenarios/demo.toml --json";

/// Reach the hosts of an experiment by ssh, and show what they are and what a scenario lacks there. See docs/field.md.
///
/// Copies this program to each host, unless it is there, and asks its guard. No setting is changed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct HostsArgs {
    /// Hosts (TOML)
    hosts: PathBuf,
    /// Scenario file whose nodes they are
    scenario: Option<PathBuf>,
    /// Change a key of the scenario, as in `--set vars.rtt=20ms`. May be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Also send over each path that a flow takes, one after the other, for this time, as in 3s
    #[arg(long, value_name = "TIME", requires = "scenario")]
    measure: Option<units::Duration>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// What a scenario asks for.
#[derive(Default)]
struct Asked {
    /// Of each host.
    needs: BTreeMap<String, Needs>,
    /// The paths of flows and traffic. Of a sweep, what its first run asks for.
    paths: Vec<Path>,
}

/// The method by which scenarios run on hosts.
pub fn field(hosts: Option<&FilePath>) -> Result<Field, Failure> {
    let hosts = hosts.ok_or_else(|| {
        Failure::usage("--method field: name the hosts with --hosts FILE (docs/field.md)")
    })?;
    let hosts = Hosts::read(hosts).map_err(Failure::usage)?;
    let own = std::env::current_exe().map_err(Failure::failed)?;
    Field::reach(hosts, own).map_err(|error| failure(&error))
}

pub fn run(args: &HostsArgs) -> Result<(), Failure> {
    let hosts = Hosts::read(&args.hosts).map_err(Failure::usage)?;
    let asked = match &args.scenario {
        Some(file) => Asked::read(&hosts, file, &args.set)?,
        None => Asked::default(),
    };
    let (paths, time) = match args.measure {
        Some(time) => (&asked.paths[..], time.into()),
        None => (&[][..], std::time::Duration::ZERO),
    };
    let own = std::env::current_exe().map_err(Failure::failed)?;
    let program = Program::of(&hosts, own).map_err(|error| failure(&error))?;
    let Survey { hosts: found, paths } =
        survey(&hosts, program, paths, time).map_err(Failure::failed)?;
    let lacking = |host: &Host, found: &Surveyed| {
        asked.needs.get(&host.node).map_or_else(Vec::new, |needs| needs.lacking(&found.facts))
    };
    if args.json {
        let hosts = found.iter().map(|(host, found)| {
            let lacking = found.as_ref().map_or_else(|_| Vec::new(), |found| lacking(host, found));
            document(host, found, &lacking)
        });
        let paths = paths.iter().map(path_document);
        print_json(&json!({
            "hosts": hosts.collect::<Vec<_>>(), "paths": paths.collect::<Vec<_>>(),
        }));
    } else {
        print_text(&(table(&found, lacking) + &path_table(&paths)));
    }
    if let Some((_, Err(error))) = found.iter().find(|(_, found)| found.is_err()) {
        return Err(failure(error));
    }
    let is_lacking = |(host, found): &(Host, Result<Surveyed, FieldError>)| {
        found.as_ref().is_ok_and(|found| !lacking(host, found).is_empty())
    };
    if found.iter().any(is_lacking) {
        let text = "hosts lack what the scenario needs: see above";
        return Err(Failure::new(FailureClass::Lacks, text));
    }
    Ok(())
}

fn failure(error: &FieldError) -> Failure {
    Failure::new(error.failure_class(), error)
}

impl Asked {
    /// Of all runs of a scenario.
    fn read(hosts: &Hosts, file: &FilePath, set: &[String]) -> Result<Self, Failure> {
        let scenario = scenario::load(file, set).map_err(Failure::usage)?;
        let mut asked = Self::default();
        for run in &scenario.runs {
            let misfits = hosts.misfits(run);
            if !misfits.is_empty() {
                return Err(Failure::usage(misfits.join("\n")));
            }
            for (node, needs) in Needs::of(run) {
                asked.needs.entry(node).or_default().add(&needs);
            }
            for path in Path::all(run) {
                let is_same = |it: &Path| (&it.from, &it.to) == (&path.from, &path.to);
                if !asked.paths.iter().any(is_same) {
                    asked.paths.push(path);
                }
            }
        }
        Ok(asked)
    }
}

fn path_table(paths: &[PathFound]) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let mut table = TextTable::default();
    table.left("path", 16);
    for (name, width) in [("round trip", 10), ("rate", 10), ("loss", 8)] {
        table.right(name, width);
        table.right("asked", width);
    }
    let none = || "-".to_owned();
    let rate = |bps: Option<u64>| bps.map_or_else(none, |bps| format::rate(bps as f64));
    for PathFound { path, measured } in paths {
        let found = measured.as_ref().ok();
        let rtt = found.map_or_else(none, |it| format::milliseconds(it.min_rtt_us.into()));
        let loss = found.and_then(PathMeasured::loss).map_or_else(none, format::percent);
        let cells = vec![
            format!("{} to {}", path.from, path.to),
            rtt,
            format::milliseconds(path.rtt_us),
            rate(found.and_then(|it| it.rate_bps)),
            rate(path.rate_bps),
            loss,
            format::percent(path.loss),
        ];
        let error = measured.as_ref().err().map_or_else(String::new, |error| format!("  {error}"));
        table.row(cells, error);
    }
    "\n".to_owned() + &table.text()
}

fn path_document(found: &PathFound) -> Value {
    let PathFound { path, measured } = found;
    json!({
        "from": path.from, "to": path.to, "measured": measured.as_ref().ok().map(|it| path.on_record(it)),
        "asked_rtt_us": path.rtt_us, "asked_rate_bps": path.rate_bps, "asked_loss": path.loss,
        "error": measured.as_ref().err().map(ToString::to_string),
    })
}

fn table(
    all: &[(Host, Result<Surveyed, FieldError>)],
    lacking: impl Fn(&Host, &Surveyed) -> Vec<String>,
) -> String {
    let mut table = TextTable::default();
    table.left("node", 8);
    table.left("host", 12);
    table.left("kernel", 10);
    table.left("processor", 9);
    table.right("clock ahead", 11);
    let mut remarks = String::new();
    for (host, found) in all {
        let (cells, texts) = match found {
            Ok(found) => {
                let Surveyed { facts, clocks, .. } = found;
                let cells = vec![
                    host.node.clone(),
                    printable(&facts.name, 40),
                    printable(&facts.kernel, 40),
                    format!("{} x {}", facts.cores, printable(&facts.architecture, 20)),
                    format!("{:.1} ms", clocks.realtime.ahead_ns as f64 / 1e6),
                ];
                (cells, [remarks_of(found), lacking(host, found)].concat())
            }
            Err(error) => {
                let unknown = || "-".to_owned();
                let cells =
                    vec![host.node.clone(), host.ssh.clone(), unknown(), unknown(), unknown()];
                (cells, vec![error.to_string()])
            }
        };
        table.row(cells, String::new());
        remarks.extend(texts.iter().map(|text| format!("{}: {text}\n", host.node)));
    }
    table.text() + &remarks
}

fn remarks_of(found: &Surveyed) -> Vec<String> {
    let ClockOffset { ahead_ns, error } = found.clocks.realtime;
    let mut remarks = Vec::new();
    if ahead_ns.unsigned_abs() > NOTABLE_NS {
        let seconds = ahead_ns as f64 / 1e9;
        remarks.push(format!(
            "its clock is {seconds:+.1} s off, known within {:.1} ms: times are corrected",
            error.as_secs_f64() * 1e3
        ));
    }
    if found.put_back > 0 {
        let count = found.put_back;
        remarks.push(format!("{count} settings of a killed experiment are put back"));
    }
    remarks
}

fn document(host: &Host, found: &Result<Surveyed, FieldError>, lacking: &[String]) -> Value {
    match found {
        Ok(found) => json!({
            "node": host.node, "ssh": host.ssh, "facts": found.facts, "clock_ahead_ns": found.clocks.realtime.ahead_ns,
            "clock_error_ns": found.clocks.realtime.error.as_nanos() as u64, "put_back": found.put_back, "lacking": lacking, "error": null,
        }),
        Err(error) => json!({
            "node": host.node, "ssh": host.ssh, "facts": null, "lacking": [], "error": error.to_string(),
        }),
    }
}
