// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab export`.

use crate::failure::Failure;
use ::report::MetricsTable;
use std::{
    fs::{self, OpenOptions},
    io::{self, BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
};

/// Write every metric of all records as one long table: a row for each run, entity (the run, a flow, a hop, a
/// link, a traffic source) and metric, and a column for each swept key.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("format").required(true))]
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
    /// Leave out so much of each run's beginning, as in `10s`: what the series tell of the rest, which is less.
    #[arg(long, value_name = "TIME")]
    warm_up: Option<units::Duration>,
}

pub fn run(args: &ExportArgs) -> Result<(), Failure> {
    let file = args.csv.as_ref().or(args.parquet.as_ref()).expect("one of them is required");
    let to_output = file.as_os_str() == "-";
    if to_output && args.parquet.is_some() {
        return Err(Failure::usage("--parquet -: Parquet is no text; name a file".to_owned()));
    }
    // Reading may take a while, and is for nothing where the table has no place.
    if !to_output && fs::symlink_metadata(file).is_ok() {
        return Err(exists(file));
    }
    let warm_up_s = args.warm_up.map_or(0.0, units::Duration::as_secs_f64);
    let export = MetricsTable::read(&args.dirs, warm_up_s).map_err(Failure::failed)?;
    if to_output {
        let written = export.csv(BufWriter::new(io::stdout().lock()));
        // Who reads only a part of it, as `head` does, has what it wanted.
        return match written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::failed(error)),
            _ => Ok(()),
        };
    }
    create(file, |into| if args.csv.is_some() { export.csv(into) } else { export.parquet(into) })?;
    eprintln!("{} rows of {} runs in {}", export.rows(), export.runs(), file.display());
    Ok(())
}

/// Writes a new file, whole or not at all.
fn create(
    file: &Path,
    write: impl FnOnce(&mut BufWriter<fs::File>) -> io::Result<()>,
) -> Result<(), Failure> {
    let cannot = |e: io::Error| Failure::failed(format!("cannot write {}: {e}", file.display()));
    let created = OpenOptions::new().write(true).create_new(true).open(file);
    let mut into = BufWriter::new(created.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(file),
        _ => cannot(error),
    })?);
    write(&mut into).and_then(|()| into.flush()).map_err(|error| {
        // What went wrong is known already.
        let _ = fs::remove_file(file);
        cannot(error)
    })
}

fn exists(file: &Path) -> Failure {
    Failure::usage(format!("{} exists already; name a new file", file.display()))
}
