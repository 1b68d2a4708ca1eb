// SPDX-License-Identifier: GPL-2.0-or-later
//! The page of a benchmark: its score card, the graph of paper 004, what each leaves to each, and all measures.
//!
//! It runs no script and makes no request.

#[cfg(test)]
mod tests;

use crate::{
    chart::{
        Style,
        palette::{ColourBy, LineKey, algorithms, styles},
        radar::{RadarLine, radar_svg},
    },
    distinct::distinct,
    document::{Document, STYLE, WITHOUT_SCRIPTS, drawing, drawing_style},
    format,
};
use benchmark::{
    Better, Card, Estimate, MeasureScores, Unit,
    card::{Meeting, TaskScores},
};
use maud::{Markup, html};

const OWN_STYLE: &str = include_str!("../assets/score-card.css");

/// The page of a benchmark, one HTML document with everything in it.
pub fn score_card_page(card: &Card) -> String {
    let title = format!("Benchmark of {} congestion controls", card.candidates.len());
    let body = html! {
        header.page {
            p.brand { "longhaul" }
            p.facts {
                "suite " (card.suite) " · " (extent(card)) " · method " (card.method) " · " (card.seeds) " seeds from "
                (card.first_seed) " · longhaul " (card.longhaul)
            }
        }
        main { section.group {
            h1 { (title) }
            (lead(card))
            (score_card(card))
            @if !card.radar.is_empty() { (radar(card)) }
            @if !card.grid.is_empty() { (grid(card)) }
            h2 { "All measures" }
            @for task in &card.tasks { (task_table(card, task)) }
        } }
        footer.page { p { "Made by longhaul " (env!("CARGO_PKG_VERSION")) ". This page makes no request." } }
    };
    let styles = [STYLE, OWN_STYLE, &drawing_style()];
    Document { title: &title, policy: WITHOUT_SCRIPTS, styles: &styles, body }.into_string()
}

fn extent(card: &Card) -> &'static str {
    match card.extent {
        benchmark::Extent::Quick => "quick",
        benchmark::Extent::Full => "full",
    }
}

fn lead(card: &Card) -> Markup {
    let rated = card.whole.iter().filter_map(|whole| Some((whole, whole.relative?)));
    let best = rated.max_by(|(_, one), (_, other)| one.mean.total_cmp(&other.mean));
    html! {
        @if let Some((whole, relative)) = best {
            p.finding.lead {
                (whole.candidate) " has the best score of all tasks together: "
                (format::significant(relative.mean, 3)) " times that of " (card.reference) "."
            }
        }
        p.note {
            "Numbers are times better than " (card.reference) ", so 2 is half the time or twice the share. A task is a geometric \
             mean over its cells, a group over its tasks, the whole over its groups. Intervals are 95 % over seeds (Student’s t). \
             A pale number is within chance of " (card.reference) "’s: paired t test over seeds, corrected for all pairs (Holm); of groups \
             and the whole, the interval."
        }
    }
}

/// Groups in their order, each with its tasks.
fn groups(card: &Card) -> Vec<(&str, Vec<&TaskScores>)> {
    let mut groups: Vec<(&str, Vec<&TaskScores>)> = Vec::new();
    for task in &card.tasks {
        match groups.iter_mut().find(|(name, _)| *name == task.group) {
            Some((_, tasks)) => tasks.push(task),
            None => groups.push((&task.group, vec![task])),
        }
    }
    groups
}

fn score_card(card: &Card) -> Markup {
    html! {
        div.scroll { table.card {
            thead { tr {
                th scope="col" { "Task" }
                @for candidate in &card.candidates { th.number scope="col" { (candidate) } }
            } }
            tbody { tr.whole {
                th scope="row" { "whole" }
                @for whole in &card.whole { (whole_cell(whole.relative.as_ref())) }
            } }
            @for (n, (group, tasks)) in groups(card).into_iter().enumerate() { tbody {
                tr.point {
                    th scope="row" { (group) }
                    @for whole in &card.whole { (whole_cell(whole.groups[n].relative.as_ref())) }
                }
                @for task in tasks {
                    tr {
                        th scope="row" { (task.title) small { (task.measures[0].title) } }
                        @for score in &task.measures[0].scores {
                            (cell(score.relative.as_ref(), differs(&task.measures[0], &score.candidate, &card.reference)))
                        }
                    }
                }
            } }
        } }
    }
}

/// Whether a candidate differs from another by more than chance.
fn differs(measure: &MeasureScores, candidate: &str, from: &str) -> bool {
    let both = [candidate, from];
    let mut pairs = measure.pairs.iter();
    pairs.any(|it| it.differs && both.contains(&&*it.better) && both.contains(&&*it.worse))
}

/// The same over tasks: it differs where its interval does not have 1 in it.
fn whole_cell(relative: Option<&Estimate>) -> Markup {
    let has_one =
        |it: &Estimate| it.low.zip(it.high).is_some_and(|(low, high)| low <= 1.0 && high >= 1.0);
    cell(relative, relative.is_some_and(|it| !has_one(it)))
}

/// A relative score, in a colour that says how much better or worse it is.
fn cell(relative: Option<&Estimate>, differs: bool) -> Markup {
    let Some(relative) = relative else { return html! { td.number { "–" } } };
    let class = if differs { shade(relative.mean) } else { "chance" };
    html! {
        td.number.(class) {
            (format::significant(relative.mean, 3))
            @if let Some(text) = interval(relative, |value| format::significant(value, 3)) { small { (text) } }
        }
    }
}

