// SPDX-License-Identifier: GPL-2.0-or-later
//! How transfers start: a picture for each point of the sweep, a line for each way.

use super::labels::colour_class;
use crate::{
    axis_unit::AxisUnit,
    chart::{Axis, Panel, Series, Shape, Size, Style},
    format, headline,
    scenario_runs::{Cell, ScenarioRuns},
    start::{SPAN_S, Start},
};
use maud::{Markup, html};

const SIZE: Size = Size { width: 500.0, height: 210.0 };
/// Of more pictures none is drawn: a sweep of that size has a chart.
const MOST_PICTURES: usize = 12;

/// The starts of one flow at one point.
struct Picture<'a> {
    title: String,
    lines: Vec<(&'a Cell, &'a Start)>,
}

/// The section, if there is something to show.
pub fn section(group: &ScenarioRuns) -> Markup {
    let pictures = pictures(group);
    html! {
        @if !pictures.is_empty() && pictures.len() <= MOST_PICTURES {
            h2 { "How transfers start" }
            p.note {
                "Bytes that a client has received over the time since its start, in the first "
                (format::digits(SPAN_S)) " s at most. For each variant, the run closest to the median."
            }
            (legend(group, &pictures))
            div.multiples {
                @for picture in &pictures {
                    figure {
                        @if !picture.title.is_empty() { figcaption { (picture.title) } }
                        (picture.draw(group))
                    }
                }
            }
        }
    }
}

fn pictures(group: &ScenarioRuns) -> Vec<Picture<'_>> {
    let mut pictures: Vec<((usize, &str), Picture<'_>)> = Vec::new();
    for cell in &group.cells {
        let Some(run) = cell.representative().map(|run| &group.runs[run]) else { continue };
        let is_of_cell = |start: &&Start| start.client.as_deref().is_none_or(|c| c == cell.client);
        let several = run.starts.len() > 1;
        for start in run.starts.iter().filter(is_of_cell) {
            let key = (cell.point, start.flow.as_str());
            let at = pictures.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                let flow = if several { start.flow.clone() } else { String::new() };
                let names = [headline::point(group, cell), flow];
                let named = names.into_iter().filter(|name| !name.is_empty());
                let title = named.collect::<Vec<_>>().join(", ");
                pictures.push((key, Picture { title, lines: Vec::new() }));
                pictures.len() - 1
            });
            pictures[at].1.lines.push((cell, start));
        }
    }
    pictures.into_iter().map(|(_, picture)| picture).collect()
}

/// Each way once; those by a second method are dashed.
fn legend(group: &ScenarioRuns, pictures: &[Picture<'_>]) -> Markup {
    let mut seen: Vec<(String, &Cell)> = Vec::new();
    for (cell, _) in pictures.iter().flat_map(|picture| &picture.lines) {
        let name = headline::name(group, cell);
        if seen.iter().all(|(known, _)| *known != name) {
            seen.push((name, cell));
        }
    }
    html! {
        ul.legend.starts {
            @for (name, cell) in seen {
                li.(colour_class(group, cell)) {
                    i.dashed[is_dashed(group, cell)] {}
                    (name)
                }
            }
        }
    }
}

fn is_dashed(group: &ScenarioRuns, cell: &Cell) -> bool {
    group.cells.first().is_some_and(|first| first.method != cell.method)
}

impl Picture<'_> {
    fn draw(&self, group: &ScenarioRuns) -> Markup {
        let points = || self.lines.iter().flat_map(|(_, start)| &start.points);
        let span_s = points().map(|(time_s, _)| *time_s).fold(0.0, f64::max);
        let most = points().map(|(_, bytes)| *bytes).fold(1.0, f64::max);
        let series = self.lines.iter().map(|(cell, start)| {
            let line = start.points.iter().map(|(time_s, bytes)| [*time_s, *bytes]);
            let style = Style::plain("", 2.0);
            let name = headline::name(group, cell);
            let dashed = if is_dashed(group, cell) { " dashed" } else { "" };
            let class = colour_class(group, cell) + dashed;
            Series { class, ..Series::new(&name, style, Shape::Line(line.collect())) }
        });
        let time = Axis::time(&(0.0..span_s), "time since the start, s");
        let received = Axis::up_to(most, &AxisUnit::bytes("received", most));
        let panel = Panel::new(String::new(), SIZE, time, received, series.collect());
        panel.inline_svg("start", &self.text(group))
    }

    /// For those who can't see it: when each had all, or how much it had.
    fn text(&self, group: &ScenarioRuns) -> String {
        let line = |(cell, start): &(&Cell, &Start)| {
            let (time_s, bytes) = start.points.last().copied().unwrap_or_default();
            let name = headline::name(group, cell);
            format!("{name}: {} after {}", format::size(bytes), format::seconds(time_s))
        };
        self.lines.iter().map(line).collect::<Vec<_>>().join("; ")
    }
}
