// SPDX-License-Identifier: GPL-2.0-or-later
//! One self-contained HTML page of packet captures: files, the connections with most data, how transfers grow, windows and round
//! trips, and what was sent again and why.
//!
//! It runs no script and makes no request. File names and addresses come from others: maud escapes them, and what cannot be seen
//! is replaced. Limits: [`MOST_FILES`] files and the connections of [`LargestDirections`] in tables, [`MOST_WINDOWS`] figures of
//! windows, and the limits of `growth_picture`; the page says what it leaves out.

mod figures;
mod tables;

use crate::{
    document::{Document, STYLE, WITHOUT_SCRIPTS, drawing, drawing_style},
    format,
    growth_picture::{GrowthForm, growth_over_time_svg, growth_svg},
};
use maud::{Markup, html};
use std::collections::HashMap;
use trace::{LargestDirections, Totals, Transfers, short_names};

const OWN_STYLE: &str = include_str!("../assets/captures.css");
/// Rows of the table of files.
const MOST_FILES: usize = 40;
/// Directions whose windows and round trips are drawn.
const MOST_WINDOWS: usize = 4;

/// What was read of a file.
#[derive(Debug, Clone)]
pub struct CapturedFile {
    /// As it was named.
    pub name: String,
    /// Counts. `None` if nothing could be read.
    pub totals: Option<Totals>,
    /// What a reader should know: why reading stopped early, what was left out.
    pub remarks: Vec<String>,
}

/// What is on the page.
#[derive(Debug)]
pub struct CapturePage<'a> {
    /// In the order in which they were given.
    pub files: &'a [CapturedFile],
    /// With windows and round trips, if they are to be drawn.
    pub largest: &'a LargestDirections,
    /// Of at most `growth_picture`'s number of files.
    pub transfers: &'a Transfers,
    /// How growth is compared.
    pub growth: GrowthForm,
}

impl CapturePage<'_> {
    /// The page.
    pub fn html(&self) -> String {
        let names = self.short_names();
        let title = self.title(&names);
        let body = html! {
            header.page { p.brand { "longhaul" } p.facts { (self.facts()) } }
            main { section.group {
                h1 { (title) }
                p.finding.lead { (self.lead()) }
                (tables::files(&self.files[..self.files.len().min(MOST_FILES)], &names))
                @if self.files.len() > MOST_FILES {
                    p.caveat { (self.files.len() - MOST_FILES) " more files are not listed." }
                }
                h2 { "Connections" }
                (tables::connections(self.largest, &names))
                (self.left_out())
                @if !self.transfers.is_empty() { (self.growth()) }
                (self.windows())
                (self.causes())
            } }
            footer.page { p { "Made by longhaul " (env!("CARGO_PKG_VERSION")) ". This page makes no request." } }
        };
        let styles = [STYLE, OWN_STYLE, &drawing_style()];
        Document { title: &title, policy: WITHOUT_SCRIPTS, styles: &styles, body }.into_string()
    }

    /// The files that tables name, with what is short for them.
    fn short_names(&self) -> HashMap<&str, String> {
        let listed = self.files.iter().take(MOST_FILES).map(|file| file.name.as_str());
        let mut paths: Vec<&str> =
            listed.chain(self.largest.rows.iter().map(|row| row.file.as_str())).collect();
        paths.sort_unstable();
        paths.dedup();
        let names = short_names(&paths);
        paths.into_iter().zip(names).collect()
    }

    fn title(&self, names: &HashMap<&str, String>) -> String {
        match self.files {
            [file] => names.get(file.name.as_str()).cloned().unwrap_or_default(),
            _ => format!("{} captures", self.files.len()),
        }
    }

    fn sum(&self, of: impl Fn(&Totals) -> u64) -> u64 {
        self.files.iter().filter_map(|file| file.totals.as_ref()).map(of).sum()
    }

    fn facts(&self) -> String {
        format!(
            "{} packets, {} of TCP, {} connections",
            self.sum(|totals| totals.packets),
            self.sum(|totals| totals.tcp_packets),
            self.sum(|totals| totals.connections)
        )
    }

    fn lead(&self) -> String {
        let LargestDirections { rows, other_bytes, other_retransmitted_segments, .. } =
            self.largest;
        let Some(first) = rows.first().map(|row| &row.direction) else {
            return "No connection has data.".to_owned();
        };
        let sum = |of: fn(&trace::DirectionSummary) -> u64| -> u64 {
            rows.iter().map(|row| of(&row.direction)).sum()
        };
        let bytes = sum(|one| one.payload_bytes).saturating_add(*other_bytes);
        let resent = sum(|one| one.retransmitted_segments) + other_retransmitted_segments;
        let at_rate = first.goodput_bps.map(|bps| format!(" at {}", format::rate(bps)));
        format!(
            "{} of data; {resent} segments were sent again. The largest transfer is {}{}.",
            format::size(bytes as f64),
            format::size(first.unique_bytes as f64),
            at_rate.unwrap_or_default()
        )
    }

    fn left_out(&self) -> Markup {
        let LargestDirections { others, other_bytes, other_retransmitted_segments, .. } =
            self.largest;
        html! { @if *others > 0 { p.caveat {
            (others) " more directions with " (format::size(*other_bytes as f64)) " and "
            (other_retransmitted_segments) " segments sent again are not listed: " code { "--csv" } " has them."
        } } }
    }

    fn growth(&self) -> Markup {
        html! {
            h2 { "Sequence growth" }
            p.note { "The highest byte sent. The slope is the rate, and a level stretch a pause." }
            (drawing(&growth_over_time_svg(self.transfers)))
            (drawing(&growth_svg(self.transfers, self.growth)))
        }
    }

    fn windows(&self) -> Markup {
        let all =
            || self.largest.rows.iter().enumerate().filter(|(_, row)| figures::has_windows(row));
        let count = all().count() as u64 + self.largest.others;
        html! { @if count > 0 {
            h2 { "Windows and round trips" }
            p.note {
                "What is neither idle nor limited by the receiver’s window is limited by the sender or by the path. "
                "Round trips are from the point of capture to the receiver."
            }
            @for (n, row) in all().take(MOST_WINDOWS) { (drawing(&figures::windows(n + 1, row))) }
            @if count > MOST_WINDOWS as u64 {
                p.caveat { "The " (MOST_WINDOWS) " directions with most data. " (count - MOST_WINDOWS as u64) " are not drawn." }
            }
        } }
    }

    fn causes(&self) -> Markup {
        let resent = || {
            let rows = self.largest.rows.iter().enumerate().map(|(n, row)| (n + 1, &row.direction));
            rows.filter(|(_, direction)| direction.retransmitted_segments > 0)
        };
        html! {
            h2 { "Segments sent again" }
            @if resent().next().is_none() {
                p { "None." }
            } @else {
                (drawing(&figures::causes(resent())))
                (tables::causes(resent()))
                p.note { code { "docs/trace.md" } " has the rules by which causes are told." }
            }
        }
    }
}

#[cfg(test)]
mod tests;
