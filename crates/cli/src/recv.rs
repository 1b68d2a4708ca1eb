// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul recv`: receives files, directories and pipes from longhaul send.

use crate::{
    failure::Failure,
    parcel::{OwnerArgs, ParcelArgs, code_or_new, run_many},
    transfer::{plain_stdout, shown_name},
};
use clap::Args;
use protocol::session::{Role, SessionId};
use session::{ListenOptions, Listener, Route};
use std::{
    net::{Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};
use transfer::{
    Error, Progress, Stop,
    parcel::{
        AnyCode, Code, CollectRequest, Collector, Origin, Output, ParcelReport, ReceiveMany,
        ReceiveRequest, StoreClient,
    },
};
use units::Bytes;

const EXAMPLES: &str = "\
Examples:
  longhaul recv --listen 0.0.0.0:3881 -d sets    # prints a code for longhaul send
  longhaul recv k3v9-x2mq-7f4t-pd8w --via depot.example.org -o - | tar x";

/// Default port to listen on.
const PORT: u16 = 3881;

/// Receive a file, a directory or a pipe from longhaul send. See docs/send.md.
///
/// A code of 20 characters, from longhaul send --detach, collects what the depot keeps.
/// A file or directory is written to NAME.part, which is renamed to NAME when it is complete and verified. Run the
/// same command again to continue. Exit codes: 0 done, 1 failed, 2 wrong usage, 4 other data arrived, 130 and 143
/// stopped.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command")]
pub struct RecvArgs {
    /// Code that longhaul send has printed, as --code
    #[arg(value_name = "CODE", conflicts_with = "code")]
    given: Option<AnyCode>,
    /// Collect this session of one's own from the depot's store. It is not encrypted, or its code is needed
    #[arg(long, value_name = "ID", conflicts_with_all = ["given", "code", "listen", "open"])]
    stored: Option<SessionId>,
    #[command(flatten)]
    owner: OwnerArgs,
    /// Address to listen on for the sender [default: port 3881 on all, if --via is not given]
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "via")]
    listen: Option<SocketAddr>,
    /// With --listen: accept any sender, without a code
    #[arg(long, conflicts_with_all = ["code", "given", "via"])]
    open: bool,
    /// Write to this directory, under the sender's name [default: the current one]
    #[arg(short, long, value_name = "DIR", conflicts_with = "output")]
    directory: Option<PathBuf>,
    /// Write to this file or directory; - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Take any number of transfers, up to 16 at a time, until stopped, as from longhaul send --watch. A file that is there is
    /// compared, and another one of that name refused
    #[arg(long, conflicts_with_all = ["output", "via", "stored"])]
    many: bool,
    /// Replace existing files
    #[arg(long)]
    overwrite: bool,
    /// Take a stored session that is not encrypted, which its depot could have changed
    #[arg(long)]
    no_encryption: bool,
    /// Maximum size of all data, as in 10GB [default: no limit]
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Bytes>,
    #[command(flatten)]
    parcel: ParcelArgs,
}

/// How the sender connects, before anything is opened.
enum From {
    Listen(SocketAddr, Option<Code>),
    Meeting(Vec<Route>, Code),
    /// Not at all: a depot keeps what it has sent.
    Store(Vec<Route>, Collector),
}

pub fn run(args: &RecvArgs) -> Result<(), Failure> {
    let from = from(args)?;
    let output = match &args.output {
        None => Output::Directory(args.directory.clone().unwrap_or_else(|| ".".into())),
        Some(path) if path != Path::new("-") => Output::Path(path.clone()),
        Some(_) if args.parcel.json => {
            let text = "--json and -o - both write to standard output. Use only one of them";
            return Err(Failure::usage(text));
        }
        Some(_) => Output::Stream(plain_stdout()?),
    };
    let again = "stopped. To continue, run the same command again";
    if args.many {
        return run_many(again, async |stop| receive_many(args, from, stop).await);
    }
    let shown = shown_name(args.output.as_deref().filter(|to| *to != Path::new("-")), "recv");
    args.parcel.run(&shown, again, async |progress, stop| {
        match receive(args, from, output, &progress, stop).await {
            Ok(report) | Err(report) => report,
        }
    })
}

