// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul report`.

use crate::failure::Failure;
use std::path::PathBuf;

/// Make one self-contained HTML page of all records in a folder.
#[derive(clap::Args)]
pub struct ReportArgs {
    /// The folder, as given to `lab run --out`.
    dir: PathBuf,
    /// Where to write the page [default: report.html in that folder].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(args: &ReportArgs) -> Result<(), Failure> {
    let out = args.out.clone().unwrap_or_else(|| args.dir.join("report.html"));
    let written = ::report::write(&args.dir, &out).map_err(Failure::failed)?;
    println!("{}", out.display());
    eprintln!(
        "records at and below {}: {} ({} invalid), of {} {}",
        args.dir.display(),
        written.runs,
        written.invalid,
        written.scenarios,
        if written.scenarios == 1 { "scenario" } else { "scenarios" }
    );
    Ok(())
}
