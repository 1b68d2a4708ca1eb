// SPDX-License-Identifier: GPL-2.0-or-later
//! What is counted where, and what is refused.

use super::*;
use record::{FlowSummary, HopSummary, LinkSummary, OfferedFiles};
use std::path::Path;

const BIN_S: f64 = 500e-6;

/// A record of one second below `dir`: bins of 8 Mb/s, except those given; the window doubles every 100 ms
/// from one packet. The bottleneck has 16 Mb/s and the path holds 100 packets of 100 bytes.
fn write(dir: &Path, variant: &str, bins: &[(usize, f64)]) -> PathBuf {
    let manifest = serde_json::json!({
        "schema": 1, "id": variant, "title": "A <course>", "source": "paper 9", "repeat": 1, "seed": 1,
        "method": "sim", "started": "2026-01-01T00:00:00Z", "valid": true, "baseline": "plain",
        "variant": {"name": variant, "label": variant}, "point": [["vars.buffer", "1KB"]],
        "scenario": crate::testing::one_link(&["file"]),
    });
    let mut series = Series::default();
    let link = Entity::parse("link:haul/forward").unwrap();
    for n in 0..1900 {
        let bps = bins.iter().find(|(at, _)| *at == n).map_or(8e6, |(_, bps)| *bps);
        series.push(&link, Quantity::ThroughputBps, n as f64 * BIN_S, bps);
        series.push(&link, Quantity::Drops, n as f64 * BIN_S, f64::from(n == 1000));
    }
    let hop = Entity::parse("hop:file/0").unwrap();
    for n in 0..10 {
        series.push(&hop, Quantity::CwndSegments, f64::from(n) / 10.0, f64::from(1 << n));
    }
    let hop = HopSummary {
        bottleneck_bps: Some(16_000_000),
        base_rtt_us: Some(5_000.0),
        segment_bytes: Some(100),
        ..HopSummary::default()
    };
    let flow = FlowSummary {
        name: "file".into(),
        end_s: 1.0,
        goodput_bps: Some(1e6),
        hops: vec![hop],
        ..Default::default()
    };
    let link = LinkSummary {
        name: "haul".into(),
        direction: "forward".into(),
        rate_bps: Some(400_000_000),
        ..LinkSummary::default()
    };
    let summary = Summary { flows: vec![flow], links: vec![link], ..Summary::default() };
    let manifest = serde_json::from_value(manifest).unwrap();
    let folder = dir.join(variant);
    Record { manifest, series, files: OfferedFiles::default(), summary }.write(&folder).unwrap();
    folder
}

fn course(hop: Option<&str>, span_s: Range<f64>) -> LinkFigureQuery {
    let hop = hop.map(|hop| Entity::parse(&format!("hop:{hop}")).unwrap());
    LinkFigureQuery { link: Entity::parse("link:haul/forward").unwrap(), hop, span_s }
}

