// SPDX-License-Identifier: GPL-2.0-or-later
//! A record on disk: what is written is read back, and nothing half is left behind.

use longhaul_record::manifest::{
    HopSocket, Machine, NodeSettings, Prediction, ReportedGain, Variant,
};
use longhaul_record::*;
use std::{fs, path::Path};

fn record() -> Record {
    let flow = FlowSummary {
        name: "file".into(),
        client: Some("curl".into()),
        bytes: 1000,
        bytes_expected: Some(1000),
        seconds: Some(2.0),
        end_s: 2.0,
        goodput_bps: Some(4000.0),
        prediction: Some(PredictedFlow {
            source: "equation 3".into(),
            low_bps: Some(3000.0),
            high_bps: Some(5000.0),
        }),
        sha256_ok: Some(true),
        exit_code: Some(0),
        outcome: "complete".into(),
        hops: vec![HopSummary { from: "server".into(), to: "client".into(), ..Default::default() }],
        ..Default::default()
    };
    let series = series(1000);
    Record {
        manifest: manifest(),
        summary: Summary {
            metrics: Metrics::compute(std::slice::from_ref(&flow), &[], &series),
            flows: vec![flow],
            links: vec![LinkSummary { name: "haul".into(), ..Default::default() }],
            traffic: vec![TrafficSummary { name: "web".into(), ..Default::default() }],
        },
        series,
        files: files(),
    }
}

/// Two sources; a file that did not end, and one that was not even asked for.
fn files() -> OfferedFiles {
    let file = |source: &str, number, size_bytes, completion_s| OfferedFile {
        source: source.into(),
        number,
        start_s: number as f64 / 4.0,
        size_bytes,
        completion_s,
    };
    let rows = vec![
        file("large", 1, Some(1 << 40), Some(0.5)),
        file("web", 1, Some(100), Some(0.25)),
        file("web", 2, Some(200), None),
        file("web", 3, None, None),
    ];
    OfferedFiles { rows }
}

fn manifest() -> Manifest {
    Manifest {
        schema: SCHEMA,
        id: "demo-direct-1".into(),
        title: "Demo \"quoted\" </script>".into(),
        source: None,
        variant: Some(Variant { name: "direct".into(), label: "direct".into() }),
        baseline: Some("direct".into()),
        point: vec![("rtt".into(), "90ms".into()), ("loss".into(), "0.1%".into())],
        repeat: 1,
        seed: u64::MAX,
        method: "emu".into(),
        command: vec!["longhaul".into(), "demo".into()],
        started: "2026-01-02T03:04:05Z".into(),
        sources: Some("5a".repeat(32)),
        versions: [("curl".into(), "7.88.1".into())].into(),
        machine: Some(Machine {
            kernel: "6.18".into(),
            cpu: "a processor".into(),
            cores: 2,
            memory_bytes: 1 << 33,
        }),
        nodes: [("server".into(), NodeSettings::default())].into(),
        congestion_controls: [].into(),
        sockets: vec![HopSocket {
            flow: "file".into(),
            hop: 0,
            node: "server".into(),
            local: "10.0.0.1:80".into(),
            peer: "10.0.0.2:4000".into(),
            congestion_control_asked: None,
            congestion_control: "cubic".into(),
            sndbuf_bytes: Some(4096),
            rcvbuf_bytes: None,
        }],
        offloads: [("eth0".into(), vec!["tso".into()])].into(),
        references: vec![ReportedGain { gain: 2.0, note: "figure 8".into() }],
        predicted: Some(Prediction { goodput_bps: 1e6, source: "equation 3".into() }),
        valid: true,
        invalid_reasons: Vec::new(),
        emulator: Some(manifest::EmulatorHealth::default()),
        events: Vec::new(),
        hosts: [].into(),
        paths: Vec::new(),
        simulator: None,
        captures: vec![manifest::Capture { node: "server".into(), ..manifest::Capture::default() }],
        scenario: serde_json::json!({"link": [{"name": "haul"}]}),
    }
}

fn series(samples: usize) -> Series {
    let mut series = Series::default();
    let link = Entity::Link { name: "haul".into(), direction: Direction::Forward };
    let hop = Entity::Hop { flow: "file".into(), index: 0 };
    for i in 0..samples {
        let time_s = i as f64 * 500e-6;
        series.push(&link, Quantity::ThroughputBps, time_s, (i % 7) as f64 * 1e8);
        series.push(&link, Quantity::QueueBytes, time_s, (i * 1514 % 100_003) as f64);
        series.push(&hop, Quantity::AckedBytes, time_s, i as f64 * 1448.0);
    }
    series
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn written_record_is_read_back_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("deep/down/run-1");
    let record = record();
    record.write(&at).unwrap();
    let files =
        ["bins.parquet", "files.parquet", "manifest.json", "series.parquet", "summary.json"];
    assert_eq!(names(&at), files);
    assert_eq!(Record::open(&at).unwrap(), record);
    assert_eq!(find_records(dir.path()).unwrap(), [at]);
}

