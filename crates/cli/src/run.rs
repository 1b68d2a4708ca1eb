// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul run`: runs a program and routes its connections through depots.

use crate::{
    depot::cells::{rate, size},
    failure::Failure,
    text_table::TextTable,
    via,
};
use clap::Args;
use entry::run::{
    Connection, Launch, Outcome, ProgramEnd, Report, Rules, RunError, Supervisor, Tally,
    wait_for_program,
};
use route::{FirstContact, Match};
use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::{fd::RawFd, unix::process::ExitStatusExt},
    path::PathBuf,
    process::ExitCode,
};
use units::{Bytes, Duration};

const EXAMPLES: &str = "\
Examples:
  longhaul run --via d1.example.net,d2.example.org -- rsync -a rsync://data.example.org/sets .
  longhaul run --via d1.example.net --match '*:5432' --stats -- psql -h db.example.org -c 'select 1'";

/// The option that gives the supervisor's process the descriptor for its reports.
const REPORT_TO: &str = "--report-to";

/// Run a program and route its TCP connections through depots. See docs/run.md.
///
/// The program is not changed and needs no root. This command exits with the program's exit code: 126 or 127 if it
/// cannot be run, 128 and the signal's number if a signal ended it. Own exit codes: 1 failed, 2 wrong usage, 3 this
/// machine lacks something.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Depots of a route, the one nearest this machine first; repeat for a route to use when this one fails
    #[arg(long, required = true, value_name = "[https:]HOST[:PORT],...")]
    via: Vec<String>,
    /// Destinations to reach through depots: NET, HOST[:PORT] or *:PORT [default: all except this machine]
    #[arg(long = "match", value_name = "NET|HOST[:PORT]")]
    matches: Vec<Match>,
    /// Let connections fail when no route works, instead of connecting directly
    #[arg(long)]
    strict: bool,
    /// Maximum time to connect by one route, as in 500ms
    #[arg(long, value_name = "TIME", default_value = "10s")]
    connect_timeout: Duration,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Connect directly to destinations whose latest three connections each moved less than this, as in 64KB
    /// [default: off]
    #[arg(long, value_name = "SIZE")]
    direct_below: Option<Bytes>,
    /// With --direct-below: how to reach a destination without earlier connections
    #[arg(long, value_name = "depots|direct", default_value = "depots", requires = "direct_below")]
    first_contact: FirstContact,
    /// Print the program's connections and their bytes to standard error when it ends
    #[arg(long)]
    stats: bool,
    /// Write the statistics of --stats to this file as one JSON document
    #[arg(long, value_name = "FILE")]
    stats_json: Option<PathBuf>,
    /// Do not print why a connection is made directly
    #[arg(short, long)]
    quiet: bool,
    /// Descriptor for the supervisor's reports
    #[arg(long, hide = true)]
    report_to: Option<RawFd>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

pub fn run(args: &RunArgs) -> ExitCode {
    let result = match args.report_to {
        Some(descriptor) => supervise(args, descriptor),
        None => wait(args),
    };
    result.unwrap_or_else(|failure| failure.report())
}

fn wait(args: &RunArgs) -> Result<ExitCode, Failure> {
    // Wrong arguments are reported before anything starts.
    args.rules()?;
    let arguments = |descriptor: RawFd| {
        let given = env::args_os().skip(1);
        let mut arguments: Vec<OsString> = given.collect();
        let report_to = [REPORT_TO.into(), descriptor.to_string().into()];
        arguments.splice(1..1, report_to);
        arguments
    };
    let code = |code: i32| ExitCode::from(u8::try_from(code).unwrap_or(1));
    match wait_for_program(arguments).map_err(Failure::failed)? {
        ProgramEnd::Ended(status) => Ok(match (status.code(), status.signal()) {
            (Some(exited), _) => code(exited),
            (None, signal) => code(128 + signal.unwrap_or(0)),
        }),
        ProgramEnd::NotStarted(status) => Ok(code(status.code().unwrap_or(1))),
        ProgramEnd::Unsupervised { pid } => Err(Failure::failed(format_args!(
            "the supervisor was killed: process {pid} still runs, but cannot open connections. End it: kill {pid}"
        ))),
    }
}

