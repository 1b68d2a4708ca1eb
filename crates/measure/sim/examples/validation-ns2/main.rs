// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares all cells of ns-2.35's results with the profile `ns2`: writes `docs/validation/ns2.csv`, `ns2-bounded.csv` and their
//! summaries in README.md. A quarter of an hour on two processors.

#[path = "../../tests/sim/ns2/cells.rs"]
mod cells;
mod table;

use cells::{read, repository, simulate};
use std::fs;

/// The bound of the comparison.
const WITHIN: f64 = 0.10;

fn main() {
    let directory = repository().join("docs/validation");
    let page = directory.join("README.md");
    let mut text = fs::read_to_string(&page).expect("the page");
    for name in ["ns2", "ns2-bounded"] {
        let cells = read(&format!("{name}.jsonl"));
        let found = simulate(&cells);
        fs::write(directory.join(format!("{name}.csv")), table::csv(&cells, &found))
            .expect("the table can be written");
        let (begin, end) = (format!("<!-- {name} -->"), format!("<!-- end {name} -->"));
        let (before, rest) = text.split_once(&begin).expect("a mark before the summary");
        let (_, after) = rest.split_once(&end).expect("a mark after the summary");
        text = format!("{before}{begin}\n{}{end}{after}", table::summary(&cells, &found));
    }
    fs::write(&page, text).expect("the page can be written");
}
