// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line `longhaul`: arguments and printing only. The other crates do the work.
//!
//! A library, so that manual pages and shell completions (`examples/manuals`) are made from the
//! same definition of the arguments, without code for them in the binary.
//!
//! Results go to standard output, progress and logs to standard error. Exit codes: 0 done,
//! 1 failed, 2 wrong usage, 3 this machine lacks something, 4 data did not verify, 141 the reader of `-o -` has
//! closed it.

// They panic if a reader has closed the pipe.
#![warn(clippy::print_stdout, clippy::print_stderr)]

// First, for its macros.
#[macro_use]
mod print;

mod agent;
mod bench;
mod cc;
mod cc_file;
mod compare;
mod connections;
mod demo;
mod depot;
mod doctor;
mod export;
mod failover;
mod failure;
mod features;
mod figure;
mod follow;
mod get;
mod guard;
mod identical_repeats;
mod intercept;
mod key_files;
mod lab;
mod monitor;
mod origin;
mod pace;
mod parcel;
mod progress;
mod put;
mod random;
mod receipt;
mod recv;
mod report;
mod reproduce;
mod results_table;
mod route;
mod run;
mod runs;
mod send;
mod session;
mod text_table;
mod ticket;
mod trace;
mod transfer;
mod via;
mod wan;

use ::depot::StderrLog;
use clap::{CommandFactory, Parser, Subcommand};
use failure::Failure;
use print::StreamedOutput;
use std::{io::IsTerminal, process::ExitCode};
use tracing_subscriber::filter::{EnvFilter, LevelFilter};

/// The exit code that shells report for a program that SIGPIPE (13) ended.
const SIGPIPE_EXIT_CODE: u8 = 128 + 13;

/// Move bulk data over long fat networks as fast as the path allows, and show when and why that works.
#[derive(Parser)]
#[command(name = "longhaul", version, long_version = features::text(), max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a proxy on this machine that routes connections through depots.
    #[command(subcommand)]
    Agent(agent::Command),
    /// Score congestion controls and depots by users' tasks. See docs/benchmark.md.
    #[command(subcommand)]
    Bench(bench::Command),
    /// List, load and check congestion controls of the running kernel.
    #[command(subcommand)]
    Cc(cc::Command),
    Demo(demo::DemoArgs),
    Depot(Box<depot::DepotArgs>),
    Doctor(Box<doctor::DoctorArgs>),
    Figure(figure::FigureArgs),
    Get(Box<get::GetArgs>),
    /// The guard of a host that an experiment uses: lab run starts it there by ssh.
    #[command(hide = true)]
    Guard(guard::GuardArgs),
    /// Intercept TCP connections of other machines, or of this one, and route them through depots.
    #[command(subcommand)]
    Intercept(intercept::Command),
    Origin(origin::OriginArgs),
    /// Run scenarios, and check and export them.
    #[command(subcommand)]
    Lab(lab::Command),
    Failover(failover::FailoverArgs),
    Monitor(monitor::MonitorArgs),
    /// Pace the packets that leave by a network device.
    #[command(subcommand)]
    Pace(pace::Command),
    Put(Box<put::PutArgs>),
    Recv(Box<recv::RecvArgs>),
    Report(report::ReportArgs),
    Reproduce(reproduce::ReproduceArgs),
    /// Show what is known of routes, and which of them --via auto takes.
    #[command(subcommand)]
    Route(route::Command),
    Run(run::RunArgs),
    Send(Box<send::SendArgs>),
    /// Show sessions, which are two-way byte streams through depots.
    #[command(subcommand)]
    Session(session::Command),
    /// Simulate a scenario in virtual time, as `lab run --method sim` does.
    #[command(after_help = lab::SIM_EXAMPLES)]
    Sim(lab::SimArgs),
    /// Make, show and verify tickets, which are signed URLs that depots accept.
    #[command(subcommand)]
    Ticket(ticket::Command),
    Trace(trace::TraceArgs),
    /// Run an emulated wide-area network on this machine.
    #[command(subcommand)]
    Wan(wan::Command),
}

/// The definition of the command line, for manual pages and shell completions.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command that this process's arguments name.
pub fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Agent(command) if agent::is_daemon(&command) => {
            let log = log_to_stderr();
            log.start();
            let result = agent::run(command);
            log.finish();
            result
        }
        Command::Agent(command) => agent::run(command),
        Command::Intercept(command) if intercept::is_daemon(&command) => {
            let log = log_to_stderr();
            log.start();
            let result = intercept::run(command);
            log.finish();
            result
        }
        Command::Intercept(command) => intercept::run(command),
        Command::Bench(command) => bench::run(&command),
        Command::Cc(command) => cc::run(command),
        Command::Demo(args) => demo::run(&args),
        Command::Depot(args) => {
            let log = log_to_stderr();
            let result = depot::run(*args, &log);
            log.finish();
            result
        }
        Command::Origin(args) => {
            let log = log_to_stderr();
            log.start();
            let result = origin::run(args);
            log.finish();
            result
        }
        Command::Doctor(args) => doctor::run(&args),
        Command::Figure(args) => figure::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Guard(args) => guard::run(&args),
        Command::Lab(command) => lab::run(command),
        Command::Failover(args) => {
            let log = log_to_stderr();
            let result = failover::run(args, &log);
            log.finish();
            result
        }
        Command::Monitor(args) => monitor::run(&args),
        Command::Pace(command) => pace::run(command),
        Command::Put(args) => put::run(&args),
        Command::Recv(args) => recv::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Route(command) => route::run(&command),
        Command::Run(args) => return run::run(&args),
        Command::Send(args) => send::run(*args),
        Command::Session(command) => session::run(&command),
        Command::Sim(args) => lab::simulate(args),
        Command::Ticket(command) => ticket::run(command),
        Command::Trace(args) => trace::run(&args),
        Command::Wan(command) => wan::run(command),
    };
    let unwritten = |error| Failure::failed(format!("cannot write to standard output: {error}"));
    match result.and_then(|()| print::finish().map_err(unwritten)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if StreamedOutput::is_closed() => ExitCode::from(SIGPIPE_EXIT_CODE),
        Err(failure) => failure.report(),
    }
}

/// The servers' log, not started yet. `RUST_LOG` sets its level, as in `RUST_LOG=debug`.
fn log_to_stderr() -> StderrLog {
    let log = StderrLog::new();
    let writer = log.clone();
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    tracing_subscriber::fmt()
        .with_env_filter(filter.from_env_lossy())
        .with_writer(move || writer.clone())
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    log
}
