// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul failover`: health-checks depots and redirects a site's clients to live ones.

use crate::failure::Failure;
use ::depot::StderrLog;
use ::failover::Config;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  longhaul failover /etc/longhaul/failover.toml
  longhaul failover /etc/longhaul/failover.toml --once";
const CHECK_EXAMPLES: &str = "\
Examples:
  longhaul failover check /etc/longhaul/failover.toml
  longhaul failover check failover.toml && echo valid";

/// Health-check depots and redirect a site's clients to live ones.
///
/// Checks each depot every second. When the route of clients changes, it rewrites the file that nginx or Apache
/// includes. If no depot is live, the site serves clients directly. Ends at SIGTERM, and leaves the file in place.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct FailoverArgs {
    #[command(subcommand)]
    command: Option<Command>,
    /// Configuration file (TOML); deploy/failover/README.md explains its keys
    #[arg(required = true)]
    config: Option<PathBuf>,
    /// Check the depots once, write the file and end
    #[arg(long)]
    once: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a configuration without contacting depots
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// Configuration file (TOML)
        config: PathBuf,
    },
}

pub fn run(args: FailoverArgs, log: &StderrLog) -> Result<(), Failure> {
    match (args.command, args.config) {
        (Some(Command::Check { config }), _) => {
            ::failover::check(&read(&config)?).map_err(Failure::usage)
        }
        (None, Some(config)) => {
            let config = read(&config)?;
            log.start();
            ::failover::run(config, args.once).map_err(Failure::failed)
        }
        (None, None) => unreachable!("a configuration is required"),
    }
}

fn read(file: &Path) -> Result<Config, Failure> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    Config::from_toml(&text, &name).map_err(Failure::usage)
}
