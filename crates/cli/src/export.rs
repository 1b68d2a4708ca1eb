// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab export`.

use crate::failure::Failure;
use ::report::{IntervalsTable, MetricsTable};
use std::{
    fs::{self, OpenOptions},
    io::{self, BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
};

/// Write every metric of all records as one long table: a row for each run, entity (the run, a flow, a hop, a
/// link, a traffic source) and metric, and a column for each swept key.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("format").required(true).multiple(true))]
pub struct ExportArgs {
    /// Folders with records, at and below them. Records of several scenarios and methods may lie
    /// together: columns tell them apart.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Write CSV into a new file; `-` is standard output.
    #[arg(long, value_name = "FILE", group = "format")]
    csv: Option<PathBuf>,
    /// Write Parquet into a new file.
    #[arg(long, value_name = "FILE", group = "format")]
    parquet: Option<PathBuf>,
    /// Put the repeats of each run together: a row for each entity and metric, with the number of values, mean, standard
    /// deviation and the ends of the mean's 95 % confidence interval. Only runs and flows that medians include.
    #[arg(long)]
    intervals: bool,
    /// Overwrite files that exist.
    #[arg(long)]
    force: bool,
    /// Leave out so much of each run's beginning, as in `10s`: what the series tell of the rest, which is less.
    #[arg(long, value_name = "TIME")]
    warm_up: Option<units::Duration>,
}

pub fn run(args: &ExportArgs) -> Result<(), Failure> {
    // Reading may take a while, and is for nothing where the table has no place.
    check_files(args)?;
    let warm_up_s = args.warm_up.map_or(0.0, units::Duration::as_secs_f64);
    let metrics = MetricsTable::read(&args.dirs, warm_up_s).map_err(Failure::failed)?;
    let export = if args.intervals {
        Export::Intervals(metrics.runs(), metrics.intervals())
    } else {
        Export::Metrics(&metrics)
    };
    if let Some(file) = &args.parquet {
        create(file, args.force, |into| export.parquet(into))?;
        print_written(&export, file);
    }
    match &args.csv {
        Some(file) if is_standard_output(file) => {
            match export.csv(BufWriter::new(io::stdout().lock())) {
                // A reader of a part of it, as `head` is, has what it wanted.
                Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::failed(error)),
                _ => Ok(()),
            }
        }
        Some(file) => {
            create(file, args.force, |into| export.csv(into))?;
            print_written(&export, file);
            Ok(())
        }
        None => Ok(()),
    }
}

/// What is written.
enum Export<'t> {
    Metrics(&'t MetricsTable),
    /// Of so many runs.
    Intervals(usize, IntervalsTable<'t>),
}

impl Export<'_> {
    fn rows(&self) -> usize {
        match self {
            Self::Metrics(table) => table.rows(),
            Self::Intervals(_, table) => table.rows(),
        }
    }

    fn runs(&self) -> usize {
        match self {
            Self::Metrics(table) => table.runs(),
            Self::Intervals(runs, _) => *runs,
        }
    }

    fn csv(&self, into: impl Write) -> io::Result<()> {
        match self {
            Self::Metrics(table) => table.csv(into),
            Self::Intervals(_, table) => table.csv(into),
        }
    }

    fn parquet(&self, into: impl Write + Send) -> io::Result<()> {
        match self {
            Self::Metrics(table) => table.parquet(into),
            Self::Intervals(_, table) => table.parquet(into),
        }
    }
}

fn check_files(args: &ExportArgs) -> Result<(), Failure> {
    if args.parquet.as_deref().is_some_and(is_standard_output) {
        return Err(Failure::usage("--parquet -: Parquet is no text; name a file".to_owned()));
    }
    if args.csv.is_some() && args.csv == args.parquet {
        return Err(Failure::usage("--csv and --parquet name the same file; name two".to_owned()));
    }
    let mut files = args.csv.iter().chain(&args.parquet).filter(|file| !is_standard_output(file));
    match files.find(|file| !args.force && fs::symlink_metadata(file).is_ok()) {
        Some(file) => Err(exists(file)),
        None => Ok(()),
    }
}

fn is_standard_output(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn print_written(export: &Export<'_>, file: &Path) {
    eprintln!("{} rows of {} runs in {}", export.rows(), export.runs(), file.display());
}

/// Writes a file whole or not at all: a new one, or by `force` in the place of another.
fn create(
    file: &Path,
    force: bool,
    write: impl FnOnce(&mut BufWriter<fs::File>) -> io::Result<()>,
) -> Result<(), Failure> {
    let cannot = |e: io::Error| Failure::failed(format!("cannot write {}: {e}", file.display()));
    // What is overwritten stays until the new one is whole.
    let written = if force {
        let mut name = file.as_os_str().to_owned();
        name.push(".part");
        PathBuf::from(name)
    } else {
        file.to_owned()
    };
    let mut options = OpenOptions::new();
    options.write(true).create_new(!force).create(force).truncate(force);
    let mut into = BufWriter::new(options.open(&written).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(file),
        _ => cannot(error),
    })?);
    let done = write(&mut into).and_then(|()| into.flush());
    let done = done.and_then(|()| if force { fs::rename(&written, file) } else { Ok(()) });
    done.map_err(|error| {
        // What went wrong is known already.
        let _ = fs::remove_file(&written);
        cannot(error)
    })
}

fn exists(file: &Path) -> Failure {
    Failure::usage(format!(
        "{} exists already; name a new file, or overwrite it: --force",
        file.display()
    ))
}
