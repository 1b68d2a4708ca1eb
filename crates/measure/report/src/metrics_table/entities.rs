// SPDX-License-Identifier: GPL-2.0-or-later
//! What a run has metrics of, and these metrics with their units: every number of its summary, so that a new
//! key is exported without being named here.

use crate::{
    Error,
    capacity::{GOODPUT_SHARE, Paths},
};
use record::{
    Manifest, OfferedFiles, Record, RunResults, RunVerdict, Series, Summary, units::Unit, warm_up,
};
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// A value of one metric of one entity of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// `run`, or as in the series: `flow:NAME`, `hop:FLOW/N`, `link:NAME/forward`; `traffic:NAME`.
    pub entity: String,
    pub verdict: RunVerdict,
    pub metric: Metric,
}

impl Row {
    /// Whether it is part of means: its run and flow are in medians, and it is not the time of a transfer that the time limit
    /// cut off, which is only a lower bound.
    pub fn is_counted(&self) -> bool {
        let is_bound = self.verdict == RunVerdict::Cut
            && self.entity.starts_with("flow:")
            && self.metric.name == "seconds";
        self.verdict.in_medians() && !is_bound
    }
}

/// A metric's value.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    pub name: String,
    pub value: f64,
    pub unit: &'static str,
}

/// Numbers that name something instead of measuring it.
const NAMES: [&str; 3] = ["index", "stream", "exit_code"];

/// The metrics of the record in `folder`, without what came in its first `warm_up_s` seconds.
///
/// # Errors
/// Its series or its files cannot be read, which only a warm-up needs.
pub fn rows_of_record(
    folder: &Path,
    results: &RunResults,
    warm_up_s: f64,
) -> Result<Vec<Row>, Error> {
    let RunResults { manifest, summary } = results;
    if warm_up_s <= 0.0 {
        return Ok(rows(manifest, summary));
    }
    let (series, files) = (Record::series(folder)?, Record::files(folder)?);
    Ok(rows_after(manifest, summary, warm_up_s, &series, &files))
}

/// Those that can be had without a warm-up; none of a run whose flows were not sampled.
fn rows_after(
    manifest: &Manifest,
    whole: &Summary,
    warm_up_s: f64,
    series: &Series,
    files: &OfferedFiles,
) -> Vec<Row> {
    let Some(after) = whole.after_warm_up(warm_up_s, series, files) else { return Vec::new() };
    let mut rows = rows(manifest, &after);
    rows.retain(|row| {
        let metric = row.metric.name.as_str();
        match row.entity.split(':').next() {
            Some("flow") => warm_up::keeps_of_flow(metric),
            Some("hop") => warm_up::HOP_METRICS.contains(&metric),
            Some("link") => warm_up::LINK_METRICS.contains(&metric),
            _ => true,
        }
    });
    // Whether something counts is seen from the whole of it.
    let of_run = RunVerdict::of(manifest.valid, &whole.flows);
    for row in &mut rows {
        let own = row.entity.strip_prefix("flow:").or_else(|| {
            let hop = row.entity.strip_prefix("hop:")?;
            Some(hop.rsplit_once('/')?.0)
        });
        let flow = own.and_then(|name| whole.flows.iter().find(|flow| flow.name == name));
        row.verdict = flow.map_or(of_run, |flow| RunVerdict::of(manifest.valid, [flow]));
    }
    rows
}

/// All metrics of a run: its own, then those of flows and their hops, of links, and of traffic.
pub fn rows(manifest: &Manifest, summary: &Summary) -> Vec<Row> {
    let of_run = RunVerdict::of(manifest.valid, &summary.flows);
    let mut rows = Vec::new();
    let mut add = |entity: String, verdict, metrics: Vec<Metric>| {
        rows.extend(metrics.into_iter().map(|metric| Row {
            entity: entity.clone(),
            verdict,
            metric,
        }));
    };

    let mut own = numbers(&summary.metrics);
    let names = summary.compared_flows().map(|flow| flow.name.as_str());
    let capacity = Paths::of(manifest).capacity(names).map(|capacity| capacity.bps);
    if let Some((goodput, capacity)) = summary.metrics.goodput_bps.zip(capacity) {
        own.push(Metric::new(GOODPUT_SHARE, goodput / capacity));
    }
    for state in &summary.metrics.path_states {
        for metric in numbers(state) {
            own.push(Metric::new(&format!("{}_{}", state.name, metric.name), metric.value));
        }
    }
    add("run".to_owned(), of_run, own);

    let of_flows = &summary.metrics.flows;
    for flow in &summary.flows {
        let verdict = RunVerdict::of(manifest.valid, [flow]);
        let mut metrics = numbers(flow);
        let more = of_flows.iter().find(|metrics| metrics.name == flow.name);
        metrics.extend(more.map(numbers).unwrap_or_default());
        add(format!("flow:{}", flow.name), verdict, metrics);
        for hop in &flow.hops {
            let mut metrics = numbers(hop);
            for share in hop.limited.as_ref().map(numbers).unwrap_or_default() {
                metrics.push(Metric::new(&format!("limited_{}", share.name), share.value));
            }
            add(format!("hop:{}/{}", flow.name, hop.index), verdict, metrics);
        }
    }
    for link in &summary.links {
        let mut metrics = numbers(link);
        metrics.extend(link.loss_ratio().map(|ratio| Metric::new("loss_ratio", ratio)));
        add(format!("link:{}/{}", link.name, link.direction), of_run, metrics);
    }
    for traffic in &summary.traffic {
        add(format!("traffic:{}", traffic.name), of_run, numbers(traffic));
    }
    rows
}

impl Metric {
    fn new(name: &str, value: f64) -> Self {
        Self { name: name.to_owned(), value, unit: Unit::of_key(name).name() }
    }
}

/// The numbers among the keys of a part of a summary, in its order.
fn numbers(part: &impl Serialize) -> Vec<Metric> {
    let value = serde_json::to_value(part).expect("plain data");
    let Value::Object(keys) = value else { return Vec::new() };
    let measured = keys.iter().filter(|(key, _)| !NAMES.contains(&key.as_str()));
    measured.filter_map(|(key, value)| Some(Metric::new(key, value.as_f64()?))).collect()
}
