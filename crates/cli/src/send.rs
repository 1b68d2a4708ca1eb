// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul send`: sends files, directories and pipes.

use crate::{
    failure::Failure,
    follow::FollowArgs,
    parcel::{OwnerArgs, ParcelArgs, code_or_new, run_many, stored_code_or_new},
    print::print_error,
    receipt,
    transfer::shown_name,
};
use clap::Args;
use protocol::session::Role;
use session::{Options, Route, WholeDigest};
use std::{
    io,
    path::{Path, PathBuf},
};
use transfer::{
    check_sent_name,
    parcel::{Goal, Leaving, Parcel, SendRequest, WatchRequest},
};
use units::Rate;

const EXAMPLES: &str = "\
Examples:
  longhaul send set.tar --via depot.example.org --detach    # the depot keeps it
  tar c sets | longhaul send - receiver.example.org:3881 --name sets.tar --code k3v9-x2mq-7f4t-pd8w";

/// How long a depot keeps what is left there, unless told otherwise.
const KEEP: units::Duration = units::Duration::from_secs(24 * 3600);

/// Send a file, a directory or standard input to longhaul recv. See docs/send.md.
///
/// It continues after lost connections. If either end was stopped, run the same command again to continue.
/// With --detach a depot keeps it: the receiver may come later. With --follow a file is sent while it is written, with --watch the
/// files of a folder as programs complete them.
/// Exit codes: 0 received and verified, or kept; 1 failed, 2 wrong usage, 4 other data arrived, 130 and 143 stopped.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SendArgs {
    /// File or directory to send; - for standard input
    #[arg(value_name = "FILE|DIR|-")]
    what: PathBuf,
    /// Address of longhaul recv [default: both ends meet at the last depot of --via]
    #[arg(value_name = "HOST:PORT")]
    destination: Option<String>,
    /// Have the last depot of --via keep it until it expires, and exit when all is there
    #[arg(long, conflicts_with_all = ["destination", "digest"])]
    detach: bool,
    /// With --detach: how long the depot keeps it, as in 90min or 72h [default: 24h]
    #[arg(long, value_name = "TIME", requires = "detach")]
    keep: Option<units::Duration>,
    #[command(flatten)]
    owner: OwnerArgs,
    #[command(flatten)]
    follow: FollowArgs,
    /// Name for the receiver [default: the file's own]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Maximum rate, as in 100mbit or 10MBps [default: no limit]
    #[arg(long, value_name = "RATE")]
    limit_rate: Option<Rate>,
    /// Use this many connections at once, 1 to 16, over the routes of --via in turn. Not at a meeting
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    connections: u8,
    /// Also compare and report the SHA-256 or MD5 of all data
    #[arg(long, value_name = "sha256|md5")]
    digest: Option<WholeDigest>,
    /// Do not encrypt from end to end when a code is used, so that depots can read the data
    #[arg(long)]
    no_encryption: bool,
    /// Print what limited the transfer, by hop and second, to standard error
    #[arg(long)]
    receipt: bool,
    #[command(flatten)]
    parcel: ParcelArgs,
}

pub fn run(args: SendArgs) -> Result<(), Failure> {
    let SendArgs {
        what,
        destination,
        detach,
        keep,
        owner,
        follow,
        name,
        limit_rate,
        connections,
        digest,
        no_encryption,
        receipt,
        parcel: shared,
    } = args;
    check_sent_name(&what, name.as_deref())?;
    follow.check(&what)?;
    let encrypt = !no_encryption;
    let mut options = Options { digest, encrypt, connections, ..shared.options(limit_rate) };
    if !detach && owner.is_given() {
        return Err(Failure::usage("--owner-key is only for --detach"));
    }
    let address = destination.clone().unwrap_or_default();
    let goal = match destination {
        None if detach => leave(&shared, &owner, keep.unwrap_or(KEEP), no_encryption)?,
        Some(to) => {
            if to.starts_with("tcp:") {
                return Err(Failure::usage(
                    "tcp: a plain TCP server cannot receive from longhaul send. Name a longhaul recv: HOST:PORT",
                ));
            }
            let (routes, chooser) = shared.routes_or_auto(&to)?;
            options.chooser = chooser;
            check_connections(&options)?;
            Goal::Listener(routes, shared.code(None)?)
        }
        None if !shared.has_depots() => {
            let text = "no receiver given: name it (HOST:PORT), or a depot where both ends meet (--via DEPOT)";
            return Err(Failure::usage(text));
        }
        None if connections > 1 => {
            let text = "--connections: both ends of a meeting have one connection. Name the receiver (HOST:PORT), or leave it at a depot (--detach)";
            return Err(Failure::usage(text));
        }
        None if follow.watches() => {
            let text = "--watch needs the address of longhaul recv --many (HOST:PORT): at a meeting there is one transfer";
            return Err(Failure::usage(text));
        }
        None => {
            let routes = shared.routes(|via| Route::meeting(via, Role::Initiator))?;
            let depot = shared.meeting_place();
            let code = code_or_new(shared.code(None)?, |code| {
                format!("longhaul recv {code} --via {depot}")
            })?;
            Goal::Meeting(routes, code)
        }
    };
    if follow.watches() {
        return watch(follow.watch(what, &address, goal, options)?, &shared);
    }
    let is_pipe = what == Path::new("-");
    let shown = shown_name((!is_pipe).then_some(&what), "standard input");
    let parcel = if is_pipe { Parcel::Pipe(Box::new(io::stdin())) } else { follow.parcel(what) };
    let receipts = receipt || shared.is_reported();
    let request = SendRequest { parcel, name, folder: None, goal, options, receipts };
    let again = if detach {
        "stopped, and nothing is kept. To send it, run the command again"
    } else if is_pipe {
        "stopped. Data from standard input cannot be sent again: start over"
    } else {
        "stopped. To continue, run the same command again"
    };
    shared.run(&shown, again, async |progress, stop| {
        let report = request.run(&progress, stop.wait()).await;
        if let Some(limits) = report.limits.as_ref().filter(|_| receipt) {
            print_error(&receipt::table(limits));
        }
        report
    })
}

/// One route is chosen, and several connections use all of them.
fn check_connections(options: &Options) -> Result<(), Failure> {
    if options.chooser.is_some() && options.connections > 1 {
        let text = "--connections uses all routes at once: name them, in place of --via auto";
        return Err(Failure::usage(text));
    }
    Ok(())
}

/// Sends the files of a folder as they come.
fn watch(request: WatchRequest, shared: &ParcelArgs) -> Result<(), Failure> {
    run_many("stopped. To continue, run the same command again", async |stop| {
        request.run(|report| shared.tell(&report), stop.wait()).await
    })
}

/// The goal of a sender that does not wait for the receiver.
fn leave(
    shared: &ParcelArgs,
    owner: &OwnerArgs,
    keep: units::Duration,
    no_encryption: bool,
) -> Result<Goal, Failure> {
    if !shared.has_depots() {
        let text = "no depot given: name the one that is to keep it: --via DEPOT";
        return Err(Failure::usage(text));
    }
    if keep < units::Duration::from_secs(1) {
        return Err(Failure::usage("--keep: a depot keeps sessions for at least 1s"));
    }
    let routes = shared.routes(Route::store)?;
    let owner = owner.key_or_new()?;
    let depot = shared.meeting_place();
    let plain = if no_encryption { " --no-encryption" } else { "" };
    let code = stored_code_or_new(shared.stored_code(None)?, |code| {
        format!("longhaul recv {code} --via {depot}{plain}")
    })?;
    Ok(Goal::Store(routes, Leaving { code, owner, keep: keep.into() }))
}
