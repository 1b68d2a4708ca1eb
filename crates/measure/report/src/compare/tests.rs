// SPDX-License-Identifier: GPL-2.0-or-later
//! What is compared with what, what it is called, and what is refused.

use super::{difference::decide, *};
use crate::{Error, compare::difference::Sample};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use record::{
    Entity, FlowSummary, HopSummary, Metrics, OfferedFiles, Quantity, Record, Series, Summary,
};
use std::path::{Path, PathBuf};

/// A record to write: a flow of 1 s with a window of 10 segments.
struct Written<'a> {
    variant: &'a str,
    method: &'a str,
    control: &'a str,
    sources: &'a str,
    point: &'a [(&'a str, &'a str)],
    valid: bool,
    /// Repeats below this goodput are cut off.
    cut_below_bps: f64,
}

const USUAL: Written<'_> = Written {
    variant: "v",
    method: "sim",
    control: "cubic",
    sources: "0123456789",
    point: &[],
    valid: true,
    cut_below_bps: 0.0,
};

impl Written<'_> {
    /// Writes a repeat for each goodput.
    fn repeats(&self, dir: &Path, goodputs_bps: &[f64]) -> PathBuf {
        for (n, goodput_bps) in goodputs_bps.iter().enumerate() {
            let point: Vec<&str> = self.point.iter().map(|(_, value)| *value).collect();
            let id = format!("{}-{}-{}-r{n}", self.variant, self.control, point.join("-"));
            self.write(&dir.join(self.method).join(id), n as u32 + 1, *goodput_bps);
        }
        dir.to_owned()
    }

    fn write(&self, folder: &Path, repeat: u32, goodput_bps: f64) {
        let manifest = serde_json::json!({
            "schema": 1, "id": folder.file_name().unwrap().to_str(), "title": "T <b>", "repeat": repeat, "seed": 1,
            "method": self.method, "started": "2026-01-01T00:00:00Z", "valid": self.valid, "point": self.point,
            "variant": {"name": self.variant, "label": self.variant},
            "versions": {"longhaul": "0.1.0"}, "sources": self.sources,
            "scenario": crate::testing::one_link(&["file"]),
        });
        let hop =
            HopSummary { congestion_control: Some(self.control.into()), ..HopSummary::default() };
        let bytes = (goodput_bps / 8.0) as u64;
        let is_cut = goodput_bps < self.cut_below_bps;
        let flow = FlowSummary {
            name: "file".into(),
            bytes,
            bytes_expected: Some(if is_cut { bytes + 1 } else { bytes }),
            timed_out: is_cut,
            end_s: 1.0,
            seconds: Some(8e3 / goodput_bps),
            goodput_bps: Some(goodput_bps),
            outcome: "complete".into(),
            hops: vec![hop],
            ..FlowSummary::default()
        };
        let mut series = Series::default();
        for tenth in 0..=10 {
            let time_s = f64::from(tenth) / 10.0;
            let hop = Entity::Hop { flow: "file".into(), index: 0 };
            series.push(&hop, Quantity::CwndSegments, time_s, 10.0);
            let bytes = goodput_bps * time_s / 8.0;
            series.push(&Entity::Flow("file".into()), Quantity::ReceivedBytes, time_s, bytes);
        }
        let completion_mean_s = (!is_cut).then_some(8e3 / goodput_bps);
        let metrics =
            Metrics { goodput_bps: Some(goodput_bps), completion_mean_s, ..Metrics::default() };
        let summary = Summary { flows: vec![flow], metrics, ..Summary::default() };
        let manifest = serde_json::from_value(manifest).unwrap();
        let files = OfferedFiles::default();
        Record { manifest, series, files, summary }.write(folder).unwrap();
    }
}

fn query(by: Option<ComparedBy>) -> ComparisonQuery {
    ComparisonQuery { by, metrics: vec!["goodput_bps".into()], warm_up_s: 0.0 }
}

fn compared(dirs: &[PathBuf], by: Option<ComparedBy>) -> Result<Comparison, Error> {
    Comparison::read(dirs, &query(by))
}

fn refused(dirs: &[PathBuf], by: Option<ComparedBy>) -> String {
    compared(dirs, by).unwrap_err().to_string()
}

