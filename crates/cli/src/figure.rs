// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul figure`.

use crate::{
    failure::Failure,
    print::{print_json, print_text},
};
use ::report::{Bars, ColourBy, Figure, FigureForm, FigureQuery, LinkFigure, LinkFigureQuery};
use record::Entity;
use serde::Serialize;
use std::{fs, path::PathBuf};

/// Show records as papers do: one metric of all records of a scenario over a swept key, a line for each
/// variant, a panel for each combination of the other keys; or, with --link, what went over a link in
/// the course of each run.
#[derive(clap::Args)]
pub struct FigureArgs {
    /// The folder, as given to `lab run --out`. With --link any folders: each record at and below them is a
    /// panel, in this order.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// The metric: a key of `metrics` in a run's summary, or `goodput_share`, which is
    /// `goodput_bps` over what the flows' paths can carry together. With `--by flow` a key of
    /// `metrics.flows`, or `goodput_bps`, `seconds`, `retransmits` or `timeouts` of a flow.
    #[arg(long, value_name = "METRIC", default_value = "goodput_bps", conflicts_with = "link")]
    y: String,
    /// The swept key along the panels, as in `vars.rtt`, or `variant`, or with `--by flow` `flow` [default: the
    /// first that takes several values, else the variant].
    #[arg(long, value_name = "KEY", conflicts_with = "link")]
    x: Option<String>,
    /// Draw the metric on a logarithmic axis.
    #[arg(long, conflicts_with_all = ["link", "cdf"])]
    log_y: bool,
    /// Draw what is along the panels on a logarithmic axis. Swept keys are, without this, where they span a factor of 30.
    #[arg(long, conflicts_with_all = ["link", "boxes"])]
    log_x: bool,
    /// Draw the metric's distribution over repeats: the share of the runs up to each value, a panel for each
    /// point of the sweep. With `--by flow` over all flows of these runs.
    #[arg(long, conflicts_with_all = ["link", "x", "boxes", "bars"])]
    cdf: bool,
    /// Draw a box for the repeats at each value of the swept key, with whiskers to the outermost values within 1.5 box
    /// lengths. With `--by flow` for all flows of these runs.
    #[arg(long = "box", conflicts_with_all = ["link", "bars"])]
    boxes: bool,
    /// What stands for repeats [default: ci95 where there are any].
    #[arg(long, value_enum, conflicts_with = "link")]
    bars: Option<BarsArg>,
    /// What colours stand for [default: what tells most lines apart].
    #[arg(long, value_enum, conflicts_with = "link")]
    colour_by: Option<ColourByArg>,
    /// What a line is of.
    #[arg(long, value_enum, default_value = "variant", conflicts_with = "link")]
    by: By,
    /// Leave out so much of each run's beginning, as in `10s`: metrics are computed from the series after
    /// that, as if the run had begun then.
    #[arg(long, value_name = "TIME", conflicts_with = "link")]
    warm_up: Option<units::Duration>,
    /// The rate of a link's direction in the bins of its monitor, as in `haul/forward`.
    #[arg(long, value_name = "NAME/DIRECTION", value_parser = link)]
    link: Option<Entity>,
    /// The congestion window of a flow's hop over it, as in `file/0`; the rate is then compared with
    /// the hop's bottleneck.
    #[arg(long, value_name = "FLOW/N", value_parser = hop, requires = "link")]
    hop: Option<Entity>,
    /// From when in the runs, as in `500ms` [default: their start].
    #[arg(long, value_name = "TIME", requires = "link")]
    from: Option<units::Duration>,
    /// Until when [default: their end].
    #[arg(long, value_name = "TIME", requires = "link")]
    to: Option<units::Duration>,
    /// Draw it, too, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    output: Option<PathBuf>,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// All flows of a variant together.
    Variant,
    /// Each flow of each variant.
    Flow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum BarsArg {
    /// Means with their 95 % confidence intervals, by Student's t.
    Ci95,
    /// Medians with the least and the most.
    Range,
    /// Means alone.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ColourByArg {
    /// The congestion control, which has the same colour in every figure.
    Algorithm,
    /// Emulation, simulation: the same colours in every figure.
    Method,
    /// The flow.
    Flow,
    /// The variant.
    Variant,
}

pub fn run(args: &FigureArgs) -> Result<(), Failure> {
    if let Some(link) = &args.link {
        let figure = LinkFigure::read(&args.dirs, &args.course(link)?)?;
        return args.show(&figure, || figure.svg(), || figure.table());
    }
    let [dir] = &args.dirs[..] else {
        return Err(Failure::usage("several folders are for --link".to_owned()));
    };
    let asked = args.asked();
    let figure = Figure::read(dir, &asked)?;
    args.show(&figure, || figure.svg(), || figure.table())
}

impl FigureArgs {
    fn asked(&self) -> FigureQuery<'_> {
        FigureQuery {
            y: &self.y,
            x: self.x.as_deref(),
            by_flow: self.by == By::Flow,
            warm_up_s: self.warm_up.map_or(0.0, units::Duration::as_secs_f64),
            log_y: self.log_y,
            log_x: self.log_x,
            bars: self.bars.map(|bars| match bars {
                BarsArg::Ci95 => Bars::Ci95,
                BarsArg::Range => Bars::Range,
                BarsArg::None => Bars::None,
            }),
            colour_by: self.colour_by.map(|by| match by {
                ColourByArg::Algorithm => ColourBy::Algorithm,
                ColourByArg::Method => ColourBy::Method,
                ColourByArg::Flow => ColourBy::Flow,
                ColourByArg::Variant => ColourBy::Variant,
            }),
            form: match (self.cdf, self.boxes) {
                (true, _) => FigureForm::Cdf,
                (false, true) => FigureForm::Box,
                (false, false) => FigureForm::Lines,
            },
        }
    }

    fn course(&self, link: &Entity) -> Result<LinkFigureQuery, Failure> {
        let seconds = |time: Option<units::Duration>| time.map(units::Duration::as_secs_f64);
        let span_s = seconds(self.from).unwrap_or(0.0)..seconds(self.to).unwrap_or(f64::INFINITY);
        if span_s.is_empty() {
            return Err(Failure::usage("--to is not after --from".to_owned()));
        }
        Ok(LinkFigureQuery { link: link.clone(), hop: self.hop.clone(), span_s })
    }

    fn show(
        &self,
        figure: &impl Serialize,
        svg: impl Fn() -> String,
        table: impl Fn() -> String,
    ) -> Result<(), Failure> {
        if let Some(file) = &self.output {
            let cannot = |e| Failure::failed(format!("cannot write {}: {e}", file.display()));
            fs::write(file, svg()).map_err(cannot)?;
        }
        if self.json {
            print_json(figure);
        } else {
            print_text(&table());
        }
        Ok(())
    }
}

fn link(text: &str) -> Result<Entity, String> {
    let link = Entity::parse(&format!("link:{text}"));
    link.ok_or_else(|| "a link's direction is NAME/forward or NAME/backward".to_owned())
}

fn hop(text: &str) -> Result<Entity, String> {
    let hop = Entity::parse(&format!("hop:{text}"));
    hop.ok_or_else(|| "a hop is FLOW/N, the first FLOW/0".to_owned())
}
