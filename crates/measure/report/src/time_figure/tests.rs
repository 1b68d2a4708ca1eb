// SPDX-License-Identifier: GPL-2.0-or-later
//! Samples of a record stand where they belong, and what is not on record is refused.

use super::*;
use crate::svg_reader::Drawing;
use record::{OfferedFiles, Summary};
use std::path::Path;

/// A record of two flows, of which the second starts at 2 s: windows of 10 n and 20 n segments n half seconds after its
/// start, 1 Mb/s each, and a queue of 1 KB on one of two links.
fn write(dir: &Path, method: &str) -> PathBuf {
    let manifest = serde_json::json!({
        "schema": 1, "id": method, "title": "Two <flows>", "repeat": 1, "seed": 1, "method": method,
        "started": "2026-01-01T00:00:00Z", "valid": true,
        "variant": {"name": "v", "label": "v"}, "scenario": crate::testing::one_link(&["a", "b"]),
    });
    let mut series = Series::default();
    let flow = |name: &str, start_s: f64, segments: f64, control: &str, series: &mut Series| {
        let hop = Entity::Hop { flow: name.into(), index: 0 };
        for n in 0..=8 {
            let time_s = start_s + f64::from(n) / 2.0;
            series.push(&hop, Quantity::CwndSegments, time_s, segments * f64::from(n));
            series.push(&hop, Quantity::SrttUs, time_s, 20e3 + 1e3 * f64::from(n));
            let bytes = 125_000.0 * f64::from(n) / 2.0;
            series.push(&Entity::Flow(name.into()), Quantity::ReceivedBytes, time_s, bytes);
        }
        FlowSummary {
            name: name.into(),
            start_s,
            end_s: start_s + 4.0,
            hops: vec![HopSummary {
                congestion_control: Some(control.into()),
                ..HopSummary::default()
            }],
            ..FlowSummary::default()
        }
    };
    let flows = vec![
        flow("a", 0.0, 10.0, "cubic", &mut series),
        flow("b", 2.0, 20.0, "lh_bbr", &mut series),
    ];
    for (link, bytes) in [("haul/forward", 1000.0), ("haul/backward", 0.0)] {
        let link = Entity::parse(&format!("link:{link}")).unwrap();
        for n in 0..12 {
            series.push(&link, Quantity::QueueBytes, f64::from(n) / 2.0, bytes);
        }
    }
    let folder = dir.join(method);
    let summary = Summary { flows, ..Summary::default() };
    let manifest = serde_json::from_value(manifest).unwrap();
    Record { manifest, series, files: OfferedFiles::default(), summary }.write(&folder).unwrap();
    folder
}

fn asked(what: OverTime) -> TimeFigureQuery {
    TimeFigureQuery {
        what,
        flows: Vec::new(),
        link: None,
        span_s: 0.0..f64::INFINITY,
        since_start: false,
        together: false,
        log_y: false,
        colour_by: None,
    }
}

#[test]
fn windows_are_drawn_at_their_times_in_flow_colours() {
    let dir = tempfile::tempdir().unwrap();
    let run = write(dir.path(), "sim");
    let figure = TimeFigure::read(std::slice::from_ref(&run), &asked(OverTime::Cwnd)).unwrap();
    assert_eq!(figure.lines, ["a (cubic)", "b (lh_bbr)"]);
    let svg = figure.svg();
    let drawing = Drawing::parse(&svg);
    // From 0 to 6 s over 640, and from 0 to 200 segments over 240.
    let place =
        |time_s: f64, segments: f64| (640.0 * time_s / 6.0, 240.0 * (1.0 - segments / 200.0));
    for (line, start_s, segments) in [(0, 0.0, 10.0), (1, 2.0, 20.0)] {
        let sample = |n: i32| place(start_s + f64::from(n) / 2.0, segments * f64::from(n));
        drawing.assert_points(0, line, &(0..=8).map(sample).collect::<Vec<_>>());
    }
    let colours = drawing.colours(0, "line");
    assert_ne!(colours[0], colours[1]);
    assert!(svg.contains("congestion window, segments") && svg.contains("time, s"), "{svg}");
    assert!(svg.contains("Two &lt;flows&gt;"), "{svg}");
    drawing.assert_texts_inside();

    let table = figure.table();
    let row = table.lines().find(|line| line.starts_with("b (lh_bbr)")).unwrap();
    assert_eq!(row.split_whitespace().skip(2).collect::<Vec<_>>(), ["9", "80", "0", "160"]);
}