/// Of 200 comparisons of equal things at most 7 % are called different: of all of them, since the probabilities are
/// corrected, and without any correction.
#[test]
fn equal_things_are_called_chance() {
    let seed = std::env::var("LONGHAUL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    eprintln!("LONGHAUL_SEED={seed}");
    let mut random = Pcg64::seed_from_u64(seed);
    let mut sample = |side: &str| {
        // The sum of uniform numbers is nearly normal.
        let mut value = || (0..12).map(|_| f64::from(random.next_u32()) / 4.3e9).sum::<f64>();
        Sample { side: side.into(), values: (0..8).map(|_| 9e8 + 1e7 * value()).collect() }
    };
    let of = |a: &Sample, b: &Sample| Difference::new("run", "goodput_bps", "bit/s", a, b).unwrap();
    let mut all: Vec<Difference> = (0..200).map(|_| of(&sample("a"), &sample("b"))).collect();
    let alone = all.iter_mut().filter(|one| {
        let mut one = (*one).clone();
        decide(std::iter::once(&mut one));
        one.verdict == Verdict::Different
    });
    let alone = alone.count();
    assert!((1..=14).contains(&alone), "{alone} of 200, each alone");
    assert_eq!(decide(all.iter_mut()), 200);
    let together = all.iter().filter(|one| one.verdict == Verdict::Different).count();
    assert!(together <= alone.min(2), "{together} of 200, corrected");
    // And a real difference stands out among them.
    let mut other = sample("c");
    other.values.iter_mut().for_each(|value| *value += 2e8);
    all.push(of(&sample("a"), &other));
    decide(all.iter_mut());
    assert_eq!(all[200].verdict, Verdict::Different, "{:?}", all[200]);
}

#[test]
fn values_without_variance_are_not_tested() {
    let sample = |values: &[f64]| Sample { side: "s".into(), values: values.to_vec() };
    let of = |a: &[f64], b: &[f64]| {
        let mut one = Difference::new("run", "timeouts", "1", &sample(a), &sample(b)).unwrap();
        decide(std::iter::once(&mut one));
        (one.verdict, one.welch.is_some())
    };
    assert_eq!(of(&[0.1, 0.1, 0.1], &[0.1, 0.1, 0.1]), (Verdict::Same, false));
    assert_eq!(of(&[3.0, 3.0], &[4.0, 4.0]), (Verdict::Deterministic, false));
    assert_eq!(of(&[3.0], &[4.0, 5.0]), (Verdict::TooFew, false));
    assert_eq!(of(&[3.0; 5], &[90.0, 91.0, 92.0, 90.0]), (Verdict::Different, true));
    assert!(Difference::new("run", "timeouts", "1", &sample(&[]), &sample(&[1.0])).is_none());
    let zero = Difference::new("run", "timeouts", "1", &sample(&[0.0; 2]), &sample(&[1.0; 2]));
    assert_eq!(zero.unwrap().relative_text(), "", "nothing is a percentage of zero");
}

#[test]
fn each_way_of_comparing_has_its_sides() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, run: Written<'_>, bps: f64| {
        run.repeats(&root.path().join(name), &[bps, 1.1 * bps, 1.2 * bps])
    };
    let a = write("a", USUAL, 1e6);
    let b = write("b", Written { method: "emu", ..USUAL }, 2e6);
    let c = write("c", Written { control: "lh_cubic", variant: "w", ..USUAL }, 3e6);
    let d = write("d", Written { sources: "9876543210", ..USUAL }, 4e6);
    let sides = |dirs: &[&PathBuf], by| {
        compared(&dirs.iter().map(|dir| (*dir).clone()).collect::<Vec<_>>(), by).unwrap().sides
    };
    assert_eq!(sides(&[&a, &d], None), ["a", "d"]);
    assert_eq!(sides(&[&a, &b], Some(ComparedBy::Method)), ["sim", "emu"]);
    assert_eq!(sides(&[&a, &c], Some(ComparedBy::Variant)), ["v", "w"]);
    assert_eq!(sides(&[&a, &c], Some(ComparedBy::CongestionControl)), ["cubic", "lh_cubic"]);
    let builds = sides(&[&a, &d], Some(ComparedBy::Version));
    assert_eq!(builds, ["0.1.0 (01234567)", "0.1.0 (98765432)"]);
    // Without a choice, what differs first below one directory.
    let both = compared(&[root.path().to_owned()], None).unwrap();
    assert_eq!((both.by, both.uncommon), (ComparedBy::Variant, 1), "emulation has one variant");
}

