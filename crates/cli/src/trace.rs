// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul trace`: TCP connections of packet captures.

mod destination;
mod growth;
mod page;
mod table;

use crate::{
    export::{create, exists, is_standard_output},
    failure::Failure,
    print::StreamedOutput,
    transfer::plain_stdout,
};
use ::report::{GrowthForm, MOST_GROUPS, growth_svg};
use ::trace::{
    CaptureReader, ConnectionSummary, CsvRows, JsonDocument, KeptCurves, LargestDirections,
    Options, ParquetRows, ReadError, Totals, TransferCollector, TransferFilter, analyse,
    decompressed,
};
use destination::{Destination, InOrder};
use page::PageContents;
use std::{
    fs::{self, File},
    io::{self, BufWriter, Read, Write},
    path::{Path, PathBuf},
    thread,
};
use units::{Bytes, text::printable};

const EXAMPLES: &str = "\
Examples:
  longhaul trace server.pcap
  longhaul trace direct.pcap sublink1.pcap sublink2.pcap --svg growth.svg --chain";

/// Find the TCP connections of packet captures: round trips, retransmissions and their causes, reordering, windows,
/// goodput.
///
/// Reads pcap and pcapng, plain or compressed by gzip or zstd. Prints a table of the directions that carried most data,
/// or all connections as JSON, CSV or Parquet, or makes a page with figures.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command")]
pub struct TraceArgs {
    /// Capture files, each analysed by itself. `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON document with all connections.
    #[arg(long, group = "format")]
    json: bool,
    /// Write CSV to a new file, or to standard output with `-`: a row for each direction of each connection.
    #[arg(long, value_name = "FILE", group = "format")]
    csv: Option<PathBuf>,
    /// Write Parquet to a new file.
    #[arg(long, value_name = "FILE", group = "format")]
    parquet: Option<PathBuf>,
    /// Write one HTML page to a new file: the connections with most data, sequence growth, windows and round trips, and
    /// causes of retransmissions.
    #[arg(long, value_name = "FILE", group = "format")]
    html: Option<PathBuf>,
    /// Draw the sequence growth of each file's transfers and their mean to a new file, as SVG.
    #[arg(long, value_name = "FILE", group = "format")]
    svg: Option<PathBuf>,
    /// Write the same curves to a new file for xplot.
    #[arg(long, value_name = "FILE", group = "format")]
    xplot: Option<PathBuf>,
    /// With `--html`, `--svg` and `--xplot`: the files are sublinks of a chain, captured by one clock. Time of a file's
    /// n-th transfer counts from the earliest n-th transfer that overlaps it.
    #[arg(long)]
    chain: bool,
    /// With `--html`, `--svg` and `--xplot`: only transfers that were captured at their sender.
    #[arg(long)]
    at_sender: bool,
    /// With `--html` and `--svg`: compare the transfers with the fewest, the median and the most segments sent again, and
    /// the means. With `--chain`, the segments of all sublinks count.
    #[arg(long)]
    by_loss: bool,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    /// Memory that connections may take. If it does not suffice, the connections that are idle longest are summed up
    /// early.
    #[arg(long, value_name = "SIZE", default_value = "128MB")]
    memory: Bytes,
    /// Threads that analyse, next to the one that reads [default: 1 if this machine has less than 4 cores, otherwise 3].
    /// With 1, the reading thread analyses too.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

/// Lowest memory limit: a few connections with all that is under way.
const LEAST_MEMORY: u64 = 16 << 20;

pub fn run(args: &TraceArgs) -> Result<(), Failure> {
    check(args)?;
    let mut outcome = Ok(());
    let to_stdout = || plain_stdout().map(BufWriter::new);
    if args.json {
        let document = JsonDocument::new(to_stdout()?);
        let done = document.and_then(|mut document| {
            outcome = trace_all(args, &mut document)?;
            document.finish()
        });
        streamed(done)?;
    } else if let Some(file) = &args.csv {
        if is_standard_output(file) {
            streamed(rows(args, CsvRows::new(to_stdout()?), &mut outcome))?;
        } else {
            create(file, args.force, |into| rows(args, CsvRows::new(into), &mut outcome))?;
        }
    } else if let Some(file) = &args.parquet {
        create(file, args.force, |into| rows(args, ParquetRows::new(into), &mut outcome))?;
    } else if let Some(file) = &args.html {
        let mut page = PageContents::new(args.at_sender, args.memory);
        outcome = trace_all(args, &mut page).map_err(Failure::failed)?;
        if page.is_empty() {
            return outcome;
        }
        let text = page.html(args.growth_form());
        create(file, args.force, |into| into.write_all(text.as_bytes()))?;
    } else if let Some(file) = args.svg.as_ref().or(args.xplot.as_ref()) {
        outcome = draw(args, file)?;
    } else {
        let mut largest = LargestDirections::default();
        outcome = trace_all(args, &mut largest).map_err(Failure::failed)?;
        if outcome.is_ok() || !largest.rows.is_empty() {
            table::print(&largest);
        }
    }
    outcome
}

/// Draws growth as SVG or for xplot. The inner error is of a file that was traced.
fn draw(args: &TraceArgs, file: &Path) -> Result<Result<(), Failure>, Failure> {
    let most_files = if args.svg.is_some() { MOST_GROUPS } else { usize::MAX };
    let filter = TransferFilter { most_files, at_sender: args.at_sender };
    let mut transfers = TransferCollector::new(filter);
    let outcome = trace_all(args, &mut transfers).map_err(Failure::failed)?;
    let transfers = transfers.finish();
    if transfers.is_empty() {
        let nothing = if args.at_sender {
            "no connection has data that was captured at its sender, so there is nothing to draw"
        } else {
            "no connection has data, so there is nothing to draw"
        };
        return outcome.and(Err(Failure::failed(nothing)));
    }
    let text = if args.svg.is_some() {
        growth_svg(&transfers, args.growth_form())
    } else {
        growth::xplot(&transfers, args.chain)
    };
    create(file, args.force, |into| into.write_all(text.as_bytes()))?;
    Ok(outcome)
}

impl TraceArgs {
    fn growth_form(&self) -> GrowthForm {
        GrowthForm { is_chain: self.chain, by_loss: self.by_loss }
    }

