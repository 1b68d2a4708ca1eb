// SPDX-License-Identifier: GPL-2.0-or-later
//! The page of a comparison: its table and figures in one HTML document, with links to the files next to it.
//!
//! It runs no script and makes no request.

use super::{
    comparison::Comparison,
    difference::{Difference, SIGNIFICANCE, Test, Verdict, written_p},
    figures::MOST_PANELS,
};
use crate::document::{Document, STYLE, WITHOUT_SCRIPTS, drawing, drawing_style};
use maud::{Markup, html};

const OWN_STYLE: &str = include_str!("../../assets/compare.css");

/// A figure on the page.
pub struct PageFigure {
    /// The stem of its files' names.
    pub name: &'static str,
    pub svg: String,
}

/// Makes the page.
pub fn render(comparison: &Comparison, figures: &[PageFigure]) -> String {
    let title = format!("{}, by {}", comparison.sides.join(", "), comparison.by.name());
    let body = html! {
        header.page { p.brand { "longhaul" } p.facts { (comparison.common_parameters()) } }
        main { section.group {
            h1 { (title) }
            (summary(comparison))
            (cells(comparison))
            (files("comparison", &["csv", "parquet"]))
            h2 { "Figures" }
            @for figure in figures {
                (drawing(&figure.svg))
                (files(figure.name, &["svg", "png", "csv", "parquet"]))
            }
        } }
        footer.page { p { "Made by longhaul " (env!("CARGO_PKG_VERSION")) ". This page makes no request." } }
    };
    let styles = [STYLE, OWN_STYLE, &drawing_style()];
    Document { title: &title, policy: WITHOUT_SCRIPTS, styles: &styles, body }.into_string()
}

fn summary(comparison: &Comparison) -> Markup {
    let all = || comparison.cells.iter().flat_map(|cell| &cell.differences);
    let count = |verdict: Verdict| all().filter(|one| one.verdict == verdict).count();
    html! {
        p.finding.lead {
            (count(Verdict::Different)) " of " (comparison.tests) " differences are more than chance."
        }
        p.note {
            "Welch’s t test decides: a difference is called different if its probability by chance is below " (SIGNIFICANCE)
            ", corrected for all " (comparison.tests) " tests (Holm). U is the Mann-Whitney test, corrected likewise. "
            "± is the 95 % confidence interval of a mean (Student’s t). The interval in percent is that of the difference, over \
             the first mean. g is the difference in standard deviations (Hedges). Without variance there is no test."
        }
        @if comparison.left_out > 0 { p.caveat { (comparison.left_out) " invalid or failed runs left out." } }
        @if comparison.uncommon > 0 {
            p.caveat { (comparison.uncommon) " combinations of parameters that only one has left out." }
        }
        @for text in comparison.cut_off_texts() { p.caveat { (text) "." } }
        @if comparison.cells.len() > MOST_PANELS {
            p.caveat { "Figures show the first " (MOST_PANELS) " of " (comparison.cells.len()) " combinations of parameters." }
        }
    }
}

const HEADS: [&str; 10] = ["Metric", "A", "Mean", "B", "Mean", "Verdict", "B to A", "g", "p", "U"];

fn cells(comparison: &Comparison) -> Markup {
    html! {
        div.scroll { table.comparison {
            thead { tr {
                @for head in HEADS {
                    th scope="col" { (head) }
                }
            } }
            @for (cell, label) in comparison.cells.iter().zip(comparison.labels()) { tbody {
                @if !label.is_empty() { tr.point { th scope="rowgroup" colspan=(HEADS.len()) { (label) } } }
                @for one in &cell.differences { (row(one)) }
            } }
        } }
    }
}

fn row(one: &Difference) -> Markup {
    let p = |test: &Option<Test>| {
        test.as_ref().map_or_else(|| "–".to_owned(), |test| written_p(test.p_corrected))
    };
    html! {
        tr {
            th scope="row" { @if one.entity != "run" { small { (one.entity) } } (one.metric) }
            td { (one.a.side) small { (one.a.runs) " runs" } }
            td.number { (one.a.text(&one.metric)) }
            td { (one.b.side) small { (one.b.runs) " runs" } }
            td.number { (one.b.text(&one.metric)) }
            td.main[one.verdict == Verdict::Different] { (one.verdict.name()) }
            td.number { (one.relative_text()) }
            td.number { (one.hedges_g.map_or_else(|| "–".to_owned(), |g| format!("{g:+.2}"))) }
            td.number { (p(&one.welch)) }
            td.number { (p(&one.mann_whitney)) }
        }
    }
}

fn files(name: &str, kinds: &[&str]) -> Markup {
    html! {
        p.note { @for (n, kind) in kinds.iter().enumerate() {
            @if n > 0 { " · " } a href={ (name) "." (kind) } { (name) "." (kind) }
        } }
    }
}