#[test]
fn many_samples_keep_their_order_over_row_groups() {
    let dir = tempfile::tempdir().unwrap();
    let record = Record { series: series(200_000), ..record() };
    record.write(&dir.path().join("run")).unwrap();
    // 600 000 rows; unpacked they would be 16 bytes each without their names.
    let size = |name: &str| fs::metadata(dir.path().join("run").join(name)).unwrap().len();
    assert!(size("series.parquet") + size("bins.parquet") < 4_000_000);
    assert_eq!(Record::open(&dir.path().join("run")).unwrap().series, record.series);
}

#[test]
fn record_without_file_traffic_has_no_file_table() {
    let dir = tempfile::tempdir().unwrap();
    let record = Record { files: OfferedFiles::default(), ..record() };
    record.write(&dir.path().join("run")).unwrap();
    assert!(!dir.path().join("run/files.parquet").exists());
    assert_eq!(Record::open(&dir.path().join("run")).unwrap(), record);
    fs::write(dir.path().join("run/files.parquet"), "no table").unwrap();
    let error = Record::open(&dir.path().join("run")).unwrap_err().to_string();
    assert!(error.contains("files.parquet is not a record's table of files"), "{error}");
}

#[test]
fn files_are_found_by_source() {
    let files = files();
    assert_eq!(files.of_source("web").len(), 3);
    assert_eq!(OfferedFiles::completion_times_s(files.of_source("web")), [0.25]);
    assert_eq!((files.of_source("large").len(), files.of_source("x").len()), (1, 0));
}

/// The columns of a Parquet file, by an independent reader's rows: each row's texts by name.
fn texts(file: &Path, columns: &[&str]) -> Vec<Vec<String>> {
    use parquet::{
        file::reader::{FileReader, SerializedFileReader},
        record::RowAccessor,
    };
    let reader = SerializedFileReader::new(fs::File::open(file).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let place = |name| row.get_column_iter().position(|(found, _)| found == name).unwrap();
        columns.iter().map(|name| row.get_string(place(name)).unwrap().clone()).collect()
    });
    rows.collect()
}

#[test]
fn every_row_says_which_run_it_is_of() {
    let dir = tempfile::tempdir().unwrap();
    let mut record = record();
    record.write(&dir.path().join("run")).unwrap();
    record.manifest.variant = None;
    record.manifest.point.clear();
    record.write(&dir.path().join("plain")).unwrap();
    for (run, variant, point) in [("run", "direct", "rtt=90ms,loss=0.1%"), ("plain", "", "")] {
        for (file, rows) in
            [("series.parquet", 2 * 1000), ("bins.parquet", 1000), ("files.parquet", 4)]
        {
            let found = texts(&dir.path().join(run).join(file), &["run", "variant", "point"]);
            assert_eq!(found.len(), rows, "{file}");
            assert!(found.iter().all(|row| *row == ["demo-direct-1", variant, point]), "{file}");
        }
    }
}

#[test]
fn a_series_from_before_rows_named_their_run_is_read() {
    use longhaul_record::parquet_table::{ColumnKind, ColumnValues, TableWriter};
    let dir = tempfile::tempdir().unwrap();
    let record = Record { series: Series::default(), ..record() };
    record.write(&dir.path().join("run")).unwrap();
    let columns = [
        ("time_s", ColumnKind::Doubles),
        ("entity", ColumnKind::Texts),
        ("quantity", ColumnKind::Texts),
        ("value", ColumnKind::Doubles),
        ("unit", ColumnKind::Texts),
    ];
    let file = fs::File::create(dir.path().join("run/series.parquet")).unwrap();
    let mut table = TableWriter::new(file, "series", &columns).unwrap();
    let text = |text: &str| ColumnValues::Texts(vec![(text.to_owned(), 2)]);
    // Bins were among the others then.
    for (entity, quantity, unit) in
        [("flow:file", "received_bytes", "byte"), ("link:haul/forward", "throughput_bps", "bit/s")]
    {
        table
            .write(vec![
                ColumnValues::Doubles(vec![0.0, 1.0]),
                text(entity),
                text(quantity),
                ColumnValues::Doubles(vec![0.0, 1000.0]),
                text(unit),
            ])
            .unwrap();
    }
    table.close().unwrap();
    fs::remove_file(dir.path().join("run/bins.parquet")).unwrap();
    let series = Record::open(&dir.path().join("run")).unwrap().series;
    let flow = Entity::Flow("file".into());
    assert_eq!(series.curve(&flow, Quantity::ReceivedBytes).unwrap().value, [0.0, 1000.0]);
    let link = Entity::Link { name: "haul".into(), direction: Direction::Forward };
    assert_eq!(series.curve(&link, Quantity::ThroughputBps).unwrap().value, [0.0, 1000.0]);
}

