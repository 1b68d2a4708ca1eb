// SPDX-License-Identifier: GPL-2.0-or-later
//! Goodput over congestion control, delay, buffer and loss, compared exactly with `golden.txt`, and over
//! congestion control and queue discipline with `golden_disciplines.txt`: a change of the simulator's
//! results shows as changed cells. `LONGHAUL_BLESS=1` rewrites the tables.

use crate::common::{outcome, runs};
use congestion::Algorithm;
use std::{collections::BTreeMap, fmt::Write as _, path::Path};

const DELAYS: [&str; 3] = ["1ms", "10ms", "50ms"];
const BUFFERS: [&str; 3] = ["20p", "200p", "2000p"];
/// As scenarios have it, and in the table.
const LOSSES: [(&str, &str); 3] =
    [("\"0\"", "0"), ("\"0.01%\"", "1e-4"), ("{ periodic = 1000 }", "1/1000")];

const HEAD: &str = "\
# Goodput in Mb/s of 20 MB over 100 Mb/s, profile linux: rows are congestion control and one-way delay,
# columns the bottleneck's buffer in packets and its loss: none, 1e-4 at random, every 1000th packet.
# A star: the time limit of 60 s cut it off. Written by LONGHAUL_BLESS=1 cargo test -p longhaul-sim.
";

fn scenario(cc: &str, delay: &str, buffer: &str, loss: &str) -> String {
    format!(
        r#"
        title = "Golden"
        timeout = "60s"
        sample = "1s"
        [[node]]
        name = "source"
        cc = "lh_{cc}"
        [[node]]
        name = "sink"
        [[link]]
        between = ["source", "sink"]
        rate = "100mbit"
        delay = "{delay}"
        monitor = "1s"
        forward = {{ queue = "{buffer}", loss = {loss} }}
        [[flow]]
        from = "source"
        to = "sink"
        bytes = 20_000_000
        "#
    )
}

fn cell(cc: &str, delay: &str, buffer: &str, loss: &str) -> String {
    let run = &runs(&scenario(cc, delay, buffer, loss))[0];
    let flow = &outcome(run).summary.flows[0];
    format!("{:.3}{}", flow.goodput_bps.unwrap() / 1e6, if flow.timed_out { "*" } else { "" })
}

/// Cells by row and column.
fn table() -> String {
    let mut text = format!("{HEAD}{:10} {:>5}", "cc", "delay");
    for buffer in BUFFERS {
        for (_, loss) in LOSSES {
            write!(text, " {:>12}", format!("{buffer} {loss}")).expect("a string takes it");
        }
    }
    text.push('\n');
    for algorithm in Algorithm::all() {
        for delay in DELAYS {
            write!(text, "{:10} {delay:>5}", algorithm.name).expect("a string takes it");
            for buffer in BUFFERS {
                for (loss, _) in LOSSES {
                    let cell = cell(algorithm.name, delay, buffer, loss);
                    write!(text, " {cell:>12}").expect("a string takes it");
                }
            }
            text.push('\n');
        }
    }
    text
}

/// The discipline's name in the table, and the keys of a link and of `[tcp]`.
const DISCIPLINES: [(&str, &str); 9] = [
    ("taildrop", "discipline = \"taildrop\""),
    ("red", "discipline = \"red\""),
    ("pie", "discipline = \"pie\""),
    ("codel", "discipline = \"codel\""),
    ("fq_codel", "discipline = { kind = \"fq_codel\", ecn = false }"),
    ("red/ecn", "discipline = { kind = \"red\", ecn = true }"),
    ("pie/ecn", "discipline = { kind = \"pie\", ecn = true }"),
    ("codel/ecn", "discipline = { kind = \"codel\", ecn = true }"),
    ("fq_codel/ecn", "discipline = \"fq_codel\""),
];

const DISCIPLINES_HEAD: &str = "\
# Two flows from 0 s and 1 s to 10 s over 50 Mb/s, a queue of 400 packets, profile linux: rows are congestion
# control and one-way delay, columns the queue discipline. A cell has the goodput of each in Mb/s, the mean
# wait in the queue in milliseconds, drops and marks. Written by LONGHAUL_BLESS=1 cargo test -p longhaul-sim.
";

/// Two flows over a queue.
fn disciplined(cc: &str, delay: &str, name: &str, discipline: &str) -> String {
    let ecn = name.ends_with("/ecn");
    let flow = "[[flow]]\nfrom = \"source\"\nto = \"sink\"\nstart =";
    let text = format!(
        r#"
        title = "Golden"
        duration = "10s"
        sample = "1s"
        tcp = {{ ecn = {ecn} }}
        [[node]]
        name = "source"
        cc = "lh_{cc}"
        [[node]]
        name = "sink"
        [[link]]
        between = ["source", "sink"]
        rate = "50mbit"
        delay = "{delay}"
        monitor = "1s"
        forward = {{ queue = "400p", {discipline} }}
        {flow} "0s"
        {flow} "1s"
        "#
    );
    let outcome = outcome(&runs(&text)[0]);
    let [one, other] = [0, 1].map(|n| outcome.summary.flows[n].goodput_bps.unwrap() / 1e6);
    let link = &outcome.summary.links[0];
    let wait_ms = link.queue_mean_delay_us.unwrap_or_default() / 1e3;
    format!("{one:.2}+{other:.2}/{wait_ms:.2}/{}/{}", link.queue_drops, link.marks)
}

fn table_of_disciplines() -> String {
    let mut text = format!("{DISCIPLINES_HEAD}{:10} {:>5}", "cc", "delay");
    for (name, _) in DISCIPLINES {
        write!(text, " {name:>26}").expect("a string takes it");
    }
    text.push('\n');
    for cc in ["reno", "cubic", "bbr"] {
        for delay in ["5ms", "40ms"] {
            write!(text, "{cc:10} {delay:>5}").expect("a string takes it");
            for (name, discipline) in DISCIPLINES {
                let cell = disciplined(cc, delay, name, discipline);
                write!(text, " {cell:>26}").expect("a string takes it");
            }
            text.push('\n');
        }
    }
    text
}

/// The cells of a table's text, by the row's and the column's name, which may have several words.
fn cells(table: &str, words_of_column: usize) -> BTreeMap<(String, String), String> {
    let mut lines = table.lines().filter(|line| !line.starts_with('#'));
    let columns: Vec<&str> = lines.next().unwrap_or("").split_whitespace().skip(2).collect();
    let columns: Vec<String> =
        columns.chunks(words_of_column).map(|column| column.join(" ")).collect();
    let mut cells = BTreeMap::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        for (column, cell) in columns.iter().zip(words.iter().skip(2)) {
            cells.insert((words[..2].join(" "), column.clone()), (*cell).to_owned());
        }
    }
    cells
}

/// Compares a table with the one that is kept in that file, or keeps it.
fn compare(file: &str, found: &str, words_of_column: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
    if std::env::var_os("LONGHAUL_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    let before = cells(&golden, words_of_column);
    for (place, cell) in cells(found, words_of_column) {
        let old = before.get(&place);
        if old != Some(&cell) {
            let old = old.map_or("nothing", String::as_str);
            println!("{}, column {}: {cell}, was {old}", place.0, place.1);
        }
    }
    let why = "the table has changed; where that is meant, write it with LONGHAUL_BLESS=1";
    assert!(golden == found, "{file}: {why}");
}

#[test]
fn goodput_is_that_of_the_table() {
    compare("golden.txt", &table(), 2);
}

#[test]
fn disciplines_are_those_of_the_table() {
    compare("golden_disciplines.txt", &table_of_disciplines(), 1);
}