fn supervise(args: &RunArgs, descriptor: RawFd) -> Result<ExitCode, Failure> {
    let supervisor = Supervisor::inherited(descriptor).map_err(Failure::failed)?;
    let (program, arguments) = args.program.split_first().expect("one is required");
    let launch = Launch { program: program.clone(), arguments: arguments.to_vec() };
    let file = args.stats_json.as_ref();
    let named = |error| match file {
        Some(file) => Failure::failed(format_args!("{}: {error}", file.display())),
        None => Failure::failed(error),
    };
    // If it cannot be written, nothing starts.
    let mut json = file.map(File::create).transpose().map_err(named)?;
    supervisor.run(&launch, args.rules()?, |tally| {
        if args.stats {
            crate::print::print_error(&table(tally));
        }
        if let Some(json) = &mut json
            && let Err(error) = write_report(json, tally)
        {
            errln!("longhaul: {}", named(error));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn write_report(to: &mut File, tally: &Tally) -> io::Result<()> {
    let document = serde_json::to_string_pretty(&Report::from(tally)).expect("plain data");
    to.write_all(format!("{}\n", units::text::json(&document)).as_bytes())
}

impl RunArgs {
    fn rules(&self) -> Result<Rules, Failure> {
        let quiet = self.quiet;
        Ok(Rules {
            routes: via::table(&self.via, &self.matches, self.ca.as_deref())?
                .directly_below(self.direct_below, self.first_contact),
            ca: self.ca.clone(),
            strict: self.strict,
            time: self.connect_timeout.into(),
            account: self.stats || self.stats_json.is_some(),
            warn: if quiet { |_| () } else { |why| errln!("longhaul: connecting directly: {why}") },
        })
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let code = error.exit_code();
        Self::failed(error).with_exit_code(code)
    }
}

fn table(tally: &Tally) -> String {
    let text = format!(
        "{} connections: {} through depots, {} directly, {} failed\n{} sent, {} received{}\n",
        tally.all(),
        tally.through_chain(),
        tally.direct(),
        tally.failed(),
        size(tally.sent()),
        size(tally.received()),
        unknown(tally),
    );
    let mut table = TextTable::default();
    table.left("destination", 21);
    for head in ["connect ms", "sent", "received", "seconds", "rate"] {
        table.right(head, 10);
    }
    for connection in tally.latest() {
        let mut cells = vec![
            connection.destination.to_string(),
            format!("{:.1}", connection.took.as_secs_f64() * 1e3),
        ];
        cells.extend(match connection.traffic {
            Some(traffic) => [
                size(traffic.sent),
                size(traffic.received),
                format!("{:.2}", traffic.lasted.as_secs_f64()),
                rate(traffic.rate_bps()),
            ],
            None => ["?"; 4].map(str::to_owned),
        });
        table.row(cells, format!("  {}", how(connection)));
    }
    text + &table.text()
}

fn unknown(tally: &Tally) -> String {
    match (tally.unknown(), tally.unknown_because()) {
        (0, _) => String::new(),
        (count, None) => format!(", not known of {count} connections"),
        (count, Some(why)) => format!(", not known of {count} connections: {why}"),
    }
}

fn how(connection: &Connection) -> String {
    match &connection.outcome {
        Outcome::Chain(hops) => {
            let hops = hops.iter().map(|hop| {
                let congestion = hop.congestion.as_ref().map_or("?", |name| name.as_str());
                format!("{} ({congestion}, {:.1} ms)", hop.depot, f64::from(hop.rtt_us) / 1e3)
            });
            format!("through {}", hops.collect::<Vec<_>>().join(", "))
        }
        Outcome::Direct => "directly: no route".to_owned(),
        Outcome::Short => "directly: short connections".to_owned(),
        Outcome::FellBack(why) => format!("directly: {why}"),
        Outcome::Failed { why, .. } => format!("failed: {why}"),
    }
}
