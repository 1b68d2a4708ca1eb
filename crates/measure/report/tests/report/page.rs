// SPDX-License-Identifier: GPL-2.0-or-later
//! The page itself, in a real browser: charts are drawn, nothing fails, nothing is asked of the
//! network, and no text from a record becomes part of the page's code.

use crate::synthetic;

use std::{fs, path::Path, process::Command};

const EVIL: &str = "Evil </script></style><img src=x onerror=\"document.title='owned'\"> & 'title'";

/// Opens a page in headless Chromium; returns its document after the scripts ran, and how many
/// requests it made.
fn open(page: &Path) -> (String, usize) {
    let profile = tempfile::tempdir().unwrap();
    let net_log = profile.path().join("net-log.json");
    let dom = dump(page, profile.path(), &[&format!("--log-net-log={}", net_log.display())]);
    // What Chromium asks for by itself has no page as its initiator.
    let log = fs::read_to_string(net_log).expect("Chromium writes its log of requests");
    let all = log.matches("\"initiator\":").count();
    let own = log.matches("\"initiator\":\"not an origin\"").count();
    (dom, all - own)
}

/// A page's document after the scripts ran in headless Chromium.
fn dump(page: &Path, profile: &Path, more: &[&str]) -> String {
    let output = Command::new("timeout")
        .args(["--kill-after=5", "90", "chromium", "--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-quic", "--no-first-run", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--window-size=1280,3000"])
        // Chromium asks its maker for updates all the same: keep that on this machine.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(more)
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("`timeout` (Debian: coreutils) runs");
    assert_ne!(output.status.code(), Some(127), "chromium is missing: apt install chromium");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Attributes of a page's root element in a window of this width, which may be less than Chromium has for windows.
fn attributes_at(page: &Path, width: u32, names: &[&str]) -> Vec<Option<String>> {
    let folder = tempfile::tempdir().unwrap();
    let around = folder.path().join("around.html");
    let html = format!(
        "<html><body><iframe id=it src=\"file://{}\" style=\"border:0;width:{width}px;height:2000px\"></iframe>\
         <script>it.onload = () => Object.assign(document.documentElement.dataset, \
         it.contentDocument.documentElement.dataset)</script></body></html>",
        page.display()
    );
    fs::write(&around, html).unwrap();
    // So that the outer page may read the inner one.
    let flags = ["--disable-web-security", "--allow-file-access-from-files"];
    let dom = dump(&around, &folder.path().join("profile"), &flags);
    names.iter().map(|name| root_attribute(&dom, name)).collect()
}

/// The value of an attribute of the document's root element.
fn root_attribute(dom: &str, name: &str) -> Option<String> {
    let root = &dom[dom.find("<html").unwrap()..];
    let root = &root[..root.find('>').unwrap()];
    let value = root.split(&format!("{name}=\"")).nth(1)?;
    value.split('"').next().map(str::to_owned)
}

fn assert_drawn(dom: &str, charts: usize) {
    assert_eq!(root_attribute(dom, "data-errors"), None, "{}", errors(dom));
    assert_eq!(root_attribute(dom, "data-charts"), Some(charts.to_string()));
    assert_eq!(dom.matches("<canvas").count(), charts);
}

fn errors(dom: &str) -> &str {
    dom.split("id=\"errors\"").nth(1).and_then(|rest| rest.split("</p>").next()).unwrap_or_default()
}

#[test]
fn a_demo_and_a_sweep_are_drawn() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::demo(&dir.path().join("demo"), "A demo");
    synthetic::sweep(&dir.path().join("sweep"));
    // Kept in the build folder, to be looked at.
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html");
    let written = longhaul_report::write(dir.path(), &page).unwrap();
    assert_eq!((written.runs, written.invalid), (18 + 45, 0));

    let (dom, requests) = open(&page);
    // The demo: completion times, two charts for each of its six cells, and the windows of its four
    // variants. The sweep: goodput, completion times, and three charts for each of its three variants at one
    // point.
    assert_drawn(&dom, (1 + 2 * 6 + 4) + (2 + 3 * 3));
    assert_eq!(dom.matches("<svg class=\"strip").count(), 6 + 15);
    // One picture of the demo's starts, one for each of the sweep's points.
    assert_eq!(dom.matches("<svg class=\"start").count(), 1 + 5);
    for text in ["A demo", "Goodput over delay", "cubic → bbr → cubic", "cut at the time limit"]
    {
        assert!(dom.contains(text), "{text}");
    }
    // Next to goodput, what it cost the path; names are spelled as in the scenario.
    assert!(dom.contains("Sent again<small>segments, median</small>"));
    assert!(!dom.contains("first-letter"), "a variant \"bbr\" would become \"Bbr\"");
    // The marks of the sweep's three lines stand at its five values, not next to them.
    assert_eq!(dom.matches("data-columns=\"5\"").count(), 1);
    assert_eq!(requests, 0, "the page asked the network for something");
}

#[test]
fn comparison_page_asks_nothing_of_the_network() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::sweep(&dir.path().join("sweep"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("comparison");
    let asked = longhaul_report::compare::ComparisonQuery::default();
    let written = longhaul_report::compare::write(&[dir.path().to_owned()], &asked, &out).unwrap();
    assert_eq!((written.comparison.sides.len(), written.comparison.cells.len()), (3, 5));
    let (dom, requests) = open(&written.page);
    assert_eq!(dom.matches("class=\"drawing\"").count(), (written.files - 2) / 4);
    assert!(dom.contains("differences are more than chance") && !dom.contains("<script"));
    assert_eq!(requests, 0, "the page asked the network for something");
}

#[test]
fn capture_page_takes_names_of_files_for_text() {
    let direction = trace::DirectionSummary {
        from: "10.0.0.1:80".to_owned(),
        payload_bytes: 20_000,
        unique_bytes: 20_000,
        retransmitted_segments: 2,
        timeout_segments: 2,
        ..Default::default()
    };
    let row = trace::LargestDirection {
        file: EVIL.to_owned(),
        start_unix_ns: 0,
        ending: trace::Ending::Closed,
        direction: direction.clone(),
    };
    let largest = trace::LargestDirections { rows: vec![row], ..Default::default() };
    let growth = (0..20).map(|n| (n * 50_000_000, 1000 * n)).collect();
    let file = trace::FileTransfers {
        file: EVIL.to_owned(),
        transfers: vec![trace::Transfer { direction, growth }],
        left_out: 0,
    };
    let name = EVIL.to_owned();
    let html = longhaul_report::CapturePage {
        files: &[longhaul_report::CapturedFile {
            name,
            totals: None,
            remarks: vec![EVIL.to_owned()],
        }],
        largest: &largest,
        transfers: &trace::Transfers { files: vec![file], files_left_out: 0 },
        growth: longhaul_report::GrowthForm::default(),
    }
    .html();
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("captures.html");
    fs::write(&page, html).unwrap();
    let (dom, requests) = open(&page);
    assert!(!dom.contains("<script") && !dom.contains("<img"), "{dom}");
    assert!(!dom.contains("<title>owned") && dom.contains("<h2>Sequence growth"), "{dom}");
    assert_eq!(dom.matches("class=\"drawing\"").count(), 3);
    assert_eq!(requests, 0, "the page asked the network for something");
}

#[test]
fn sizes_are_compared_by_time_on_a_logarithmic_axis() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::sizes(dir.path());
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-sizes.html");
    longhaul_report::write(dir.path(), &page).unwrap();
    let (dom, _) = open(&page);
    assert_eq!(root_attribute(&dom, "data-errors"), None, "{}", errors(&dom));
    let drawn = dom.split("data-measure=\"").nth(1).expect("a chart of the sweep");
    assert!(drawn.starts_with("seconds\" data-scale=\"logarithmic\""), "{}", &drawn[..60]);
    assert!(dom.contains("Completion times over the sweep"));
    assert!(
        dom.contains("data-chart=\"times\" data-group=\"0\" style=\"\" data-scale=\"logarithmic")
    );
    // The largest gain first, and the smallest last.
    let findings: Vec<&str> = dom.split("class=\"finding").skip(1).collect();
    let names = ["the same, a site", "two depots, BBR", "aria2 over 16"];
    assert_eq!(findings.len(), names.len());
    for (finding, name) in findings.iter().zip(names) {
        assert!(finding.split("</p>").next().unwrap().contains(name), "{name}: {findings:?}");
    }
}

#[test]
fn tables_fit_narrow_and_ordinary_windows() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::demo(&dir.path().join("demo"), "A demo");
    synthetic::sizes(&dir.path().join("sizes"));
    synthetic::sweep(&dir.path().join("sweep"));
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-widths.html");
    longhaul_report::write(dir.path(), &page).unwrap();
    for width in [1280, 1000, 700, 400] {
        let names = ["data-errors", "data-wide", "data-scrolled"];
        let found = attributes_at(&page, width, &names);
        let nothing = Some("0".to_owned());
        assert_eq!(found, [None, nothing.clone(), nothing], "{width} pixels");
    }
}

#[test]
fn methods_are_shown_separately() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::demo(dir.path(), "A demo");
    // The same runs again under another method.
    for folder in record::find_records(dir.path()).unwrap() {
        let mut record = record::Record::open(&folder).unwrap();
        if record.summary.flows[0].client.as_deref() != Some("curl") {
            continue;
        }
        record.manifest.method = "sim".into();
        record.manifest.emulator = None;
        let flow = &mut record.summary.flows[0];
        (flow.client, flow.exit_code, flow.sha256_ok) = (None, None, None);
        // Its samples stay, so that what is drawn of it ends a second earlier on its own time.
        flow.start_s = 1.0;
        record.write(&dir.path().join("sim").join(folder.file_name().unwrap())).unwrap();
    }
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-methods.html");
    longhaul_report::write(dir.path(), &page).unwrap();
    let (dom, _) = open(&page);
    // Completion times, two charts for each cell, and for each variant one of rates and one of windows, of both methods.
    assert_drawn(&dom, 1 + 2 * (6 + 4) + 2 * 4);
    let legends =
        ["kernel (emu), repeat 2: server → client (cubic)", "simulator (sim), repeat 2: "];
    for text in
        [&["direct (sim)", "direct (emu, curl)", "Methods side by side"][..], &legends].concat()
    {
        assert!(dom.contains(text), "{text}");
    }
    let attributes = |name: &str| {
        let before = format!("{name}=\"");
        let parts = dom.split(&before).skip(1).filter_map(|rest| rest.split('"').next());
        let words = |all: &str| all.split(' ').map(str::to_owned).collect();
        parts.map(words).collect::<Vec<Vec<String>>>()
    };
    for (ends, colours) in attributes("data-ends").iter().zip(attributes("data-colours")) {
        let ends: Vec<f64> = ends.iter().map(|end| end.parse().unwrap()).collect();
        let of = |colour: &str| {
            let both = ends.iter().zip(&colours).filter(|(_, of)| *of == colour);
            both.map(|(end, _)| *end).fold(0.0, f64::max)
        };
        let [kernel, simulator] = [of("#332288"), of("#cc6677")];
        assert!((kernel - simulator - 1.0).abs() < 0.06, "{ends:?} {colours:?}");
    }
    assert_eq!(attributes("data-ends").len(), 2 * 4);
}

