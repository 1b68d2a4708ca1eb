// SPDX-License-Identifier: GPL-2.0-or-later
//! What stands where in a figure, and what it refuses.

use super::*;
use crate::svg::LETTER_WIDTH;
use record::{Entity, OfferedFiles, Quantity, Series};
use std::path::PathBuf;

fn read(dir: &Path, y: &str, x: Option<&str>) -> Result<Figure, Error> {
    Figure::read(dir, &FigureQuery { y, x, by_flow: false, warm_up_s: 0.0, log_y: false })
}

/// A record of one flow at a link of 1000 bit/s, below `dir`.
fn write(dir: &Path, variant: &str, point: &[(&str, &str)], repeat: u32, bps: f64, valid: bool) {
    let id = format!("{variant}{point:?}{repeat}").replace(|c: char| !c.is_alphanumeric(), "-");
    let manifest = serde_json::json!({
        "schema": 1, "id": id, "title": "A <sweep>", "source": "paper 9, figure 9", "repeat": repeat,
        "seed": 1, "method": "sim", "started": "2026-01-01T00:00:00Z", "valid": valid,
        "variant": {"name": variant, "label": variant}, "point": point,
        "scenario": crate::testing::one_link(&["file"]),
    });
    let summary = Summary {
        flows: vec![FlowSummary {
            name: "file".into(),
            goodput_bps: bps,
            ..FlowSummary::default()
        }],
        metrics: Metrics { goodput_bps: Some(bps), ..Metrics::default() },
        ..Summary::default()
    };
    let manifest = serde_json::from_value(manifest).unwrap();
    Record { manifest, series: Series::default(), files: OfferedFiles::default(), summary }
        .write(&dir.join(id))
        .unwrap();
}

/// Two flows, of which the second has its bytes in the second half of 20 s.
fn write_two_flows(dir: &Path, variant: &str, delay: &str, bytes: u64) {
    let id = format!("{variant}-{delay}");
    let manifest = serde_json::json!({
        "schema": 1, "id": id, "title": "Two flows", "repeat": 1,
        "seed": 1, "method": "sim", "started": "2026-01-01T00:00:00Z", "valid": true,
        "variant": {"name": variant, "label": variant}, "point": [("vars.delay", delay)],
        "scenario": crate::testing::one_link(&["even", "late"]),
    });
    let mut series = Series::default();
    for t in 0..=20_u64 {
        let even = (bytes * t / 20) as f64;
        let late = (bytes * t.saturating_sub(10) / 10) as f64;
        for (name, value) in [("even", even), ("late", late)] {
            series.push(&Entity::Flow(name.into()), Quantity::ReceivedBytes, t as f64, value);
        }
    }
    let flow = |name: &str| FlowSummary {
        name: name.into(),
        bytes,
        end_s: 20.0,
        seconds: 20.0,
        goodput_bps: bytes as f64 * 8.0 / 20.0,
        ..FlowSummary::default()
    };
    let flows = vec![flow("even"), flow("late")];
    let metrics = Metrics::compute(&flows, &[], &series);
    let summary = Summary { flows, metrics, ..Summary::default() };
    let manifest = serde_json::from_value(manifest).unwrap();
    Record { manifest, series, files: OfferedFiles::default(), summary }
        .write(&dir.join(id))
        .unwrap();
}

