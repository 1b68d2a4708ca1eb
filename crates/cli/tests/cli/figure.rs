// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul figure` over a small simulated sweep: the table, the drawing, JSON, a link in the course of its
//! runs, and what it refuses.
//! Takes no rights.

use crate::common::{call, done, json, refused, text};
use record::Record;
use std::{fs, path::Path};

/// Two delays, of which the longer is named first, two queues, two variants, two repeats.
const SWEEP: &str = r#"
title = "Delay & <queue>"
source = "a test"
timeout = "60s"
repeat = 2
baseline = "reno"
[vars]
delay = "2ms"
queue = "20p"
[sweep]
vars.delay = ["20ms", "2ms"]
vars.queue = ["20p", "100p"]
[[node]]
name = "source"
[[node]]
name = "sink"
[[link]]
between = ["source", "sink"]
rate = "20mbit"
delay = "${delay}"
queue = "${queue}"
loss = "0.1%"
[[flow]]
name = "file"
from = "source"
to = "sink"
bytes = "1MB"
[[variant]]
name = "reno"
label = "Reno, one flow"
set = { "flow.file.cc" = "reno" }
[[variant]]
name = "cubic"
label = "CUBIC"
set = { "flow.file.cc" = "cubic" }
"#;

/// The sweep's records, in the directory of its file.
struct Sweep {
    folder: tempfile::TempDir,
}

impl Sweep {
    fn run() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sweep.toml");
        fs::write(&file, SWEEP).unwrap();
        let sweep = Self { folder };
        done(&["sim", file.to_str().unwrap(), "--out", sweep.out()]);
        sweep
    }

    fn out(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    fn figure(&self, more: &[&str]) -> String {
        done(&[&["figure", self.out()], more].concat())
    }

    /// The mean of the two repeats, which is their median, of the runs of that variant and point.
    fn mean(&self, variant: &str, delay: &str, queue: &str, of: impl Fn(&Record) -> f64) -> f64 {
        let [one, other] = self.both(variant, delay, queue, of);
        f64::midpoint(one, other)
    }

    /// Of each of the two repeats.
    fn both(
        &self,
        variant: &str,
        delay: &str,
        queue: &str,
        of: impl Fn(&Record) -> f64,
    ) -> [f64; 2] {
        [1, 2].map(|repeat| {
            let id = format!("{variant},delay={delay},queue={queue},r{repeat:02}");
            of(&Record::open(&self.folder.path().join("sim").join(id)).unwrap())
        })
    }
}

/// Keys that move together are two points of this sweep's four. What is on record of these stays as it is.
#[test]
fn zipped_keys_run_resume_and_share_a_panel() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sweep.toml");
    fs::write(&file, SWEEP).unwrap();
    let (file, out) = (file.to_str().unwrap(), folder.path().to_str().unwrap());
    let zip = "sweep.zip=[[\"vars.delay\", \"vars.queue\"]]";
    let sim = |more: &[&str]| json(&[&["sim", file, "--out", out, "--json"], more].concat());
    let runs = |results: &serde_json::Value| results["runs"].as_array().unwrap().len();
    assert_eq!(runs(&sim(&["--set", zip])), 2 * 2 * 2);
    let table = done(&["figure", out, "--y", "goodput_bps"]);
    assert!(table.contains("; queue moves together with delay\n"), "{table}");
    assert_eq!(table.lines().filter(|line| line.starts_with("delay")).count(), 1, "{table}");
    let csv = done(&["lab", "export", out, "--csv", "-"]);
    assert!(csv.contains(",2ms,100p,0.002,100,") && !csv.contains(",2ms,20p,"), "{csv}");

    let manifest = folder.path().join("sim/reno,delay=2ms,queue=100p,r01/manifest.json");
    let written = || fs::metadata(&manifest).unwrap().modified().unwrap();
    let before = written();
    assert_eq!(runs(&sim(&["--set", zip])), 2 * 2 * 2);
    assert_eq!(runs(&sim(&[])), 4 * 2 * 2, "the whole grid");
    assert_eq!(written(), before, "not run again");
}

