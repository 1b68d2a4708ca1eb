// SPDX-License-Identifier: GPL-2.0-or-later
//! Documents for programs.

use crate::script::Script;
use longhaul_trace::{
    ConnectionSummary, CsvRows, JsonDocument, ParquetRows, RowWriter, Totals, column_names,
};
use serde_json::Value;

fn connection() -> ConnectionSummary {
    let mut script = Script::opened(40_000, 10);
    script.data(50_000, 0);
    script.ack(91_000, 1, &[]);
    script.only().1
}

#[test]
fn json_has_the_columns_as_keys() {
    let connection = connection();
    let mut bytes = Vec::new();
    let mut document = JsonDocument::new(&mut bytes).unwrap();
    document.add("a\u{9b}.pcap", &connection).unwrap();
    document.add("b.pcap", &connection).unwrap();
    document.add_file("a\u{9b}.pcap", Totals::default(), Some("cut".to_owned()));
    document.finish().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(!text.contains('\u{9b}'), "escaped");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["connections"].as_array().unwrap().len(), 2);
    assert_eq!(document["files"][0]["error"], "cut");
    let first = document["connections"][0].as_object().unwrap();
    let common = first.keys().filter(|key| *key != "directions");
    let directions = first["directions"].as_array().unwrap();
    assert_eq!(directions.len(), 2);
    let keys: Vec<&str> =
        common.chain(directions[0].as_object().unwrap().keys()).map(String::as_str).collect();
    assert_eq!(keys, column_names().collect::<Vec<_>>());
}

#[test]
fn csv_and_parquet_have_a_row_for_each_direction() {
    let connection = connection();
    let mut bytes = Vec::new();
    let mut rows: Box<dyn RowWriter + '_> = Box::new(CsvRows::new(&mut bytes).unwrap());
    rows.add("a.pcap", &connection).unwrap();
    rows.finish().unwrap();
    let mut csv = csv::Reader::from_reader(&bytes[..]);
    let names: Vec<String> = csv.headers().unwrap().iter().map(str::to_owned).collect();
    assert_eq!(names, column_names().collect::<Vec<_>>());
    let rows: Vec<_> = csv.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 2);
    let cell = |name: &str| &rows[1][names.iter().position(|known| known == name).unwrap()];
    assert_eq!(
        (cell("from"), cell("unique_bytes"), cell("rtt_min_us")),
        ("10.0.0.2:80", "1000", "41000")
    );
    assert_eq!(cell("reordering_max_us"), "");
    let mut parquet = Vec::new();
    let mut rows: Box<dyn RowWriter + '_> = Box::new(ParquetRows::new(&mut parquet).unwrap());
    rows.add("a.pcap", &connection).unwrap();
    rows.finish().unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
}