#[test]
fn points_are_matched_by_quantity_and_invalid_runs_left_out() {
    let root = tempfile::tempdir().unwrap();
    let at = |rtt: &'static [(&'static str, &'static str)]| Written { point: rtt, ..USUAL };
    let (a, b) = (root.path().join("a"), root.path().join("b"));
    at(&[("vars.rtt", "20ms")]).repeats(&a, &[1e6, 2e6]);
    at(&[("vars.rtt", "40ms")]).repeats(&a, &[3e6, 4e6]);
    at(&[("vars.rtt", "0.02s")]).repeats(&b, &[1e6, 2e6]);
    Written { valid: false, variant: "bad", ..at(&[("vars.rtt", "20ms")]) }.repeats(&b, &[9e9]);
    let found = compared(&[a, b], None).unwrap();
    assert_eq!((found.cells.len(), found.uncommon, found.left_out), (1, 1, 1));
    let [one] = &found.cells[0].differences[..] else { panic!("{found:?}") };
    assert_eq!((one.a.mean, one.b.mean, one.verdict), (1.5e6, 1.5e6, Verdict::Chance));
    assert_eq!(found.common_parameters(), "scenario=T <b>, variant=v, method=sim, rtt=20ms");
}

#[test]
fn what_has_nothing_in_common_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, run: Written<'_>, runs: usize| {
        run.repeats(&root.path().join(name), &[1e6, 2e6, 3e6][..runs])
    };
    let a = write("a", Written { point: &[("vars.queue", "100p")], ..USUAL }, 3);
    let bytes = write("bytes", Written { point: &[("vars.queue", "150KB")], ..USUAL }, 3);
    let said = refused(&[a.clone(), bytes], None);
    assert_eq!(
        said,
        "the values of \"queue\" have different units: packets for a (100p) and bytes for bytes (150KB). Run both with the \
         same unit"
    );
    let other = write("other", Written { point: &[("vars.queue", "200p")], ..USUAL }, 3);
    let said = refused(&[a.clone(), other], None);
    assert!(said.contains("\"queue\" is 100p for a and 200p for other. Run the same"), "{said}");
    let emu = write("emu", Written { method: "emu", point: &[("vars.queue", "100p")], ..USUAL }, 3);
    let said = refused(&[a.clone(), emu.clone()], None);
    assert!(said.contains("\"method\" is sim for a and emu for emu"), "{said}");
    assert!(said.ends_with("or compare --by method"), "{said}");
    let once = write("once", Written { point: &[("vars.queue", "100p")], ..USUAL }, 1);
    let said = refused(&[a.clone(), once], None);
    assert!(said.starts_with("once has one valid run, v-cubic-100p-r0, at scenario="), "{said}");
    assert!(said.contains("--repeat 5"), "{said}");
    let said = refused(&[a.clone(), a.clone()], None);
    assert!(said.contains("is named twice"), "{said}");
    let said = refused(&[a.clone(), a.join("sim/v-cubic-100p-r0")], None);
    assert!(said.contains("none below another"), "{said}");
    assert!(refused(std::slice::from_ref(&a), None).contains("Name another directory"));
    let said = refused(&[a.clone(), emu], Some(ComparedBy::Variant));
    assert!(said.contains("all runs are of one variant, v:"), "{said}");
    let bad = write("bad", Written { valid: false, ..USUAL }, 2);
    assert!(
        refused(std::slice::from_ref(&bad), None)
            .contains("none of the 2 records is of a valid run")
    );
    assert!(refused(&[a, bad], None).contains("only a has valid runs"));
    let empty = tempfile::tempdir().unwrap();
    let said = refused(&[empty.path().to_owned()], None);
    assert!(said.contains("it is not a directory that `longhaul lab run --out` wrote"), "{said}");
}