#[test]
fn a_line_for_each_flow_and_without_a_warm_up() {
    let dir = tempfile::tempdir().unwrap();
    for (variant, delay, bytes) in [("a", "1ms", 1000), ("a", "9ms", 500), ("b", "1ms", 2000)] {
        write_two_flows(dir.path(), variant, delay, bytes);
    }
    let read = |y, by_flow, warm_up_s| {
        Figure::read(dir.path(), &FigureQuery { y, x: None, by_flow, warm_up_s, log_y: false })
    };
    let first = |figure: &Figure| {
        let points = figure.panels[0].points.iter().map(|line| line[0].map(|point| point.median));
        points.collect::<Vec<_>>()
    };
    let whole = read("goodput_bps", true, 0.0).unwrap();
    assert_eq!(whole.lines, ["a: even", "a: late", "b: even", "b: late"]);
    assert_eq!(first(&whole), [400.0, 400.0, 800.0, 800.0].map(Some));
    let cut = read("goodput_bps", true, 10.0).unwrap();
    assert_eq!(first(&cut), [400.0, 800.0, 800.0, 1600.0].map(Some));
    assert!(cut.table().contains("3 runs; without the first 10 s"), "{}", cut.table());
    let share = read("jain_index", false, 10.0).unwrap();
    assert_eq!(first(&share), [0.9, 0.9].map(Some));
    assert_eq!(first(&read("jain_index", false, 0.0).unwrap()), [1.0, 1.0].map(Some));
    // After the end of all there is nothing.
    assert_eq!(first(&read("goodput_bps", true, 30.0).unwrap()), [None; 4]);

    let said = |y, by_flow, warm_up_s| read(y, by_flow, warm_up_s).unwrap_err().to_string();
    let text = said("jain_index", true, 0.0);
    assert!(text.starts_with("there is no metric \"jain_index\" of a flow; there are "), "{text}");
    let text = said("completion_mean_s", false, 5.0);
    assert!(text.starts_with("completion_mean_s is of a whole run; "), "{text}");
    assert!(text.contains("jain_index") && !text.contains("timeouts"), "{text}");
}

#[test]
fn one_variant_needs_no_name_and_too_many_flows_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    write_two_flows(dir.path(), "a", "1ms", 1000);
    let asked =
        FigureQuery { y: "goodput_bps", x: None, by_flow: true, warm_up_s: 0.0, log_y: false };
    assert_eq!(Figure::read(dir.path(), &asked).unwrap().lines, ["even", "late"]);
    for n in 0..20 {
        write_two_flows(dir.path(), &format!("variant{n}"), "1ms", 1000);
    }
    let asked = FigureQuery { x: Some("delay"), ..asked };
    let text = Figure::read(dir.path(), &asked).unwrap_err().to_string();
    assert!(text.starts_with("42 lines, one for each variant and flow"), "{text}");
}

/// Two variants, two backgrounds and three delays, whose order by spelling is not that by size.
fn sweep() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    for (variant, share) in [("a", 1.0), ("b", 0.5)] {
        for (background, left) in [("50%", 500.0), ("5%", 950.0)] {
            for (delay, times) in [("100ms", 0.5), ("20ms", 0.8), ("3ms", 1.0)] {
                let point = [("vars.background", background), ("vars.delay", delay)];
                write(dir.path(), variant, &point, 1, left * share * times, true);
            }
        }
    }
    let path = dir.path().to_owned();
    (dir, path)
}

#[test]
fn panels_values_and_lines_stand_in_order() {
    let (_dir, path) = sweep();
    let figure = read(&path, "goodput_share", Some("delay")).unwrap();
    assert_eq!((figure.x.as_str(), figure.runs, figure.left_out), ("delay", 12, 0));
    assert_eq!(figure.lines, ["a", "b"]);
    let fixed: Vec<&str> = figure.panels.iter().map(|panel| panel.fixed.as_str()).collect();
    assert_eq!(fixed, ["background 5%", "background 50%"]);
    assert_eq!(figure.panels[0].labels, ["3ms", "20ms", "100ms"]);
    let b: Vec<f64> = figure.panels[1].points[1].iter().map(|p| p.unwrap().median).collect();
    assert_eq!(b, [0.25, 0.2, 0.125]);
    assert_eq!(
        figure.table(),
        "A <sweep>: goodput share, %\npaper 9, figure 9; 12 runs\n\n\
         background 5%\n\
         delay            a     b\n\
         3ms           95.0  47.5\n\
         20ms          76.0  38.0\n\
         100ms         47.5  23.8\n\
         first - last  47.5  23.8\n\n\
         background 50%\n\
         delay            a     b\n\
         3ms           50.0  25.0\n\
         20ms          40.0  20.0\n\
         100ms         25.0  12.5\n\
         first - last  25.0  12.5\n"
    );
    // The first key that varies, if none is asked for.
    assert_eq!(read(&path, "goodput_bps", None).unwrap().x, "background");
}

