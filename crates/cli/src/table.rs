// SPDX-License-Identifier: GPL-2.0-or-later
//! The tables of results that `lab run`, `sim` and `demo` print: medians over the repeats, with the least
//! and the most of them.

use crate::results::{MANY, RunResult, print_text};
use ::report::format;
use lab::Recorded;
use record::{Metrics, Standing, TrafficSummary, stats::MedianRange};
use serde::Serialize;
use std::{collections::HashMap, hash::Hash};

/// The point of a sweep, as on record.
type Point = Vec<(String, String)>;

/// The runs that differ only in their repeat, and one flow of theirs.
#[derive(Debug, Serialize)]
pub struct Cell {
    /// The way.
    pub way: Option<String>,
    /// The point of the sweep.
    pub point: Point,
    /// The flow.
    pub flow: String,
    /// The client.
    pub client: Option<String>,
    /// Runs that count.
    pub runs: usize,
    /// Runs that do not: invalid, or failed.
    pub left_out: usize,
    /// Of those that count, the ones that the time limit cut off; they take part with what they
    /// moved.
    pub timed_out: usize,
    /// Over the runs that count.
    #[serde(flatten, serialize_with = "range::goodput_bps")]
    pub goodput_bps: Option<MedianRange>,
    /// Over the runs that count.
    #[serde(flatten, serialize_with = "range::seconds")]
    pub seconds: Option<MedianRange>,
    /// The median over that of the baseline way at the same point.
    pub ratio_to_baseline: Option<f64>,
}

/// The runs that differ only in their repeat, and what all their flows did together.
#[derive(Debug, Serialize)]
pub struct Total {
    /// The way.
    pub way: Option<String>,
    /// The point of the sweep.
    pub point: Point,
    /// Flows of a run.
    pub flows: usize,
    /// Runs that count.
    pub runs: usize,
    /// Runs that do not: invalid, or failed.
    pub left_out: usize,
    /// Over the runs that count, of all flows' goodput together.
    #[serde(flatten, serialize_with = "range::goodput_bps")]
    pub goodput_bps: Option<MedianRange>,
    /// Of Jain's index of the flows' goodputs.
    #[serde(flatten, serialize_with = "range::jain_index")]
    pub jain_index: Option<MedianRange>,
    /// Of the used share of the most used link.
    #[serde(flatten, serialize_with = "range::utilisation")]
    pub utilisation: Option<MedianRange>,
    /// The median goodput over that of the baseline way at the same point.
    pub ratio_to_baseline: Option<f64>,
}

/// The runs that differ only in their repeat, and one traffic source of theirs, or all together.
#[derive(Debug, Serialize)]
pub struct TrafficCell {
    /// The way.
    pub way: Option<String>,
    /// The point of the sweep.
    pub point: Point,
    /// The source; null for all together.
    pub source: Option<String>,
    /// How many sources are told of here.
    pub sources: usize,
    /// Runs that count.
    pub runs: usize,
    /// Runs that do not: invalid, or failed.
    pub left_out: usize,
    /// Files whose clients started, over the runs that count.
    #[serde(flatten, serialize_with = "range::files_offered")]
    pub files_offered: Option<MedianRange>,
    /// Those that arrived whole.
    #[serde(flatten, serialize_with = "range::files_completed")]
    pub files_completed: Option<MedianRange>,
    /// What arrived.
    #[serde(flatten, serialize_with = "range::bytes")]
    pub bytes: Option<MedianRange>,
    /// That over the time in which the source could send.
    #[serde(flatten, serialize_with = "range::goodput_bps")]
    pub goodput_bps: Option<MedianRange>,
    /// Of each run's median completion time.
    #[serde(flatten, serialize_with = "range::completion_p50_s")]
    pub completion_p50_s: Option<MedianRange>,
    /// Of each run's 99th percentile of completion times.
    #[serde(flatten, serialize_with = "range::completion_p99_s")]
    pub completion_p99_s: Option<MedianRange>,
}

