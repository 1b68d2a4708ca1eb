// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul intercept`: intercepts connections of other machines, or of this one, and routes them through depots.

use crate::{
    connections,
    failure::Failure,
    print::{print_json, print_text},
    via,
};
use clap::Args;
use entry::intercept::{self, Config, InterceptError, Interceptor};
use ipnet::IpNet;
use route::Match;
use std::path::PathBuf;
use units::{Duration, FailureClass};

const RUN_EXAMPLES: &str = "\
Examples:
  sudo longhaul intercept run --clients 10.1.0.0/16 --match '*:443' --via d1.example.net,d2.example.org
  sudo longhaul intercept run --config /etc/longhaul/intercept.toml";
const RULES_EXAMPLES: &str = "\
Examples:
  longhaul intercept rules --this-host --match '*:443' --via d1.example.net
  longhaul intercept rules --config /etc/longhaul/intercept.toml | less";
const STATUS_EXAMPLES: &str = "\
Examples:
  sudo longhaul intercept status
  sudo longhaul intercept status --json";
const CLEAN_EXAMPLES: &str = "\
Examples:
  sudo longhaul intercept clean
  sudo longhaul intercept clean && sudo longhaul intercept run --config /etc/longhaul/intercept.toml";

#[derive(clap::Subcommand)]
pub enum Command {
    Run(RunArgs),
    Rules(RulesArgs),
    Status(StatusArgs),
    /// Remove policy routing that is left if an interceptor and its guard were both killed. Needs root.
    #[command(after_help = CLEAN_EXAMPLES)]
    Clean,
    #[command(hide = true)]
    Guard,
}

/// Intercept connections until stopped. Needs root. See docs/intercept.md.
///
/// It adds an nftables table of its own and a policy routing rule. Both are removed when it ends, also by kill -9.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Print the nftables table that these settings make, and change nothing.
#[derive(Debug, Args)]
#[command(after_help = RULES_EXAMPLES)]
pub struct RulesArgs {
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Debug, Args)]
struct SettingsArgs {
    /// Configuration file (TOML) with settings and routes; read again when it changes
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Intercept connections that this network's machines make through this router; may be repeated
    #[arg(long, value_name = "NET", conflicts_with = "config")]
    clients: Vec<IpNet>,
    /// Intercept connections that this host makes
    #[arg(long, conflicts_with = "config")]
    this_host: bool,
    /// Depots of a route, the one nearest this machine first; repeat for a route to use when this one fails
    #[arg(long, value_name = "[https:]HOST[:PORT],...", conflicts_with = "config")]
    via: Vec<String>,
    /// Destinations: NET[:PORT], ADDRESS[:PORT] or *:PORT [default: all except private networks and this host]
    #[arg(long = "match", value_name = "NET[:PORT]", requires = "via")]
    matches: Vec<Match>,
    /// Refuse connections when no route works, instead of letting them pass
    #[arg(long, conflicts_with = "config")]
    strict: bool,
    /// Maximum time to connect by one route, as in 500ms
    #[arg(long, value_name = "TIME", default_value = "10s", conflicts_with = "config")]
    connect_timeout: Duration,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    ca: Option<PathBuf>,
    /// Send these servers the client's address by the PROXY protocol, version 2; may be repeated
    #[arg(long, value_name = "NET[:PORT]", conflicts_with = "config")]
    proxy_protocol: Vec<Match>,
}

/// Show the connections of the interceptor that runs in this network namespace. Needs root.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub struct StatusArgs {
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// Whether the command logs.
pub fn is_daemon(command: &Command) -> bool {
    matches!(command, Command::Run(_))
}

pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(RunArgs { settings }) => {
            let config = settings.config()?;
            let stop = host::background_stop_socket().map_err(Failure::failed)?;
            Ok(Interceptor::new(config, settings.config).run(stop)?)
        }
        Command::Rules(RulesArgs { settings }) => {
            print_text(&intercept::rules(&settings.config()?));
            Ok(())
        }
        Command::Status(args) => status(&args),
        Command::Clean => {
            intercept::clean();
            Ok(())
        }
        Command::Guard => intercept::guard().map_err(Failure::failed),
    }
}

impl SettingsArgs {
    fn config(&self) -> Result<Config, Failure> {
        if let Some(file) = &self.config {
            return Config::read(file).map_err(Failure::usage);
        }
        let config = Config {
            clients: self.clients.iter().map(IpNet::trunc).collect(),
            this_host: self.this_host,
            routes: via::table(&self.via, &self.matches, self.ca.as_deref())?,
            strict: self.strict,
            connect_timeout: Some(self.connect_timeout.into()),
            ca: self.ca.clone(),
            proxy_protocol: self.proxy_protocol.clone(),
        };
        config.check().map_err(Failure::usage)?;
        Ok(config)
    }
}

fn status(args: &StatusArgs) -> Result<(), Failure> {
    let report = intercept::status().map_err(|error| {
        Failure::failed(format_args!(
            "no interceptor answers in this network namespace: {error}. If none runs, start one: longhaul \
             intercept run --config FILE"
        ))
    })?;
    if args.json {
        print_json(&report);
        return Ok(());
    }
    let mut from = report.clients.clone();
    if report.this_host {
        from.push("this host".to_owned());
    }
    let text = format!("connections of {}; {} held\n", from.join(", "), report.held);
    print_text(&(text + &connections::table(&report.status)));
    Ok(())
}

impl From<InterceptError> for Failure {
    fn from(error: InterceptError) -> Self {
        match error {
            InterceptError::Lacks(lack) => Self::new(FailureClass::Lacks, lack),
            InterceptError::Failed(_) => Self::failed(error),
        }
    }
}
