// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul intercept`: connections of other machines, or of this one, taken over and led through depots.

use crate::{
    connections,
    failure::Failure,
    print::{print_json, print_text},
    via,
};
use clap::Args;
use doors::{
    intercept::{self, Config, InterceptError, Interceptor},
    routes::{Match, Routes},
};
use ipnet::IpNet;
use std::path::PathBuf;
use units::{Duration, FailureClass};

const RUN_EXAMPLES: &str = "\
Examples:
  sudo longhaul intercept run --clients 10.1.0.0/16 --match '*:443' --via d1.example.net,d2.example.org
  sudo longhaul intercept run --own --match 198.51.100.0/24 --via d1.example.net,d2.example.org
  sudo longhaul intercept run --config /etc/longhaul/intercept.toml";
const RULES_EXAMPLES: &str = "\
Examples:
  longhaul intercept rules --own --match '*:443' --via d1.example.net
  longhaul intercept rules --config /etc/longhaul/intercept.toml | less";

#[derive(clap::Subcommand)]
pub enum Command {
    Run(RunArgs),
    Rules(RulesArgs),
    Status(StatusArgs),
    /// Remove policy routing that an interceptor left behind: only after it and its guard were both killed
    Clean,
    #[command(hide = true)]
    Guard,
}

/// Intercept connections until stopped. Needs root. See docs/intercept.md.
///
/// It makes a table of its own in nftables and a rule in the policy routing. Both are gone when it ends, also by kill -9.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Print the nftables table for these settings, and change nothing.
#[derive(Debug, Args)]
#[command(after_help = RULES_EXAMPLES)]
pub struct RulesArgs {
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Debug, Args)]
struct SettingsArgs {
    /// Settings and routes; read again when the file changes
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Intercept connections that these machines make through this router; again for more networks
    #[arg(long, value_name = "NET", conflicts_with = "config")]
    clients: Vec<IpNet>,
    /// Intercept connections that this host makes
    #[arg(long, conflicts_with = "config")]
    own: bool,
    /// Depots to go through, the one nearest this machine first; again for the next route if this one fails
    #[arg(long, value_name = "[https:]HOST[:PORT],...", conflicts_with = "config")]
    via: Vec<String>,
    /// Destinations: NET[:PORT], ADDRESS[:PORT] or *:PORT [default: all but private networks and this host]
    #[arg(long = "match", value_name = "NET[:PORT]", requires = "via")]
    matches: Vec<Match>,
    /// Refuse connections when no route works, in place of letting them pass
    #[arg(long, conflicts_with = "config")]
    strict: bool,
    /// How long one route may take to connect
    #[arg(long, value_name = "TIME", default_value = "10s", conflicts_with = "config")]
    connect_timeout: Duration,
    /// Trust the certificate authorities in this file (PEM) in place of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    ca: Option<PathBuf>,
    /// Tell these servers the client's address by the PROXY protocol, version 2
    #[arg(long, value_name = "NET[:PORT]", conflicts_with = "config")]
    proxy_protocol: Vec<Match>,
}

/// Show the connections of the interceptor that runs in this network namespace.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print one JSON document
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
            own: self.own,
            routes: Routes::through(via::routes(&self.via)?, self.matches.clone()),
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
        Failure::failed(format_args!("no interceptor answers in this network namespace: {error}"))
    })?;
    if args.json {
        print_json(&report);
        return Ok(());
    }
    let mut from = report.clients.clone();
    if report.own {
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
