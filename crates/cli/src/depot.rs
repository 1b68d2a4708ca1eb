// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul depot`: runs a depot (arguments override a configuration file, which overrides defaults), checks a
//! configuration, loads the kernel pacing that it needs, and shows and controls a running depot.

pub mod cells;
mod control;
mod keygen;
mod pace;
mod status;

use crate::{failure::Failure, print::print_text};
use ::depot::{Config, CopyMode, PeerOptions, StderrLog, UpstreamRule, parse_network};
use clap::{Args, Subcommand};
use host::User;
use ipnet::IpNet;
use std::{
    io::ErrorKind,
    net::SocketAddr,
    path::{Path, PathBuf},
};

const EXAMPLES: &str = "\
Examples:
  longhaul depot --config /etc/longhaul/depot.toml
  longhaul depot --id d1 --allow-client 192.0.2.0/24 --allow-upstream d2.example.org:3880 --admin 127.0.0.1:3881";
const CHECK_EXAMPLES: &str = "\
Examples:
  longhaul depot check /etc/longhaul/depot.toml
  sudo longhaul depot check --quiet --user longhaul /etc/longhaul/depot.toml";

/// Run a depot, which relays data from origins and other depots to clients.
///
/// It refuses all requests until clients and upstreams are allowed. Arguments add to the lists of the configuration
/// file, and replace its single values. At SIGTERM it finishes open transfers and ends.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DepotArgs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(CheckArgs),
    Keygen(keygen::KeygenArgs),
    Pace(pace::PaceArgs),
    Status(status::StatusArgs),
    Transfers(control::TransfersArgs),
    End(control::EndArgs),
    Deny(control::DenyArgs),
    Allow(control::AllowArgs),
    Denied(control::DeniedArgs),
    Limit(control::LimitArgs),
    Limits(control::LimitsArgs),
}

/// Check a configuration, by itself and against this host, and print it in full.
///
/// Takes the options of `longhaul depot`, so that it checks the configuration that will run. Changes nothing. As
/// root, name the user that the depot runs as: root can read keys that this user cannot.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
struct CheckArgs {
    /// Configuration file (TOML), as with --config
    #[arg(conflicts_with = "config")]
    file: Option<PathBuf>,
    /// Check with the rights of this user (name or number) and without capabilities; requires root
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Print only errors, and warnings about the configuration
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    run: RunArgs,
}

/// The settings of a depot.
#[derive(Debug, Clone, Args)]
struct RunArgs {
    /// Configuration file (TOML); docs/depot/configuration.md explains its keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on instead of the configured ones; may be repeated [default: port 3880 on all]
    #[arg(long, value_name = "IP:PORT")]
    listen: Vec<SocketAddr>,
    /// Name of this depot in Via; no two depots of a chain may share it [default: host and port]
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// Network whose clients may use the depot, as in 10.0.0.0/8, or one address; may be repeated
    #[arg(long, value_name = "NET", value_parser = parse_network)]
    allow_client: Vec<IpNet>,
    /// Upstream to which the depot may connect or redirect: HOST:PORT, NET:PORT, or * as the port; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    allow_upstream: Vec<UpstreamRule>,
    /// Plain TCP server at which sessions may end, as those of longhaul run and longhaul agent; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    allow_server: Vec<UpstreamRule>,
    /// Congestion control and socket buffers for connections with peers in a network; may be repeated
    #[arg(long, value_name = "NET=CC[,sndbuf=SIZE][,rcvbuf=SIZE]")]
    hop: Vec<PeerOptions>,
    /// Allow connections to loopback, link-local and the depot's own addresses
    #[arg(long)]
    allow_local: bool,
    /// Allow connections to private addresses that no --allow-upstream names by their network
    #[arg(long)]
    allow_private: bool,
    /// How bodies are relayed: splice (in the kernel) or copy [default: splice]
    #[arg(long, value_name = "HOW", value_parser = copy_mode)]
    copy: Option<CopyMode>,
    /// Address of the operators' page, metrics and health check, as in 127.0.0.1:3881 [default: none]
    #[arg(long, value_name = "IP:PORT")]
    admin: Option<SocketAddr>,
}

/// Runs a depot until it is stopped, or runs a subcommand.
pub fn run(args: DepotArgs, log: &StderrLog) -> Result<(), Failure> {
    match args.command {
        None => {
            let run = args.run;
            let first = config(run.clone())?;
            let reread = move || config(run.clone()).map_err(|failure| failure.to_string());
            Ok(::depot::run(first, Box::new(reread), pace::pacers(), log)?)
        }
        Some(Command::Check(args)) => check(args),
        Some(Command::Keygen(args)) => keygen::run(&args),
        Some(Command::Pace(args)) => pace::run(&args),
        Some(Command::Status(args)) => status::run(&args),
        Some(Command::Transfers(args)) => control::transfers(&args),
        Some(Command::End(args)) => control::end(&args),
        Some(Command::Deny(args)) => control::deny(&args),
        Some(Command::Allow(args)) => control::allow(&args),
        Some(Command::Denied(args)) => control::denied(&args),
        Some(Command::Limit(args)) => control::limit(&args),
        Some(Command::Limits(args)) => control::limits(&args),
    }
}

/// Checks a configuration, and prints it.
fn check(args: CheckArgs) -> Result<(), Failure> {
    let CheckArgs { file, user, quiet, run } = args;
    // Before the configuration is read, which the depot's user must be able to read as well.
    if let Some(name) = &user {
        User::find(name).and_then(|user| user.assume()).map_err(Failure::usage)?;
    }
    let config = config(RunArgs { config: file.or(run.config), ..run })?;
    if user.is_none() {
        ::depot::warn_of_root_rights(&config);
    }
    ::depot::check(config.clone(), &pace::pacers())?;
    if !quiet {
        ::depot::warn_of_host_settings(&config);
        print_text(&config.to_toml());
    }
    Ok(())
}

/// The configuration of a file.
fn read(file: &Path) -> Result<Config, Failure> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| {
        let user = match error.kind() {
            ErrorKind::PermissionDenied => format!(": {} may not read it", User::current()),
            _ => String::new(),
        };
        Failure::usage(format!("cannot read {name}: {error}{user}"))
    })?;
    Config::from_toml(&text, &name).map_err(Failure::usage)
}

/// The configuration of the file with the arguments applied.
fn config(args: RunArgs) -> Result<Config, Failure> {
    let mut config = args.config.as_deref().map_or_else(|| Ok(Config::default()), read)?;
    if !args.listen.is_empty() {
        config.listen = args.listen;
    }
    config.id = args.id.or(config.id);
    config.admin.listen = args.admin.or(config.admin.listen);
    config.copy = args.copy.unwrap_or(config.copy);
    config.allow.clients.extend(args.allow_client);
    config.allow.upstreams.extend(args.allow_upstream);
    config.allow.servers.extend(args.allow_server);
    config.hops.extend(args.hop);
    config.allow.local |= args.allow_local;
    config.allow.private |= args.allow_private;
    Ok(config)
}

fn copy_mode(text: &str) -> Result<CopyMode, String> {
    match text {
        "splice" => Ok(CopyMode::Splice),
        "copy" => Ok(CopyMode::Copy),
        _ => Err("expected splice or copy".to_owned()),
    }
}