#[test]
fn keys_that_move_together_share_a_panel() {
    let dir = tempfile::tempdir().unwrap();
    for (loss, time, bps) in [("1%", "9s", 300.0), ("2%", "9s", 200.0), ("3%", "1s", 100.0)] {
        write(dir.path(), "a", &[("vars.loss", loss), ("vars.time", time)], 1, bps, true);
    }
    let figure = read(dir.path(), "goodput_bps", None).unwrap();
    assert_eq!((figure.x.as_str(), figure.panels.len()), ("loss", 1));
    assert_eq!(figure.panels[0].labels, ["1%", "2%", "3%"]);
    assert_eq!(figure.following, ["time"]);
    assert!(figure.table().contains("; time moves together with loss\n"), "{}", figure.table());
}

#[test]
fn repeats_give_medians_and_what_does_not_count_gives_nothing() {
    let (_dir, path) = sweep();
    let point = [("vars.background", "5%"), ("vars.delay", "3ms")];
    write(&path, "a", &point, 2, 100.0, true);
    write(&path, "a", &point, 3, 200.0, true);
    write(&path, "a", &point, 4, 9000.0, false);
    write(&path, "c", &point, 1, 9000.0, false);
    let figure = read(&path, "goodput_bps", Some("vars.delay")).unwrap();
    let expected = Point { median: 200.0, least: 100.0, most: 950.0, runs: 3 };
    assert_eq!(figure.panels[0].points[0][0], Some(expected));
    assert_eq!(figure.panels[0].points[2], [None; 3]);
    assert_eq!((figure.runs, figure.left_out), (16, 2));
    let table = figure.table();
    assert!(table.contains("2 of them left out"), "{table}");
    assert!(table.contains("medians of up to 3 (least–most)"), "{table}");
    // A range where several runs stand behind a median, and nowhere else.
    let row = table.lines().find(|line| line.starts_with("3ms")).unwrap();
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>()[1..4],
        ["0.200", "(0.100–0.950)", "0.475"]
    );
    assert_eq!(table.matches('(').count(), 3, "{table}");
}

#[test]
fn the_drawing_has_every_point_and_escapes_what_records_say() {
    let (_dir, path) = sweep();
    let svg = read(&path, "goodput_share", Some("delay")).unwrap().svg();
    assert!(svg.contains("A &lt;sweep&gt;") && !svg.contains("<sweep>"), "{svg}");
    // Two panels of two lines with three points each; two marks in the legend.
    assert_eq!(svg.matches("z\" fill=\"").count(), 2 * 2 * 3 + 2, "{svg}");
    // At the top of the panel is the full scale: 100 %. 95 % lies at a twentieth of its height.
    assert!(svg.contains(">100<"), "{svg}");
    assert!(svg.contains(" 11.5L"), "{svg}");
    let (open, closed) = (svg.matches("<path").count(), svg.matches("</path>").count());
    assert_eq!(open, closed, "XML closes what it opens");
}

#[test]
fn ranges_stand_beside_one_another_and_nothing_is_cut_off() {
    let (_dir, path) = sweep();
    let single = read(&path, "goodput_share", Some("delay")).unwrap().svg();
    let whiskers = |svg: &str| svg.matches("h5\" fill=\"none\"").count();
    assert_eq!(whiskers(&single), 0);
    for variant in ["a", "b"] {
        let point = [("vars.background", "5%"), ("vars.delay", "3ms")];
        write(&path, variant, &point, 2, 100.0, true);
    }
    let figure = read(&path, "goodput_share", Some("delay")).unwrap();
    let svg = figure.svg();
    assert_eq!(whiskers(&svg), 2, "{svg}");
    // The first value's place is 14; two lines stand 5 apart around it.
    assert!(svg.contains("M9.0 ") && svg.contains("M14.0 "), "{svg}");
    let width = svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let needed = figure.about().chars().count() as f64 * LETTER_WIDTH;
    assert!(width.parse::<f64>().unwrap() > needed, "{width}, {needed}");
}