fn from(args: &RecvArgs) -> Result<From, Failure> {
    let shared = &args.parcel;
    let any = args.given.as_ref();
    let collector = match (args.stored, any) {
        (Some(session), _) => Some(Collector::Owner(session, args.owner.key()?)),
        (None, _) if args.owner.is_given() => {
            return Err(Failure::usage("--owner-key is only for --stored"));
        }
        (None, _) if shared.is_stored_code(any) => shared.stored_code(any)?.map(Collector::Code),
        (None, _) => None,
    };
    if let Some(collector) = collector {
        if !shared.has_depots() {
            let text = "no depot given: name the one that keeps the session: --via DEPOT";
            return Err(Failure::usage(text));
        }
        return Ok(From::Store(shared.routes(Route::store)?, collector));
    }
    if args.no_encryption {
        let text = "--no-encryption is only for what a depot keeps: longhaul send says whether it encrypts";
        return Err(Failure::usage(text));
    }
    let given = shared.code(any)?;
    if shared.has_depots() {
        let routes = shared.routes(|via| Route::meeting(via, Role::Acceptor))?;
        let depot = shared.meeting_place();
        let code =
            code_or_new(given, |code| format!("longhaul send FILE --via {depot} --code {code}"))?;
        return Ok(From::Meeting(routes, code));
    }
    if any.is_some() && args.listen.is_none() {
        let text = "no depot given: name the one that longhaul send uses: --via DEPOT";
        return Err(Failure::usage(text));
    }
    let address = args.listen.unwrap_or((Ipv6Addr::UNSPECIFIED, PORT).into());
    if args.open {
        return Ok(From::Listen(address, None));
    }
    let port = address.port();
    let code =
        code_or_new(given, |code| format!("longhaul send FILE THIS-HOST:{port} --code {code}"))?;
    Ok(From::Listen(address, Some(code)))
}

async fn receive(
    args: &RecvArgs,
    from: From,
    output: Output,
    progress: &Arc<Progress>,
    stop: Stop,
) -> Result<ParcelReport, ParcelReport> {
    let options = args.parcel.options(None);
    let (overwrite, max_size) = (args.overwrite, args.max_size);
    let origin = match from {
        From::Store(routes, collector) => {
            let client = StoreClient { routes, options };
            let allow_plain = args.no_encryption;
            let request =
                CollectRequest { client, collector, output, overwrite, max_size, allow_plain };
            return Ok(request.run(progress, stop.wait()).await);
        }
        From::Meeting(routes, code) => Origin::Meeting(routes, code),
        From::Listen(address, code) => {
            let listener = listen(args, address, code.as_ref()).await;
            Origin::Listener(listener.map_err(ParcelReport::refused)?)
        }
    };
    let request = ReceiveRequest { origin, output, overwrite, max_size, options };
    let waiting = || {
        if !args.parcel.quiet {
            errln!("waiting for the sender");
        }
    };
    Ok(request.run(progress, waiting, stop.wait()).await)
}

async fn listen(
    args: &RecvArgs,
    address: SocketAddr,
    code: Option<&Code>,
) -> Result<Listener, Error> {
    let secret = code.map(Code::secret).unwrap_or_default();
    let listening = ListenOptions { secret, ..ListenOptions::default() };
    let listener = Listener::bind(address, listening).await;
    let listener = listener
        .map_err(|error| Error::Connection(format!("cannot listen on {address}: {error}")))?;
    if !args.parcel.quiet {
        errln!("listening on {}", listener.local_addr());
    }
    Ok(listener)
}

async fn receive_many(args: &RecvArgs, from: From, stop: Stop) -> Result<(), Error> {
    let From::Listen(address, code) = from else {
        let text = "--many is for senders that connect here: a code of 20 characters names one session of a depot";
        return Err(Error::Usage(text.to_owned()));
    };
    let request = ReceiveMany {
        listener: listen(args, address, code.as_ref()).await?,
        directory: args.directory.clone().unwrap_or_else(|| ".".into()),
        overwrite: args.overwrite,
        max_size: args.max_size,
        options: args.parcel.options(None),
    };
    request.run(|report| args.parcel.tell(&report), stop.wait()).await;
    Err(Error::Stopped)
}
