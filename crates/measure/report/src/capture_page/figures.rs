// SPDX-License-Identifier: GPL-2.0-or-later
//! Figures of the page: windows and round trips of a direction, and causes of what was sent again.

use crate::{
    axis_unit::AxisUnit,
    chart::{Axis, Chart, Panel, Series, Shape, Size, Style, palette::MUTED},
    format,
};
use trace::{Course, DirectionSummary, LargestDirection};

const HALF: Size = Size { width: 450.0, height: 220.0 };
const WHOLE: Size = Size { width: 880.0, height: 240.0 };
/// A receiver's window is drawn up to this multiple of the bytes under way, so that these stay legible.
const WINDOW_SHARE: f64 = 3.0;

/// Causes of retransmissions with their values, in the order in which they are stacked.
type Cause = (&'static str, fn(&DirectionSummary) -> u64);
const CAUSES: [Cause; 5] = [
    ("told by acknowledgements", |one| one.fast_segments),
    ("by timeout", |one| one.timeout_segments),
    ("tail loss probe", |one| one.tail_loss_probe_segments),
    ("in vain", |one| one.unneeded_segments),
    ("unknown cause", |one| one.unknown_cause_segments),
];

/// Whether windows of a direction were kept.
pub fn has_windows(row: &LargestDirection) -> bool {
    row.direction.windows.as_ref().is_some_and(|of| of.outstanding_bytes.slices().len() > 1)
}

/// Bytes under way with the receiver's window, and round trips.
pub fn windows(number: usize, row: &LargestDirection) -> String {
    let one = &row.direction;
    let curves = one.windows.as_ref();
    let start_ns = curves
        .and_then(|of| of.outstanding_bytes.slices().next())
        .map_or(row.start_unix_ns, |slice| slice.unix_ns);
    let line = |course: Option<&Course>, unit: f64| -> Vec<[f64; 2]> {
        let slices = course.into_iter().flat_map(Course::slices);
        let ends = slices.flat_map(|slice| {
            let seconds = slice.unix_ns.saturating_sub(start_ns) as f64 / 1e9;
            let highest = Some(slice.highest).filter(|highest| *highest > slice.lowest);
            let values = [slice.lowest].into_iter().chain(highest);
            values.map(move |value| [seconds, value as f64 * unit])
        });
        ends.collect()
    };
    let under_way = line(curves.map(|of| &of.outstanding_bytes), 1.0);
    let window = line(curves.map(|of| &of.window_bytes), 1.0);
    let trips = line(curves.map(|of| &of.rtt_ns), 1e-3);
    let most = |points: &[[f64; 2]], axis: usize| {
        points.iter().map(|point| point[axis]).fold(0.0, f64::max)
    };
    let bytes = most(&under_way, 1).max(most(&window, 1).min(WINDOW_SHARE * most(&under_way, 1)));
    let end_s = most(&under_way, 0).max(most(&trips, 0));
    let time = || Axis::time(&(0.0..end_s), "time, s");
    let named = |name: &str, colour: usize, dash: &'static str, points: Vec<[f64; 2]>| {
        let style = Style { dash, ..Style::plain(MUTED[colour], 1.2) };
        Series::new(name, style, Shape::Line(points))
    };
    let window_name = one
        .window_max_bytes
        .map(|largest| format!("receiver’s window, up to {}", format::size(largest as f64)));
    let mut series = Vec::new();
    if let Some(name) = &window_name {
        series.push(named(name, 5, "7 3", window));
    }
    series.push(named("sent and not acknowledged", 0, "", under_way));
    let windows = Axis::up_to(bytes, &AxisUnit::bytes("window", bytes));
    let longest = most(&trips, 1);
    let trip_axis = Axis::up_to(longest, &AxisUnit::of("rtt_us", longest));
    let trip_series = vec![named("round trip", 2, "", trips)];
    Chart {
        title: format!("#{number}: {} to {}", one.from, one.to),
        description: format!("Windows and round trips of connection {number} over time"),
        about: "The lowest and the highest value of each slice of time. Time from the connection’s first packet with data".to_owned(),
        panels: vec![
            Panel::new("Windows".to_owned(), HALF, time(), windows, series),
            Panel::new("Round trips".to_owned(), HALF, time(), trip_axis, trip_series),
        ],
    }
    .svg()
}

/// A column for each direction, by its number, of segments sent again, stacked by cause.
pub fn causes<'a>(directions: impl Iterator<Item = (usize, &'a DirectionSummary)>) -> String {
    let directions: Vec<_> = directions.collect();
    let names: Vec<String> = directions.iter().map(|(number, _)| format!("#{number}")).collect();
    let mut tops = vec![0.0; directions.len()];
    let mut series = Vec::new();
    for ((name, value), colour) in CAUSES.iter().zip([0, 1, 2, 5, 7]) {
        let columns =
            directions.iter().zip(&mut tops).enumerate().filter_map(|(n, ((_, one), top))| {
                let (from, middle) = (*top, n as f64 + 0.5);
                *top += value(one) as f64;
                (*top > from).then_some([middle - 0.3..middle + 0.3, from..*top])
            });
        let columns: Vec<_> = columns.collect();
        if !columns.is_empty() {
            let style = Style { fill_opacity: "0.85", ..Style::plain(MUTED[colour], 1.0) };
            series.push(Series::new(name, style, Shape::Areas(columns)));
        }
    }
    let most = tops.iter().copied().fold(0.0, f64::max);
    let size = Size { width: WHOLE.width.min(70.0 * names.len() as f64 + 240.0), ..WHOLE };
    let x = Axis::names("connection, by its number in the table", &names);
    let y = Axis::up_to(most, &AxisUnit::counts("segments sent again", most));
    Chart {
        title: "Causes".to_owned(),
        description: "Segments sent again by cause, for each connection".to_owned(),
        about: "Segments of data that were sent again".to_owned(),
        panels: vec![Panel::new(String::new(), size, x, y, series)],
    }
    .svg()
}
