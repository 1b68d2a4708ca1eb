// SPDX-License-Identifier: GPL-2.0-or-later
//! Sequence growth of the connections of each file, as a picture or for xplot.

use super::destination::Destination;
use ::report::{GrowthGroup, GrowthPicture};
use ::trace::{ConnectionSummary, DirectionSummary, Growth, mean_growth};
use std::{fmt::Write as _, io, ops::Range, path::Path};
use units::text::printable;

/// Curves of a file. Those with most data stay.
const MAX_CURVES: usize = 200;
/// What carries less than this share of the file's largest direction is another thing than the transfers.
const LEAST_SHARE: f64 = 0.1;
/// Points of a mean.
const MEAN_POINTS: usize = 500;

/// The directions with most data of each file, with their curves.
#[derive(Default)]
pub struct GrowthCurves {
    files: Vec<FileCurves>,
}

struct FileCurves {
    file: String,
    directions: Vec<DirectionSummary>,
}

impl Destination for GrowthCurves {
    /// Curves take memory, and are put in order later.
    fn max_held(&self) -> usize {
        0
    }

    fn add(&mut self, file: &str, connection: &ConnectionSummary) -> io::Result<()> {
        let of_file = match self.files.last_mut() {
            Some(last) if last.file == file => last,
            _ => {
                self.files.push(FileCurves { file: file.to_owned(), directions: Vec::new() });
                self.files.last_mut().expect("pushed above")
            }
        };
        let directions = connection.directions.iter().filter(|one| one.growth.is_some());
        let Some(larger) = directions.max_by_key(|one| one.unique_bytes) else { return Ok(()) };
        let known = &mut of_file.directions;
        known.push(larger.clone());
        if known.len() > MAX_CURVES {
            known.sort_by_key(|one| std::cmp::Reverse(one.unique_bytes));
            known.truncate(MAX_CURVES);
        }
        Ok(())
    }
}

impl FileCurves {
    /// The transfers of the file, the first of them first.
    fn curves(&self) -> Vec<(&DirectionSummary, &Growth)> {
        let largest = self.directions.iter().map(|one| one.unique_bytes).max().unwrap_or(0);
        let least = (largest as f64 * LEAST_SHARE) as u64;
        let transfers = self.directions.iter().filter(|one| one.unique_bytes >= least);
        let mut curves: Vec<_> =
            transfers.filter_map(|one| Some((one, one.growth.as_ref()?))).collect();
        curves.sort_by_key(|(_, growth)| growth.start_ns());
        curves
    }

    fn name(&self) -> String {
        let path = Path::new(&self.file);
        let name =
            path.file_stem().map_or(self.file.as_str().into(), |name| name.to_string_lossy());
        printable(&name, 60)
    }
}

impl GrowthCurves {
    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.files.iter().all(|file| file.directions.is_empty())
    }

    /// When the clock of each file's n-th curve begins: with itself, or as parts of a chain, with the earliest of the files' n-th
    /// curves that overlap it in time.
    fn origins(&self, is_chain: bool) -> Vec<Vec<u64>> {
        let spans: Vec<Vec<Range<u64>>> =
            self.files.iter().map(|file| spans(&file.curves())).collect();
        let origin = |n: usize, own: &Range<u64>| {
            let others = spans.iter().filter_map(|of_file| of_file.get(n)).filter(|_| is_chain);
            let overlap = others.filter(|other| other.start <= own.end && own.start <= other.end);
            overlap.map(|other| other.start).fold(own.start, u64::min)
        };
        let of_file = |of_file: &Vec<Range<u64>>| {
            of_file.iter().enumerate().map(|(n, own)| origin(n, own)).collect()
        };
        spans.iter().map(of_file).collect()
    }

    /// The picture.
    pub fn svg(&self, is_chain: bool) -> String {
        let origins = self.origins(is_chain);
        let groups = self.files.iter().zip(origins).map(|(file, origins)| {
            let curves = file.curves();
            let timed: Vec<_> = curves.iter().map(|(_, growth)| *growth).zip(origins).collect();
            let mean = mean_growth(&timed, MEAN_POINTS);
            GrowthGroup {
                name: file.name(),
                curves: timed.iter().map(|(growth, origin)| points(growth, *origin)).collect(),
                mean: mean.into_iter().map(|(seconds, bytes)| [seconds, bytes]).collect(),
            }
        });
        let about = if is_chain {
            "Time from the first data of each session's earliest sublink. Thick: means; what has ended stays at its last value"
        } else {
            "Time from each connection's first data. Thick: means; a connection that has ended stays at its last value"
        };
        GrowthPicture {
            title: "Sequence growth".to_owned(),
            about: about.to_owned(),
            groups: groups.collect(),
        }
        .svg()
    }

    /// A graph in the format of xplot, as tcptrace writes them: a line for each connection.
    pub fn xplot(&self, is_chain: bool) -> String {
        const COLOURS: [&str; 7] =
            ["green", "red", "blue", "yellow", "purple", "orange", "magenta"];
        let mut text =
            "double double\ntitle\nsequence growth\nxlabel\ntime, s\nylabel\nsequence number\n"
                .to_owned();
        let origins = self.origins(is_chain);
        for ((file, origins), colour) in self.files.iter().zip(origins).zip(COLOURS.iter().cycle())
        {
            for ((_, growth), origin) in file.curves().into_iter().zip(origins) {
                let _ = writeln!(text, "{colour}");
                for pair in points(growth, origin).windows(2) {
                    let [[from_s, from], [to_s, to]] = [pair[0], pair[1]];
                    let _ = writeln!(text, "line {from_s:.9} {from} {to_s:.9} {to}");
                }
            }
        }
        text + "go\n"
    }
}

/// From when to when, in nanoseconds since 1970.
fn spans(curves: &[(&DirectionSummary, &Growth)]) -> Vec<Range<u64>> {
    let span = |points: &[(u64, u64)]| Some(points.first()?.0..points.last()?.0);
    curves.iter().filter_map(|(_, growth)| span(growth.points())).collect()
}

fn points(growth: &Growth, origin_ns: u64) -> Vec<[f64; 2]> {
    let point = |(unix_ns, bytes): &(u64, u64)| {
        [unix_ns.saturating_sub(origin_ns) as f64 / 1e9, *bytes as f64]
    };
    growth.points().iter().map(point).collect()
}