/// Things of the same key put together, in the order in which the keys come.
fn grouped<T, K: Hash + Eq + Clone>(all: &[T], key: impl Fn(&T) -> K) -> Vec<(K, Vec<&T>)> {
    let (mut groups, mut places) = (Vec::<(K, Vec<&T>)>::new(), HashMap::new());
    for one in all {
        let place = *places.entry(key(one)).or_insert_with(|| {
            groups.push((key(one), Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(one);
    }
    groups
}

/// Medians of the repeats, flow by flow, and ratios to the baseline.
pub fn cells(results: &[RunResult], baseline: Option<&str>) -> Vec<Cell> {
    let groups = grouped(results, |r| (r.way.clone(), r.point.clone(), r.flow.clone()));
    let mut cells: Vec<Cell> = groups
        .into_iter()
        .map(|((way, point, flow), all)| {
            let counted = || all.iter().filter(|r| r.standing.counts());
            Cell {
                way,
                point,
                flow,
                client: all[0].client.clone(),
                runs: counted().count(),
                left_out: all.len() - counted().count(),
                timed_out: counted().filter(|r| r.timed_out).count(),
                goodput_bps: range_of(counted().map(|r| r.goodput_bps)),
                seconds: range_of(counted().map(|r| r.seconds)),
                ratio_to_baseline: None,
            }
        })
        .collect();
    let of_baseline: HashMap<_, _> = cells
        .iter()
        .filter(|cell| cell.way.as_deref() == baseline)
        .filter_map(|cell| {
            Some(((cell.point.clone(), cell.flow.clone()), cell.goodput_bps?.median))
        })
        .collect();
    for cell in cells.iter_mut().filter(|_| baseline.is_some()) {
        let base = of_baseline.get(&(cell.point.clone(), cell.flow.clone()));
        cell.ratio_to_baseline = ratio(cell.goodput_bps, base);
    }
    cells
}

/// What a run's traffic did: source by source, or of more than [`MANY`] together.
fn sources(record: &Recorded) -> Vec<(Option<String>, TrafficSummary)> {
    let apart = record.summary.traffic.len() <= MANY;
    let sources = record.summary.traffic_up_to(MANY).into_iter();
    sources.map(|source| (apart.then(|| source.name.clone()), source)).collect()
}

/// Medians of the repeats of what traffic did.
pub fn traffic(records: &[Recorded]) -> Vec<TrafficCell> {
    let all: Vec<_> = records
        .iter()
        .flat_map(|record| sources(record).into_iter().map(move |source| (record, source)))
        .collect();
    let groups = grouped(&all, |(record, (source, _))| {
        let way = record.manifest.way.as_ref().map(|way| way.name.clone());
        (way, record.manifest.point.clone(), source.clone())
    });
    let cell = |((way, point, source), all): ((_, _, Option<String>), Vec<&(&Recorded, _)>)| {
        let counted: Vec<&TrafficSummary> = all
            .iter()
            .filter(|(record, _)| {
                Standing::of(record.manifest.valid, &record.summary.flows).counts()
            })
            .map(|(_, (_, summary))| summary)
            .collect();
        let range = |of: fn(&TrafficSummary) -> Option<f64>| {
            range_of(counted.iter().filter_map(|summary| of(summary)))
        };
        TrafficCell {
            way,
            point,
            sources: if source.is_some() { 1 } else { all[0].0.summary.traffic.len() },
            source,
            runs: counted.len(),
            left_out: all.len() - counted.len(),
            files_offered: range(|of| of.files_offered.map(|files| files as f64)),
            files_completed: range(|of| of.files_completed.map(|files| files as f64)),
            bytes: range(|of| Some(of.bytes as f64)),
            goodput_bps: range(|of| Some(of.goodput_bps)),
            completion_p50_s: range(|of| of.completion_p50_s),
            completion_p99_s: range(|of| of.completion_p99_s),
        }
    };
    groups.into_iter().map(cell).collect()
}

/// Medians of the repeats of what all flows did together, and ratios to the baseline.
pub fn totals(records: &[Recorded], baseline: Option<&str>) -> Vec<Total> {
    let way = |record: &Recorded| record.manifest.way.as_ref().map(|way| way.name.clone());
    let groups = grouped(records, |record| (way(record), record.manifest.point.clone()));
    let mut totals: Vec<Total> = groups
        .into_iter()
        .map(|((way, point), all)| {
            let counted: Vec<&Metrics> = all
                .iter()
                .filter(|r| Standing::of(r.manifest.valid, &r.summary.flows).counts())
                .map(|record| &record.summary.metrics)
                .collect();
            let range = |of: fn(&Metrics) -> Option<f64>| {
                range_of(counted.iter().filter_map(|metrics| of(metrics)))
            };
            Total {
                way,
                point,
                flows: all[0].summary.flows.len(),
                runs: counted.len(),
                left_out: all.len() - counted.len(),
                goodput_bps: range(|metrics| metrics.goodput_bps),
                jain_index: range(|metrics| metrics.jain_index),
                utilisation: range(|metrics| metrics.utilisation),
                ratio_to_baseline: None,
            }
        })
        .collect();
    let of_baseline: HashMap<_, _> = totals
        .iter()
        .filter(|total| total.way.as_deref() == baseline)
        .filter_map(|total| Some((total.point.clone(), total.goodput_bps?.median)))
        .collect();
    for total in totals.iter_mut().filter(|_| baseline.is_some()) {
        let base = of_baseline.get(&total.point);
        total.ratio_to_baseline = ratio(total.goodput_bps, base);
    }
    totals
}

fn range_of(values: impl Iterator<Item = f64>) -> Option<MedianRange> {
    MedianRange::of(&values.collect::<Vec<_>>())
}

fn ratio(own: Option<MedianRange>, base: Option<&f64>) -> Option<f64> {
    own.zip(base).map(|(own, base)| own.median / base)
}

/// How a range stands in the JSON document: as `median_X`, `least_X` and `most_X`.
#[allow(clippy::ref_option, reason = "serde gives a reference to the field")]
mod range {
    use record::stats::MedianRange;
    use serde::{Serializer, ser::SerializeMap};

    macro_rules! ranges {
        ($($name:ident $median:literal $least:literal $most:literal;)*) => {
            $(pub fn $name<S: Serializer>(
                range: &Option<MedianRange>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(Some(3))?;
                map.serialize_entry($median, &range.map(|range| range.median))?;
                map.serialize_entry($least, &range.map(|range| range.least))?;
                map.serialize_entry($most, &range.map(|range| range.most))?;
                map.end()
            })*
        };
    }

    ranges! {
        goodput_bps "median_goodput_bps" "least_goodput_bps" "most_goodput_bps";
        bytes "median_bytes" "least_bytes" "most_bytes";
        completion_p50_s "median_completion_p50_s" "least_completion_p50_s" "most_completion_p50_s";
        completion_p99_s "median_completion_p99_s" "least_completion_p99_s" "most_completion_p99_s";
        files_completed "median_files_completed" "least_files_completed" "most_files_completed";
        files_offered "median_files_offered" "least_files_offered" "most_files_offered";
        seconds "median_seconds" "least_seconds" "most_seconds";
        jain_index "median_jain_index" "least_jain_index" "most_jain_index";
        utilisation "median_utilisation" "least_utilisation" "most_utilisation";
    }
}

/// Prints what each flow did.
pub fn print_cells(cells: &[Cell]) {
    let several = cells.iter().any(|cell| cell.flow != cells[0].flow);
    let mut table = TextTable::default();
    table.left("way", 14);
    if several {
        table.left("flow", 12);
    }
    table.left("client", 6);
    table.left("point", 34);
    table.right("runs", 4);
    table.right("goodput", 13);
    table.right("seconds", 9);
    table.right("ratio", 8);
    for cell in cells {
        let mut remark = String::new();
        if cell.timed_out > 0 {
            remark += &format!("  {} cut off at the time limit", cell.timed_out);
        }
        let mut row = vec![cell.way.as_deref().unwrap_or("-").to_owned()];
        row.extend(several.then(|| cell.flow.clone()));
        row.extend([
            cell.client.as_deref().unwrap_or("-").to_owned(),
            point_text(&cell.point),
            cell.runs.to_string(),
            spread(cell.goodput_bps, 1e6, 1, " Mb/s"),
            spread(cell.seconds, 1.0, 2, ""),
            number(cell.ratio_to_baseline, 1.0, 2),
        ]);
        table.row(row, remark + &left_out_text(cell.left_out));
    }
    print_text(&table.text());
}

/// Prints what all flows did together.
pub fn print_totals(totals: &[Total]) {
    let mut table = TextTable::default();
    table.left("way", 14);
    table.left("point", 34);
    table.right("runs", 4);
    table.right("flows", 6);
    table.right("goodput", 13);
    table.right("Jain", 8);
    table.right("utilisation", 12);
    table.right("ratio", 8);
    for total in totals {
        let row = vec![
            total.way.as_deref().unwrap_or("-").to_owned(),
            point_text(&total.point),
            total.runs.to_string(),
            total.flows.to_string(),
            spread(total.goodput_bps, 1e6, 1, " Mb/s"),
            spread(total.jain_index, 1.0, 3, ""),
            spread(total.utilisation, 0.01, 1, " %"),
            number(total.ratio_to_baseline, 1.0, 2),
        ];
        table.row(row, left_out_text(total.left_out));
    }
    print_text(&table.text());
}

/// Prints what traffic did.
pub fn print_traffic(cells: &[TrafficCell]) {
    let mut table = TextTable::default();
    table.left("way", 14);
    table.left("point", 34);
    table.left("traffic", 12);
    table.right("runs", 4);
    table.right("files", 7);
    table.right("complete", 9);
    table.right("moved", 12);
    table.right("goodput", 13);
    table.right("median", 10);
    table.right("99 %", 10);
    for cell in cells {
        let together = format!("{} sources", cell.sources);
        let row = vec![
            cell.way.as_deref().unwrap_or("-").to_owned(),
            point_text(&cell.point),
            cell.source.clone().unwrap_or(together),
            cell.runs.to_string(),
            spread(cell.files_offered, 1.0, 0, ""),
            spread(cell.files_completed, 1.0, 0, ""),
            spread(cell.bytes, 1e6, 1, " MB"),
            spread(cell.goodput_bps, 1e6, 1, " Mb/s"),
            spread(cell.completion_p50_s, 1.0, 3, " s"),
            spread(cell.completion_p99_s, 1.0, 3, " s"),
        ];
        table.row(row, left_out_text(cell.left_out));
    }
    print_text(&table.text());
}

/// Columns that are as wide as what stands in them, and no narrower than is usual.
#[derive(Default)]
struct TextTable {
    columns: Vec<Column>,
    /// Each with what is said behind it.
    rows: Vec<(Vec<String>, String)>,
}

struct Column {
    head: &'static str,
    width: usize,
    to_the_left: bool,
}

impl TextTable {
    fn left(&mut self, head: &'static str, width: usize) {
        self.columns.push(Column { head, width, to_the_left: true });
    }

    fn right(&mut self, head: &'static str, width: usize) {
        self.columns.push(Column { head, width, to_the_left: false });
    }

    fn row(&mut self, cells: Vec<String>, remark: String) {
        self.rows.push((cells, remark));
    }

    fn text(mut self) -> String {
        for (n, column) in self.columns.iter_mut().enumerate() {
            if !column.to_the_left {
                format::line_up(self.rows.iter_mut().map(|(cells, _)| &mut cells[n]));
            }
            // Numbers stay two blanks apart.
            let apart = usize::from(!column.to_the_left);
            let widths = self.rows.iter().map(|(cells, _)| cells[n].chars().count() + apart);
            column.width = column.width.max(widths.max().unwrap_or(0));
        }
        let heads: Vec<String> = self.columns.iter().map(|column| column.head.to_owned()).collect();
        let mut text = self.line(&heads, "");
        for (cells, remark) in &self.rows {
            text += &self.line(cells, remark);
        }
        text
    }

    fn line(&self, cells: &[String], remark: &str) -> String {
        let cells = self.columns.iter().zip(cells).map(|(column, cell)| {
            let width = column.width;
            if column.to_the_left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let text = cells.collect::<Vec<_>>().join(" ") + remark;
        text.trim_end().to_owned() + "\n"
    }
}

/// The median with its unit, and the least and the most.
fn spread(range: Option<MedianRange>, scale: f64, digits: usize, unit: &str) -> String {
    let write = |value: f64| number(Some(value), scale, digits);
    let Some(range) = range else { return "-".to_owned() };
    match format::spread(&range, write).split_once(' ') {
        Some((median, range)) => format!("{median}{unit} {range}"),
        None => write(range.median) + unit,
    }
}

fn number(value: Option<f64>, scale: f64, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{:.digits$}", v / scale))
}

/// The client has a column of its own.
fn point_text(point: &Point) -> String {
    let shown = point.iter().filter(|(key, _)| !key.ends_with(".client"));
    let shown =
        shown.map(|(key, value)| format!("{}={value}", key.rsplit('.').next().unwrap_or(key)));
    shown.collect::<Vec<_>>().join(" ")
}

fn left_out_text(left_out: usize) -> String {
    if left_out == 0 {
        return String::new();
    }
    format!("  {left_out} invalid or failed, left out")
}