#[test]
fn a_request_would_be_seen() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("control.html");
    fs::write(&page, "<img src='http://127.0.0.1:9/'>").unwrap();
    assert_eq!(open(&page).1, 1);
}

#[test]
fn a_page_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    for repeat in 1..=24 {
        synthetic::write(
            dir.path(),
            &synthetic::Shape {
                title: "Long",
                variant: "depots",
                label: "two depots",
                client: "curl",
                point: Vec::new(),
                repeat,
                bytes: 4 << 30,
                rate_bps: 900e6 + f64::from(repeat),
                ramp_s: 1.0,
                hops: &["cubic", "bbr", "cubic"],
                limit_s: 30.0,
                predicted_bps: None,
                reported_gain: None,
            },
        );
    }
    let written = longhaul_report::write(dir.path(), &dir.path().join("report.html")).unwrap();
    assert!(written.page_bytes < 1_500_000, "{written:?}");
}

#[test]
fn no_text_of_a_record_becomes_code() {
    let dir = tempfile::tempdir().unwrap();
    let mut shape = synthetic::Shape {
        title: EVIL,
        variant: EVIL,
        label: EVIL,
        client: EVIL,
        point: vec![(EVIL.into(), "1".into())],
        repeat: 1,
        bytes: 50_000_000,
        rate_bps: 300e6,
        ramp_s: 0.2,
        hops: &["cubic"],
        limit_s: 30.0,
        predicted_bps: Some(1e6),
        reported_gain: Some(1.0),
    };
    for repeat in 1..=2 {
        shape.repeat = repeat;
        shape.point[0].1 = repeat.to_string();
        let mut record = synthetic::record(&shape);
        record.manifest.id = EVIL.into();
        record.manifest.source = Some(EVIL.into());
        record.manifest.command = vec![EVIL.into()];
        record.manifest.scenario = serde_json::json!({ EVIL: EVIL });
        record.manifest.valid = repeat == 1;
        record.manifest.invalid_reasons = vec![EVIL.into()];
        record.summary.flows[0].outcome = EVIL.into();
        record.summary.flows[0].hops[0].from = EVIL.into();
        record.write(&dir.path().join(repeat.to_string())).unwrap();
    }
    let page = dir.path().join("report.html");
    longhaul_report::write(dir.path(), &page).unwrap();
    let html = fs::read_to_string(&page).unwrap();
    assert!(!html.contains("<img"), "markup from a record got through");
    let (dom, _) = open(&page);
    assert!(!dom.contains("<img") && !dom.contains("<title>owned"));
    assert_eq!(root_attribute(&dom, "data-errors"), None, "{}", errors(&dom));
    assert!(dom.contains("Evil &lt;/script&gt;"));
}

