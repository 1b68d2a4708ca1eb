// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes a comparison to a directory: the page, its table, and each figure as SVG and PNG with its data as CSV and Parquet.

use super::{
    cells::common_cells,
    compared_runs::ComparedRuns,
    comparison::{Comparison, ComparisonQuery},
    comparison_figure::ComparisonFigure,
    figures::figures,
    page::{self, PageFigure},
};
use crate::{Error, metrics_table::long_table::LongTable, png};
use std::{
    fs,
    io::BufWriter,
    path::{Path, PathBuf},
};

/// What was written.
#[derive(Debug)]
pub struct WrittenComparison {
    /// The comparison.
    pub comparison: Comparison,
    /// The page.
    pub page: PathBuf,
    /// How many other files there are.
    pub files: usize,
}

/// Compares the records at and below these directories, and writes the page and all files to the directory `out`, which is
/// made if it is not there. Files of an earlier comparison are replaced.
///
/// # Errors
/// The records cannot be read or compared, or a file cannot be written.
pub fn write(
    dirs: &[PathBuf],
    asked: &ComparisonQuery,
    out: &Path,
) -> Result<WrittenComparison, Error> {
    let compared = ComparedRuns::read(dirs, asked.by, asked.warm_up_s)?;
    let comparison = Comparison::of(&compared, &asked.metrics)?;
    let (cells, _) = common_cells(&compared)?;
    let figures = figures(&compared, &cells, &comparison)?;
    fs::create_dir_all(out).map_err(|source| Error::Write { path: out.to_owned(), source })?;
    let directory = Directory(out);
    directory.table("comparison", &comparison.table())?;
    let drawn = figures.iter().map(|figure| directory.figure(figure));
    let drawn = drawn.collect::<Result<Vec<_>, _>>()?;
    directory.bytes("compare.html", page::render(&comparison, &drawn).as_bytes())?;
    Ok(WrittenComparison {
        comparison,
        page: out.join("compare.html"),
        files: 2 + 4 * figures.len(),
    })
}

struct Directory<'a>(&'a Path);

impl Directory<'_> {
    fn bytes(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.0.join(name);
        fs::write(&path, bytes).map_err(|source| Error::Write { path, source })
    }

    fn table(&self, name: &str, table: &LongTable<'_>) -> Result<(), Error> {
        for (kind, is_csv) in [("csv", true), ("parquet", false)] {
            let path = self.0.join(format!("{name}.{kind}"));
            let written = fs::File::create(&path)
                .map(BufWriter::new)
                .and_then(|into| if is_csv { table.csv(into) } else { table.parquet(into) });
            written.map_err(|source| Error::Write { path, source })?;
        }
        Ok(())
    }

    fn figure(&self, figure: &ComparisonFigure) -> Result<PageFigure, Error> {
        let (name, svg) = (figure.name, figure.chart.svg());
        self.bytes(&format!("{name}.svg"), svg.as_bytes())?;
        self.bytes(&format!("{name}.png"), &png(&svg)?)?;
        self.table(name, &figure.data.table(name))?;
        Ok(PageFigure { name, svg })
    }
}
