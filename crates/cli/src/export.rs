// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab export`.

use crate::{failure::Failure, print::StreamedOutput, transfer::plain_stdout};
use ::report::{LongTable, MetricsTable};
use std::{
    fs::{self, OpenOptions},
    io::{self, BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
};

const EXAMPLES: &str = "\
Examples:
  longhaul lab export out/loss-response --csv all.csv
  longhaul lab export out --intervals --warm-up 5s --parquet means.parquet";

/// Export all metrics of all records as one long table, in CSV or Parquet.
///
/// The table has a row for each run, entity (the run, a flow, a hop, a link, a traffic source) and metric, and a
/// column for each swept key.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("format").required(true).multiple(true))]
pub struct ExportArgs {
    /// Directories to search for records, with all directories below. Columns tell scenarios and methods apart.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Write CSV to a new file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", group = "format")]
    csv: Option<PathBuf>,
    /// Write Parquet to a new file.
    #[arg(long, value_name = "FILE", group = "format")]
    parquet: Option<PathBuf>,
    /// Combine the repeats of each run: a row for each entity and metric with the number of values, mean, standard
    /// deviation and 95 % confidence interval of the mean. Only runs and flows that medians include.
    #[arg(long)]
    intervals: bool,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
    /// Leave out the start of each run up to this time, as in `10s`. Only metrics that the series give are exported
    /// then.
    #[arg(long, value_name = "TIME")]
    warm_up: Option<units::Duration>,
}

pub fn run(args: &ExportArgs) -> Result<(), Failure> {
    // Checked first, because reading may take long.
    check_files(args)?;
    let warm_up_s = args.warm_up.map_or(0.0, units::Duration::as_secs_f64);
    let metrics = MetricsTable::read(&args.dirs, warm_up_s).map_err(Failure::failed)?;
    let runs = metrics.runs();
    let export = if args.intervals { metrics.intervals() } else { metrics.metrics() };
    if let Some(file) = &args.parquet {
        create(file, args.force, |into| export.parquet(into))?;
        print_written(&export, runs, file);
    }
    match &args.csv {
        Some(file) if is_standard_output(file) => {
            match export.csv(BufWriter::new(plain_stdout()?)) {
                // A reader such as `head` closes the pipe after a part of the table. The CSV library hides the kind of
                // its errors.
                Err(error) if !StreamedOutput::is_closed() => Err(Failure::failed(error)),
                _ => Ok(()),
            }
        }
        Some(file) => {
            create(file, args.force, |into| export.csv(into))?;
            print_written(&export, runs, file);
            Ok(())
        }
        None => Ok(()),
    }
}

fn check_files(args: &ExportArgs) -> Result<(), Failure> {
    if args.parquet.as_deref().is_some_and(is_standard_output) {
        return Err(Failure::usage(
            "--parquet -: Parquet is not a text format. Name a file: --parquet all.parquet"
                .to_owned(),
        ));
    }
    if args.csv.is_some() && args.csv == args.parquet {
        return Err(Failure::usage(
            "--csv and --parquet name the same file. Name two files".to_owned(),
        ));
    }
    let mut files = args.csv.iter().chain(&args.parquet).filter(|file| !is_standard_output(file));
    match files.find(|file| !args.force && fs::symlink_metadata(file).is_ok()) {
        Some(file) => Err(exists(file)),
        None => Ok(()),
    }
}

pub fn is_standard_output(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn print_written(table: &LongTable<'_>, runs: usize, file: &Path) {
    errln!("{} rows of {runs} runs in {}", table.rows(), file.display());
}

/// Writes a whole file or none. With `force` it replaces an existing one.
pub fn create(
    file: &Path,
    force: bool,
    write: impl FnOnce(&mut BufWriter<fs::File>) -> io::Result<()>,
) -> Result<(), Failure> {
    let cannot = |e: io::Error| Failure::failed(format!("cannot write {}: {e}", file.display()));
    // The existing file stays until the new one is complete.
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
        // The first error is the one to report.
        let _ = fs::remove_file(&written);
        cannot(error)
    })
}

/// The failure where a file to be written exists.
pub fn exists(file: &Path) -> Failure {
    Failure::usage(format!(
        "{} exists already. Name a new file, or overwrite it with --force",
        file.display()
    ))
}
