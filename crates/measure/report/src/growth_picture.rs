// SPDX-License-Identifier: GPL-2.0-or-later
//! Sequence growth of connections as one SVG picture: groups of thin curves, each with its thick mean, as in technical report
//! 2002-24 (figures 11 to 27).

use crate::{
    axis_unit::AxisUnit,
    chart::{Axis, Chart, Panel, Series, Shape, Size, Style, palette::MUTED},
};

const SIZE: Size = Size { width: 880.0, height: 420.0 };

/// Groups whose colours can be told apart.
pub const MOST_GROUPS: usize = MUTED.len();

/// Connections that are averaged, such as the same sublink of several sessions.
#[derive(Debug, Clone)]
pub struct GrowthGroup {
    /// Its name in the legend.
    pub name: String,
    /// Seconds and bytes of each connection.
    pub curves: Vec<Vec<[f64; 2]>>,
    /// The same of their mean.
    pub mean: Vec<[f64; 2]>,
}

/// What is to be drawn.
#[derive(Debug, Clone)]
pub struct GrowthPicture {
    /// What it is of.
    pub title: String,
    /// How time counts.
    pub about: String,
    /// At most [`MOST_GROUPS`].
    pub groups: Vec<GrowthGroup>,
}

impl GrowthPicture {
    /// The picture as an SVG document of its own.
    pub fn svg(&self) -> String {
        let points = || {
            let curves =
                self.groups.iter().flat_map(|group| group.curves.iter().chain([&group.mean]));
            curves.flatten()
        };
        let [seconds, bytes] =
            [0, 1].map(|axis| points().map(|point| point[axis]).fold(0.0, f64::max));
        let unit = AxisUnit::bytes("sequence number from the start", bytes);
        let mut series = Vec::new();
        let coloured = || self.groups.iter().zip(MUTED);
        for (group, colour) in coloured() {
            // A mean of one is that one.
            for curve in group.curves.iter().filter(|_| group.curves.len() > 1) {
                series.push(Series::new("", Style::plain(colour, 0.5), Shape::Line(curve.clone())));
            }
        }
        for (group, colour) in coloured() {
            let name = match group.curves.len() {
                1 => group.name.clone(),
                several => format!("{}, mean of {several}", group.name),
            };
            series.push(Series::new(
                &name,
                Style::plain(colour, 2.4),
                Shape::Line(group.mean.clone()),
            ));
        }
        let time = Axis::time(&(0.0..seconds), "time, s");
        let panel = Panel::new(String::new(), SIZE, time, Axis::up_to(bytes, &unit), series);
        Chart {
            title: self.title.clone(),
            description: format!("{}: bytes sent over time", self.title),
            about: self.about.clone(),
            panels: vec![panel],
        }
        .svg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_is_a_curve_and_each_group_has_a_mean() {
        let line = |slope: f64| vec![[0.0, 0.0], [1.0, slope], [2.0, 2.0 * slope]];
        let group = |name: &str, slopes: &[f64]| GrowthGroup {
            name: name.to_owned(),
            curves: slopes.iter().map(|slope| line(*slope)).collect(),
            mean: line(slopes.iter().sum::<f64>() / slopes.len() as f64),
        };
        let picture = GrowthPicture {
            title: "a <b>".to_owned(),
            about: "time from each connection's first data".to_owned(),
            groups: vec![group("direct", &[1e6, 3e6]), group("sublink 1", &[5e6])],
        };
        let svg = picture.svg();
        assert!(svg.contains("direct, mean of 2") && svg.contains("sublink 1"), "{svg}");
        assert!(svg.contains("a &lt;b&gt;") && svg.contains("MB"), "{svg}");
        // Two connections, two means, and two samples in the legend.
        assert_eq!(svg.matches("class=\"line\"").count(), 6, "{svg}");
        let empty = GrowthPicture { groups: Vec::new(), ..picture };
        assert!(!empty.svg().contains("NaN"));
    }
}
