// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab hosts`: reaches the hosts of an experiment, and says what they are and what they lack.

use crate::{
    failure::Failure,
    print::{print_json, print_text},
    text_table::TextTable,
};
use clap::Args;
use field::{ClockOffset, FieldError, Host, Hosts, Needs, Program, Surveyed, survey};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::PathBuf};
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
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

pub fn run(args: &HostsArgs) -> Result<(), Failure> {
    let hosts = Hosts::read(&args.hosts).map_err(Failure::usage)?;
    let needs = match &args.scenario {
        Some(file) => needs(&hosts, file, &args.set)?,
        None => BTreeMap::new(),
    };
    let own = std::env::current_exe().map_err(Failure::failed)?;
    let program = Program::of(&hosts, own).map_err(|error| failure(&error))?;
    let found = survey(&hosts, program).map_err(Failure::failed)?;
    let lacking = |host: &Host, found: &Surveyed| {
        needs.get(&host.node).map_or_else(Vec::new, |needs| needs.lacking(&found.facts))
    };
    if args.json {
        let all: Vec<Value> = found
            .iter()
            .map(|(host, found)| {
                let lacking =
                    found.as_ref().map_or_else(|_| Vec::new(), |found| lacking(host, found));
                document(host, found, &lacking)
            })
            .collect();
        print_json(&all);
    } else {
        print_text(&table(&found, lacking));
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

/// What all runs of a scenario need of each host.
fn needs(
    hosts: &Hosts,
    file: &std::path::Path,
    set: &[String],
) -> Result<BTreeMap<String, Needs>, Failure> {
    let scenario = scenario::load(file, set).map_err(Failure::usage)?;
    let mut all: BTreeMap<String, Needs> = BTreeMap::new();
    for run in &scenario.runs {
        let misfits = hosts.misfits(run);
        if !misfits.is_empty() {
            return Err(Failure::usage(misfits.join("\n")));
        }
        for (node, needs) in Needs::of(run) {
            all.entry(node).or_default().add(&needs);
        }
    }
    Ok(all)
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
