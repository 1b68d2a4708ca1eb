// SPDX-License-Identifier: GPL-2.0-or-later
//! Shared by `longhaul send` and `longhaul recv`: routes, codes, progress and the final report.

use crate::{
    failure::Failure,
    print::print_json_text,
    progress::{ProgressLine, show},
    random::random,
    receipt,
    via::{self, MaybeChooser, Via},
};
use clap::Args;
use indicatif::HumanBytes;
use protocol::{DepotAddress, ticket::UnixTime};
use route::SendOptions;
use serde_json::{Value, json};
use session::{Options, Route, RouteError};
use std::{
    future::Future,
    io::{self, IsTerminal},
    path::PathBuf,
    sync::Arc,
};
use transfer::{
    Error, Progress, Stop, StopSignal,
    parcel::{AnyCode, Code, OwnerKey, ParcelReport, StoredCode, default_owner_key},
    printable, run_until_signal,
};
use units::{ClassifyFailure, Rate};

/// Options of both commands.
#[derive(Debug, Args)]
pub struct ParcelArgs {
    /// Depots of a route, the one nearest this machine first; repeat for a route to use when this one fails. With longhaul send to an
    /// address also auto[:FILE]: the best by forecast of those in a register
    #[arg(long, value_name = "[https:]HOST[:PORT],...")]
    via: Vec<String>,
    /// Code that both ends must give [default: a new one is printed]
    #[arg(long, value_name = "CODE")]
    code: Option<AnyCode>,
    /// Give up after this time without a connection
    #[arg(long, value_name = "TIME", default_value = "10min")]
    patience: units::Duration,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print one JSON object to standard output
    #[arg(long)]
    pub json: bool,
    /// Print only errors and codes
    #[arg(short, long)]
    pub quiet: bool,
}

/// The owner's key, for sessions that a depot keeps.
#[derive(Debug, Args)]
pub struct OwnerArgs {
    /// File with the key of a stored session's owner [default: longhaul/owner.key in the user's state directory]
    #[arg(long, value_name = "FILE")]
    owner_key: Option<PathBuf>,
}

impl OwnerArgs {
    /// Whether a file was named.
    pub fn is_given(&self) -> bool {
        self.owner_key.is_some()
    }

    fn path(&self) -> Result<PathBuf, Failure> {
        Ok(match &self.owner_key {
            Some(path) => path.clone(),
            None => default_owner_key()?,
        })
    }

    /// The key, which is there.
    pub fn key(&self) -> Result<OwnerKey, Failure> {
        Ok(OwnerKey::read(&self.path()?)?)
    }

    /// The key, which is made if it is not there.
    pub fn key_or_new(&self) -> Result<OwnerKey, Failure> {
        Ok(OwnerKey::read_or_make(&self.path()?)?)
    }
}

impl ParcelArgs {
    /// The code given by option, or by this argument.
    fn given(&self, argument: Option<&AnyCode>) -> Option<AnyCode> {
        argument.or(self.code.as_ref()).cloned()
    }

    /// Whether the code is that of a session that a depot keeps.
    pub fn is_stored_code(&self, argument: Option<&AnyCode>) -> bool {
        matches!(self.given(argument), Some(AnyCode::Stored(_)))
    }

    /// The code of two ends that are there at the same time.
    pub fn code(&self, argument: Option<&AnyCode>) -> Result<Option<Code>, Failure> {
        match self.given(argument) {
            None => Ok(None),
            Some(AnyCode::Meeting(code)) => Ok(Some(code)),
            Some(AnyCode::Stored(_)) => Err(Failure::usage(
                "a code of 20 characters is for a session that a depot keeps: longhaul send --detach, longhaul recv CODE --via DEPOT",
            )),
        }
    }

    /// The code of a session that a depot keeps.
    pub fn stored_code(&self, argument: Option<&AnyCode>) -> Result<Option<StoredCode>, Failure> {
        match self.given(argument) {
            None => Ok(None),
            Some(AnyCode::Stored(code)) => Ok(Some(code)),
            Some(AnyCode::Meeting(_)) => Err(Failure::usage(
                "--detach needs a code of 20 characters. Without --code a new one is printed",
            )),
        }
    }

    /// The options of sessions.
    pub fn options(&self, limit_rate: Option<Rate>) -> Options {
        Options {
            patience: self.patience.into(),
            ca: self.ca.clone(),
            limit_rate,
            ..Options::default()
        }
    }

    /// Whether it is told how a transfer went.
    pub fn is_reported(&self) -> bool {
        self.json || (!self.quiet && io::stderr().is_terminal())
    }