#[test]
fn runs_that_do_not_count_are_in_red() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::demo(dir.path(), "A demo");
    let at = dir.path().join("direct-curl-2");
    let mut record = record::Record::open(&at).unwrap();
    record.manifest.valid = false;
    record.manifest.invalid_reasons = vec!["segments left 4.2 ms late".into()];
    fs::remove_dir_all(&at).unwrap();
    record.write(&at).unwrap();
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-invalid.html");
    let written = longhaul_report::write(dir.path(), &page).unwrap();
    assert_eq!(written.invalid, 1);
    let html = fs::read_to_string(&page).unwrap();
    let box_ = html.split("<div class=\"invalid\">").nth(1).expect("a box").split("</div>").next();
    assert!(box_.unwrap().contains("1 of 18 runs"), "{box_:?}");
    assert!(box_.unwrap().contains("segments left 4.2 ms late"), "{box_:?}");
}

#[test]
fn runs_in_which_nothing_happened_are_drawn_too() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::demo(&dir.path().join("seed"), "Nothing");
    let mut record = record::Record::open(&dir.path().join("seed/direct-curl-1")).unwrap();
    fs::remove_dir_all(dir.path().join("seed")).unwrap();
    let flow = &mut record.summary.flows[0];
    (flow.bytes, flow.end_s, flow.seconds, flow.goodput_bps) = (0, 0.0, Some(0.0), Some(0.0));
    (flow.timed_out, flow.exit_code, flow.outcome) = (false, Some(7), "refused".into());
    record.series = record::Series::default();
    // Twice, so that there is a sweep; the second moved nothing for a while.
    for (value, end_s) in [("1ms", 0.0), ("2ms", 3.0)] {
        record.manifest.point = vec![("rtt".into(), value.into())];
        record.summary.flows[0].end_s = end_s;
        record.write(&dir.path().join(value)).unwrap();
    }
    let page = dir.path().join("report.html");
    longhaul_report::write(dir.path(), &page).unwrap();
    let (dom, _) = open(&page);
    assert_eq!(root_attribute(&dom, "data-errors"), None, "{}", errors(&dom));
    assert!(dom.contains("2 of 2 runs"));
    assert!(dom.contains("Nothing was sampled"));
}