/// The congestion control may come from a swept key, but another key that happens to go along with it stays a parameter.
#[test]
fn parameters_other_than_the_control_are_never_put_together() {
    let root = tempfile::tempdir().unwrap();
    let write = |control: &'static str, point: &'static [(&'static str, &'static str)]| {
        let run = Written { control, point, ..USUAL };
        run.repeats(root.path(), &[1e6, 2e6]);
    };
    write("cubic", &[("vars.sender", "cubic"), ("vars.rtt", "20ms")]);
    write("reno", &[("vars.sender", "reno"), ("vars.rtt", "20ms")]);
    let dirs = [root.path().to_owned()];
    let found = compared(&dirs, Some(ComparedBy::CongestionControl)).unwrap();
    assert_eq!(found.cells.len(), 1, "{found:?}");
    assert!(found.common_parameters().ends_with("rtt=20ms"), "{}", found.common_parameters());
    let apart = tempfile::tempdir().unwrap();
    for (control, rtt) in [("cubic", "20ms"), ("reno", "40ms")] {
        Written { control, point: &[("vars.rtt", rtt)], ..USUAL }
            .repeats(apart.path(), &[1e6, 2e6]);
    }
    let said = refused(&[apart.path().to_owned()], Some(ComparedBy::CongestionControl));
    assert!(said.contains("\"rtt\" is 20ms for cubic and 40ms for reno"), "{said}");
}

#[test]
fn page_and_figures_are_written_with_one_colour_a_side() {
    let root = tempfile::tempdir().unwrap();
    let a = USUAL.repeats(&root.path().join("a"), &[1e6, 1.2e6, 1.1e6]);
    let reno = Written { control: "reno", ..USUAL };
    let b = reno.repeats(&root.path().join("b"), &[5e6, 5.2e6, 5.1e6]);
    let out = root.path().join("new/out");
    let written = write(&[a, b], &ComparisonQuery::default(), &out).unwrap();
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let page = read("compare.html");
    assert!(page.contains("T &lt;b&gt;") && !page.contains("T <b>"), "texts are escaped");
    assert!(page.contains("different") && !page.contains("<script"));
    let figures = ["throughput", "window", "completion", "repeats"];
    assert_eq!(written.files, 2 + 4 * figures.len(), "no round trips, queues or second flow");
    for name in figures {
        let svg = read(&format!("{name}.svg"));
        // Those of cubic and reno, as in every other figure.
        assert!(svg.contains("#332288") && svg.contains("#CC6677"), "{name}");
        assert!(page.contains(svg.trim()), "{name} is on the page");
        let png = std::fs::read(out.join(format!("{name}.png"))).unwrap();
        assert!(png.starts_with(b"\x89PNG"), "{name}");
        let parquet = std::fs::read(out.join(format!("{name}.parquet"))).unwrap();
        assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"), "{name}");
    }
    let rate = read("throughput.csv");
    let mut rows = rate.lines();
    assert_eq!(rows.next(), Some("point,side,time_s,mean,minimum,maximum"));
    let row: Vec<&str> = rows.next().unwrap().rsplit(',').collect();
    let row: Vec<f64> = row[..3].iter().map(|text| text.parse().unwrap()).collect();
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-6;
    assert!(near(row[0], 1.2e6) && near(row[1], 1e6) && near(row[2], 1.1e6), "{row:?}");
    let completion = read("completion.csv");
    assert_eq!(completion.lines().count(), 1 + 6, "{completion}");
    assert!(completion.lines().any(|line| line.ends_with(",b,0.0016,1")), "{completion}");
    let repeats = read("repeats.csv");
    assert!(repeats.lines().any(|line| line.ends_with(",a,run,goodput_bps,1200000")), "{repeats}");
    assert!(read("comparison.csv").contains(",different"), "{}", read("comparison.csv"));
    // Again, over its own files.
    assert!(
        write(&[root.path().join("a"), root.path().join("b")], &ComparisonQuery::default(), &out)
            .is_ok()
    );
}

