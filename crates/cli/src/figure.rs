// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul figure`.

use crate::{
    failure::Failure,
    print::{print_json, print_text},
};
use ::report::{
    Bars, ColourBy, Figure, FigureForm, FigureQuery, LinkFigure, LinkFigureQuery, OverTime,
    TimeFigure, TimeFigureQuery, png, suited_metric,
};
use record::Entity;
use serde::Serialize;
use std::{
    ffi::OsStr,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

const EXAMPLES: &str = "\
Examples:
  longhaul figure out/loss-response --log-y --warm-up 5s --output goodput.svg
  longhaul figure out/joining-flows/sim/r01 --over-time cwnd --flow cubic,reno --output windows.svg";

/// Draw a figure of records: a metric over a swept key, or a run over time.
///
/// Without --link and --over-time, it draws one metric of all records of a scenario over a swept key, with a line for
/// each variant and a panel for each combination of the other keys. With --link it draws the rate of a link during
/// each run, with --over-time windows, round trips, rates or queues.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("course").args(["link", "over_time"]).multiple(true))]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct FigureArgs {
    /// Directory, as given to `lab run --out`. With --link or --over-time any directories: each record in or below
    /// them is a panel, in this order.
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Metric: a key of `metrics` in a run's summary, or `goodput_share`, which is `goodput_bps` as a share of the
    /// capacity of the flows' paths. With `--by flow` a key of `metrics.flows`, or `goodput_bps`, `seconds`,
    /// `retransmits` or `timeouts` of a flow [default: `goodput_bps`; where the sizes of transfers differ their time,
    /// on a logarithmic axis].
    #[arg(long, value_name = "METRIC", conflicts_with_all = ["link", "over_time"])]
    y: Option<String>,
    /// Swept key of the horizontal axis, as in `vars.rtt`, or `variant`, or with `--by flow` `flow` [default: the
    /// first key with several values, otherwise the variant].
    #[arg(long, value_name = "KEY", conflicts_with_all = ["link", "over_time"])]
    x: Option<String>,
    /// Draw the metric on a logarithmic axis.
    #[arg(long, conflicts_with = "cdf")]
    log_y: bool,
    /// Draw the horizontal axis on a logarithmic scale. Swept keys that span a factor of 30 are drawn so without this
    /// option.
    #[arg(long, conflicts_with_all = ["link", "over_time", "boxes"])]
    log_x: bool,
    /// Draw the metric's cumulative distribution over repeats, with a panel for each point of the sweep. With `--by
    /// flow` over all flows of these runs.
    #[arg(long, conflicts_with_all = ["link", "over_time", "x", "boxes", "bars"])]
    cdf: bool,
    /// Draw a box for the repeats at each value of the swept key, with whiskers to the outermost values within 1.5 box
    /// lengths. With `--by flow` for all flows of these runs.
    #[arg(long = "box", conflicts_with_all = ["link", "over_time", "bars"])]
    boxes: bool,
    /// Also draw the response functions of these congestion controls, or with `response` those of the lines' own
    /// controls. The swept key must change the path's loss or round trip.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with_all = ["link", "over_time", "cdf", "boxes"])]
    overlay: Vec<String>,
    /// How repeats are shown [default: ci95 if there are any].
    #[arg(long, value_enum, conflicts_with_all = ["link", "over_time"])]
    bars: Option<BarsArg>,
    /// What colours distinguish [default: what tells most lines apart].
    #[arg(long, value_enum)]
    colour_by: Option<ColourByArg>,
    /// What each line shows.
    #[arg(long, value_enum, default_value = "variant", conflicts_with_all = ["link", "over_time"])]
    by: By,
    /// Leave out the start of each run up to this time, as in `10s`. Metrics are computed from the series after it
    /// [default: 0s].
    #[arg(long, value_name = "TIME", conflicts_with_all = ["link", "over_time"])]
    warm_up: Option<units::Duration>,
    /// Draw sampled values over time, with a line for each flow and a panel for each record.
    #[arg(long, value_enum, value_name = "WHAT")]
    over_time: Option<OverTimeArg>,
    /// Flows to draw over time, or hops as FLOW/N [default: all].
    #[arg(long, value_name = "FLOW", value_delimiter = ',', requires = "over_time")]
    flow: Vec<String>,
    /// Measure time from each flow's own start.
    #[arg(long, requires = "over_time")]
    since_start: bool,
    /// Draw all records in one panel.
    #[arg(long, requires = "over_time")]
    together: bool,
    /// Draw the rate of this link direction in the bins of its monitor, as in `haul/forward`. With `--over-time
    /// queue` draw its queue.
    #[arg(long, value_name = "NAME/DIRECTION", value_parser = link)]
    link: Option<Entity>,
    /// Also draw the congestion window of a flow's hop over this link, as in `file/0`, and compare the rate with the
    /// hop's bottleneck.
    #[arg(long, value_name = "FLOW/N", value_parser = hop, requires = "link", conflicts_with = "over_time")]
    hop: Option<Entity>,
    /// Start of the time drawn, as in `500ms` after a run's start [default: the run's start].
    #[arg(long, value_name = "TIME", requires = "course")]
    from: Option<units::Duration>,
    /// End of the time drawn, as in `20s` after a run's start [default: the run's end].
    #[arg(long, value_name = "TIME", requires = "course")]
    to: Option<units::Duration>,
    /// Write the figure to a file whose name ends in .svg or .png [default: print a table only].
    #[arg(long, value_name = "FILE")]
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
enum OverTimeArg {
    /// Congestion windows.
    Cwnd,
    /// Slow-start thresholds.
    Ssthresh,
    /// Smoothed round trips.
    Rtt,
    /// What clients received, in bins of 0.1 s or wider.
    Rate,
    /// Pacing rates.
    PacingRate,
    /// Queues of links.
    Queue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum BarsArg {
    /// Means with their 95 % confidence intervals, by Student's t.
    Ci95,
    /// Medians with minimum and maximum.
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
    if let Some(what) = args.over_time {
        let figure = TimeFigure::read(&args.dirs, &args.over_time(what)?)?;
        return args.show(&figure, || figure.svg(), || figure.table());
    }
    if let Some(link) = &args.link {
        if args.log_y || args.colour_by.is_some() {
            let text =
                "--log-y and --colour-by need --over-time queue when they are used with --link";
            return Err(Failure::usage(text.to_owned()));
        }
        let figure = LinkFigure::read(&args.dirs, &args.course(link)?)?;
        return args.show(&figure, || figure.svg(), || figure.table());
    }
    let [dir] = &args.dirs[..] else {
        return Err(Failure::usage(
            "several directories need --link or --over-time: name one directory".to_owned(),
        ));
    };
    let figure = Figure::read(dir, &args.asked(dir)?)?;
    args.show(&figure, || figure.svg(), || figure.table())
}

impl FigureArgs {
    fn asked(&self, dir: &Path) -> Result<FigureQuery<'_>, Failure> {
        let (y, is_logarithmic) = match &self.y {
            Some(y) => (y.as_str(), false),
            // Response functions are of goodput, and times are of whole runs.
            None if !self.overlay.is_empty() || self.warm_up.is_some() => ("goodput_bps", false),
            None => suited_metric(dir, self.by == By::Flow)?,
        };
        Ok(FigureQuery {
            y,
            x: self.x.as_deref(),
            by_flow: self.by == By::Flow,
            warm_up_s: self.warm_up.map_or(0.0, units::Duration::as_secs_f64),
            log_y: self.log_y || is_logarithmic,
            log_x: self.log_x,
            bars: self.bars.map(|bars| match bars {
                BarsArg::Ci95 => Bars::Ci95,
                BarsArg::Range => Bars::Range,
                BarsArg::None => Bars::None,
            }),
            colour_by: self.colour_by(),
            form: match (self.cdf, self.boxes) {
                (true, _) => FigureForm::Cdf,
                (false, true) => FigureForm::Box,
                (false, false) => FigureForm::Lines,
            },
            overlay: self.overlay.clone(),
        })
    }

    fn over_time(&self, what: OverTimeArg) -> Result<TimeFigureQuery, Failure> {
        let what = match what {
            OverTimeArg::Cwnd => OverTime::Cwnd,
            OverTimeArg::Ssthresh => OverTime::Ssthresh,
            OverTimeArg::Rtt => OverTime::Rtt,
            OverTimeArg::Rate => OverTime::Rate,
            OverTimeArg::PacingRate => OverTime::PacingRate,
            OverTimeArg::Queue => OverTime::Queue,
        };
        if self.link.is_some() && what != OverTime::Queue {
            return Err(Failure::usage(
                "--link can be drawn only with --over-time queue, or without --over-time"
                    .to_owned(),
            ));
        }
        Ok(TimeFigureQuery {
            what,
            flows: self.flow.clone(),
            link: self.link.clone(),
            span_s: self.span_s()?,
            since_start: self.since_start,
            together: self.together,
            log_y: self.log_y,
            colour_by: self.colour_by(),
        })
    }

    fn course(&self, link: &Entity) -> Result<LinkFigureQuery, Failure> {
        let span_s = self.span_s()?;
        Ok(LinkFigureQuery { link: link.clone(), hop: self.hop.clone(), span_s })
    }

    fn span_s(&self) -> Result<Range<f64>, Failure> {
        let seconds = |time: Option<units::Duration>| time.map(units::Duration::as_secs_f64);
        let span_s = seconds(self.from).unwrap_or(0.0)..seconds(self.to).unwrap_or(f64::INFINITY);
        if span_s.is_empty() {
            return Err(Failure::usage("--to must be later than --from".to_owned()));
        }
        Ok(span_s)
    }

    fn colour_by(&self) -> Option<ColourBy> {
        self.colour_by.map(|by| match by {
            ColourByArg::Algorithm => ColourBy::Algorithm,
            ColourByArg::Method => ColourBy::Method,
            ColourByArg::Flow => ColourBy::Flow,
            ColourByArg::Variant => ColourBy::Variant,
        })
    }

    fn show(
        &self,
        figure: &impl Serialize,
        svg: impl Fn() -> String,
        table: impl Fn() -> String,
    ) -> Result<(), Failure> {
        if let Some(file) = &self.output {
            let cannot = |e| Failure::failed(format!("cannot write {}: {e}", file.display()));
            let drawing = match file.extension().and_then(OsStr::to_str) {
                Some("svg") => svg().into_bytes(),
                Some("png") => png(&svg())?,
                _ => {
                    let text = format!("{}: the name must end in .svg or .png", file.display());
                    return Err(Failure::usage(text));
                }
            };
            fs::write(file, drawing).map_err(cannot)?;
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
