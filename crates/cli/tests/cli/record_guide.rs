// SPDX-License-Identifier: GPL-2.0-or-later
//! docs/record.md: its Python runs as it stands, on runs with variants and a sweep and on runs without. Takes no rights.
//!
//! Debian has no Parquet reader for Python. So a stand-in for `pandas.read_parquet` reads the same rows, columns and filters from
//! CSV, which the Parquet crate makes of the files.

use crate::common::{longhaul, text};
use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::Field,
};
use record::{Entity, Quantity, Record};
use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

/// Two repeats; the page's names.
const PLAIN: &str = r#"
title = "NAME"
duration = "4s"
repeat = 2
[[node]]
name = "source"
[[node]]
name = "sink"
[[link]]
name = "haul"
between = ["source", "sink"]
rate = "20mbit"
delay = "10ms"
[[flow]]
name = "file"
from = "source"
to = "sink"
[[traffic]]
name = "web"
from = "source"
to = "sink"
kind = "web"
load = "1mbit"
"#;

const SWEPT: &str = r#"
[sweep]
"link.haul.delay" = ["10ms", "20ms"]
[[variant]]
name = "reno"
set = { "flow.file.cc" = "reno" }
[[variant]]
name = "cubic"
"#;

const STAND_IN: &str = r#"
import pandas
def read_parquet(path, columns=None, filters=()):
    texts = dict.fromkeys(["run", "variant", "point", "entity", "quantity", "unit", "source"], str)
    table = pandas.read_csv(path + ".csv", dtype=texts)
    table = table.fillna({name: "" for name in texts if name in table})
    for column, operator, value in filters:
        assert operator == "=="
        table = table[table[column] == value]
    return table[columns] if columns else table
pandas.read_parquet = read_parquet
"#;

const CHECKS: &str = r#"
print(len(acked), acked["value"].is_monotonic_increasing, run["name"])
print(len(wide), wide["goodput_bps"].count())
for (variant, point), mean in (total["sum"] / total["count"]).items():
    print("queue", variant or "-", point or "-", mean)
"#;

/// Writes a file's rows next to it, as CSV.
fn as_csv(file: &Path) {
    let reader = SerializedFileReader::new(fs::File::open(file).unwrap()).unwrap();
    let mut lines = Vec::new();
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        if lines.is_empty() {
            let names: Vec<&str> = row.get_column_iter().map(|(name, _)| &**name).collect();
            lines.push(names.join(","));
        }
        let value = |field: &Field| match field {
            Field::Str(text) => format!("\"{text}\""),
            Field::Null => String::new(),
            other => other.to_string(),
        };
        let values: Vec<String> = row.get_column_iter().map(|(_, field)| value(field)).collect();
        lines.push(values.join(","));
    }
    fs::write(format!("{}.csv", file.display()), lines.join("\n") + "\n").unwrap();
}

/// The mean of the queue's samples over the runs of a variant and point, computed without the page.
fn mean_queue(records: &[Record], variant: &str, point: &str) -> f64 {
    let link = Entity::Link { name: "haul".into(), direction: record::Direction::Forward };
    let mut values = Vec::new();
    for record in records {
        let manifest = &record.manifest;
        let name = manifest.variant.as_ref().map_or("-", |variant| &variant.name);
        let delay =
            manifest.point.first().map_or("-".to_owned(), |(key, at)| format!("{key}={at}"));
        if (name, delay.as_str()) == (variant, point) {
            let curve = record.series.curve(&link, Quantity::QueueBytes).unwrap();
            values.extend(curve.value.iter().copied());
        }
    }
    values.iter().sum::<f64>() / values.len() as f64
}

/// Runs the page's Python on the runs of a scenario. Gives what the checks print, and the records.
fn follow(scenario: &str) -> (Vec<String>, Vec<Record>) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("NAME.toml"), scenario).unwrap();
    for words in [&["sim", "NAME.toml"][..], &["lab", "export", "out/NAME", "--csv", "all.csv"]] {
        let output = longhaul().args(words).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let runs = record::find_records(&at("out/NAME/sim")).unwrap();
    symlink(&runs[0], at("RUN")).unwrap();
    for run in &runs {
        as_csv(&run.join("series.parquet"));
        as_csv(&run.join("files.parquet"));
    }
    let page = include_str!("../../../../docs/record.md");
    let blocks: Vec<&str> =
        page.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 4);
    // The first reads one run into `run`, a name that the second uses for its tables.
    let script = blocks.join("\n").replacen("import glob", "first = run\nimport glob", 1);
    let checks = CHECKS.replace("run[", "first[");
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-W", "error", "-c", &format!("{STAND_IN}{script}{checks}")]);
    let output = python.current_dir(&folder).output().unwrap();
    assert!(output.status.success(), "apt install python3-pandas? {}", text(&output.stderr));
    let printed = text(&output.stdout).lines().map(str::to_owned).collect();
    (printed, runs.iter().map(|run| Record::open(run).unwrap()).collect())
}

fn assert_queues(printed: &[String], records: &[Record], groups: usize) {
    let rows: Vec<Vec<&str>> = printed
        .iter()
        .filter(|line| line.starts_with("queue "))
        .map(|line| line.split(' ').collect())
        .collect();
    assert_eq!(rows.len(), groups, "{printed:#?}");
    for row in rows {
        let (found, expected) =
            (row[3].parse::<f64>().unwrap(), mean_queue(records, row[1], row[2]));
        assert!((found / expected - 1.0).abs() < 1e-9, "{row:?}: {expected}");
    }
}

#[test]
fn python_of_the_page_runs_without_variants_or_a_sweep() {
    let (printed, records) = follow(PLAIN);
    // 40 samples and those at start and end; two repeats, each with a run, a flow, its hop, two link directions and traffic.
    assert!(printed.iter().any(|line| line.ends_with(" True file")), "{printed:#?}");
    assert!(printed.contains(&"12 6".to_owned()), "{printed:#?}");
    assert_queues(&printed, &records, 1);
}

#[test]
fn python_of_the_page_tells_variants_and_points_apart() {
    let (printed, records) = follow(&format!("{PLAIN}{SWEPT}"));
    assert!(printed.contains(&"48 24".to_owned()), "{printed:#?}");
    assert_queues(&printed, &records, 4);
}