#[test]
fn rows_are_sorted_by_entity_quantity_and_time() {
    use parquet::{
        file::reader::{FileReader, SerializedFileReader},
        record::RowAccessor,
    };
    let dir = tempfile::tempdir().unwrap();
    let mut all = series(3);
    all.push(&Entity::Flow("file".into()), Quantity::ReceivedBytes, 0.5, 1.0);
    for index in [2, 10] {
        let hop = Entity::Hop { flow: "file".into(), index };
        all.push(&hop, Quantity::CwndSegments, 0.5, 1.0);
        all.push(&hop, Quantity::AckedBytes, 0.5, 1.0);
    }
    let record = Record { series: all, ..record() };
    record.write(&dir.path().join("run")).unwrap();
    let file = fs::File::open(dir.path().join("run/series.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: Vec<(String, String, f64)> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| {
            let row = row.unwrap();
            let place = |name| row.get_column_iter().position(|(found, _)| found == name).unwrap();
            let text = |name| row.get_string(place(name)).unwrap().clone();
            (text("entity"), text("quantity"), row.get_double(place("time_s")).unwrap())
        })
        .collect();
    let bins = record.series.curves().filter(|(_, quantity, _)| quantity.is_binned());
    let bins: usize = bins.map(|(_, _, curve)| curve.time_s.len()).sum();
    assert_eq!(rows.len(), record.series.len() - bins);
    assert!(rows.is_sorted_by(|a, b| a < b), "sorted, none twice: {rows:?}");
}

#[test]
fn a_record_is_never_overwritten_and_a_failure_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("run");
    record().write(&at).unwrap();
    let before = fs::read(at.join("manifest.json")).unwrap();
    let mut other = record();
    other.manifest.id = "other".into();
    assert!(matches!(other.write(&at), Err(Error::Exists(_))));
    assert_eq!(fs::read(at.join("manifest.json")).unwrap(), before);
    assert_eq!(names(dir.path()), ["run"]);
}

#[test]
fn half_records_and_links_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(".run.partial-1")).unwrap();
    fs::write(dir.path().join(".run.partial-1/manifest.json"), "{").unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("circle")).unwrap();
    fs::write(dir.path().join("notes.txt"), "").unwrap();
    assert!(find_records(dir.path()).unwrap().is_empty());
    let missing = find_records(&dir.path().join("missing")).unwrap_err();
    assert!(missing.to_string().contains("missing"), "{missing}");
}

/// Changes a file of a written record and opens it again.
fn reopen(file: &str, change: impl Fn(&str) -> String) -> Result<Record, Error> {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("run");
    record().write(&at).unwrap();
    let text = fs::read_to_string(at.join(file)).unwrap();
    let changed = change(&text);
    assert_ne!(changed, text);
    fs::write(at.join(file), changed).unwrap();
    Record::open(&at)
}

#[test]
fn unknown_keys_are_skipped_and_a_newer_schema_is_refused() {
    let known = reopen("manifest.json", |text| text.replacen('{', "{\"weather\": 3,", 1)).unwrap();
    assert_eq!(known.manifest, manifest());
    // A newer manifest need not have any other key of today's.
    let newer = reopen("manifest.json", |_| "{\"schema\": 4}".into()).unwrap_err();
    assert!(matches!(newer, Error::Newer { found: 4, known: 3, .. }), "{newer}");
    assert!(newer.to_string().contains("newer longhaul"), "{newer}");
}

/// A summary as it was written before hops had streams, metrics had states and links had gaps.
#[test]
fn a_summary_without_the_later_keys_is_read() {
    let flow = serde_json::json!({
        "name": "a", "bytes": 1, "bytes_expected": 1, "start_s": 0.0, "end_s": 1.0, "seconds": 1.0,
        "goodput_bps": 8.0, "timed_out": false, "outcome": "complete",
        "hops": [{"index": 0, "from": "server", "to": "client"}],
    });
    let metrics = serde_json::json!({"goodput_bps": 8.0, "flows": [{"name": "a"}]});
    let link = serde_json::json!({
        "name": "haul", "direction": "forward", "rate_bps": null, "bytes": 5, "segments": 1,
        "queue_drops": 0, "losses": 0, "utilisation": null, "queue_max_bytes": 0,
        "queue_mean_delay_us": 0.0,
    });
    let json = serde_json::json!({"flows": [flow], "links": [link], "metrics": metrics});
    let summary: Summary = serde_json::from_value(json).unwrap();
    assert_eq!(summary.flows[0].hops[0].stream, 0);
    assert_eq!(summary.metrics.flows[0].name, "a");
    assert_eq!((summary.links[0].bytes, summary.links[0].gap_mean_us), (5, None));
}

