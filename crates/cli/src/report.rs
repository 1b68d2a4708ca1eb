// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul report`.

use crate::failure::Failure;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul report out/demo
  longhaul report out/loss-response --out loss-response.html";

/// Make one self-contained HTML page of all records in a directory.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// Directory with records, as given to `lab run --out`.
    dir: PathBuf,
    /// File to write [default: report.html in that directory].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(args: &ReportArgs) -> Result<(), Failure> {
    let out = args.out.clone().unwrap_or_else(|| args.dir.join("report.html"));
    let written = ::report::write(&args.dir, &out).map_err(Failure::failed)?;
    outln!("{}", out.display());
    errln!(
        "{}: {} records ({} invalid) of {} {}",
        args.dir.display(),
        written.runs,
        written.invalid,
        written.scenarios,
        if written.scenarios == 1 { "scenario" } else { "scenarios" }
    );
    Ok(())
}