/// A prediction has no variance, so the other side's decides alone.
#[test]
fn predictions_are_compared_with_measurements() {
    let root = tempfile::tempdir().unwrap();
    let record = |method, goodputs: &[f64]| {
        Written { method, ..USUAL }.repeats(&root.path().join(method), goodputs)
    };
    let (model, near) = (record("model", &[9.5e7; 3]), record("sim", &[9.4e7, 9.5e7, 9.6e7]));
    let comparison = compared(&[model.clone(), near], Some(ComparedBy::Method)).unwrap();
    let one = &comparison.cells[0].differences[0];
    assert_eq!((&*one.a.side, &*one.b.side, one.verdict), ("model", "sim", Verdict::Chance));
    assert_eq!(one.relative_text(), "+0.0 % (-2.6 to +2.6)");
    let far = record("emu", &[8.4e7, 8.5e7, 8.6e7]);
    let comparison = compared(&[model, far], Some(ComparedBy::Method)).unwrap();
    let one = &comparison.cells[0].differences[0];
    // One sample against a constant: t = -10 / (1 / sqrt(3)) with two degrees of freedom.
    assert_eq!(one.verdict, Verdict::Different);
    let t = one.welch.as_ref().unwrap();
    assert!((t.statistic + 10.0 * 3f64.sqrt()).abs() < 1e-9, "{t:?}");
    assert!((t.p - 0.003_316_7).abs() < 1e-6, "{t:?}");
}

#[test]
fn differences_that_round_to_zero_have_no_minus() {
    let of = |a: f64, b: f64| {
        let sample = |value| Sample { side: "s".into(), values: vec![value] };
        Difference::new("run", "goodput_bps", "bit/s", &sample(a), &sample(b)).unwrap()
    };
    assert_eq!(of(1e9, 1e9 - 1e5).relative_text(), "+0.0 %");
    assert_eq!(of(1e9, 1e9 - 1e6).relative_text(), "-0.1 %");
}

#[test]
fn warm_up_is_left_out_of_what_is_compared() {
    let root = tempfile::tempdir().unwrap();
    let dirs = ["a", "b"].map(|name| USUAL.repeats(&root.path().join(name), &[9e7, 9.1e7]));
    let query = |warm_up_s| ComparisonQuery { warm_up_s, ..query(None) };
    let one = |warm_up_s| {
        let mut comparison = Comparison::read(&dirs, &query(warm_up_s)).unwrap();
        comparison.cells.remove(0).differences.remove(0)
    };
    // The series goes up evenly, so the second half has the same goodput as the whole.
    assert!((one(0.5).a.mean / one(0.0).a.mean - 1.0).abs() < 1e-6, "{:?}", one(0.5));
    let refused = Comparison::read(&dirs, &query(5.0)).unwrap_err().to_string();
    assert!(refused.contains("--warm-up 5s leaves nothing"), "{refused}");
}

/// The mean over those that ended in time would make the slower side look quick (as a benchmark that took the time limit for
/// a measurement: tsz's pull request 16836).
#[test]
fn completion_of_flows_that_were_cut_off_is_not_compared() {
    let root = tempfile::tempdir().unwrap();
    let quick = USUAL.repeats(&root.path().join("quick"), &[8e6, 8.1e6, 8.2e6, 8.3e6]);
    let slow = Written { cut_below_bps: 7e6, ..USUAL };
    let slow = slow.repeats(&root.path().join("slow"), &[1e6, 1.1e6, 8.2e6, 8.3e6]);
    let metrics = vec!["goodput_bps".into(), "completion_mean_s".into()];
    let query = ComparisonQuery { metrics, ..query(None) };
    let found = Comparison::read(&[quick, slow], &query).unwrap();
    let [goodput, completion] = &found.cells[0].differences[..] else { panic!("{found:?}") };
    assert_eq!((goodput.verdict, found.tests), (Verdict::Chance, 1), "of one metric");
    assert_eq!((completion.verdict, &completion.welch), (Verdict::CutOff, &None));
    let texts: Vec<_> = found.cut_off_texts().collect();
    assert!(
        texts.len() == 1 && texts[0].starts_with("2 of 4 flows of slow were cut off"),
        "{texts:?}"
    );
}
