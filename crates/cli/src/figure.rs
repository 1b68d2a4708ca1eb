// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul figure`.

use crate::{
    failure::Failure,
    results::{print_json, print_text},
};
use std::{fs, path::PathBuf};

/// Show one metric of all records of a scenario over a swept key: a line for each way, a panel for
/// each combination of the other keys.
#[derive(clap::Args)]
pub struct FigureArgs {
    /// The folder, as given to `lab run --out`.
    dir: PathBuf,
    /// The metric: a key of `metrics` in a run's summary, or `goodput_share`, which is
    /// `goodput_bps` over what the flows' paths can carry together.
    #[arg(long, value_name = "METRIC", default_value = "goodput_bps")]
    y: String,
    /// The swept key along the panels, as in `vars.rtt` [default: the first that takes several
    /// values].
    #[arg(long, value_name = "KEY")]
    x: Option<String>,
    /// Draw it as SVG, too.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &FigureArgs) -> Result<(), Failure> {
    let figure = ::report::Figure::read(&args.dir, &args.y, args.x.as_deref());
    let figure = figure.map_err(|error| match error {
        ::report::Error::Figure(text) => Failure::Usage(text),
        other => Failure::failed(other),
    })?;
    if let Some(file) = &args.svg {
        let cannot = |e| Failure::failed(format!("cannot write {}: {e}", file.display()));
        fs::write(file, figure.svg()).map_err(cannot)?;
    }
    if args.json {
        print_json(&figure);
    } else {
        print_text(&figure.table());
    }
    Ok(())
}