#[test]
fn flows_without_an_end_have_goodputs_and_no_completion_times() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::demo(&dir.path().join("seed"), "Endless");
    for folder in record::find_records(&dir.path().join("seed")).unwrap() {
        let mut record = record::Record::open(&folder).unwrap();
        // Two flows, each over a link of its own and the one of 1 Gb/s that both share.
        let direction = |bps: u64| {
            serde_json::json!({
                "rate_bps": bps, "delay_us": 1000, "loss": {"kind": "none"}, "queue_bytes": 1000,
                "mtu_bytes": 1500, "max_burst_us": 0, "monitor_us": 1000, "overhead_bytes": 0,
            })
        };
        let link = |a: &str, b: &str, bps| {
            let one = direction(bps);
            serde_json::json!({"name": a, "a": a, "b": b, "forward": one, "backward": one})
        };
        record.manifest.scenario = serde_json::json!({
            "nodes": [{"name": "a"}, {"name": "b"}, {"name": "hub"}, {"name": "sink"}],
            "links": [
                link("a", "hub", 800_000_000), link("b", "hub", 800_000_000),
                link("hub", "sink", 1_000_000_000),
            ],
            "flows": [
                {"name": "file", "from": "a", "to": "sink", "via": []},
                {"name": "other", "from": "b", "to": "sink", "via": []},
            ],
        });
        let flow = &mut record.summary.flows[0];
        (flow.bytes_expected, flow.timed_out, flow.exit_code) = (None, false, None);
        (flow.bytes, flow.end_s, flow.seconds) = (50_000_000, 2.0, Some(2.0));
        let mut other = flow.clone();
        other.name = "other".into();
        record.summary.flows.push(other);
        record.write(&dir.path().join(folder.file_name().unwrap())).unwrap();
    }
    fs::remove_dir_all(dir.path().join("seed")).unwrap();
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-endless.html");
    longhaul_report::write(dir.path(), &page).unwrap();
    let (dom, _) = open(&page);
    // Goodputs, two charts for each of the six cells, and the windows of the four variants.
    assert_drawn(&dom, 1 + 2 * 6 + 4);
    assert!(dom.contains("data-chart=\"goodputs\"") && !dom.contains("data-chart=\"times\""));
    // 100 MB in 2 s: not half of one flow's link, but two fifths of the link that both cross.
    assert!(dom.contains("400 Mb/s by the median of 3 runs, 40 % of the 1 Gb/s link"), "{dom}");
}