#[test]
fn what_cannot_be_drawn_is_refused_with_what_can() {
    let (_dir, path) = sweep();
    let error = |y, x| read(&path, y, x).unwrap_err().to_string();
    let text = error("goodputs", None);
    assert!(text.starts_with("there is no metric \"goodputs\"; there are "), "{text}");
    assert!(text.contains("jain_index") && !text.contains("path_states"), "{text}");
    let text = error("goodput_bps", Some("rtt"));
    let expected = "the records have no swept key \"rtt\"; swept: vars.background, vars.delay";
    assert_eq!(text, expected);
    let other = path.join("other");
    write(&other, "a", &[], 1, 1.0, true);
    let manifest = std::fs::read_dir(&other).unwrap().next().unwrap().unwrap().path();
    let manifest = manifest.join("manifest.json");
    let renamed = std::fs::read_to_string(&manifest).unwrap().replace("A <sweep>", "B");
    std::fs::write(&manifest, renamed).unwrap();
    let text = error("goodput_bps", None);
    assert!(text.contains("\"A <sweep>\" and \"B\"; name the folder of one"), "{text}");
    assert!(read(&other, "goodput_bps", None).is_err(), "nothing was swept");
}

#[test]
fn variant_stands_along_the_panel_where_nothing_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    for (variant, bps) in [("reno", 300.0), ("bbr", 900.0)] {
        for repeat in 1..=2 {
            write(dir.path(), variant, &[], repeat, bps * f64::from(repeat), true);
        }
    }
    let figure = read(dir.path(), "goodput_bps", None).unwrap();
    assert_eq!((figure.x.as_str(), &figure.lines[..]), ("variant", &["all flows".to_owned()][..]));
    let mut medians: Vec<_> = figure.panels[0]
        .labels
        .iter()
        .zip(&figure.panels[0].points[0])
        .map(|(label, point)| (label.as_str(), point.unwrap().median))
        .collect();
    medians.sort_by(|a, b| a.0.cmp(b.0));
    assert_eq!(medians, [("bbr", 1350.0), ("reno", 450.0)]);
    let (_dir, swept) = sweep();
    let figure = read(&swept, "goodput_bps", Some("variant")).unwrap();
    assert_eq!((figure.panels.len(), figure.panels[0].labels.len()), (6, 2));
}

#[test]
fn logarithmic_axis_has_powers_of_ten_and_leaves_zero_out() {
    let dir = tempfile::tempdir().unwrap();
    for (delay, bps) in [("1ms", 0.0), ("2ms", 2e3), ("3ms", 5e6), ("4ms", 9e8)] {
        write(dir.path(), "a", &[("vars.delay", delay)], 1, bps, true);
    }
    let asked =
        FigureQuery { y: "goodput_bps", x: None, by_flow: false, warm_up_s: 0.0, log_y: true };
    let figure = Figure::read(dir.path(), &asked).unwrap();
    let svg = figure.svg();
    assert!(svg.contains("goodput, Mb/s (logarithmic)"), "{svg}");
    for tick in ["0.001", "0.01", "0.1", "1", "10", "100", "1000"] {
        assert!(svg.contains(&format!(">{tick}<")), "{tick} is missing:\n{svg}");
    }
    // Three points and the legend's mark.
    assert_eq!(svg.matches("z\" fill=\"").count(), 4, "{svg}");
    // From 1 kb/s to 1 Gb/s are six decades: 2 kb/s stands at log 2 of one of them.
    let y = 230.0 * (1.0 - 2_f64.log10() / 6.0);
    assert!(svg.contains(&format!(" {y:.1}L")), "{y:.1}:\n{svg}");
    // A table says how much little is.
    let table = figure.table();
    assert!(table.contains("0.002") && table.contains("900"), "{table}");
}