    fn curves(&self) -> KeptCurves {
        if self.html.is_some() {
            KeptCurves::All
        } else if self.svg.is_some() || self.xplot.is_some() {
            KeptCurves::Growth
        } else {
            KeptCurves::None
        }
    }
}

/// What became of standard output. That its reader has closed it needs no message.
fn streamed(done: io::Result<()>) -> Result<(), Failure> {
    match done {
        Err(error) if !StreamedOutput::is_closed() => {
            Err(Failure::failed(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

fn rows<R: ::trace::RowWriter>(
    args: &TraceArgs,
    rows: io::Result<R>,
    outcome: &mut Result<(), Failure>,
) -> io::Result<()> {
    let mut rows = destination::Rows(rows?);
    *outcome = trace_all(args, &mut rows)?;
    Box::new(rows.0).finish()
}

fn check(args: &TraceArgs) -> Result<(), Failure> {
    if args.parquet.as_deref().is_some_and(is_standard_output) {
        return Err(Failure::usage(
            "--parquet -: Parquet is not a text format. Name a file: --parquet connections.parquet",
        ));
    }
    if args.memory.get() < LEAST_MEMORY {
        return Err(Failure::usage("--memory: at least 16MB"));
    }
    if args.html.as_deref().is_some_and(is_standard_output) {
        return Err(Failure::usage(
            "--html -: a page is not for a terminal. Name a file: --html page.html",
        ));
    }
    let pictures = || args.html.iter().chain(&args.svg).chain(&args.xplot);
    for (name, is_given) in [("--chain", args.chain), ("--at-sender", args.at_sender)] {
        if is_given && pictures().next().is_none() {
            return Err(Failure::usage(format!("{name} is for --html, --svg and --xplot")));
        }
    }
    if args.by_loss && args.html.is_none() && args.svg.is_none() {
        return Err(Failure::usage("--by-loss is for --html and --svg"));
    }
    if args.svg.is_some() && args.files.len() > MOST_GROUPS {
        return Err(Failure::usage(format!(
            "--svg: at most {MOST_GROUPS} files have colours of their own"
        )));
    }
    let written = args.csv.iter().chain(&args.parquet).filter(|file| !is_standard_output(file));
    let mut files = written.chain(pictures());
    match files.find(|file| !args.force && fs::symlink_metadata(file).is_ok()) {
        Some(file) => Err(exists(file)),
        None => Ok(()),
    }
}

/// Analyses all files. The outer error is of the destination; the inner one is of a file, and the others are done.
fn trace_all(
    args: &TraceArgs,
    destination: &mut impl Destination,
) -> io::Result<Result<(), Failure>> {
    let mut outcome = Ok(());
    for file in &args.files {
        let name = file.to_string_lossy();
        destination.begin_file(&name);
        let mut in_order = InOrder::new(&name, destination);
        let (totals, failure) = match trace_file(args, file, |one| in_order.add(one)) {
            Ok((totals, error)) => {
                let failure = error.and_then(|error| report_early_end(&name, &error));
                (Some(totals), failure)
            }
            Err(failure) => (None, Some(failure)),
        };
        in_order.finish()?;
        if let Some(totals) = &totals {
            report_totals(&name, totals, args.memory);
        }
        let error = failure.as_ref().map(ToString::to_string);
        destination.end_file(&name, totals, error)?;
        if let Some(failure) = failure {
            if args.files.len() > 1 {
                failure.print();
            }
            outcome = Err(failure);
        }
    }
    Ok(outcome.map_err(|failure| {
        if args.files.len() == 1 { failure } else { Failure::failed("not all files could be read") }
    }))
}

fn trace_file(
    args: &TraceArgs,
    file: &Path,
    finished: impl FnMut(ConnectionSummary),
) -> Result<(Totals, Option<ReadError>), Failure> {
    let shown = printable(&file.to_string_lossy(), 200);
    let unread = |error: io::Error| Failure::failed(format!("cannot read {shown}: {error}"));
    let input: Box<dyn Read + Send> = if is_standard_output(file) {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).map_err(unread)?)
    };
    let input = decompressed(input).map_err(unread)?;
    let mut capture = CaptureReader::new(input).map_err(|error| match error {
        ReadError::Unrecognised => Failure::usage(format!("{shown}: {error}")),
        error => Failure::failed(format!("{shown}: {error}")),
    })?;
    let shards = args.threads.map_or_else(default_threads, usize::from);
    let memory_bytes = usize::try_from(args.memory.get()).unwrap_or(usize::MAX);
    Ok(analyse(&mut capture, Options { shards, memory_bytes, curves: args.curves() }, finished))
}

/// A thread that reads feeds about three that analyse.
fn default_threads() -> usize {
    match thread::available_parallelism() {
        Ok(cores) if cores.get() >= 4 => 3,
        _ => 1,
    }
}

/// Why a capture ended early. A file that ends within its last packet is usual, and no failure.
fn report_early_end(name: &str, error: &ReadError) -> Option<Failure> {
    let shown = printable(name, 200);
    if matches!(error, ReadError::Truncated { .. }) {
        errln!("{shown}: {error}. All packets before are analysed");
        return None;
    }
    Some(Failure::failed(format!("{shown}: {error}. Packets before are analysed")))
}

fn report_totals(name: &str, totals: &Totals, memory: Bytes) {
    let shown = printable(name, 200);
    let mut text = format!(
        "{shown}: {} packets, {} of TCP, {} connections",
        totals.packets, totals.tcp_packets, totals.connections
    );
    for remark in totals.remarks(memory) {
        text += &format!("\n{shown}: {remark}");
    }
    errln!("{text}");
}