#[test]
fn an_empty_folder_is_an_error_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let error = longhaul_report::write(dir.path(), &dir.path().join("report.html")).unwrap_err();
    assert!(error.to_string().contains("no record"), "{error}");
    assert!(!dir.path().join("report.html").exists());
}

#[test]
fn traffic_alone_has_a_table_and_no_charts() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::demo(&dir.path().join("demo"), "A demo");
    for (n, folder) in (1..).zip(record::find_records(&dir.path().join("demo")).unwrap()) {
        let mut record = record::Record::open(&folder).unwrap();
        let web = record::TrafficSummary {
            name: EVIL.to_owned(),
            goodput_bps: f64::from(n) * 1e6,
            files_offered: Some(10),
            files_completed: Some(10),
            completion_p99_s: Some(0.25),
            ..record::TrafficSummary::default()
        };
        (record.summary.flows, record.summary.traffic) = (Vec::new(), vec![web]);
        record.summary.metrics = record::Metrics::default();
        record.series = record::Series::default();
        record.write(&dir.path().join("traffic").join(n.to_string())).unwrap();
    }
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("traffic.html");
    longhaul_report::write(&dir.path().join("traffic"), &page).unwrap();
    let (dom, requests) = open(&page);
    assert_eq!(root_attribute(&dom, "data-errors"), None, "{}", errors(&dom));
    assert_eq!((dom.matches("<canvas").count(), requests), (0, 0));
    assert!(!dom.contains("Congestion windows") && !dom.contains("<img"), "{dom}");
    // Four variants with a row each, the times of all repeats alike.
    assert_eq!(dom.matches("250 ms</td>").count(), 4, "{dom}");
    assert!(dom.contains("Mb/s<small>"), "the goodputs differ: {dom}");
}