#[test]
fn the_table_has_every_median_in_its_place() {
    let sweep = Sweep::run();
    let table = sweep.figure(&["--y", "goodput_bps", "--x", "vars.delay", "--bars", "range"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "Delay & <queue>: goodput, Mb/s");
    assert_eq!(lines[1], "a test; 16 runs, medians of up to 2 (least–most)");
    // By size, not by spelling or as written.
    for (first, queue) in [(3, "20p"), (9, "100p")] {
        assert_eq!(lines[first], format!("queue {queue}"), "{table}");
        let heads: Vec<&str> = lines[first + 1].split_whitespace().collect();
        assert_eq!(heads.join(" "), "delay Reno, one flow CUBIC", "{table}");
        let mut rows = Vec::new();
        for (line, delay) in [(first + 2, "2ms"), (first + 3, "20ms")] {
            let goodput = |r: &Record| r.summary.flows[0].goodput_bps.unwrap() / 1e6;
            let medians =
                ["reno", "cubic"].map(|variant| sweep.mean(variant, delay, queue, goodput));
            // Each with the range of the two repeats, where they differ as written.
            let cells = ["reno", "cubic"].map(|variant| {
                let mut two = sweep.both(variant, delay, queue, goodput);
                two.sort_by(f64::total_cmp);
                let [least, most] = two.map(|mbps| format!("{mbps:.1}"));
                let median = format!("{:.1}", sweep.mean(variant, delay, queue, goodput));
                if least == most { median } else { format!("{median} ({least}–{most})") }
            });
            let words: Vec<&str> = lines[line].split_whitespace().collect();
            assert_eq!(words.join(" "), format!("{delay} {}", cells.join(" ")), "{table}");
            rows.push(medians);
        }
        assert!(rows[0][0] > rows[1][0], "Reno is slower over a longer path: {table}");
        assert!(lines[first + 4].starts_with("first - last"), "{table}");
    }
    assert!(lines[6].contains('('), "loss by chance differs from repeat to repeat: {table}");
    assert_eq!(lines.len(), 14, "{table}");

    // Of the one link's 20 Mb/s, and in JSON.
    let words = ["figure", sweep.out(), "--y", "goodput_share", "--x", "queue", "--json"];
    let figure = json(&words);
    assert_eq!((&figure["x"], &figure["runs"]), (&"queue".into(), &16.into()), "{figure}");
    let share = figure["panels"][0]["points"][1][0]["median"].as_f64().unwrap();
    let bps = sweep.mean("cubic", "2ms", "20p", |r| r.summary.flows[0].goodput_bps.unwrap());
    assert!((share - bps / 20e6).abs() < 1e-9, "{share}, {bps}");

    // A metric of no run has no value, which is not 0.
    let none = sweep.figure(&["--y", "jain_index_streams", "--x", "delay"]);
    assert!(none.contains("  1.00"), "one stream is fair to itself: {none}");
    let none = sweep.figure(&["--y", "kolmogorov_smirnov", "--x", "delay"]);
    let row = none.lines().find(|line| line.starts_with("2ms")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["2ms", "-", "-"], "{none}");
}

#[test]
fn a_figure_by_flow_and_without_a_warm_up() {
    let sweep = Sweep::run();
    // One flow a run: the same values as by variant, under other names.
    let by_variant = json(&["figure", sweep.out(), "--x", "delay", "--json"]);
    let by_flow = json(&["figure", sweep.out(), "--x", "delay", "--by", "flow", "--json"]);
    assert_eq!(by_flow["lines"], serde_json::json!(["Reno, one flow: file", "CUBIC: file"]));
    let one = |figure: &serde_json::Value| figure["panels"][1]["points"][0][1]["most"].as_f64();
    let (whole, of_flow) = (one(&by_variant).unwrap(), one(&by_flow).unwrap());
    assert!((whole - of_flow).abs() < 1.0, "{whole}, {of_flow}");
    // Without its slow start a flow is faster.
    let late = ["figure", sweep.out(), "--x", "delay", "--warm-up", "300ms"];
    let cut = one(&json(&[&late[..], &["--json"]].concat())).unwrap();
    assert!(cut > whole, "{cut}, {whole}");
    assert!(done(&late).contains("; without the first 0.3 s"));
    let (code, said) = refused(&["figure", sweep.out(), "--y", "timeouts", "--warm-up", "1s"]);
    assert!(code == 2 && said.contains("timeouts is of a whole run"), "{said}");
    let (code, said) = refused(&["figure", sweep.out(), "--y", "jain_index", "--by", "flow"]);
    assert!(code == 2 && said.contains("no metric \"jain_index\" of a flow"), "{said}");
}

#[test]
fn the_drawing_is_whole_and_has_every_point() {
    let sweep = Sweep::run();
    let svg = sweep.folder.path().join("figure.svg");
    let table = sweep.figure(&["--x", "delay", "--output", svg.to_str().unwrap()]);
    assert!(table.contains("goodput, Mb/s"), "the table comes too: {table}");
    let drawing = fs::read_to_string(&svg).unwrap();
    let texts = texts_of(&drawing);
    for text in ["Delay & <queue>", "queue 20p", "queue 100p", "2ms", "20ms", "CUBIC"] {
        assert!(texts.iter().any(|found| found == text), "{text}: {texts:?}");
    }
    // Two panels of two lines with two points each, and two marks in the legend; the colours are the algorithms'.
    assert_eq!(drawing.matches("class=\"mark\"").count(), 2 * 2 * 2 + 2, "{drawing}");
    assert_eq!(drawing.matches("class=\"bar\"").count(), 2 * 2 * 2, "{drawing}");
    // The same records, the same bytes.
    sweep.figure(&["--x", "delay", "--output", svg.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&svg).unwrap(), drawing);

    // By the ending, as an image, too.
    let image = sweep.folder.path().join("figure.png");
    sweep.figure(&["--x", "delay", "--output", image.to_str().unwrap()]);
    assert!(fs::read(&image).unwrap().starts_with(b"\x89PNG"));
    for name in ["figure.pdf", "figure"] {
        let file = sweep.folder.path().join(name);
        let (code, said) = refused(&["figure", sweep.out(), "--output", file.to_str().unwrap()]);
        assert!(code == 2 && said.contains("must end in .svg or .png") && !file.exists(), "{said}");
    }

    let nowhere = sweep.folder.path().join("missing/figure.svg");
    let words = ["figure", sweep.out(), "--output", nowhere.to_str().unwrap()];
    let (code, said) = refused(&words);
    assert_eq!(code, 1, "{said}");
    assert!(said.starts_with("longhaul: cannot write ") && said.contains("missing"), "{said}");
}

/// Student's t for one degree of freedom is 12.7062, so half the interval of two values is 6.3531 times their
/// distance.
#[test]
fn intervals_of_repeats_are_in_table_and_document() {
    let sweep = Sweep::run();
    let goodput = |r: &Record| r.summary.flows[0].goodput_bps.unwrap();
    let [one, other] = sweep.both("cubic", "20ms", "100p", goodput);
    let half = 6.3531 * (one - other).abs();
    let figure = json(&["figure", sweep.out(), "--x", "delay", "--json"]);
    let point = &figure["panels"][1]["points"][1][1];
    let near = |found: &serde_json::Value, by_hand: f64| {
        (found.as_f64().unwrap() / by_hand - 1.0).abs() < 1e-4
    };
    assert!(near(&point["ci95_half_width"], half), "{point} {half}");
    assert!(near(&point["mean"], f64::midpoint(one, other)), "{point}");
    let table = sweep.figure(&["--x", "delay"]);
    let caption = ", means of up to 2 with 95 % confidence intervals (Student's t)";
    assert!(table.contains(caption), "{table}");
    assert!(table.contains(&format!("(±{:.1})", half / 1e6)), "{half}: {table}");
    assert_eq!((&figure["bars"], &figure["colour_by"]), (&"ci95".into(), &"algorithm".into()));
}

#[test]
fn distributions_are_drawn_of_all_repeats() {
    let sweep = Sweep::run();
    let figure = json(&["figure", sweep.out(), "--cdf", "--json"]);
    assert_eq!(figure["panels"].as_array().unwrap().len(), 4, "one for each point");
    let values = figure["panels"][0]["values"][0][0].as_array().unwrap();
    assert_eq!(values.len(), 2, "{figure}");
    let table = sweep.figure(&["--box", "--x", "delay"]);
    assert!(table.contains("quartiles of up to 2 repeats (interpolated, type 7)"), "{table}");
    for (words, part) in [
        (&["--cdf", "--box"][..], "'--cdf' cannot be used with '--box'"),
        (&["--cdf", "--x", "delay"], "'--cdf' cannot be used with '--x <KEY>'"),
        (&["--box", "--bars", "ci95"], "'--box' cannot be used with '--bars <BARS>'"),
        (&["--link", "source-sink/forward", "--box"], "cannot be used with"),
    ] {
        let (code, said) = refused(&[&["figure", sweep.out()], words].concat());
        assert!(code == 2 && said.contains(part), "{words:?}: {said}");
    }
}

#[test]
fn link_figure_has_a_panel_per_record_in_sweep_order() {
    let sweep = Sweep::run();
    let svg = sweep.folder.path().join("course.svg");
    let link = ["--link", "source-sink/forward", "--output", svg.to_str().unwrap()];
    let table = sweep.figure(&link);
    let rows: Vec<&str> = table.lines().skip(5).collect();
    let first = [
        "Reno, one flow, delay 2ms, queue 20p, repeat 1",
        "Reno, one flow, delay 2ms, queue 20p, repeat 2",
    ];
    assert!(rows[0].starts_with(first[0]) && rows[1].starts_with(first[1]), "{table}");
    assert!(rows[2].starts_with("CUBIC, delay 2ms, queue 20p"), "{table}");
    assert!(rows[15].starts_with("CUBIC, delay 20ms, queue 100p"), "{table}");
    assert_eq!(rows.len(), 16, "{table}");
    let texts = texts_of(&fs::read_to_string(&svg).unwrap());
    assert!(texts.iter().any(|text| text == first[0]), "{texts:?}");
    assert!(texts.iter().any(|text| text == "the link's rate"), "{texts:?}");

    // One record by itself, with its window, in a part of its time.
    let one = sweep.folder.path().join("sim/reno,delay=20ms,queue=20p,r01");
    let words = ["figure", one.to_str().unwrap(), "--link", "source-sink/forward"];
    let part = ["--hop", "file/0", "--from", "100ms", "--to", "0.2s", "--json"];
    let figure = json(&[&words[..], &part].concat());
    assert_eq!(figure["span_s"]["start"], 0.1, "{figure}");
    assert_eq!(figure["panels"][0]["bottleneck_bps"], 20e6, "{figure}");
    let bytes = Record::open(&one).unwrap().series;
    let link = record::Entity::parse("link:source-sink/forward").unwrap();
    let rates = bytes.curve(&link, record::Quantity::ThroughputBps).unwrap();
    let mean = rates.value[200..400].iter().sum::<f64>() / 200.0;
    let shown = figure["panels"][0]["numbers"]["mean_bps"].as_f64().unwrap();
    assert!((shown / mean - 1.0).abs() < 1e-9, "{shown}, {mean}");
}

/// The texts of an XML document's elements; it is well-formed, or the test fails.
fn texts_of(document: &str) -> Vec<String> {
    let parsed = roxmltree::Document::parse(document).unwrap_or_else(|e| panic!("{e}: {document}"));
    assert_eq!(parsed.root_element().tag_name().name(), "svg");
    assert_eq!(parsed.root_element().tag_name().namespace(), Some("http://www.w3.org/2000/svg"));
    parsed.descendants().filter_map(|node| node.text().map(str::to_owned)).collect()
}

#[test]
fn impossible_figure_is_refused_with_known_names() {
    let sweep = Sweep::run();
    let refuse = |words: &[&str]| {
        let (code, said) = refused(&[&["figure", sweep.out()], words].concat());
        assert_eq!(code, 2, "{words:?}: {said}");
        said
    };
    let said = refuse(&["--y", "speed"]);
    assert!(said.contains("there is no metric \"speed\"; there are "), "{said}");
    assert!(said.contains("jain_index, ") && said.contains("goodput_share"), "{said}");
    let said = refuse(&["--x", "loss"]);
    assert_eq!(
        said,
        "longhaul: the records have no swept key \"loss\"; swept: vars.delay, vars.queue\n"
    );
    let said = refuse(&["--link", "source-sink/forward", "--y", "goodput_bps"]);
    assert!(
        said.contains("'--link <NAME/DIRECTION>' cannot be used with '--y <METRIC>'"),
        "{said}"
    );
    let said = refuse(&["--link", "source-sink"]);
    assert!(said.contains("NAME/forward or NAME/backward"), "{said}");
    let said = refuse(&["--link", "sink-source/forward"]);
    assert!(
        said.contains("of \"sink-source/forward\"; there is of source-sink/forward, "),
        "{said}"
    );
    let said = refuse(&["--link", "source-sink/forward", "--from", "2s", "--to", "1s"]);
    assert_eq!(said, "longhaul: --to must be later than --from\n");
    let said = refuse(&["--hop", "file/0"]);
    assert!(said.contains("--link"), "{said}");
    assert_eq!(
        refuse(&[sweep.out()]),
        "longhaul: several directories need --link or --over-time: name one directory\n"
    );
    let said = refuse(&["--over-time", "cwnd", "--flow", "other"]);
    assert!(said.contains("there is no flow \"other\"; there are file"), "{said}");
    let said = refuse(&["--over-time", "cwnd", "--link", "source-sink/forward"]);
    assert_eq!(
        said,
        "longhaul: --link can be drawn only with --over-time queue, or without --over-time\n"
    );
    let said = refuse(&["--over-time", "cwnd", "--x", "delay"]);
    assert!(said.contains("cannot be used with '--x <KEY>'"), "{said}");
    let said = refuse(&["--flow", "file"]);
    assert!(said.contains("--over-time"), "{said}");
    let said = refuse(&["--link", "source-sink/forward", "--log-y"]);
    assert!(said.contains("--log-y and --colour-by need --over-time queue"), "{said}");
    // A metric of single flows is not a metric of a run.
    assert!(refuse(&["--y", "flows"]).contains("no metric \"flows\""));
}

#[test]
fn without_a_record_there_is_no_figure() {
    let empty = tempfile::tempdir().unwrap();
    let at = |path: &Path| {
        let output = call(&["figure", path.to_str().unwrap()]);
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = at(empty.path());
    let expected = format!("longhaul: there is no record at or below {}\n", empty.path().display());
    assert_eq!((code, said), (Some(1), expected));

    let missing = empty.path().join("missing");
    let (code, said) = at(&missing);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("missing") && said.contains("No such file"), "{said}");

    // A folder that says it is a record, and is none.
    fs::write(empty.path().join("manifest.json"), "{ \"schema\": 1 }").unwrap();
    let (code, said) = at(empty.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("manifest.json") && said.contains("missing field"), "{said}");
}
