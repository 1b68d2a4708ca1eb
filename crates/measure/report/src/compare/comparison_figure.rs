// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure of a comparison: a chart, and its data as a table.

use crate::{
    chart::{Chart, Panel, Size},
    metrics_table::long_table::{ColumnsOf, LongTable},
};

/// A figure that is ready to be drawn and written.
pub struct ComparisonFigure {
    /// The stem of its files' names.
    pub name: &'static str,
    pub chart: Chart,
    pub data: FigureData,
}

/// Rows of texts and numbers.
pub struct FigureData {
    pub texts: &'static [&'static str],
    pub numbers: &'static [&'static str],
    pub rows: Vec<(Vec<String>, Vec<f64>)>,
}

impl FigureData {
    pub fn table(&self, name: &'static str) -> LongTable<'_> {
        let of = ColumnsOf::rows(self.rows.iter().collect());
        let texts = self.texts.iter().enumerate();
        let texts = texts
            .map(|(n, name)| of.texts(name, move |row: &&(Vec<String>, _)| (&row.0[n]).into()));
        let numbers = self.numbers.iter().enumerate();
        let numbers = numbers.map(|(n, name)| of.doubles(name, move |row| row.1[n]));
        of.table(name, [texts.collect(), numbers.collect(), Vec::new()])
    }
}

/// The size of a panel that stands alone or with others.
pub fn panel_size(panels: usize) -> Size {
    match panels {
        0 | 1 => Size { width: 640.0, height: 240.0 },
        _ => Size { width: 440.0, height: 200.0 },
    }
}

/// A chart of panels under one title.
pub fn chart(title: &str, about: &str, panels: Vec<Panel>) -> Chart {
    Chart {
        title: title.to_owned(),
        description: format!("{title}: {about}"),
        about: about.to_owned(),
        panels,
    }
}
