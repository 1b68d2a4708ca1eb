// SPDX-License-Identifier: GPL-2.0-or-later
//! Shared by `longhaul get` and `longhaul put`: options, progress and the final report.

use crate::{
    failure::Failure,
    print::{StreamedOutput, print_json_text},
    progress::{ProgressLine, show},
    receipt,
    via::{MaybeChooser, Via},
};
use clap::Args;
use indicatif::HumanBytes;
use route::{Match, RouteTable};
use serde_json::{Value, json};
use std::{
    fs,
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::Arc,
};
use transfer::{
    Error, Options, Progress, Report, Status, Stop, StopSignal, printable, run_until_signal,
};
use units::{ClassifyFailure, FailureClass, Rate};

/// Options of both commands.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct TransferArgs {
    /// Depots of a route, the one nearest this machine first; repeat for a route to use when this one fails; auto[:FILE]: the best by
    /// forecast of those in a register
    #[arg(long, value_name = "[https:]HOST[:PORT],...")]
    via: Vec<String>,
    /// Routes through depots by destination (TOML) [default: longhaul/client.toml in the user's configuration directory]
    #[arg(long, value_name = "FILE", conflicts_with = "via")]
    config: Option<PathBuf>,
    /// Maximum rate of the whole command, as in 100mbit or 10MBps [default: no limit]
    #[arg(long, value_name = "RATE")]
    limit_rate: Option<Rate>,
    /// Number of retries without progress before giving up
    #[arg(long, value_name = "N", default_value_t = 5)]
    retries: u32,
    /// Maximum time to connect, with TLS
    #[arg(long, value_name = "TIME", default_value = "15s")]
    connect_timeout: units::Duration,
    /// End an attempt after this time below --min-rate
    #[arg(long, value_name = "TIME", default_value = "30s")]
    stall_time: units::Duration,
    /// Minimum rate over --stall-time, as in 8kbit
    #[arg(long, value_name = "RATE", default_value = "8kbit")]
    min_rate: Rate,
    /// Wait before the first retry; doubles each time, up to 30 s
    #[arg(long, value_name = "TIME", default_value = "1s", hide = true)]
    retry_wait: units::Duration,
    /// Follow redirects from https to http, and request https URLs from depots without encryption
    #[arg(long)]
    allow_downgrade: bool,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Use the proxies that the environment names (`http_proxy`, `https_proxy`, `no_proxy`)
    #[arg(long)]
    env_proxy: bool,
    /// Print one JSON object per file to standard output
    #[arg(long)]
    pub json: bool,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

impl TransferArgs {
    /// The options of both commands.
    pub fn options(&self) -> Result<Options, Failure> {
        if self.stall_time == units::Duration::ZERO {
            return Err(Failure::usage("--stall-time must be more than 0, as in --stall-time 30s"));
        }
        if self.connect_timeout == units::Duration::ZERO {
            let text = "--connect-timeout must be more than 0, as in --connect-timeout 15s";
            return Err(Failure::usage(text));
        }
        let (routes, chooser) = self.routes()?;
        Ok(Options {
            routes,
            chooser,
            limit_rate: self.limit_rate,
            retries: self.retries,
            first_wait: self.retry_wait.into(),
            connect_timeout: self.connect_timeout.into(),
            stall_time: self.stall_time.into(),
            min_rate: self.min_rate,
            allow_downgrade: self.allow_downgrade,
            ca: self.ca.clone(),
            proxy_from_environment: self.env_proxy,
            report_digest: self.json,
            ..Options::default()
        })
    }

    fn routes(&self) -> Result<(RouteTable, MaybeChooser), Failure> {
        if !self.via.is_empty() {
            let via = Via::read(&self.via, self.ca.as_deref())?;
            // The URLs are named, so one of this machine is meant, too.
            let table = RouteTable::through(via.chains(), &[Match::ALL]);
            return Ok((
                table,
                via.chooser(self.ca.as_deref(), self.connect_timeout.into(), Vec::new()),
            ));
        }
        let table = match &self.config {
            Some(file) => RouteTable::read(file),
            None => RouteTable::of_user(),
        };
        Ok((table.map_err(Failure::usage)?, None))
    }

    /// Whether it is told how a transfer went.
    pub fn is_reported(&self) -> bool {
        self.json || (!self.quiet && io::stderr().is_terminal())
    }

    /// Shows the progress of a transfer if standard error is a terminal.
    pub fn show(&self, name: &str, progress: &Arc<Progress>) -> ProgressLine {
        show(self.quiet, name, progress)
    }

