// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul origin`: a directory served through depots, where no web server is at hand.

use crate::failure::Failure;
use ::origin::{self, Config, Error};
use clap::{Args, ValueEnum};
use session::{DepotAddress, Form};
use std::{net::SocketAddr, path::PathBuf};

const EXAMPLES: &str = "\
Examples:
  longhaul origin /srv/files --list
  longhaul origin /srv/files --through depot2.example.org,depot1.example.net";

/// Serve a directory, sending clients through depots.
///
/// Requests that come through a depot get the file; all others are redirected to the depots.
/// Without --through every request gets the file. Stops at SIGTERM.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct OriginArgs {
    /// Directory to serve
    dir: PathBuf,
    /// Address to listen on. URLs must name its port, unless it is 80
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// Depots, in the order in which the bytes pass them: the one nearest this origin first [port: 3880,
    /// after https: 443]
    #[arg(long, value_name = "[https:]HOST[:PORT],...", value_delimiter = ',')]
    through: Vec<DepotAddress>,
    /// How clients are sent: lead (one redirect for each depot) or fetch (one in all)
    #[arg(long, value_enum, default_value = "fetch")]
    form: FormArg,
    /// Address of this origin as depots reach it [default: the one the client asked for] [port: that of --listen]
    #[arg(long, value_name = "HOST[:PORT]")]
    public: Option<String>,
    /// List directories that have no index.html, for browsers and for programs such as rclone
    #[arg(long)]
    list: bool,
}

/// [`Form`] as an argument.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum FormArg {
    Lead,
    Fetch,
}

/// Serves until it is told to stop.
pub fn run(args: OriginArgs) -> Result<(), Failure> {
    let form = match args.form {
        FormArg::Lead => Form::Lead,
        FormArg::Fetch => Form::Fetch,
    };
    let OriginArgs { dir, listen, through, public, list, .. } = args;
    let config = Config { dir, listen, through, form, public, list };
    origin::run(config).map_err(|error| match error {
        Error::NoDirectory(_) | Error::Route(_) | Error::Public(_) => Failure::usage(error),
        other => Failure::failed(other),
    })
}
