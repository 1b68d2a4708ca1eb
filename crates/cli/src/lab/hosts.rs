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
    ClockOffset, FieldError, Host, Hosts, Needs, PathFound, Program, Survey, Surveyed, survey,
};
use scenario::{Flow, PathLimits};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use units::{ClassifyFailure, FailureClass, text::printable};

/// A clock that is off by more is worth a remark.
const NOTABLE_NS: u64 = 1_000_000_000;

const EXAMPLES: &str = "\
Examples:
  longhaul lab hosts hosts.toml
  longhaul lab hosts hosts.toml scenarios/demo.toml --json";

/// Reach the hosts of an experiment by ssh, and show what they are and what a scenario lacks there. See docs/lab.md.
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
    /// The paths of flows, by the nodes at their ends. Of a sweep, what its first run asks for.
    paths: BTreeMap<(String, String), Option<PathLimits>>,
}

pub fn run(args: &HostsArgs) -> Result<(), Failure> {
    let hosts = Hosts::read(&args.hosts).map_err(Failure::usage)?;
    let asked = match &args.scenario {
        Some(file) => Asked::read(&hosts, file, &args.set)?,
        None => Asked::default(),
    };
    let paths: Vec<_> = asked.paths.keys().filter(|_| args.measure.is_some()).cloned().collect();
    let time = args.measure.map_or(std::time::Duration::ZERO, std::time::Duration::from);
    let own = std::env::current_exe().map_err(Failure::failed)?;
    let program = Program::of(&hosts, own).map_err(|error| failure(&error))?;
    let Survey { hosts: found, paths } =
        survey(&hosts, program, &paths, time).map_err(Failure::failed)?;
    let lacking = |host: &Host, found: &Surveyed| {
        asked.needs.get(&host.node).map_or_else(Vec::new, |needs| needs.lacking(&found.facts))
    };
    if args.json {
        let hosts = found.iter().map(|(host, found)| {
            let lacking = found.as_ref().map_or_else(|_| Vec::new(), |found| lacking(host, found));
            document(host, found, &lacking)
        });
        let paths = paths.iter().map(|path| path_document(path, &asked));
        print_json(&json!({
            "hosts": hosts.collect::<Vec<_>>(), "paths": paths.collect::<Vec<_>>(),
        }));
    } else {
        print_text(&(table(&found, lacking) + &path_table(&paths, &asked)));
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
    fn read(hosts: &Hosts, file: &Path, set: &[String]) -> Result<Self, Failure> {
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
            let routes = run.routes();
            for hop in run.flows.iter().flat_map(Flow::hops) {
                let ends = (hop.from.to_owned(), hop.to.to_owned());
                let limits = || run.path_limits(&routes, hop.from, hop.to);
                asked.paths.entry(ends).or_insert_with(limits);
            }
        }
        Ok(asked)
    }

    fn limits(&self, path: &PathFound) -> Option<PathLimits> {
        self.paths.get(&(path.from.clone(), path.to.clone())).copied().flatten()
    }
}

fn path_table(paths: &[PathFound], asked: &Asked) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let mut table = TextTable::default();
    table.left("path", 16);
    table.right("round trip", 10);
    table.right("asked", 9);
    table.right("rate", 10);
    table.right("asked", 10);
    table.right("sent again", 10);
    for path in paths {
        let name = format!("{} to {}", path.from, path.to);
        let limits = asked.limits(path);
        let rtt = limits
            .map_or("-".to_owned(), |it| format::milliseconds(it.base_rtt.as_secs_f64() * 1e6));
        let rate = limits.and_then(|it| it.bottleneck);
        let rate = rate.map_or("-".to_owned(), |rate| format::rate(rate.bps() as f64));
        match &path.measured {
            Ok(found) => {
                let cells = vec![
                    name,
                    format::milliseconds(found.min_rtt_us.into()),
                    rtt,
                    format::rate(found.rate_bps as f64),
                    rate,
                    format::percent(found.resent),
                ];
                table.row(cells, String::new());
            }
            Err(error) => {
                let none = || "-".to_owned();
                table.row(vec![name, none(), rtt, none(), rate, none()], format!("  {error}"));
            }
        }
    }
    "\n".to_owned() + &table.text()
}

fn path_document(path: &PathFound, asked: &Asked) -> Value {
    let limits = asked.limits(path);
    let measured = path.measured.as_ref().ok();
    json!({
        "from": path.from, "to": path.to, "measured": measured,
        "asked_rtt_us": limits.map(|it| it.base_rtt.as_secs_f64() * 1e6),
        "asked_rate_bps": limits.and_then(|it| it.bottleneck).map(units::Rate::bps),
        "error": path.measured.as_ref().err().map(ToString::to_string),
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
                let Surveyed { facts, clock, .. } = found;
                let cells = vec![
                    host.node.clone(),
                    printable(&facts.name, 40),
                    printable(&facts.kernel, 40),
                    format!("{} x {}", facts.cores, printable(&facts.architecture, 20)),
                    format!("{:.1} ms", clock.ahead_ns as f64 / 1e6),
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
    let ClockOffset { ahead_ns, error } = found.clock;
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
            "node": host.node, "ssh": host.ssh, "facts": found.facts, "clock_ahead_ns": found.clock.ahead_ns,
            "clock_error_ns": found.clock.error.as_nanos() as u64, "put_back": found.put_back, "lacking": lacking, "error": null,
        }),
        Err(error) => json!({
            "node": host.node, "ssh": host.ssh, "facts": null, "lacking": [], "error": error.to_string(),
        }),
    }
}
