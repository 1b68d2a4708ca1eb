// SPDX-License-Identifier: GPL-2.0-or-later
//! Pictures of a congestion control: its window over time with the queue that it keeps, and how its window settles
//! under periodic loss. The path is the same for all, so that pictures can be compared.

use crate::{
    axis_unit::AxisUnit,
    chart::{Axis, Chart, Panel, Series, Shape, Size, Style},
};
use congestion::{
    Params,
    path::{PeriodicLoss, Sample, reference},
};
use units::Duration;

/// Colours that differ in lightness too, and for every kind of colour vision (Okabe and Ito).
const WINDOW: Style = Style::plain("#0072b2", 1.5);
const QUEUE: Style = Style::plain("#b34700", 1.5);

const WIDTH: f64 = 626.0;
/// Samples to a point of a curve.
const POINT: usize = 10;

/// The window over time of an algorithm by its parameters, and the queue, as an SVG document.
pub fn window_svg(params: &Params) -> String {
    let path = reference::bottleneck();
    let samples = reference::samples(&path, params);
    let filled = (path.rate.times(reference::ROUND_TRIP).get() / path.packet.get()) as f64;
    let buffer = path.buffer_packets as f64;
    let time = |title| Axis::time(&(0.0..reference::LENGTH.as_secs_f64()), title);
    let seconds = |sample: &Sample| sample.at.as_secs_f64();
    let window = |sample: &Sample| [seconds(sample), sample.flows[0].decision.cwnd.into()];
    let windows = samples.iter().step_by(POINT).map(window).collect();
    // The longest, or a queue that comes and goes with the round trip would beat.
    let longest = |point: &[Sample]| point.iter().map(|sample| sample.queue_packets).max();
    let queue = |point: &[Sample]| [seconds(&point[0]), longest(point).unwrap_or(0) as f64];
    let queues = samples.chunks(POINT).map(queue).collect();
    let windows = Panel {
        levels: vec![
            (filled, "below: link not filled"),
            (filled + buffer, "above: queue overflows"),
        ],
        ..panel(220.0, time(""), 1000.0, "cwnd, segments", vec![(WINDOW, windows)])
    };
    let queue = Panel {
        levels: vec![(buffer, "queue full")],
        ..panel(70.0, time("time, s"), 500.0, "queue, packets", vec![(QUEUE, queues)])
    };
    let title = params.algorithm().title.to_owned();
    Chart {
        description: format!("{title}: window and queue over time"),
        about: format!(
            "one flow, 100 Mb/s, 50 ms round trip, taildrop queue of {} packets (one \
             bandwidth-delay product)",
            path.buffer_packets
        ),
        title,
        panels: vec![windows, queue],
    }
    .svg()
}

/// How the window at each loss settles, from several starts, where one segment in 10 000 is lost and
/// the round trip is 100 ms: for an algorithm whose fixed point is only neutrally stable, as CUBIC's is.
/// As an SVG document; `expected` is the closed form's window at a loss.
pub fn convergence_svg(params: &Params, expected: u32) -> String {
    const EPOCHS: usize = 300;
    let curve = |start: u32| {
        let path = PeriodicLoss {
            every: 10_000,
            rtt: Duration::from_millis(100),
            start,
            delivery_rate: None,
        };
        let epochs = path.run(params, EPOCHS);
        let windows = std::iter::once(start).chain(epochs.iter().map(|epoch| epoch.to));
        let points = windows.enumerate().map(|(n, cwnd)| [n as f64, cwnd.into()]);
        (WINDOW, points.collect())
    };
    let starts = [expected / 4, expected / 2, expected, 2 * expected, 4 * expected];
    let losses = Axis::time(&(0.0..EPOCHS as f64), "losses");
    let highest = 4.0 * f64::from(expected);
    let curves = starts.map(curve).to_vec();
    let panel = panel(320.0, losses, highest, "cwnd, segments", curves);
    let title = format!("{}: the window at each loss", params.algorithm().title);
    Chart {
        description: title.clone(),
        about: "one flow, 100 ms round trip, one loss in 10 000 segments, no other limit; from five starts"
            .to_owned(),
        title,
        panels: vec![Panel { levels: vec![(f64::from(expected), "closed form")], ..panel }],
    }
    .svg()
}

/// Curves that are cut at the upper end of their axis.
fn panel(
    height: f64,
    x: Axis,
    highest: f64,
    what: &str,
    curves: Vec<(Style, Vec<[f64; 2]>)>,
) -> Panel {
    let y = Axis::up_to(highest, &AxisUnit::counts(what, highest));
    let top = y.ends[1];
    let series = curves.into_iter().map(|(style, curve)| {
        let cut = curve.into_iter().map(|[x, y]| [x, y.min(top)]).collect();
        Series::new("", style, Shape::Line(cut))
    });
    Panel::new(String::new(), Size { width: WIDTH, height }, x, y, series.collect())
}
