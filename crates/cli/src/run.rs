// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul run`: a program whose connections go through depots.

use crate::{failure::Failure, text_table::TextTable, via};
use clap::Args;
use doors::{
    routes::{Match, Routes},
    run::{
        Connection, Launch, Outcome, ProgramEnd, Rules, RunError, Supervisor, Tally,
        wait_for_program,
    },
};
use session::{DepotAddress, lsl::MAX_HOPS};
use std::{
    env,
    ffi::OsString,
    os::{fd::RawFd, unix::process::ExitStatusExt},
    path::PathBuf,
    process::ExitCode,
};
use units::Duration;

const EXAMPLES: &str = "\
Examples:
  longhaul run --via d1.example.net,d2.example.org -- rsync -a rsync://data.example.org/sets .
  longhaul run --via d1.example.net --match '*:5432' --stats -- psql -h db.example.org -c 'select 1'";

/// The option by which the supervisor's process is told where to report.
const REPORT_TO: &str = "--report-to";

/// Run a program whose TCP connections go through depots. See docs/run.md.
///
/// The program is not changed and needs no root. Its exit code is that of this command: 126 and 127 if it cannot be run, 128
/// and the number of a signal that ended it. Own exit codes: 1 failed, 2 wrong usage, 3 the machine lacks something.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Depots to go through, the one nearest this machine first; again for the next route if this one fails
    #[arg(long, required = true, value_name = "[https:]HOST[:PORT],...")]
    via: Vec<String>,
    /// What goes through them: a network, an address, HOST[:PORT] or *:PORT [default: all but this machine]
    #[arg(long = "match", value_name = "NET|HOST[:PORT]")]
    matches: Vec<Match>,
    /// Let connections fail when no route works, in place of connecting directly
    #[arg(long)]
    strict: bool,
    /// How long one route may take to connect
    #[arg(long, value_name = "TIME", default_value = "10s")]
    connect_timeout: Duration,
    /// Trust the certificate authorities in this file (PEM) in place of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print the program's connections to standard error when it has ended
    #[arg(long)]
    stats: bool,
    /// Do not say why a connection is made directly
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
    // What is wrong with them is said before anything starts.
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
            "the supervisor was killed; process {pid} goes on, and cannot open connections any more"
        ))),
    }
}

fn supervise(args: &RunArgs, descriptor: RawFd) -> Result<ExitCode, Failure> {
    let supervisor = Supervisor::inherited(descriptor).map_err(Failure::failed)?;
    let (program, arguments) = args.program.split_first().expect("one is required");
    let launch = Launch { program: program.clone(), arguments: arguments.to_vec() };
    let stats = args.stats;
    supervisor.run(&launch, args.rules()?, |tally| {
        if stats {
            eprint!("{}", table(tally));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

impl RunArgs {
    fn rules(&self) -> Result<Rules, Failure> {
        let via: Result<Vec<_>, _> = self.via.iter().map(|text| route(text)).collect();
        let quiet = self.quiet;
        Ok(Rules {
            routes: Routes::through(via?, self.matches.clone()),
            ca: self.ca.clone(),
            strict: self.strict,
            time: self.connect_timeout.into(),
            warn: if quiet {
                |_| ()
            } else {
                |why| eprintln!("longhaul: connecting directly: {why}")
            },
        })
    }
}

fn route(text: &str) -> Result<Vec<DepotAddress>, Failure> {
    let depots = via::depots(text)?;
    if depots.len() > MAX_HOPS {
        return Err(via::malformed(&"a route has at most 16 depots"));
    }
    Ok(depots)
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let code = error.exit_code();
        Self::failed(error).with_exit_code(code)
    }
}

fn table(tally: &Tally) -> String {
    let text = format!(
        "{} connections: {} through depots, {} directly, {} failed\n",
        tally.all(),
        tally.through_chain(),
        tally.direct(),
        tally.failed(),
    );
    let mut table = TextTable::default();
    table.left("destination", 21);
    table.right("connect ms", 10);
    for connection in tally.latest() {
        let took = format!("{:.1}", connection.took.as_secs_f64() * 1e3);
        table.row(vec![connection.destination.to_string(), took], format!("  {}", how(connection)));
    }
    text + &table.text()
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
        Outcome::FellBack(why) => format!("directly: {why}"),
        Outcome::Failed { why, .. } => format!("failed: {why}"),
    }
}
