// SPDX-License-Identifier: GPL-2.0-or-later
//! Sequence growth of transfers as SVG pictures: a group of thin curves for each file, each with its thick mean, as in technical
//! report 2002-24 (figures 11 to 27).
//!
//! Normalised, time counts from the start of each transfer, or of the session that it is a part of. Otherwise it is that of the
//! capture, and there are no means.
//! Limits: [`MOST_GROUPS`] files, [`MOST_CURVES`] curves of each.

use crate::{
    axis_unit::AxisUnit,
    chart::{Axis, Chart, Panel, Series, Shape, Size, Style, palette::MUTED},
    simplified::simplified,
};
use trace::{FileTransfers, Session, Transfer, Transfers, mean_growth, short_names};

const SIZE: Size = Size { width: 880.0, height: 420.0 };
/// Of one of several panels.
const SMALL: Size = Size { width: 450.0, height: 280.0 };

/// Files whose colours can be told apart.
pub const MOST_GROUPS: usize = MUTED.len();
/// Curves of a file that are drawn next to its mean.
pub const MOST_CURVES: usize = 40;
/// Points of a mean.
const MEAN_POINTS: usize = 500;
/// By how many pixels a drawn curve may differ from the points.
const TOLERANCE: f64 = 0.3;
/// Letters of a heading above a small panel.
const LONGEST_HEADING: usize = 70;

/// What is compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GrowthForm {
    /// Whether files are sublinks of a chain, whose n-th transfers have one clock.
    pub is_chain: bool,
    /// Whether transfers are compared that lost alike: panels of the fewest, the median and the most segments sent again, and of
    /// the means (figures 15 to 18 of the report).
    pub by_loss: bool,
}

/// Transfers that are drawn in one colour.
struct Group {
    name: String,
    curves: Vec<Vec<[f64; 2]>>,
    /// Empty if there is none.
    mean: Vec<[f64; 2]>,
}

/// The normalised growth of transfers as an SVG document.
pub fn growth_svg(transfers: &Transfers, form: GrowthForm) -> String {
    let sessions = transfers.sessions(form.is_chain);
    let names = names(transfers);
    let of_files = || transfers.files.iter().zip(&sessions).zip(&names);
    let groups = |of_file: &dyn Fn(&FileTransfers, &[Session], &str) -> Group| {
        of_files().map(|((file, sessions), name)| of_file(file, sessions, name)).collect()
    };
    let panels = if form.by_loss {
        let mut panels: Vec<(String, Vec<Group>)> = Vec::new();
        for rank in [Rank::Fewest, Rank::Median, Rank::Most] {
            let heading = rank.heading(of_files());
            panels
                .push((heading, groups(&|file, sessions, name| rank.group(file, sessions, name))));
        }
        panels.push(("Means of all".to_owned(), groups(&mean_alone)));
        panels
    } else {
        vec![(String::new(), groups(&curves_with_mean))]
    };
    let clock = if form.is_chain { "session’s earliest sublink" } else { "connection" };
    let thick = if form.by_loss { "Means: what" } else { "Thick: means, in which what" };
    let about = format!(
        "Time from the first data of each {clock}. {thick} has ended stays at its last value.{}",
        not_drawn(transfers, form)
    );
    picture("Sequence growth", &about, &panels)
}

/// The growth of transfers over the time of the captures.
pub fn growth_over_time_svg(transfers: &Transfers) -> String {
    let origins = file_origins(transfers);
    let group = |((file, origin), name): ((&FileTransfers, u64), &String)| Group {
        name: name.clone(),
        curves: drawn(file).map(|n| points(&file.transfers[n], origin)).collect(),
        mean: Vec::new(),
    };
    let groups = transfers.files.iter().zip(origins).zip(&names(transfers)).map(group).collect();
    let clock = if transfers.files.len() > 1 {
        "the earliest data of all files captured at the same time"
    } else {
        "the earliest data"
    };
    let about = format!("Time from {clock}.{}", not_drawn(transfers, GrowthForm::default()));
    picture("Sequence growth over the capture", &about, &[(String::new(), groups)])
}

fn names(transfers: &Transfers) -> Vec<String> {
    let files: Vec<&str> = transfers.files.iter().map(|file| file.file.as_str()).collect();
    short_names(&files)
}

fn not_drawn(transfers: &Transfers, form: GrowthForm) -> String {
    let beyond = |file: &FileTransfers| file.transfers.len().saturating_sub(MOST_CURVES);
    let hidden: usize = transfers.files.iter().map(beyond).sum();
    let left_out: u64 = transfers.files.iter().map(|file| file.left_out).sum();
    let mut text = String::new();
    if hidden > 0 && !form.by_loss {
        text += &format!(" {hidden} curves are not drawn.");
    }
    if left_out > 0 {
        text += &format!(" {left_out} smaller transfers are left out.");
    }
    if transfers.files_left_out > 0 {
        text += &format!(" {} files are left out.", transfers.files_left_out);
    }
    text
}

/// For each file, the earliest data of those that overlap it in time.
fn file_origins(transfers: &Transfers) -> Vec<u64> {
    let span = |file: &FileTransfers| {
        let points = || file.transfers.iter().flat_map(|one| one.growth.points());
        let times = || points().map(|point| point.0);
        times().min().unwrap_or(0)..times().max().unwrap_or(0)
    };
    let spans: Vec<_> = transfers.files.iter().map(span).collect();
    let origin = |own: &std::ops::Range<u64>| {
        let together =
            spans.iter().filter(|other| own.start <= other.end && other.start <= own.end);
        together.map(|other| other.start).min().unwrap_or(own.start)
    };
    spans.iter().map(origin).collect()
}