#[test]
fn damage_error_names_the_file() {
    let cut = reopen("summary.json", |text| text[..text.len() / 2].into()).unwrap_err();
    assert!(cut.to_string().contains("summary.json"), "{cut}");

    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("run");
    record().write(&at).unwrap();
    fs::write(at.join("series.parquet"), b"PAR1").unwrap();
    let damaged = Record::open(&at).unwrap_err();
    assert!(matches!(&damaged, Error::Series { .. }), "{damaged}");
    assert!(damaged.to_string().contains("series.parquet"), "{damaged}");
}

#[test]
fn tables_that_are_cut_off_are_seen_without_reading_them() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("run");
    let record = record();
    record.write(&at).unwrap();
    assert_eq!(Record::results_if_whole(&at).unwrap(), record.into());
    for table in ["series.parquet", "bins.parquet", "files.parquet"] {
        let whole = fs::read(at.join(table)).unwrap();
        for left in [0, whole.len() / 2, whole.len() - 1] {
            fs::write(at.join(table), &whole[..left]).unwrap();
            let cut = Record::results_if_whole(&at).unwrap_err().to_string();
            assert!(cut.contains(table), "{table}, {left} bytes: {cut}");
        }
        fs::write(at.join(table), whole).unwrap();
    }
    fs::remove_file(at.join("series.parquet")).unwrap();
    assert!(Record::results_if_whole(&at).is_err());
}

#[test]
fn empty_summary_has_every_key() {
    let summary = Summary {
        traffic: vec![TrafficSummary::default()],
        flows: vec![FlowSummary { hops: vec![HopSummary::default()], ..Default::default() }],
        links: vec![LinkSummary::default()],
        metrics: Metrics { flows: vec![metrics::FlowMetrics::default()], ..Default::default() },
    };
    let json = serde_json::to_value(summary).unwrap();
    let keys = |part: &serde_json::Value| {
        part.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        keys(&json["flows"][0]),
        "name client reverse bytes bytes_expected start_s end_s seconds goodput_bps prediction retransmits timeouts \
         sha256_ok exit_code timed_out outcome hops"
    );
    assert_eq!(
        keys(&json["flows"][0]["hops"][0]),
        "index stream from to congestion_control bytes retransmits timeouts min_rtt_us srtt_us \
         bottleneck_bps base_rtt_us segment_bytes limited"
    );
    assert_eq!(
        keys(&json["metrics"]["flows"][0]),
        "name rtt_min_us rtt_mean_us rtt_median_us rtt_p99_us cwnd_mean_segments \
         cwnd_deviation_segments goodput_deviation_bps goodput_cov aggressiveness_bps \
         smoothness_bps responsiveness_rtts convergence_rtts delta_fair_convergence_s"
    );
    assert_eq!(
        keys(&json["links"][0]),
        "name direction rate_bps bytes segments queue_drops early_drops losses policed outage_losses late copies marks utilisation \
         queue_max_bytes \
         queue_mean_delay_us gap_mean_us gap_deviation_us gap_p1_us gap_p50_us gap_p99_us \
         burst_mean_segments burst_max_segments gap_frames gap_bytes background_bytes"
    );
    assert_eq!(
        keys(&json["metrics"]),
        "goodput_bps throughput_bps efficiency utilisation goodput_cov throughput_cov \
         completion_mean_s completion_deviation_s loss_ratio drops drops_after_start \
         queueing_delay_us queueing_delay_p99_us timeouts retransmits jain_index jain_index_streams \
         max_min_fairness proportional_fairness alpha_fairness delta_fair_convergence_s \
         responsiveness_rtts average_responsiveness_s convergence_rtts performability \
         kolmogorov_smirnov files_offered files_completed file_completion_mean_s \
         file_completion_p50_s file_completion_p99_s traffic_goodput_bps cpu_per_gbit_s path_states flows"
    );
    assert_eq!(
        keys(&json["traffic"][0]),
        "name from to kind start_s end_s bytes goodput_bps files_offered files_completed \
         files_recorded completion_mean_s completion_p50_s completion_p99_s"
    );
    assert!(json["metrics"]["performability"].is_null());
}