    /// Prints how a transfer ended; an error as the failure of a command.
    pub fn report(&self, report: Report) -> Result<(), Failure> {
        if self.json {
            print_json_text(&document(&report).to_string());
        } else if report.result.is_ok() && !self.quiet && io::stderr().is_terminal() {
            errln!("{}", summary(&report));
            if let Some(line) = report.limits.as_ref().and_then(receipt::line) {
                errln!("{line}");
            }
        }
        // The signal is reported once for all files.
        if matches!(report.result, Err(Error::Stopped)) {
            return Ok(());
        }
        report.result.map(|_| ()).map_err(|error| {
            let tried = match report.attempts {
                0 | 1 => String::new(),
                attempts => format!(" (after {attempts} attempts)"),
            };
            let url = printable(&report.url, 200);
            Failure::new(error.failure_class(), format!("{url}: {error}{tried}"))
        })
    }
}

/// Transfers one file after another until a signal. `again` is the message after a signal.
pub fn one_by_one<J>(
    jobs: Vec<J>,
    again: &str,
    transfer: impl AsyncFn(J, &Stop) -> Result<(), Failure>,
) -> Result<(), Failure> {
    run_until_signal(|stop| async move {
        let (mut tally, files) = (Tally::default(), jobs.len());
        for job in jobs {
            if stop.signal().is_some() {
                break;
            }
            tally.count(transfer(job, &stop).await);
        }
        tally.end(files, stop.signal(), again)
    })
    .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?
}

/// The results of several files.
#[derive(Debug, Default)]
struct Tally {
    failed: usize,
    class: Option<FailureClass>,
    last: Option<Failure>,
}

impl Tally {
    /// Counts a result. Its error is printed when the next file fails, or when the command ends.
    fn count(&mut self, result: Result<(), Failure>) {
        let Err(failure) = result else { return };
        self.failed += 1;
        let class = failure.failure_class();
        let rank = |class| match class {
            FailureClass::Usage => 0,
            FailureClass::Lacks => 1,
            FailureClass::Failed => 2,
            FailureClass::Unverified => 3,
        };
        self.class = Some(
            self.class.map_or(class, |known| if rank(class) > rank(known) { class } else { known }),
        );
        if let Some(earlier) = self.last.replace(failure) {
            earlier.print();
        }
    }

    /// The result of the command: for several files, how many failed. `text` is the message after a signal.
    fn end(self, of: usize, stopped: Option<StopSignal>, text: &str) -> Result<(), Failure> {
        if let Some(signal) = stopped {
            return Err(Failure::failed(text).with_exit_code(signal.exit_code()));
        }
        let (Some(last), Some(class)) = (self.last, self.class) else { return Ok(()) };
        if of == 1 {
            return Err(last);
        }
        last.print();
        Err(Failure::new(class, format!("{} of {of} files failed", self.failed)))
    }
}

/// Standard output without line buffering.
pub fn plain_stdout() -> Result<Box<dyn Write + Send>, Failure> {
    let own = io::stdout().as_fd().try_clone_to_owned();
    let own =
        own.map_err(|error| Failure::failed(format!("cannot use standard output: {error}")))?;
    Ok(Box::new(StreamedOutput::new(fs::File::from(own))))
}

/// The name of a file in messages.
pub fn shown_name(file: Option<&Path>, otherwise: &str) -> String {
    let name = file.map_or(otherwise.into(), |file| file.display().to_string());
    printable(&name, 100)
}

fn summary(report: &Report) -> String {
    let name = shown_name(report.file.as_deref(), "standard output");
    match report.result {
        Ok(Status::Skipped) => format!("{name}: exists, skipped"),
        Ok(Status::Unchanged) => format!("{name}: already complete"),
        _ => format!(
            "{name}: {} in {:.1} s, {:.1} Mbit/s{}",
            HumanBytes(report.bytes),
            report.seconds,
            report.goodput_bps() / 1e6,
            if report.digest.as_ref().is_some_and(|d| d.verified) {
                ", digest verified"
            } else {
                ""
            }
        ),
    }
}

fn document(report: &Report) -> Value {
    let status = match &report.result {
        Ok(status) => json!(status),
        Err(Error::Stopped) => json!("stopped"),
        Err(_) => json!("failed"),
    };
    let digest = report.digest.as_ref().map(|reported| {
        let text = reported.digest.to_string();
        let value = text.split_once(':').map_or("", |(_, value)| value);
        json!({
            "algorithm": reported.digest.algorithm().key(),
            "value": value,
            "verified": reported.verified,
        })
    });
    json!({
        "url": report.url,
        "file": report.file.as_ref().map(|file| file.to_string_lossy()),
        "status": status,
        "error": report.result.as_ref().err().map(ToString::to_string),
        "bytes": report.bytes,
        "resumed_bytes": report.resumed_bytes,
        "seconds": report.seconds,
        "first_byte_seconds": report.first_byte_seconds,
        "goodput_bps": report.goodput_bps(),
        "attempts": report.attempts,
        "connections": report.connections,
        "hops": report.hops,
        "via": report.via,
        "digest": digest,
        "limits": report.limits.as_ref().map(receipt::document),
    })
}