    /// Whether any depot was named.
    pub fn has_depots(&self) -> bool {
        !self.via.is_empty()
    }

    /// The last depot of the first route, at which both ends meet, for the other machine's command line.
    pub fn meeting_place(&self) -> String {
        let last = self.via.first().and_then(|route| route.rsplit(',').next());
        last.unwrap_or("DEPOT").to_owned()
    }

    /// The routes, each from its depots.
    pub fn routes(
        &self,
        to: impl Fn(&[DepotAddress]) -> Result<Route, RouteError>,
    ) -> Result<Vec<Route>, Failure> {
        if self.via.is_empty() {
            return Ok(vec![to(&[]).map_err(Failure::usage)?]);
        }
        let routes = via::routes(&self.via)?;
        routes.iter().map(|depots| to(depots).map_err(|error| via::malformed(&error))).collect()
    }

    /// The routes to a receiver, and what chooses among them if `--via auto` does.
    pub fn routes_or_auto(&self, to: &str) -> Result<(Vec<Route>, MaybeChooser), Failure> {
        if self.via.is_empty() {
            return Ok((self.routes(|via| Route::to(via, to))?, None));
        }
        let via = Via::read(&self.via, self.ca.as_deref())?;
        let route = |depots: &Vec<DepotAddress>| Route::to(depots, to);
        let routes: Result<_, _> = via.chains().iter().map(route).collect();
        let timeout = Options::default().connect_timeout;
        Ok((
            routes.map_err(|error| via::malformed(&error))?,
            via.chooser(self.ca.as_deref(), timeout, SendOptions::alternatives()),
        ))
    }

    /// Transfers until the end or a signal; `again` says what to do after a signal.
    pub fn run<F: Future<Output = ParcelReport>>(
        &self,
        name: &str,
        again: &str,
        transfer: impl FnOnce(Arc<Progress>, Stop) -> F,
    ) -> Result<(), Failure> {
        let progress = Arc::new(Progress::default());
        let (line, stopped): (ProgressLine, _) =
            (show(self.quiet, name, &progress), |stop: &Stop| stop.signal());
        let ran = run_until_signal(|stop| async move {
            let report = transfer(progress, stop.clone()).await;
            drop(line);
            (report, stopped(&stop))
        });
        let (report, signal) =
            ran.map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?;
        self.report(&report, signal, again)
    }

    /// Prints how one of many transfers went.
    pub fn tell(&self, report: &ParcelReport) {
        if self.json {
            print_json_text(&self.document(report).to_string());
        }
        let name = printable(report.name.as_deref().unwrap_or("a transfer"), 200);
        match &report.result {
            Ok(()) if self.json || self.quiet => {}
            Ok(()) => errln!("{}", summary(report)),
            Err(Error::Stopped) => {}
            Err(error) => errln!("longhaul: {name}: {error}"),
        }
    }

    fn report(
        &self,
        report: &ParcelReport,
        signal: Option<StopSignal>,
        again: &str,
    ) -> Result<(), Failure> {
        if let Some(line) = kept(report).filter(|_| !self.quiet && !self.json) {
            errln!("{line}");
        }
        if self.json {
            print_json_text(&self.document(report).to_string());
        } else if report.result.is_ok() && !self.quiet && io::stderr().is_terminal() {
            errln!("{}", summary(report));
            if let Some(line) = report.limits.as_ref().and_then(receipt::line) {
                errln!("{line}");
            }
        }
        match (&report.result, signal) {
            (Ok(()), _) => Ok(()),
            (Err(Error::Stopped), Some(signal)) => {
                Err(Failure::failed(again).with_exit_code(signal.exit_code()))
            }
            (Err(error), _) => Err(Failure::new(error.failure_class(), error)),
        }
    }

    fn document(&self, report: &ParcelReport) -> Value {
        let mut document = document(report);
        // As a chooser of routes wants it they are all by one route.
        if !report.routes.is_empty() && report.send_options.connections.is_none() {
            let depots = |index: usize| -> Vec<&str> {
                self.via.get(index).map(|via| via.split(',').collect()).unwrap_or_default()
            };
            let routes = report.routes.iter().enumerate().map(|(index, route)| {
                json!({
                    "via": depots(index),
                    "connections": route.connections,
                    "bytes": route.sent_bytes,
                })
            });
            document["routes"] = routes.collect();
        }
        document
    }
}