fn interval(estimate: &Estimate, write: impl Fn(f64) -> String) -> Option<String> {
    let (low, high) = (write(estimate.low?), write(estimate.high?));
    (low != high).then(|| format!("{low} – {high}"))
}

fn shade(value: f64) -> &'static str {
    match value {
        value if value >= 2.0 => "far-better",
        value if value >= 1.05 => "better",
        value if value <= 0.5 => "far-worse",
        value if value <= 0.95 => "worse",
        _ => "even",
    }
}

/// The graph of paper 004: its measures at 19.8 ms with congestion level and reverse traffic level 1.
fn radar(card: &Card) -> Markup {
    let key = |candidate: &String| LineKey {
        algorithm: algorithms([candidate.as_str()].into_iter()),
        ..LineKey::default()
    };
    let keys: Vec<LineKey> = card.candidates.iter().map(key).collect();
    let line = |(n, style): (usize, Style)| RadarLine {
        name: card.candidates[n].clone(),
        style,
        values: card.radar.iter().map(|it| Some(it.scores[n].relative?.mean)).collect(),
    };
    let lines: Vec<RadarLine> =
        styles(&keys, ColourBy::Algorithm).into_iter().enumerate().map(line).collect();
    let axes: Vec<String> = card.radar.iter().map(|measure| measure.title.clone()).collect();
    let description = format!("Times better than {} by measure", card.reference);
    html! {
        h2 { "Paper 004’s graph" }
        p.note {
            "Files from 10 sources of 100 Mb/s through 1 Gb/s, 19.8 ms, congestion level and reverse traffic level 1. Times better than "
            (card.reference) ", on a logarithmic scale: outside the circle of 1 is better."
        }
        (drawing(&radar_svg(&description, &axes, &lines)))
    }
}

/// What the one of a row leaves to the one of a column.
fn grid(card: &Card) -> Markup {
    let others = distinct(card.grid.iter().map(|meeting| &meeting.other));
    let found =
        |own: &str, other: &str| card.grid.iter().find(|it| it.own == own && it.other == other);
    html! {
        h2 { "Beside each other" }
        p.note {
            "What the one of a column keeps of its goodput alone when the one of a row is on the same 50 Mb/s: half is a fair share, less is \
             harm beyond that. 40 ms, queues of 0.5 and 2 bandwidth-delay products."
        }
        div.scroll { table.card.grid {
            thead { tr {
                th scope="col" { "beside" }
                @for other in &others { th.number scope="col" { (other) } }
            } }
            tbody { @for own in &card.candidates {
                tr {
                    th scope="row" { (own) }
                    @for other in &others {
                        @if let Some(Meeting { other_keeps, .. }) = found(own, other) {
                            td.number.(shade(other_keeps / 0.5)) { (format::percent(*other_keeps)) }
                        } @else { td.number { "–" } }
                    }
                }
            } }
        } }
    }
}

fn task_table(card: &Card, task: &TaskScores) -> Markup {
    html! {
        h3 { (task.title) small { " " (task.name) } }
        @for measure in &task.measures {
            @let close = close_pairs(measure);
            div.scroll { table.card {
                thead { tr {
                    th scope="col" { (measure.title) small { (better(measure.better)) } }
                    @for candidate in &card.candidates { th.number scope="col" { (candidate) } }
                } }
                tbody {
                    tr {
                        th scope="row" { "score" small { (cells(measure)) } }
                        @for score in &measure.scores { (absolute(score.absolute.as_ref(), measure.unit)) }
                    }
                    tr {
                        th scope="row" { "over " (card.reference) }
                        @for score in &measure.scores {
                            (cell(score.relative.as_ref(), differs(measure, &score.candidate, &card.reference)))
                        }
                    }
                }
            } }
            @if !close.is_empty() { p.note { "Within chance: " (close) "." } }
        }
    }
}

fn better(better: Better) -> &'static str {
    match better {
        Better::Less => "less is better",
        Better::More => "more is better",
    }
}

fn cells(measure: &MeasureScores) -> String {
    match measure.cells.len() {
        0 => "no run counts".to_owned(),
        1 => "one cell".to_owned(),
        n => format!("mean of {n} cells"),
    }
}

/// An absolute score, with its unit.
pub fn written_score(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => format::duration(value),
        Unit::BitsPerSecond => format::rate(value),
        Unit::Ratio => format::significant(value, 3),
    }
}

fn absolute(estimate: Option<&Estimate>, unit: Unit) -> Markup {
    let write = |value: f64| written_score(value, unit);
    html! {
        td.number {
            @match estimate {
                None => { "–" }
                Some(estimate) => {
                    (write(estimate.mean))
                    @if let Some(text) = interval(estimate, write) { small { (text) } }
                }
            }
        }
    }
}

/// Pairs that do not differ by more than chance.
fn close_pairs(measure: &MeasureScores) -> String {
    let close = measure.pairs.iter().filter(|pair| !pair.differs);
    let texts = close.map(|pair| format!("{} and {}", pair.better, pair.worse));
    texts.collect::<Vec<_>>().join(", ")
}
