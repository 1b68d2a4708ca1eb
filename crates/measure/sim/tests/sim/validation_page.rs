// SPDX-License-Identifier: GPL-2.0-or-later
//! docs/validation/README.md counts the cells of the tables next to it.

use std::{fs, path::Path};

/// The bound of goodput and completion times, as a share.
const WITHIN: f64 = 0.1;
/// The bound of retransmissions, as a factor.
const FACTOR: f64 = 1.5;

fn read(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/validation");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// A table's rows by the names of its columns.
struct Table {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn open(name: &str) -> Self {
        let text = read(name);
        let words = |line: &str| line.split(',').map(str::to_owned).collect();
        let mut lines = text.lines();
        Self { names: words(lines.next().unwrap()), rows: lines.map(words).collect() }
    }

    /// The numbers in a cell: one, or one per flow.
    fn numbers(&self, row: usize, column: &str) -> Vec<f64> {
        let at = self.names.iter().position(|name| name == column).unwrap();
        self.rows[row][at].split(' ').map(|number| number.parse().unwrap()).collect()
    }

    /// Rows in which each pair of numbers of two columns is close.
    fn close(&self, a: &str, b: &str, is_close: fn(f64, f64) -> bool) -> usize {
        let all = |row: &usize| {
            let pairs = self.numbers(*row, a).into_iter().zip(self.numbers(*row, b));
            pairs.into_iter().all(|(a, b)| is_close(a, b))
        };
        (0..self.rows.len()).filter(all).count()
    }
}

fn within(here: f64, there: f64) -> bool {
    (here / there - 1.0).abs() <= WITHIN
}

/// Adds one to both, so that one more or less next to zero is not an infinite factor.
fn alike(here: f64, there: f64) -> bool {
    let factor = (here + 1.0) / (there + 1.0);
    (1.0 / FACTOR..=FACTOR).contains(&factor)
}

/// What the page has between two marks.
fn block(name: &str) -> String {
    let page = read("README.md");
    let (_, rest) = page.split_once(&format!("<!-- {name} -->")).unwrap();
    rest.split_once(&format!("<!-- end {name} -->")).unwrap().0.to_owned()
}

fn assert_rows(name: &str, rows: &[String]) {
    let block = block(name);
    for row in rows {
        assert!(block.contains(row.as_str()), "{name}: the table gives {row}, the page\n{block}");
    }
}

#[test]
fn page_counts_cells_of_ns2() {
    for name in ["ns2", "ns2-bounded"] {
        let table = Table::open(&format!("{name}.csv"));
        let rows = [
            ("mean per flow, second half of the run", "goodput_mbps"),
            ("mean per flow, whole run", "whole_goodput_mbps"),
            ("every single flow, second half", "each_flow_mbps"),
        ]
        .map(|(what, column)| {
            let close = table.close(column, &format!("ns2_{column}"), within);
            format!("| {what} | {close} |")
        });
        assert_rows(name, &rows);
        assert_rows(name, &[format!("| {} cells,", table.rows.len())]);
    }
}

#[test]
fn page_counts_cells_of_the_kernel() {
    let table = Table::open("kernel.csv");
    let times = table.close("simulator_seconds", "kernel_seconds", within);
    let repeats = table.close("simulator_retransmits", "kernel_retransmits", alike);
    assert_rows(
        "kernel",
        &[
            format!("| one flow, {} cells |", table.rows.len()),
            format!("| completion time within 10 % | {times} |"),
            format!("| retransmissions within a factor of 1.5 | {repeats} |"),
        ],
    );
}
