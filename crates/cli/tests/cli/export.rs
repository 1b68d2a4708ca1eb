// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul lab export` of a small simulated sweep, read back by readers that share no code with the writers:
//! Python's `csv` and the rows of the Parquet crate. Takes no rights.

use crate::common::{call, done, refused, text};
use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::Field,
};
use record::Record;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output},
};

const SCENARIO: &str = r#"
title = "Two, \"quoted\""
duration = "4s"
repeat = 2
[vars]
delay = "2ms"
[sweep]
vars.delay = ["20ms", "2ms"]
[[node]]
name = "source"
[[node]]
name = "sink"
[[link]]
name = "haul"
between = ["source", "sink"]
rate = "20mbit"
delay = "${delay}"
loss = "0.1%"
[[flow]]
name = "bulk#"
count = 2
from = "source"
to = "sink"
[[traffic]]
name = "web"
from = "source"
to = "sink"
kind = "web"
load = "1mbit"
[[variant]]
name = "reno"
set = { "flow.bulk#.cc" = "reno" }
[[variant]]
name = "cubic"
set = { "flow.bulk#.cc" = "cubic" }
"#;

/// The sweep's records, in the directory of its file.
fn records() -> tempfile::TempDir {
    records_of(SCENARIO)
}

fn records_of(scenario: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sweep.toml");
    fs::write(&file, scenario).unwrap();
    let out = folder.path().join("out");
    done(&["sim", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    folder
}

/// A row's columns by their names.
type Row = BTreeMap<String, String>;

fn python(words: &[&str]) -> Output {
    // The one that Debian's packages, such as pandas, are for.
    let output = Command::new("/usr/bin/python3").args(words).output();
    output.expect("python3 is needed: apt install python3")
}

fn read_csv(file: &Path) -> Vec<Row> {
    let script = "import csv, json, sys; \
        json.dump(list(csv.DictReader(open(sys.argv[1], newline=''), strict=True)), sys.stdout)";
    let output = python(&["-c", script, file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn read_parquet(file: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(fs::File::open(file).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let columns = row.get_column_iter().map(|(name, field)| {
            let text = match field {
                Field::Str(text) => text.clone(),
                Field::Double(value) => value.to_string(),
                Field::Long(value) => value.to_string(),
                Field::Null => String::new(),
                other => panic!("{name} holds {other}"),
            };
            (name.clone(), text)
        });
        columns.collect()
    });
    rows.collect()
}

fn value(rows: &[Row], run: &str, entity: &str, metric: &str) -> f64 {
    let same =
        |row: &&Row| (&*row["run"], &*row["entity"], &*row["metric"]) == (run, entity, metric);
    let found: Vec<&Row> = rows.iter().filter(same).collect();
    assert_eq!(found.len(), 1, "{run}, {entity}, {metric}");
    found[0]["value"].parse().unwrap()
}

#[test]
fn exported_tables_are_read_by_other_programs() {
    let folder = records();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (out, csv, parquet) = (path("out"), path("all.csv"), path("all.parquet"));
    done(&["lab", "export", &out, "--csv", &csv, "--parquet", &parquet]);
    let rows = read_csv(Path::new(&csv));
    assert_eq!(rows, read_parquet(Path::new(&parquet)), "both formats say the same");
    let standard = call(&["lab", "export", &out, "--csv", "-"]).stdout;
    assert_eq!(text(&standard), fs::read_to_string(&csv).unwrap());

    let first = &rows[0];
    assert_eq!(first["scenario"], "Two, \"quoted\"");
    assert_eq!((&*first["method"], &*first["standing"]), ("sim", "complete"));
    let delays: Vec<&str> = rows.iter().map(|row| &*row["delay"]).collect();
    assert!(delays.contains(&"2ms") && delays.contains(&"20ms"));
    let long = rows.iter().find(|row| row["delay"] == "20ms").unwrap();
    assert_eq!((&*long["delay_number"], &*long["point"]), ("0.02", "delay=20ms"));
    for variant in ["reno", "cubic"] {
        for delay in ["2ms", "20ms"] {
            for repeat in [1, 2] {
                let id = format!("{variant},delay={delay},r{repeat:02}");
                let record = Record::open(&folder.path().join("out/sim").join(&id)).unwrap();
                let of_run = |row: &&Row| row["run"] == id;
                let row = rows.iter().find(of_run).unwrap();
                assert_eq!(
                    (&row["variant"], &row["repeat"]),
                    (&variant.into(), &repeat.to_string())
                );
                assert_eq!(row["seed"], record.manifest.seed.to_string());
                let summary = &record.summary;
                for flow in &summary.flows {
                    let entity = format!("flow:{}", flow.name);
                    let goodput = value(&rows, &id, &entity, "goodput_bps");
                    assert_eq!(Some(goodput), flow.goodput_bps);
                }
                let [flow, ..] = &summary.metrics.flows[..] else { panic!("two flows") };
                let rtt_us = value(&rows, &id, "flow:bulk1", "rtt_p99_us");
                assert_eq!(Some(rtt_us), flow.rtt_p99_us);
                let jain = value(&rows, &id, "run", "jain_index");
                assert_eq!(Some(jain), summary.metrics.jain_index);
                let forward = summary.links.iter().find(|link| link.direction == "forward");
                let bytes = value(&rows, &id, "link:haul/forward", "bytes");
                assert_eq!(Some(bytes), forward.map(|link| link.bytes as f64));
                let p99 = value(&rows, &id, "traffic:web", "completion_p99_s");
                assert_eq!(Some(p99), summary.traffic[0].completion_p99_s);
                let sent_again = value(&rows, &id, "hop:bulk2/0", "retransmits");
                assert_eq!(Some(sent_again), summary.flows[1].retransmits.map(|n| n as f64));
            }
        }
    }

    // Without a warm-up: what the client received after it, over the rest of the run.
    let later = path("later.csv");
    done(&["lab", "export", &out, "--csv", &later, "--warm-up", "1s"]);
    let later = read_csv(Path::new(&later));
    let id = "reno,delay=20ms,r01";
    let record = Record::open(&folder.path().join("out/sim").join(id)).unwrap();
    let flow = record::Entity::Flow("bulk1".into());
    let received = record.series.curve(&flow, record::Quantity::ReceivedBytes).unwrap();
    let bytes = record.summary.flows[0].bytes as f64 - received.at(1.0);
    let found = value(&later, id, "flow:bulk1", "goodput_bps");
    assert!((found - bytes * 8.0 / 3.0).abs() < 10.0, "{found} b/s, {bytes} bytes in 3 s");
    let metrics: Vec<&str> = later.iter().map(|row| &*row["metric"]).collect();
    assert!(metrics.contains(&"jain_index") && !metrics.contains(&"timeouts"), "{metrics:?}");
}

/// What pandas and the statistics of `scipy` make of an export of single runs, in the columns that are compared.
const SCIPY: &str = r#"
import json, sys, pandas, scipy.stats
texts = dict.fromkeys(["variant", "point"], str)
read = lambda name: pandas.read_csv(name, dtype=texts).fillna(dict.fromkeys(texts, ""))
raw, found = read(sys.argv[1]), read(sys.argv[2])
raw = raw[raw.standing.isin(["complete", "cut"])]
raw = raw[~((raw.standing == "cut") & raw.entity.str.startswith("flow:") & (raw.metric == "seconds"))]
keys = ["scenario", "method", "variant", "point", "delay", "delay_number", "entity", "metric", "unit"]
groups = raw.groupby(keys)["value"]
worst, rows = 0.0, 0
for key, values in groups:
    row = found[(found[keys] == pandas.Series(key, keys)).all(axis=1)]
    assert len(row) == 1, key
    row, n, mean, sd = row.iloc[0], len(values), values.mean(), values.std(ddof=1)
    assert row.n == n and abs(row["mean"] - mean) <= 1e-9 * abs(mean), (key, row["mean"], mean)
    if n > 1:
        assert abs(row.sd - sd) <= 1e-9 * (abs(sd) + abs(mean)), (key, row.sd, sd)
        half = scipy.stats.t.ppf(0.975, n - 1) * scipy.stats.sem(values)
        off = max(abs(row.ci_low - (mean - half)), abs(row.ci_high - (mean + half)))
        worst = max(worst, off / half if half > 1e-9 * abs(mean) else 0.0)
    else:
        assert pandas.isna(row.sd) and pandas.isna(row.ci_low) and pandas.isna(row.ci_high), key
    rows += 1
assert rows == len(found), (rows, len(found))
print(json.dumps({"rows": rows, "n": sorted(groups.size().unique().tolist()), "worst": worst}))
"#;

#[test]
fn intervals_are_those_of_scipy() {
    let has_scipy = python(&["-c", "import pandas, scipy.stats"]).status.success();
    assert!(has_scipy, "python3 has no SciPy: apt install python3-pandas python3-scipy");
    for repeats in [4, 13] {
        let text = SCENARIO.replace("repeat = 2", &format!("repeat = {repeats}"));
        let text = text.replace("duration = \"4s\"", "duration = \"1s\"");
        let folder = records_of(&text);
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (out, raw, csv, parquet) =
            (path("out"), path("raw.csv"), path("intervals.csv"), path("intervals.parquet"));
        // One of the runs does not count.
        let manifest = format!("{out}/sim/reno,delay=2ms,r02/manifest.json");
        let valid = fs::read_to_string(&manifest).unwrap();
        fs::write(&manifest, valid.replace("\"valid\": true", "\"valid\": false")).unwrap();
        done(&["lab", "export", &out, "--csv", &raw]);
        done(&["lab", "export", &out, "--intervals", "--csv", &csv, "--parquet", &parquet]);
        let rows = read_csv(Path::new(&csv));
        assert_eq!(rows, read_parquet(Path::new(&parquet)), "both formats say the same");
        assert!(rows.iter().all(|row| row["records"] == format!("{out}/sim")));
        let output = python(&["-W", "error", "-c", SCIPY, &raw, &csv]);
        assert!(output.status.success(), "{}", crate::common::text(&output.stderr));
        let compared: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(compared["rows"].as_u64().unwrap() > 200, "{compared}");
        let all = compared["n"].as_array().unwrap();
        assert!(all.contains(&(repeats - 1).into()) && all.contains(&repeats.into()), "{compared}");
        assert!(compared["worst"].as_f64().unwrap() < 1e-8, "{compared}");
    }
}

#[test]
fn export_separates_methods_and_invalid_runs() {
    let folder = records();
    let out = folder.path().join("out");
    // The same run by another method lies above `sim`, and does not count.
    let (id, other) = ("reno,delay=2ms,r01", out.join("reno,delay=2ms,r01"));
    fs::create_dir(&other).unwrap();
    for file in ["manifest.json", "summary.json", "series.parquet", "bins.parquet", "files.parquet"]
    {
        fs::copy(out.join("sim").join(id).join(file), other.join(file)).unwrap();
    }
    let manifest = fs::read_to_string(other.join("manifest.json")).unwrap();
    let mut manifest: Value = serde_json::from_str(&manifest).unwrap();
    (manifest["method"], manifest["valid"]) = ("emu".into(), false.into());
    fs::write(other.join("manifest.json"), manifest.to_string()).unwrap();
    let csv = folder.path().join("all.csv");
    done(&["lab", "export", out.to_str().unwrap(), "--csv", csv.to_str().unwrap()]);
    let rows = read_csv(&csv);
    let of_run: Vec<&Row> = rows
        .iter()
        .filter(|row| row["run"] == id && row["entity"] == "run" && row["metric"] == "jain_index")
        .collect();
    let methods: Vec<_> = of_run.iter().map(|row| (&*row["method"], &*row["standing"])).collect();
    assert_eq!(methods, [("emu", "invalid"), ("sim", "complete")]);
    assert_ne!(of_run[0]["record"], of_run[1]["record"]);

    let said = text(&call(&["report", out.to_str().unwrap()]).stderr);
    let expected = format!("{}: 9 records (1 invalid) of 1 scenario", out.display());
    assert_eq!(said.trim(), expected);
}

#[test]
fn failed_export_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let csv = folder.path().join("all.csv");
    let csv = csv.to_str().unwrap();
    let refused = |words: &[&str]| refused(&[&["lab", "export"], words].concat());
    let (code, said) = refused(&[dir, "--csv", csv]);
    assert!(code == 1 && said.contains("there is no record at or below"), "{code}: {said}");
    assert!(!Path::new(csv).exists(), "nothing half is left behind");
    let (code, said) = refused(&["nosuch", "--csv", csv]);
    assert!(code == 1 && said.contains("cannot read nosuch"), "{code}: {said}");
    fs::write(csv, "mine").unwrap();
    let (code, said) = refused(&[dir, "--csv", csv]);
    assert!(code == 2 && said.contains("exists already") && said.contains("--force"), "{said}");
    assert_eq!(fs::read_to_string(csv).unwrap(), "mine");
    let (code, said) = refused(&[dir, "--parquet", "-"]);
    assert!(code == 2 && said.contains("Name a file"), "{code}: {said}");
    assert_eq!(refused(&[dir]).0, 2, "a format is required");
    let (code, said) = refused(&[dir, "--csv", "a", "--parquet", "a"]);
    assert!(code == 2 && said.contains("Name two files"), "{code}: {said}");

    let records = records();
    let sim = records.path().join("out/sim");
    let (code, said) = refused(&[sim.to_str().unwrap(), "--csv", "/proc/nosuch/all.csv"]);
    assert!(code == 1 && said.contains("cannot write"), "{code}: {said}");
    done(&["lab", "export", sim.to_str().unwrap(), "--csv", csv, "--force"]);
    assert!(fs::read_to_string(csv).unwrap().starts_with("scenario,run,"), "overwritten");
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "no partial file is left");
    fs::write(sim.join("reno,delay=2ms,r01/summary.json"), "{").unwrap();
    let new = folder.path().join("new.csv");
    let (code, said) = refused(&[sim.to_str().unwrap(), "--csv", new.to_str().unwrap()]);
    assert!(code == 1 && said.contains("summary.json is not a record's file"), "{code}: {said}");
    assert!(!new.exists());
}
