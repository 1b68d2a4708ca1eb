// SPDX-License-Identifier: GPL-2.0-or-later
//! What an export has of which run, and the names of its columns.

use super::*;
use record::{
    FlowSummary, HopSummary, LimitShares, LinkSummary, Metrics, OfferedFiles, Series, Summary,
    TrafficSummary,
};
use std::path::Path;

fn write(dir: &Path, id: &str, point: &[(&str, &str)], valid: bool) {
    let manifest = serde_json::json!({
        "schema": 1, "id": id, "title": "Quotes \"and\", commas", "repeat": 2, "seed": u64::MAX,
        "method": "sim", "started": "2026-01-01T00:00:00Z", "valid": valid, "point": point,
        "variant": {"name": "a", "label": "A"}, "scenario": crate::testing::one_link(&["file"]),
    });
    let flow = FlowSummary {
        name: "file".into(),
        bytes: 1000,
        goodput_bps: Some(250.5),
        timed_out: true,
        hops: vec![HopSummary {
            limited: Some(LimitShares { send_buffer: 0.75, cwnd: 0.25, ..LimitShares::default() }),
            ..HopSummary::default()
        }],
        ..FlowSummary::default()
    };
    let link =
        LinkSummary { name: "haul".into(), direction: "forward".into(), ..Default::default() };
    let traffic = TrafficSummary {
        name: "web".into(),
        completion_p99_s: Some(0.125),
        ..TrafficSummary::default()
    };
    let summary = Summary {
        flows: vec![flow],
        links: vec![link],
        traffic: vec![traffic],
        metrics: Metrics { goodput_bps: Some(250.5), ..Metrics::default() },
    };
    let manifest = serde_json::from_value(manifest).unwrap();
    let record =
        Record { manifest, series: Series::default(), files: OfferedFiles::default(), summary };
    record.write(&dir.join(id)).unwrap();
}

/// The table as CSV, read by the crate's reader.
fn read(dirs: &[PathBuf]) -> (Vec<String>, Vec<Vec<String>>) {
    let mut text = Vec::new();
    MetricsTable::read(dirs, 0.0).unwrap().metrics().csv(&mut text).unwrap();
    let mut csv = csv::Reader::from_reader(text.as_slice());
    let texts = |row: &csv::StringRecord| row.iter().map(str::to_owned).collect::<Vec<_>>();
    let head = texts(csv.headers().unwrap());
    (head, csv.records().map(|row| texts(&row.unwrap())).collect())
}

#[test]
fn every_metric_of_every_entity_has_a_row() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "one", &[("vars.rtt", "90ms"), ("link.haul.queue", "20p")], true);
    write(dir.path(), "two", &[("vars.rtt", "10ms"), ("link.haul.queue", "20p")], false);
    let (head, rows) = read(&[dir.path().to_owned()]);
    let columns = [
        "scenario",
        "run",
        "method",
        "variant",
        "point",
        "repeat",
        "seed",
        "record",
        "rtt",
        "link.haul.queue",
        "rtt_number",
        "link.haul.queue_number",
        "entity",
        "standing",
        "metric",
        "value",
        "unit",
    ];
    assert_eq!(head, columns);
    let find = |run: &str, entity: &str, metric: &str| {
        let at = |name: &str| columns.iter().position(|column| *column == name).unwrap();
        let same = |row: &&Vec<String>| {
            (&*row[at("run")], &*row[at("entity")], &*row[at("metric")]) == (run, entity, metric)
        };
        let found: Vec<_> = rows.iter().filter(same).collect();
        assert_eq!(found.len(), 1, "{run}, {entity}, {metric}");
        found[0].clone()
    };
    let row = find("one", "flow:file", "goodput_bps");
    let folder = dir.path().join("one").display().to_string();
    let expected = [
        "Quotes \"and\", commas",
        "one",
        "sim",
        "a",
        "rtt=90ms,link.haul.queue=20p",
        "2",
        "18446744073709551615",
        &folder,
        "90ms",
        "20p",
        "0.09",
        "20",
        "flow:file",
        "cut",
        "goodput_bps",
        "250.5",
        "bit/s",
    ];
    assert_eq!(row, expected);
    assert_eq!(find("two", "flow:file", "bytes")[13..], ["invalid", "bytes", "1000", "byte"]);
    assert_eq!(find("one", "run", "goodput_share")[15..], ["0.2505", "1"]);
    assert_eq!(find("one", "traffic:web", "completion_p99_s")[15..], ["0.125", "s"]);
    assert_eq!(find("one", "link:haul/forward", "queue_drops")[15..], ["0", "segment"]);
    assert_eq!(find("one", "hop:file/0", "limited_send_buffer")[15..], ["0.75", "1"]);
    // What is not known has no row, and what only names something neither.
    let metrics: Vec<&str> = rows.iter().map(|row| row[14].as_str()).collect();
    assert!(!metrics.contains(&"jain_index") && !metrics.contains(&"exit_code"), "{metrics:?}");
}

#[test]
fn a_record_counts_once_however_often_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "one", &[], true);
    let both =
        [dir.path().join("one"), dir.path().join("../").join(dir.path().file_name().unwrap())];
    assert_eq!(read(&both).1, read(&both[..1]).1);
    let empty = tempfile::tempdir().unwrap();
    let dirs = [dir.path().to_owned(), empty.path().to_owned()];
    let error = MetricsTable::read(&dirs, 0.0).unwrap_err().to_string();
    assert!(error.contains("no record at or below"), "{error}");
}

#[test]
fn columns_of_swept_keys_have_names_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let point = [("vars.value", "1"), ("vars.rtt", "slow"), ("rtt", "2"), ("rtt_number", "x")];
    write(dir.path(), "one", &point, true);
    let (head, rows) = read(&[dir.path().to_owned()]);
    let swept = ["vars.value", "rtt", "rtt_", "rtt_number", "vars.value_number", "rtt__number"];
    assert_eq!(head[8..14], swept);
    assert_eq!(rows[0][8..14], ["1", "slow", "2", "x", "1", "2"]);
}
