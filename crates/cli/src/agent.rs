// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul agent`: a proxy on this machine whose connections go through depots.

use crate::{
    connections,
    failure::Failure,
    print::{print_json, print_text},
    via,
};
use clap::Args;
use entry::agent::{Agent, Config, Login, connect};
use protocol::Authority;
use route::{FirstContact, Match};
use std::{
    io::ErrorKind,
    net::SocketAddr,
    path::{Path, PathBuf},
};
use units::Bytes;

const RUN_EXAMPLES: &str = "\
Examples:
  longhaul agent run --via d1.example.net,d2.example.org
  longhaul agent run --config ~/.config/longhaul/agent.toml";
const STATUS_EXAMPLES: &str = "\
Examples:
  longhaul agent status
  longhaul agent status 127.0.0.1:1080 --json";
const CONNECT_EXAMPLES: &str = "\
Examples:
  ssh -o ProxyCommand='longhaul agent connect %h:%p' data.example.org
  echo | longhaul agent connect data.example.org:80";

#[derive(clap::Subcommand)]
pub enum Command {
    Run(RunArgs),
    Status(StatusArgs),
    Connect(ConnectArgs),
}

/// Run the proxy, which speaks SOCKS5 and HTTP on one port. See docs/agent.md.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// Configuration file (TOML) with settings and routes; read again when it changes
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:3885]
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "config")]
    listen: Option<SocketAddr>,
    /// Depots of a route, the one nearest this machine first; repeat for a route to use when this one fails
    #[arg(long, value_name = "[https:]HOST[:PORT],...", conflicts_with = "config")]
    via: Vec<String>,
    /// Destinations to reach through depots: NET, HOST[:PORT], *.DOMAIN or *:PORT [default: all except this machine]
    #[arg(long = "match", value_name = "NET|HOST[:PORT]", requires = "via")]
    matches: Vec<Match>,
    /// Connect directly to destinations whose latest three connections each moved less than this, as in 64KB
    /// [default: off]
    #[arg(long, value_name = "SIZE", requires = "via")]
    direct_below: Option<Bytes>,
    /// With --direct-below: how to reach a destination without earlier connections
    #[arg(long, value_name = "depots|direct", default_value = "depots", requires = "direct_below")]
    first_contact: FirstContact,
    /// Let connections fail when no route works, instead of connecting directly
    #[arg(long, conflicts_with = "config")]
    strict: bool,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    ca: Option<PathBuf>,
}

/// Show the connections of a running agent.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub struct StatusArgs {
    /// Address on which the agent listens [default: 127.0.0.1:3885]
    agent: Option<SocketAddr>,
    /// Configuration file of the agent, with its address and login
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// Connect standard input and output to a server through a running agent, as ssh's `ProxyCommand`.
#[derive(Debug, Args)]
#[command(after_help = CONNECT_EXAMPLES)]
pub struct ConnectArgs {
    /// Server and port to connect to
    #[arg(value_name = "HOST:PORT")]
    server: Authority,
    /// Address on which the agent listens [default: 127.0.0.1:3885]
    #[arg(long, value_name = "ADDR:PORT")]
    agent: Option<SocketAddr>,
    /// Configuration file of the agent, with its address and login
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Whether the command logs.
pub fn is_daemon(command: &Command) -> bool {
    matches!(command, Command::Run(_))
}

pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => serve(args),
        Command::Status(args) => status(&args),
        Command::Connect(ConnectArgs { server, agent, config }) => {
            let (agent, login) = running(agent, config.as_deref())?;
            let to_agent = |error| {
                Failure::failed(format_args!(
                    "cannot connect to {server} by the agent at {agent}: {error}"
                ))
            };
            connect::connect(agent, login.as_ref(), &server).map_err(to_agent)
        }
    }
}

fn serve(args: RunArgs) -> Result<(), Failure> {
    let config = match &args.config {
        Some(file) => Config::read(file).map_err(Failure::usage)?,
        None => args.config()?,
    };
    let stop = host::background_stop_socket().map_err(Failure::failed)?;
    Agent::new(config, args.config).run(stop).map_err(Failure::failed)
}

impl RunArgs {
    fn config(&self) -> Result<Config, Failure> {
        let before = Config::default();
        let config = Config {
            listen: self.listen.unwrap_or(before.listen),
            routes: via::table(&self.via, &self.matches, self.ca.as_deref())?
                .directly_below(self.direct_below, self.first_contact),
            strict: self.strict,
            ca: self.ca.clone(),
            ..before
        };
        config.check().map_err(Failure::usage)?;
        Ok(config)
    }
}

/// A running agent's address and login.
fn running(
    given: Option<SocketAddr>,
    config: Option<&Path>,
) -> Result<(SocketAddr, Option<Login>), Failure> {
    let config = config.map(Config::read).transpose().map_err(Failure::usage)?.unwrap_or_default();
    Ok((given.unwrap_or(config.listen), config.login))
}

fn status(args: &StatusArgs) -> Result<(), Failure> {
    let (agent, login) = running(args.agent, args.config.as_deref())?;
    let status = connect::status(agent, login.as_ref()).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Failure::failed(format_args!(
            "the agent at {agent} says: {error}. If it has a login, name its file: longhaul agent status --config FILE"
        )),
        _ => Failure::failed(format_args!(
            "no agent answers at {agent}: {error}. If none runs, start one: longhaul agent run --via DEPOT \
             --listen {agent}"
        )),
    })?;
    if args.json {
        print_json(&status);
    } else {
        print_text(&connections::table(&status));
    }
    Ok(())
}
