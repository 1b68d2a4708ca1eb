// SPDX-License-Identifier: GPL-2.0-or-later
//! docs/congestion shows what the code does: the table of README.md, the parameters of each page. `LONGHAUL_BLESS=1` rewrites them.

use longhaul_congestion::{
    Algorithm,
    path::{Bottleneck, reference},
    response,
};
use std::{
    env, fs,
    path::{Path, PathBuf},
};
use units::{Duration, Probability};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/congestion")
}

/// Algorithms that have a page. One of your own has none until you write it.
fn documented() -> impl Iterator<Item = &'static Algorithm> {
    let page = |algorithm: &&Algorithm| docs().join(format!("{}.md", algorithm.name)).exists();
    Algorithm::all().iter().filter(page)
}

fn current(file: &Path, drawn: &str) -> bool {
    if env::var_os("LONGHAUL_BLESS").is_some() {
        fs::write(file, drawn).unwrap();
    }
    fs::read_to_string(file).unwrap_or_default() == drawn
}

const BLESS: &str = "if that is meant: LONGHAUL_BLESS=1 cargo test -p longhaul-congestion";

/// From 20 s on, when every algorithm has left its start behind: the mean queue, drops, and the share of
/// the link used.
fn late(path: &Bottleneck, algorithm: &Algorithm) -> (f64, u64, f64) {
    let samples = reference::samples(path, algorithm.default_set());
    let late: Vec<_> = samples.iter().filter(|sample| sample.at.as_secs_f64() >= 20.0).collect();
    let (first, last) = (late[0], late[late.len() - 1]);
    let room = last.at.since(first.at).as_secs_f64() / path.transmission().as_secs_f64();
    let used = (last.flows[0].delivered - first.flows[0].delivered) as f64 / room;
    let queue = late.iter().map(|sample| sample.queue_packets as f64).sum::<f64>();
    (queue / late.len() as f64, last.dropped - first.dropped, used)
}

fn row(algorithm: &Algorithm) -> String {
    let path = reference::bottleneck();
    let (queue, dropped, _) = late(&path, algorithm);
    let short = Bottleneck { buffer_packets: path.buffer_packets / 8, ..path };
    let (.., used) = late(&short, algorithm);
    let window = |loss: f64| {
        let loss = Probability::new(loss).unwrap();
        response::average_window(algorithm.name, loss, Duration::from_millis(100))
            .map_or("-".to_owned(), |window| format!("{window:.0}"))
    };
    format!(
        "| [{}]({}.md) | {queue:.0} | {dropped} | {:.1} % | {} | {} | {} |\n",
        algorithm.title,
        algorithm.name,
        100.0 * used,
        window(1e-3),
        window(1e-5),
        window(1e-7),
    )
}

/// Replaces the text between two marks.
fn redraw(file: &Path, mark: &str, drawn: &str) -> bool {
    let text = fs::read_to_string(file).unwrap();
    let (before, rest) = text.split_once(mark).expect("a mark before it");
    let (_, after) = rest.split_once("<!-- end -->").expect("a mark after it");
    current(file, &format!("{before}{mark}\n{drawn}<!-- end -->{after}"))
}

#[test]
fn the_table_is_current() {
    let head = "| | queue, packets | dropped | short queue: link used | window at 1e-3 | 1e-5 | 1e-7 |\n\
                |---|---|---|---|---|---|---|\n";
    let rows: String = documented().map(row).collect();
    let current = redraw(&docs().join("README.md"), "<!-- table -->", &format!("{head}{rows}"));
    assert!(current, "docs/congestion/README.md has an old table; {BLESS}");
}

/// The parameters, a column for each set.
fn parameters(algorithm: &Algorithm) -> String {
    let cells = |cells: &mut dyn Iterator<Item = String>| cells.collect::<Vec<_>>().join(" | ");
    let sets = cells(&mut algorithm.sets.iter().map(|set| format!("`{}`", set.name)));
    let rule = "|---".repeat(algorithm.sets.len());
    let mut table = format!("| parameter | {sets} | unit | what it is |\n|---{rule}|---|---|\n");
    for (n, param) in algorithm.params.iter().enumerate() {
        let values =
            cells(&mut algorithm.sets.iter().map(|set| set.params.values()[n].to_string()));
        table += &format!("| `{}` | {values} | {} | {} |\n", param.name, param.unit, param.what);
    }
    table.push('\n');
    for (n, set) in algorithm.sets.iter().enumerate() {
        let default = if n == 0 { " (default)" } else { "" };
        table += &format!("- `{}`{default}: {}\n", set.name, set.source);
    }
    table
}

#[test]
fn the_parameters_are_current() {
    for algorithm in documented() {
        let file = docs().join(format!("{}.md", algorithm.name));
        let current = redraw(&file, "<!-- parameters -->", &parameters(algorithm));
        assert!(current, "{}.md has old parameters; {BLESS}", algorithm.name);
    }
}
