// SPDX-License-Identifier: GPL-2.0-or-later
//! How transfers start: a picture for each point of the sweep, a line for each way.

use super::labels::colour_class;
use crate::{
    format, headline,
    scenario_runs::{Cell, ScenarioRuns},
    start::{SPAN_S, Start},
    svg::{px, tick_step, translate},
};
use maud::{Markup, html};

/// The size of a picture's panel and what stands around it, in CSS pixels.
const WIDTH: f64 = 500.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 12.0;
const ABOVE: f64 = 8.0;
const BELOW: f64 = 36.0;
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
        let (unit, divisor) = if most >= 1e6 { ("MB", 1e6) } else { ("KB", 1e3) };
        let x = |time_s: f64| WIDTH * time_s / span_s;
        let y = |bytes: f64| HEIGHT * (1.0 - bytes / most);
        let size = (LEFT + WIDTH + RIGHT, ABOVE + HEIGHT + BELOW);
        let path = |start: &Start| {
            let begin = |n| if n == 0 { 'M' } else { 'L' };
            let steps = start.points.iter().enumerate();
            let to = |(n, (time_s, bytes)): (usize, &(f64, f64))| {
                format!("{}{:.1} {:.1}", begin(n), x(*time_s), y(*bytes))
            };
            steps.map(to).collect::<String>()
        };
        html! {
            svg.start viewBox=(format!("0 0 {} {}", size.0, size.1)) role="img" aria-label=(self.text(group)) {
                g transform=(translate(LEFT, ABOVE)) {
                    @for value in ticks(most / divisor) {
                        @let at = y(value * divisor);
                        path.rule d=(format!("M0 {at:.1}H{WIDTH}")) {}
                        text x="-6" y=(px(at + 4.0)) text-anchor="end" { (format::digits(value)) }
                    }
                    @for value in ticks(span_s) {
                        text x=(px(x(value))) y=(px(HEIGHT + 16.0)) text-anchor="middle" { (format::digits(value)) }
                    }
                    text x=(px(WIDTH / 2.0)) y=(px(HEIGHT + 32.0)) text-anchor="middle" {
                        (unit) " received, over seconds"
                    }
                    @for (cell, start) in &self.lines {
                        path.line.(colour_class(group, cell)).dashed[is_dashed(group, cell)] d=(path(start)) {
                            title { (headline::name(group, cell)) }
                        }
                    }
                }
            }
        }
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

/// The steps of a scale from zero to the largest value.
fn ticks(largest: f64) -> impl Iterator<Item = f64> {
    let step = tick_step(largest);
    (0..).map(move |n| f64::from(n) * step).take_while(move |value| *value <= largest * 1.000_001)
}
