// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul origin`: serves a directory through depots, for sites without a web server.

use crate::{failure::Failure, via::OneChain};
use ::origin::{self, Config, Error};
use clap::{Args, ValueEnum};
use protocol::Form;
use std::{net::SocketAddr, path::PathBuf};

const EXAMPLES: &str = "\
Examples:
  longhaul origin /srv/files --list
  longhaul origin /srv/files --via depot1.example.net,depot2.example.org";

/// Serve a directory over HTTP, and redirect clients to depots.
///
/// Requests that come through a depot get the file. All others are redirected to the depots. Without --via every
/// request gets the file. Ends at SIGTERM.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct OriginArgs {
    /// Directory to serve
    dir: PathBuf,
    /// Address to listen on; URLs must name its port unless it is 80
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:8080")]
    listen: SocketAddr,
    /// Depots that clients are redirected to, the one nearest them first [default port: 3880, after https: 443]
    #[arg(long, value_name = "[https:]HOST[:PORT],...")]
    via: Option<OneChain>,
    /// How clients are redirected: lead (one redirect per depot) or fetch (one in total)
    #[arg(long, value_enum, default_value = "fetch")]
    form: FormArg,
    /// Address at which depots reach this origin [default: the host that the client requested, with the port of
    /// --listen]
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

/// Serves until a signal stops it.
pub fn run(args: OriginArgs) -> Result<(), Failure> {
    let form = match args.form {
        FormArg::Lead => Form::Lead,
        FormArg::Fetch => Form::Fetch,
    };
    let OriginArgs { dir, listen, via, public, list, .. } = args;
    let via = via.map(|chain| chain.0).unwrap_or_default();
    let config = Config { dir, listen, via, form, public, list };
    origin::run(config).map_err(|error| match error {
        Error::NoDirectory(_) | Error::Route(_) | Error::Public(_) => Failure::usage(error),
        other => Failure::failed(other),
    })
}