/// Which transfers of a file are drawn: all, or evenly chosen ones.
fn drawn(file: &FileTransfers) -> impl Iterator<Item = usize> {
    let all = file.transfers.len();
    let count = all.min(MOST_CURVES);
    (0..count).map(move |n| n * all / count)
}

fn points(transfer: &Transfer, origin_ns: u64) -> Vec<[f64; 2]> {
    let point = |(unix_ns, bytes): &(u64, u64)| {
        [unix_ns.saturating_sub(origin_ns) as f64 / 1e9, *bytes as f64]
    };
    transfer.growth.points().iter().map(point).collect()
}

fn mean(file: &FileTransfers, sessions: &[Session]) -> Vec<[f64; 2]> {
    let timed = file.transfers.iter().zip(sessions);
    let timed: Vec<_> = timed.map(|(one, session)| (&one.growth, session.origin_ns)).collect();
    mean_growth(&timed, MEAN_POINTS).into_iter().map(|(seconds, bytes)| [seconds, bytes]).collect()
}

fn curves_with_mean(file: &FileTransfers, sessions: &[Session], name: &str) -> Group {
    let count = file.transfers.len();
    let timed = |n: usize| points(&file.transfers[n], sessions[n].origin_ns);
    // A mean of one is that one.
    let curves = drawn(file).filter(|_| count > 1).map(timed).collect();
    let name = if count > 1 { format!("{name}, mean of {count}") } else { name.to_owned() };
    Group { name, curves, mean: mean(file, sessions) }
}

fn mean_alone(file: &FileTransfers, sessions: &[Session], name: &str) -> Group {
    Group { name: name.to_owned(), curves: Vec::new(), mean: mean(file, sessions) }
}

/// A transfer of a file by what was sent again in its session.
#[derive(Debug, Clone, Copy)]
enum Rank {
    Fewest,
    Median,
    Most,
}

impl Rank {
    /// The transfer of this rank. Of equal ones the first; of two in the middle, the lower one.
    fn index(self, sessions: &[Session]) -> Option<usize> {
        let mut order: Vec<usize> = (0..sessions.len()).collect();
        order.sort_by_key(|n| sessions[*n].retransmitted_segments);
        match self {
            Self::Fewest => order.first(),
            Self::Median => order.get(order.len().saturating_sub(1) / 2),
            Self::Most => order.last(),
        }
        .copied()
    }

    fn group(self, file: &FileTransfers, sessions: &[Session], name: &str) -> Group {
        let curve = self.index(sessions).map(|n| points(&file.transfers[n], sessions[n].origin_ns));
        Group { name: name.to_owned(), curves: Vec::new(), mean: curve.unwrap_or_default() }
    }

    fn heading<'a>(
        self,
        of_files: impl Iterator<Item = ((&'a FileTransfers, &'a Vec<Session>), &'a String)>,
    ) -> String {
        let name = match self {
            Self::Fewest => "Fewest sent again",
            Self::Median => "Median",
            Self::Most => "Most",
        };
        let counts = of_files.filter_map(|((file, sessions), name)| {
            let transfer = &file.transfers[self.index(sessions)?];
            Some(format!("{name} {}", transfer.direction.retransmitted_segments))
        });
        let whole = format!("{name}: {}", counts.collect::<Vec<_>>().join(", "));
        if whole.chars().count() > LONGEST_HEADING { name.to_owned() } else { whole }
    }
}

fn picture(title: &str, about: &str, panels: &[(String, Vec<Group>)]) -> String {
    let size = if panels.len() > 1 { SMALL } else { SIZE };
    let panels = panels.iter().map(|(heading, groups)| panel(heading, groups, size));
    Chart {
        title: title.to_owned(),
        description: format!("{title}: bytes sent over time"),
        about: about.to_owned(),
        panels: panels.collect(),
    }
    .svg()
}

fn panel(heading: &str, groups: &[Group], size: Size) -> Panel {
    let points =
        || groups.iter().flat_map(|group| group.curves.iter().chain([&group.mean])).flatten();
    let [seconds, bytes] = [0, 1].map(|axis| points().map(|point| point[axis]).fold(0.0, f64::max));
    let unit = AxisUnit::bytes("sequence number from the start", bytes);
    let y = Axis::up_to(bytes, &unit);
    let tolerance = y.ends[1] / size.height * TOLERANCE;
    let line = |name: &str, colour: &'static str, width: f64, curve: &[[f64; 2]]| {
        Series::new(name, Style::plain(colour, width), Shape::Line(simplified(curve, tolerance)))
    };
    let mut series = Vec::new();
    for (group, colour) in groups.iter().zip(MUTED) {
        let has_mean = !group.mean.is_empty();
        for (n, curve) in group.curves.iter().enumerate() {
            let name = if has_mean || n > 0 { "" } else { &group.name };
            series.push(line(name, colour, if has_mean { 0.5 } else { 1.2 }, curve));
        }
    }
    for (group, colour) in groups.iter().zip(MUTED).filter(|(group, _)| !group.mean.is_empty()) {
        series.push(line(&group.name, colour, 2.4, &group.mean));
    }
    let time = Axis::time(&(0.0..seconds), "time, s");
    Panel::new(heading.to_owned(), size, time, y, series)
}

#[cfg(test)]
mod tests;
