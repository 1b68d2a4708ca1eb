// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the tables of `docs/validation/ns2.md` again: all cells of ns-2.35's results beside the
//! profile `ns2`. A quarter of an hour on two processors.

#[path = "../../tests/sim/ns2/cells.rs"]
mod cells;
mod table;

use cells::{read, repository, simulate};
use std::fs;

/// The bound of the comparison.
const WITHIN: f64 = 0.10;

fn main() {
    let results = [("<!-- cells -->", "ns2.jsonl"), ("<!-- bounded -->", "ns2-bounded.jsonl")];
    let file = repository().join("docs/validation/ns2.md");
    let mut text = fs::read_to_string(&file).expect("the page");
    for (mark, name) in results {
        let cells = read(name);
        let table = table::draw(&cells, &simulate(&cells));
        let (before, rest) = text.split_once(mark).expect("a mark before the table");
        let (_, after) = rest.split_once("<!-- end -->").expect("a mark after the table");
        text = format!("{before}{mark}\n{table}<!-- end -->{after}");
    }
    fs::write(&file, text).expect("the page can be written");
}
