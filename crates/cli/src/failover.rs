// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul failover`: a site leads its clients to the depots that are up.

use crate::failure::Failure;
use ::depot::StderrLog;
use ::failover::Config;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

/// Have a site lead its clients to the depots that are up, and serve them directly where none is.
///
/// Asks each depot every second, and renews the file that nginx or Apache includes when that changes
/// which way clients go. Ends at SIGTERM, and leaves the file as it is.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct FailoverArgs {
    #[command(subcommand)]
    command: Option<Command>,
    /// Configuration file (TOML); deploy/failover/README.md explains its keys
    #[arg(required = true)]
    config: Option<PathBuf>,
    /// Look once, write the file, and end
    #[arg(long)]
    once: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a configuration, without asking anybody anything
    Check {
        /// Configuration file
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
