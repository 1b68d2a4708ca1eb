// SPDX-License-Identifier: GPL-2.0-or-later
//! What stands where in a figure, and what it refuses.

use super::*;
use crate::svg_reader::Drawing;
use record::{Entity, Metrics, OfferedFiles, Quantity, Series};
use std::path::PathBuf;

mod tables;

fn read(dir: &Path, y: &str, x: Option<&str>) -> Result<Figure, Error> {
    Figure::read(dir, &FigureQuery { y, x, ..FigureQuery::default() })
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
            goodput_bps: Some(bps),
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
        seconds: Some(20.0),
        goodput_bps: Some(bytes as f64 * 8.0 / 20.0),
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
        let asked = FigureQuery { y, by_flow, warm_up_s, ..FigureQuery::default() };
        Figure::read(dir.path(), &asked)
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
    let asked = FigureQuery { by_flow: true, ..FigureQuery::default() };
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
fn repeats_give_means_with_intervals_or_medians_with_ranges() {
    let (_dir, path) = sweep();
    let point = [("vars.background", "5%"), ("vars.delay", "3ms")];
    write(&path, "a", &point, 2, 100.0, true);
    write(&path, "a", &point, 3, 200.0, true);
    write(&path, "a", &point, 4, 9000.0, false);
    write(&path, "c", &point, 1, 9000.0, false);
    let asked = |bars| FigureQuery { x: Some("vars.delay"), bars, ..FigureQuery::default() };
    let figure = Figure::read(&path, &asked(None)).unwrap();
    let point = figure.panels[0].points[0][0].unwrap();
    assert_eq!((point.median, point.least, point.most, point.runs), (200.0, 100.0, 950.0, 3));
    assert!((point.mean - 416.666_667).abs() < 1e-6, "{point:?}");
    // By hand: deviation 464.58 of 950, 100 and 200, over the root of 3, times 4.3027 of the t table.
    let half = point.ci95_half_width.unwrap();
    assert!((half - 1154.1).abs() < 0.1, "{half}");
    assert_eq!(figure.panels[0].points[2], [None; 3]);
    assert_eq!((figure.runs, figure.left_out), (16, 2));
    let table = figure.table();
    assert!(table.contains("2 of them left out"), "{table}");
    let caption = "means of up to 3 with 95 % confidence intervals (Student's t); 11 points are of one run each";
    assert!(table.contains(caption), "{table}");
    let row = |table: &str| {
        let row = table.lines().find(|line| line.starts_with("3ms")).unwrap();
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row(&table)[1..4], ["0.417", "(±1.154)", "0.475"]);

    let table = Figure::read(&path, &asked(Some(Bars::Range))).unwrap().table();
    assert!(table.contains("medians of up to 3 (least–most)"), "{table}");
    // A range only where a median is of several runs.
    assert_eq!(row(&table)[1..4], ["0.200", "(0.100–0.950)", "0.475"]);
    assert_eq!(table.matches('(').count(), 3, "{table}");
    let table = Figure::read(&path, &asked(Some(Bars::None))).unwrap().table();
    assert!(table.contains(", means of up to 3\n"), "{table}");
    assert_eq!(row(&table)[1..3], ["0.417", "0.475"]);
}

#[test]
fn drawing_has_every_point_and_escapes_record_text() {
    let (_dir, path) = sweep();
    let svg = read(&path, "goodput_share", Some("delay")).unwrap().svg();
    assert!(svg.contains("A &lt;sweep&gt;") && !svg.contains("<sweep>"), "{svg}");
    let drawing = Drawing::parse(&svg);
    // At the top of a panel of 230 is the full scale, 100 %: 95 % lies at a twentieth of its height. The values stand
    // from 14 to 276, by logarithms, for they span a factor of 33.
    let place = |ms: f64| 14.0 + 262.0 * (ms / 3.0).log10() / (100.0_f64 / 3.0).log10();
    for (panel, left) in [(0, 0.95), (1, 0.5)] {
        let shares = [1.0, 0.8, 0.5].map(|times| left * times);
        for (line, part) in [(0, 1.0), (1, 0.5)] {
            let at = |(ms, share): (f64, f64)| (place(ms), 230.0 * (1.0 - share * part));
            let expected: Vec<_> = [3.0, 20.0, 100.0].into_iter().zip(shares).map(at).collect();
            drawing.assert_points(panel, line, &expected);
        }
    }
    assert_eq!(drawing.texts("legend"), ["a", "b"]);
    assert!(svg.contains(">100<"), "{svg}");
}

#[test]
fn bars_are_clipped_intervals_at_their_value() {
    let (_dir, path) = sweep();
    let single = read(&path, "goodput_share", Some("delay")).unwrap().svg();
    assert_eq!(Drawing::parse(&single).paths(0, "bar").len(), 0);
    let explicit =
        FigureQuery { x: Some("delay"), bars: Some(Bars::Ci95), ..FigureQuery::default() };
    let text = Figure::read(&path, &explicit).unwrap_err().to_string();
    assert!(text.contains("needs two repeats or more") && text.contains("--repeat"), "{text}");

    // 0.475 and three more around 0.4 for one variant, and two far apart for the other.
    let point = [("vars.background", "5%"), ("vars.delay", "3ms")];
    for (repeat, bps) in [(2, 350.0), (3, 450.0), (4, 325.0)] {
        write(&path, "b", &point, repeat, bps, true);
    }
    write(&path, "a", &point, 2, 100.0, true);
    let figure = read(&path, "goodput_share", Some("delay")).unwrap();
    let drawing = Drawing::parse(&figure.svg());
    let bars = drawing.paths(0, "bar");
    assert_eq!(bars.len(), 2);
    // What is more than a quarter above the largest value, 0.95, is cut off: the scale goes to 1.5, in steps of 0.5.
    let y = |share: f64| 230.0 * (1.0 - share / 1.5);
    // Of 475, 350, 450 and 325 by hand: mean 400, deviation 73.598, 3.1824 of the t table: 117.11.
    let expected = (14.0, y(0.4 - 0.117_11), y(0.4 + 0.117_11));
    let (x, from, to) = upright(&bars[1]);
    assert!((x - expected.0).abs() < 0.06, "{bars:?}");
    assert!((from - expected.1).abs() < 0.06 && (to - expected.2).abs() < 0.06, "{bars:?}");
    assert_eq!(bars[1].matches("h5").count(), 2, "{bars:?}");
    // That of 0.95 and 0.1 is 5.4 wide: it ends at the panel's edges, without caps.
    let (x, from, to) = upright(&bars[0]);
    assert_eq!((x, from, to), (14.0, 230.0, 0.0), "{bars:?}");
    assert!(!bars[0].contains('h'), "{bars:?}");
}

/// Where a bar stands, begins and ends: `Mx yVy`.
fn upright(path: &str) -> (f64, f64, f64) {
    let first = path.split('M').nth(1).unwrap();
    let (x, rest) = first.split_once(' ').unwrap();
    let (from, to) = rest.split_once('V').unwrap();
    (x.parse().unwrap(), from.parse().unwrap(), to.parse().unwrap())
}

#[test]
fn long_captions_are_wrapped_and_nothing_is_cut_off() {
    let (_dir, path) = sweep();
    let mut figure = read(&path, "goodput_share", Some("delay")).unwrap();
    figure.source = Some("a source that goes on ".repeat(20));
    figure.lines[1] = "a long name of a variant ".repeat(8);
    let drawing = Drawing::parse(&figure.svg());
    drawing.assert_texts_inside();
}

#[test]
fn undrawable_figure_error_lists_alternatives() {
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
fn variants_are_on_the_axis_without_a_sweep() {
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
    let asked = FigureQuery { log_y: true, ..FigureQuery::default() };
    let figure = Figure::read(dir.path(), &asked).unwrap();
    let svg = figure.svg();
    assert!(svg.contains("goodput, Mb/s (logarithmic)"), "{svg}");
    for tick in ["0.001", "0.01", "0.1", "1", "10", "100", "1000"] {
        assert!(svg.contains(&format!(">{tick}<")), "{tick} is missing:\n{svg}");
    }
    // From 1 kb/s to 1 Gb/s are six decades of the panel's 300: 2 kb/s is at log 2 of one of them. Zero has no
    // position.
    let y = |bps: f64| 300.0 * (1.0 - (bps / 1e3).log10() / 6.0);
    let place = |nth: f64| 14.0 + 432.0 * nth / 3.0;
    let expected = [(place(1.0), y(2e3)), (place(2.0), y(5e6)), (place(3.0), y(9e8))];
    Drawing::parse(&svg).assert_points(0, 0, &expected);
    // A table says how much little is.
    let table = figure.table();
    assert!(table.contains("kb/s  2.00") && table.contains("900"), "{table}");
}

#[test]
fn logarithmic_x_needs_numbers_above_zero() {
    let dir = tempfile::tempdir().unwrap();
    for (delay, bps) in [("1ms", 1.0), ("2ms", 2.0), ("8ms", 3.0)] {
        write(dir.path(), "a", &[("vars.delay", delay)], 1, bps, true);
    }
    let asked = FigureQuery { log_x: true, ..FigureQuery::default() };
    let svg = Figure::read(dir.path(), &asked).unwrap().svg();
    assert!(svg.contains("delay (logarithmic)"), "{svg}");
    // From 1 to 8 are three doublings, the first of them a third of the way.
    let y = |bps: f64| 300.0 * (1.0 - bps / 3.0);
    let expected = [(14.0, y(1.0)), (14.0 + 432.0 / 3.0, y(2.0)), (446.0, y(3.0))];
    Drawing::parse(&svg).assert_points(0, 0, &expected);
    write(dir.path(), "a", &[("vars.delay", "0ms")], 1, 1.0, true);
    let text = Figure::read(dir.path(), &asked).unwrap_err().to_string();
    assert_eq!(text, "--log-x needs numbers above zero along the panel; delay has \"0ms\"");
    let none = FigureQuery { y: "drops", log_y: true, ..FigureQuery::default() };
    let text = Figure::read(dir.path(), &none).unwrap_err().to_string();
    assert_eq!(text, "a logarithmic axis has no place for drops: no value is above zero");
}

/// Ten repeats of each of two variants.
fn repeated() -> (tempfile::TempDir, [Vec<f64>; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let values = [
        vec![300.0, 350.0, 310.0, 900.0, 320.0, 330.0, 345.0, 305.0, 315.0, 340.0],
        vec![500.0, 520.0, 480.0, 505.0, 515.0, 495.0, 490.0, 510.0, 485.0, 525.0],
    ];
    for (variant, sample) in ["reno", "cubic"].into_iter().zip(&values) {
        for (n, bps) in sample.iter().enumerate() {
            write(dir.path(), variant, &[("vars.delay", "1ms")], n as u32 + 1, *bps, true);
        }
    }
    (dir, values)
}

/// Quartiles by `numpy.percentile` and whiskers by `matplotlib.cbook.boxplot_stats` of the same values.
#[test]
fn box_plot_is_that_of_numpy_and_matplotlib() {
    let (dir, _) = repeated();
    let asked = FigureQuery { form: FigureForm::Box, x: Some("delay"), ..FigureQuery::default() };
    let figure = Figure::read(dir.path(), &asked).unwrap();
    let reno = figure.lines.iter().position(|line| line == "reno").unwrap();
    let drawing = Drawing::parse(&figure.svg());
    // The axis goes from 0 to 1 kb/s, over 300.
    let y = |bps: f64| 300.0 * (1.0 - bps / 1000.0);
    let boxes = [(311.25, 325.0, 343.75, 300.0, 350.0), (491.25, 502.5, 513.75, 480.0, 525.0)];
    for (line, (q1, median, q3, low, high)) in [reno, 1 - reno].into_iter().zip(boxes) {
        let (top, height) = drawing.rect(0, "box", line);
        assert!(
            (top - y(q3)).abs() < 0.06 && (top + height - y(q1)).abs() < 0.11,
            "{top} {height}"
        );
        let middle = drawing.paths(0, "median")[line].clone();
        assert!(middle.contains(&format!(" {:.1}H", y(median))), "{middle}");
        let whisker = drawing.paths(0, "whisker")[line].clone();
        for end in [y(low), y(high)] {
            assert!(whisker.contains(&format!("V{end:.1}M")), "{whisker} {end}");
        }
    }
    assert_eq!(drawing.circles(0, "outlier").len(), 1);
    assert!((drawing.circles(0, "outlier")[0] - y(900.0)).abs() < 0.06);
    let table = figure.table();
    assert!(table.contains("whiskers to the outermost values within 1.5 box lengths"), "{table}");
    assert!(table.contains("0.325 (0.311–0.344)"), "{table}");
}

#[test]
fn cdf_rises_by_one_over_n_at_each_value() {
    let (dir, values) = repeated();
    let asked = FigureQuery { form: FigureForm::Cdf, ..FigureQuery::default() };
    let figure = Figure::read(dir.path(), &asked).unwrap();
    assert_eq!((figure.x.as_str(), figure.panels.len()), ("", 1));
    assert_eq!(figure.panels[0].fixed, "delay 1ms");
    let reno = figure.lines.iter().position(|line| line == "reno").unwrap();
    let drawing = Drawing::parse(&figure.svg());
    for (line, sample) in [reno, 1 - reno].into_iter().zip(&values) {
        let mut sorted = sample.clone();
        sorted.sort_by(f64::total_cmp);
        let mut expected = "M0.0 300.0".to_owned();
        for (n, bps) in sorted.iter().enumerate() {
            let share = f64::from(n as u32 + 1) / 10.0;
            expected += &format!("H{:.1}V{:.1}", 460.0 * bps / 1000.0, 300.0 * (1.0 - share));
        }
        assert_eq!(drawing.paths(0, "line")[line], expected + "H460.0");
    }
    let table = figure.table();
    let row = |name: &str| {
        let row = table.lines().find(|line| line.starts_with(name)).unwrap();
        row.split_whitespace().nth(1 + reno).unwrap().to_owned()
    };
    assert_eq!((row("median"), row("values")), ("0.325".to_owned(), "10".to_owned()), "{table}");
    assert!(table.contains(", distribution of up to 10 repeats"), "{table}");
}

#[test]
fn distribution_by_flow_has_each_flow_of_each_run() {
    let dir = tempfile::tempdir().unwrap();
    for (variant, bytes) in [("a", 1000), ("b", 2000)] {
        write_two_flows(dir.path(), variant, "1ms", bytes);
    }
    let asked = FigureQuery { form: FigureForm::Cdf, by_flow: true, ..FigureQuery::default() };
    let figure = Figure::read(dir.path(), &asked).unwrap();
    assert_eq!(figure.lines, ["a", "b"]);
    assert_eq!(figure.panels[0].values, [[vec![400.0, 400.0]], [vec![800.0, 800.0]]]);
    assert!(figure.svg().contains("share of flows"), "{}", figure.svg());
    // One box for each flow of each variant, in the scenario's order.
    let asked = FigureQuery { form: FigureForm::Box, x: Some("flow"), ..asked };
    let figure = Figure::read(dir.path(), &asked).unwrap();
    assert_eq!(
        (&figure.lines[..], &figure.panels[0].labels[..]),
        (&["a".to_owned(), "b".to_owned()][..], &["even".to_owned(), "late".to_owned()][..],)
    );
}

/// A record of a flow at 100 Mb/s over 40 ms with that loss, whose payload is 1448 of 1514 bytes.
fn write_lossy(dir: &Path, cc: &str, key: &str, value: &str, loss: f64) {
    let id = format!("{cc}{value}").replace(|c: char| !c.is_alphanumeric(), "-");
    let mut scenario = crate::testing::one_link(&["file"]);
    scenario["tcp"] = serde_json::json!({ "header_bytes": 52 });
    for direction in ["forward", "backward"] {
        let link = &mut scenario["links"][0][direction];
        link["rate_bps"] = 100_000_000.into();
        if loss > 0.0 {
            link["loss"] = serde_json::json!({ "kind": "uniform", "probability": loss });
        }
    }
    let manifest = serde_json::json!({
        "schema": 1, "id": id, "title": "Loss", "repeat": 1, "seed": 1, "method": "sim",
        "started": "2026-01-01T00:00:00Z", "valid": true, "baseline": "cubic",
        "variant": {"name": cc, "label": cc}, "point": [(key, value)], "scenario": scenario,
    });
    let hop = record::HopSummary {
        from: "a".into(),
        to: "b".into(),
        congestion_control: Some(cc.to_owned()),
        bottleneck_bps: Some(100_000_000),
        base_rtt_us: Some(40_000.0),
        segment_bytes: Some(1514),
        ..record::HopSummary::default()
    };
    let flow = FlowSummary {
        name: "file".into(),
        goodput_bps: Some(5e6),
        hops: vec![hop],
        ..FlowSummary::default()
    };
    let metrics = Metrics {
        goodput_bps: Some(5e6),
        flows: vec![record::metrics::FlowMetrics {
            name: "file".into(),
            cwnd_mean_segments: Some(20.0),
            ..record::metrics::FlowMetrics::default()
        }],
        ..Metrics::default()
    };
    let summary = Summary { flows: vec![flow], metrics, ..Summary::default() };
    let manifest = serde_json::from_value(manifest).unwrap();
    Record { manifest, series: Series::default(), files: OfferedFiles::default(), summary }
        .write(&dir.join(id))
        .unwrap();
}

fn with_overlay<'a>(overlay: &[&str]) -> FigureQuery<'a> {
    let overlay = overlay.iter().map(|name| (*name).to_owned()).collect();
    FigureQuery { log_y: true, overlay, ..FigureQuery::default() }
}

/// Mathis et al.: 1448 bytes x 8 x sqrt(3/2) / (40 ms x sqrt(p)); Kelly: 0.0749 / p segments.
#[test]
fn response_functions_are_those_of_mathis_and_kelly() {
    let dir = tempfile::tempdir().unwrap();
    for cc in ["cubic", "reno", "lh_scalable", "bbr"] {
        for (loss, p) in [("0.01%", 1e-4), ("0.1%", 1e-3), ("1%", 1e-2)] {
            write_lossy(dir.path(), cc, "vars.loss", loss, p);
        }
    }
    let figure = Figure::read(dir.path(), &with_overlay(&["reno", "lh_scalable"])).unwrap();
    let panel = &figure.panels[0];
    let mathis = |p: f64| 1448.0 * 8.0 * 1.5_f64.sqrt() / (0.04 * p.sqrt());
    let kelly = |p: f64| 1448.0 * 8.0 * 0.074_89 / p / 0.04;
    let near = |found: Option<f64>, expected: f64| (found.unwrap() / expected - 1.0).abs() < 1e-3;
    for (at, p) in [1e-4, 1e-3, 1e-2].into_iter().enumerate() {
        assert!(near(panel.overlays[0].values[at], mathis(p)), "{p}: {:?}", panel.overlays);
    }
    // At 1e-4 the function is above the link: 100 Mb/s less headers.
    assert!(near(panel.overlays[1].values[0], 100e6 * 1448.0 / 1514.0), "{:?}", panel.overlays);
    // In between by logarithms: half-way from 0.01 % to 0.1 % is 0.0316 %.
    let (_, middle) = panel.overlays[0].curve[12];
    assert!(near(Some(middle), mathis(10_f64.powf(-3.5))), "{middle}");
    let (_, value) = panel.overlays[1].curve[15];
    assert!(near(Some(value), kelly(10_f64.powf(-4.0 + 15.0 / 24.0))), "{value}");
    let drawing = Drawing::parse(&figure.svg());
    assert_eq!(drawing.paths(0, "line").len(), figure.lines.len() + 2);
    let legend = drawing.texts("legend");
    assert!(legend.contains(&"reno, response function".to_owned()), "{legend:?}");
    let table = figure.table();
    assert!(table.contains("; thin lines: response functions"), "{table}");
    assert!(table.contains("3.55"), "mathis(0.01) is 3.547 Mb/s: {table}");

    // Of the lines: BBR has none, and CUBIC's is Reno's here, which has another name.
    let figure = Figure::read(dir.path(), &with_overlay(&["response"])).unwrap();
    let mut names: Vec<&str> =
        figure.panels[0].overlays.iter().map(|overlay| overlay.algorithm.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["cubic", "reno", "scalable"]);

    let window = FigureQuery { y: "cwnd_mean_segments", by_flow: true, ..with_overlay(&["reno"]) };
    let figure = Figure::read(dir.path(), &window).unwrap();
    assert!(near(figure.panels[0].overlays[0].values[2], (1.5_f64 / 1e-2).sqrt()));
}

#[test]
fn overlay_without_what_it_is_of_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (cc, value) in [("cubic", "1"), ("cubic", "2"), ("bbr", "1"), ("bbr", "2")] {
        write_lossy(dir.path(), cc, "vars.queue", value, 1e-3);
    }
    let refused =
        |query: &FigureQuery<'_>| Figure::read(dir.path(), query).unwrap_err().to_string();
    let text = refused(&with_overlay(&["response"]));
    assert!(text.contains("are of loss and round trip, and queue moves neither"), "{text}");
    let text = refused(&with_overlay(&["fast"]));
    assert!(text.contains("no response function of \"fast\"") && text.contains("htcp"), "{text}");
    let text = refused(&FigureQuery { y: "jain_index", ..with_overlay(&["reno"]) });
    assert!(text.contains("--overlay goes with lines of goodput_bps"), "{text}");
    let text = refused(&FigureQuery { form: FigureForm::Box, ..with_overlay(&["reno"]) });
    assert!(text.contains("--overlay goes with lines"), "{text}");

    let lossless = tempfile::tempdir().unwrap();
    write_lossy(lossless.path(), "cubic", "vars.queue", "1", 0.0);
    write_lossy(lossless.path(), "cubic", "vars.queue", "2", 0.0);
    let text = Figure::read(lossless.path(), &with_overlay(&["reno"])).unwrap_err().to_string();
    assert!(text.contains("no link of these paths has any"), "{text}");
    let without = tempfile::tempdir().unwrap();
    write_lossy(without.path(), "bbr", "vars.loss", "1%", 1e-2);
    write_lossy(without.path(), "bbr", "vars.loss", "2%", 2e-2);
    let text = Figure::read(without.path(), &with_overlay(&["response"])).unwrap_err().to_string();
    assert!(text.contains("none of the lines' congestion controls has"), "{text}");
}