#[test]
fn bins_are_split_when_the_window_first_exceeds_the_path() {
    let dir = tempfile::tempdir().unwrap();
    // The window is 64 packets at 0.6 s and 128 at 0.7 s: bins up to 1200 are before.
    let plain = write(dir.path(), "plain", &[(100, 32e6), (1199, 17e6), (1200, 24e6)]);
    write(dir.path(), "calm", &[(1500, 18e6)]);
    let read = |course| LinkFigure::read(&[dir.path().to_owned()], &course).unwrap();
    let figure = read(course(Some("file/0"), 0.0..f64::INFINITY));
    let labels: Vec<&str> = figure.panels.iter().map(|panel| panel.label.as_str()).collect();
    assert_eq!(labels, ["plain", "calm"], "the baseline first; the point is the same");
    assert_eq!(
        figure.span_s,
        0.0..1.0,
        "to the end of the run, which is later than the last packet's"
    );
    assert_eq!(figure.panels[0].bdp_packets, Some(100.0));
    let numbers = &figure.panels[0].numbers;
    assert_eq!(numbers.filled_at_s, Some(0.7));
    assert_eq!((numbers.peak_bps, numbers.peak_before_bps), (32e6, Some(32e6)));
    assert_eq!(numbers.peak_after_bps, Some(24e6));
    assert_eq!((numbers.above_share, numbers.drops), (Some(2.0 / 2000.0), 1));
    let bits = (1897.0 * 8e6 + 32e6 + 17e6 + 24e6) / 2000.0;
    assert!((numbers.mean_bps - bits).abs() < 1.0, "{numbers:?}");
    let calm = &figure.panels[1].numbers;
    assert_eq!((calm.peak_before_bps, calm.peak_after_bps), (Some(8e6), Some(18e6)));
    assert_eq!(
        figure.table(),
        "A <course>\npaper 9; link haul/forward, window of file/0, from 0.000 to 1.000 s\n\
         bins of 500 us; bottleneck 16 Mb/s; bandwidth-delay product 100 packets\n\n\
         run         mean     peak  above 1.1x  cwnd > bdp  peak before  peak after  drops\n\
         plain  7.62 Mb/s  32 Mb/s      0.10 %     0.700 s      32 Mb/s     24 Mb/s      1\n\
         calm   7.61 Mb/s  18 Mb/s      0.05 %     0.700 s       8 Mb/s     18 Mb/s      1\n"
    );

    // A part of the run: the moment is still the run's.
    let part =
        LinkFigure::read(std::slice::from_ref(&plain), &course(Some("file/0"), 0.05..0.2)).unwrap();
    let numbers = &part.panels[0].numbers;
    assert_eq!(part.panels[0].bins_bps.len(), 300);
    assert_eq!((numbers.filled_at_s, numbers.drops), (Some(0.7), 0));
    assert_eq!((numbers.peak_before_bps, numbers.peak_after_bps), (Some(32e6), None));
    let part = LinkFigure::read(&[plain], &course(Some("file/0"), 0.75..0.8)).unwrap();
    assert_eq!(part.panels[0].numbers.peak_before_bps, None);

    // Without a hop the link's own rate is what there is to compare with.
    let figure = read(course(None, 0.0..0.5));
    assert_eq!(figure.panels[0].bottleneck_bps, Some(400e6));
    assert_eq!(figure.panels[0].numbers.above_share, Some(0.0));
    assert!(!figure.table().contains("cwnd"), "{}", figure.table());
}

#[test]
fn drawing_has_a_panel_per_record_with_peak_and_window() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "plain", &[(100, 40e6)]);
    write(dir.path(), "calm", &[]);
    let dirs = [dir.path().to_owned()];
    let draw = |hop| LinkFigure::read(&dirs, &course(hop, 0.0..f64::INFINITY)).unwrap().svg();
    let svg = draw(Some("file/0"));
    for text in ["A &lt;course&gt;", ">plain<", ">calm<", "rate, Mb/s", "window, packets", ">600<"]
    {
        assert!(svg.contains(text), "{text}");
    }
    // 40 Mb/s is the scale's end: the peak's band reaches the upper edge, in one panel.
    assert_eq!(svg.matches("M43.0 0.0H").count(), 1);
    // Bottleneck and moment in both, and once in the legend.
    assert_eq!(svg.matches("stroke-dasharray").count(), 5);
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    assert!(!draw(None).contains("window"), "no hop, no window");
}

#[test]
fn missing_data_error_lists_recorded_data() {
    let dir = tempfile::tempdir().unwrap();
    let plain = write(dir.path(), "plain", &[]);
    let error = |course: &LinkFigureQuery| {
        LinkFigure::read(std::slice::from_ref(&plain), course).unwrap_err().to_string()
    };
    let other = LinkFigureQuery {
        link: Entity::parse("link:haul/backward").unwrap(),
        ..course(None, 0.0..1.0)
    };
    let expected =
        "plain: there is no throughput_bps of \"haul/backward\"; there is of haul/forward";
    assert_eq!(error(&other), expected);
    let expected = "plain: there is no cwnd_segments of \"file/1\"; there is of file/0";
    assert_eq!(error(&course(Some("file/1"), 0.0..1.0)), expected);
    assert_eq!(error(&course(None, 1.5..2.0)), "plain: it ends at 1.000 s");
    let empty = tempfile::tempdir().unwrap();
    let none = LinkFigure::read(&[empty.path().to_owned()], &course(None, 0.0..1.0));
    assert!(matches!(none, Err(Error::Empty(_))), "{none:?}");
}