#[test]
fn part_of_the_time_and_one_flow_since_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let run = [write(dir.path(), "sim")];
    let part = TimeFigureQuery {
        flows: vec!["b".into()],
        span_s: 1.0..2.25,
        since_start: true,
        ..asked(OverTime::Cwnd)
    };
    let figure = TimeFigure::read(&run, &part).unwrap();
    assert_eq!(figure.lines, ["b (lh_bbr)"]);
    assert_eq!(figure.panels[0].lines[0].time_s, [1.0, 1.5, 2.0]);
    assert_eq!(figure.panels[0].lines[0].values, [40.0, 60.0, 80.0]);
    assert!(
        figure.svg().contains("time since the flow&#39;s start, s")
            || figure.svg().contains("time since the flow's start, s")
    );
    // Sampled twice a second: bins are as wide, and all have 1 Mb/s.
    let figure = TimeFigure::read(&run, &asked(OverTime::Rate)).unwrap();
    for line in &figure.panels[0].lines {
        assert_eq!(line.values.len(), 8, "{line:?}");
        assert!(line.values.iter().all(|bps| (bps - 1e6).abs() < 1e-3), "{line:?}");
    }
    assert!((figure.panels[0].lines[1].time_s[0] - 2.25).abs() < 1e-9);
}

#[test]
fn two_methods_share_a_panel_with_a_colour_each() {
    let dir = tempfile::tempdir().unwrap();
    let runs = ["emu", "sim"].map(|method| write(dir.path(), method));
    let apart = TimeFigure::read(&runs, &asked(OverTime::Rtt)).unwrap();
    assert_eq!(
        apart.panels.iter().map(|p| p.label.as_str()).collect::<Vec<_>>(),
        ["v, emu", "v, sim"]
    );
    let one = TimeFigureQuery { together: true, flows: vec!["a".into()], ..asked(OverTime::Rtt) };
    let figure = TimeFigure::read(&runs, &one).unwrap();
    assert_eq!(figure.lines, ["a (cubic), v, emu", "a (cubic), v, sim"]);
    assert_eq!((figure.panels.len(), figure.colour_by), (1, ColourBy::Method));
    let colours = Drawing::parse(&figure.svg()).colours(0, "line");
    assert_ne!(colours[0], colours[1]);
    assert!(figure.svg().contains("round trip, ms"), "{}", figure.svg());
}

#[test]
fn queue_is_of_links_that_had_one() {
    let dir = tempfile::tempdir().unwrap();
    let run = [write(dir.path(), "sim")];
    let figure = TimeFigure::read(&run, &asked(OverTime::Queue)).unwrap();
    assert_eq!(figure.lines, ["haul/forward"]);
    assert!(figure.svg().contains("queue, kB"), "{}", figure.svg());
    let link = Entity::parse("link:haul/backward");
    let empty = TimeFigureQuery { link, ..asked(OverTime::Queue) };
    assert_eq!(TimeFigure::read(&run, &empty).unwrap().panels[0].lines[0].values, [0.0; 12]);
    let text = TimeFigure::read(&run, &TimeFigureQuery { log_y: true, ..empty }).unwrap_err();
    assert!(text.to_string().starts_with("a logarithmic axis has no place for zero"), "{text}");
}

#[test]
fn missing_record_data_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = [write(dir.path(), "sim")];
    let refused = |query: &TimeFigureQuery| TimeFigure::read(&run, query).unwrap_err().to_string();
    let unknown = TimeFigureQuery { flows: vec!["c".into()], ..asked(OverTime::Cwnd) };
    assert_eq!(refused(&unknown), "sim: there is no flow \"c\"; there are a, b");
    assert_eq!(refused(&asked(OverTime::PacingRate)), "sim: it has no samples of pacing_rate_bps");
    let late = TimeFigureQuery { span_s: 50.0..60.0, ..asked(OverTime::Cwnd) };
    assert_eq!(refused(&late), "there is no sample after 50 s");
    let of_flow = TimeFigureQuery { flows: vec!["a".into()], ..asked(OverTime::Queue) };
    assert!(refused(&of_flow).contains("a queue is of a link"), "{}", refused(&of_flow));
}

#[test]
fn peaks_of_a_million_samples_are_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let run = write(dir.path(), "sim");
    let mut figure = TimeFigure::read(&[run], &asked(OverTime::Cwnd)).unwrap();
    let line = &mut figure.panels[0].lines[0];
    line.time_s = (0..1_000_000).map(|n| f64::from(n) * 6e-6).collect();
    line.values = vec![100.0; 1_000_000];
    line.values[333_333] = 150.0;
    line.values[666_666] = 1.0;
    let path = Drawing::parse(&figure.svg()).paths(0, "line").remove(0);
    assert!(path.len() < 60_000, "{}", path.len());
    let y = |segments: f64| format!(" {:.1}", 240.0 * (1.0 - segments / 200.0));
    assert!(path.contains(&y(150.0)) && path.contains(&y(1.0)), "{path}");
}