/// Transfers many until the end or a signal; `again` says what to do after a signal. Each is [told](ParcelArgs::tell) when it ends.
pub fn run_many<F: Future<Output = Result<(), Error>>>(
    again: &str,
    transfers: impl FnOnce(Stop) -> F,
) -> Result<(), Failure> {
    let ran = run_until_signal(|stop| async move {
        let result = transfers(stop.clone()).await;
        (result, stop.signal())
    });
    let (result, signal) =
        ran.map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?;
    match (result, signal) {
        (Err(Error::Stopped), Some(signal)) => {
            Err(Failure::failed(again).with_exit_code(signal.exit_code()))
        }
        (result, _) => Ok(result?),
    }
}

/// A second since 1970 as a date.
pub fn date(seconds: u64) -> String {
    UnixTime::try_from(seconds)
        .map_or_else(|_| format!("second {seconds}"), |time| time.to_string())
}

/// Which session a depot keeps now, and until when.
fn kept(report: &ParcelReport) -> Option<String> {
    let kept = report.kept.filter(|_| report.result.is_ok())?;
    let until = date(kept.expires_s);
    Some(format!("stored until {until} as session {}. This end may go", kept.session))
}

fn summary(report: &ParcelReport) -> String {
    let name = report.name.as_deref().unwrap_or("standard input");
    let resumed = match report.resumed_bytes {
        0 => String::new(),
        bytes => format!(", {} from an earlier attempt", HumanBytes(bytes)),
    };
    let depots = match report.hops.len() {
        0 => String::new(),
        hops => format!(", {hops} depots"),
    };
    let routes: Vec<_> =
        report.routes.iter().map(|route| HumanBytes(route.sent_bytes).to_string()).collect();
    let routes = match &routes[..] {
        [] | [_] => String::new(),
        _ if report.send_options.connections.is_some() => String::new(),
        several => format!(", by route {}", several.join(" + ")),
    };
    let sent = match &report.send_options {
        usual if usual.is_usual() => String::new(),
        send_options => format!(", sent with {send_options}"),
    };
    let encrypted = if report.is_encrypted { ", encrypted" } else { "" };
    let digest = match &report.digest {
        Some((kind, digest)) => format!(", {kind} {digest}"),
        None => String::new(),
    };
    format!(
        "{}: {} in {:.1} s, {:.1} Mbit/s{resumed}{depots}{routes}{sent}{encrypted}, BLAKE3 {}{digest}",
        printable(name, 100),
        HumanBytes(report.bytes),
        report.seconds,
        report.goodput_bps() / 1e6,
        report.blake3.as_deref().unwrap_or("-"),
    )
}

fn document(report: &ParcelReport) -> Value {
    let status = match &report.result {
        Ok(()) => "complete",
        Err(Error::Stopped) => "stopped",
        Err(_) => "failed",
    };
    let hops: Vec<Value> = report
        .hops
        .iter()
        .map(|hop| {
            json!({
                "depot": hop.depot.as_str(),
                "streams": hop.streams,
                "rtt_us": hop.rtt_us,
                "congestion": hop.congestion.as_ref().map(protocol::session::Congestion::as_str),
            })
        })
        .collect();
    let mut document = json!({
        "name": report.name,
        "file": report.file.as_ref().map(|file| file.to_string_lossy()),
        "status": status,
        "error": report.result.as_ref().err().map(ToString::to_string),
        "bytes": report.bytes,
        "resumed_bytes": report.resumed_bytes,
        "seconds": report.seconds,
        "goodput_bps": report.goodput_bps(),
        "connections": report.connections,
        "encrypted": report.is_encrypted,
        "hops": hops,
        "send_options": (!report.send_options.is_usual()).then(|| report.send_options.to_string()),
        "blake3": report.blake3,
    });
    if let Some(limits) = &report.limits {
        document["limits"] = receipt::document(limits);
    }
    if let Some(kept) = report.kept {
        document["session"] = json!(kept.session);
        document["expires_s"] = json!(kept.expires_s);
    }
    if let Some((kind, digest)) = &report.digest {
        document[kind.name()] = json!(digest);
    }
    document
}

/// The given code, or a new one, after printing the command for the other machine.
pub fn code_or_new(given: Option<Code>, tell: impl Fn(&Code) -> String) -> Result<Code, Failure> {
    if let Some(code) = given {
        return Ok(code);
    }
    let code = Code::from_random(random()?);
    errln!("On the other machine: {}", tell(&code));
    Ok(code)
}

/// The same for a session that a depot keeps.
pub fn stored_code_or_new(
    given: Option<StoredCode>,
    tell: impl Fn(&StoredCode) -> String,
) -> Result<StoredCode, Failure> {
    if let Some(code) = given {
        return Ok(code);
    }
    let code = StoredCode::from_random(random()?);
    errln!("On the other machine: {}", tell(&code));
    Ok(code)
}
