// SPDX-License-Identifier: GPL-2.0-or-later
//! Predictions as a run's record.
//!
//! It has the flows, with their hops and what is known of them, and the metrics that follow from bytes and times.
//! There are no links, no series and no metrics of either: nothing was sent. A flow without a prediction has neither
//! goodput nor time, and says why in its outcome.

use crate::{
    flow::Transfer,
    prediction::{self, FlowPrediction},
};
use record::{
    FlowSummary, HopSummary, Manifest, Metrics, OfferedFiles, PredictedFlow, Record, Series,
    Summary, metrics::FlowMetrics,
};
use scenario::{Flow, Run};

/// The record of a run by closed forms.
pub fn record(run: &Run, manifest: Manifest) -> Record {
    Record {
        manifest,
        series: Series::default(),
        files: OfferedFiles::default(),
        summary: summary(run),
    }
}

/// What the closed forms predict of a run, as the summary of its record.
pub fn summary(run: &Run) -> Summary {
    let predictions = prediction::predict(run);
    let results = run.flows.iter().zip(&predictions).filter(|(flow, _)| !flow.prepares);
    let flows: Vec<FlowSummary> =
        results.map(|(flow, prediction)| flow_summary(run, flow, prediction)).collect();
    let all_known = flows.iter().all(|flow| flow.goodput_bps.is_some());
    let metrics = if all_known {
        Metrics::compute(&flows, &[], &Series::default())
    } else {
        // The rest of the flows is not the run.
        let named =
            |flow: &FlowSummary| FlowMetrics { name: flow.name.clone(), ..FlowMetrics::default() };
        Metrics { flows: flows.iter().map(named).collect(), ..Metrics::default() }
    };
    Summary { flows, metrics, ..Summary::default() }
}

fn flow_summary(run: &Run, flow: &Flow, prediction: &FlowPrediction) -> FlowSummary {
    let start_s = prediction.start_s.unwrap_or(flow.start.as_secs_f64());
    let summary = FlowSummary {
        name: flow.name.clone(),
        reverse: flow.reverse,
        bytes_expected: flow.bytes.map(units::Bytes::get),
        start_s,
        end_s: start_s,
        hops: hops(run, flow),
        ..FlowSummary::default()
    };
    match &prediction.transfer {
        Ok(transfer) => predicted(run, flow, summary, transfer),
        Err(why) => FlowSummary { outcome: format!("no prediction: {why}"), ..summary },
    }
}

fn predicted(run: &Run, flow: &Flow, summary: FlowSummary, transfer: &Transfer) -> FlowSummary {
    let (bytes, seconds) = transfer.mean();
    // Where random losses decide whether a file is cut off, it is as most are.
    let is_whole = flow.bytes.is_some_and(|all| transfer.whole_share(all.get() as f64) > 0.5);
    let (bytes, seconds) = match flow.bytes {
        Some(all) if is_whole => (all.get(), all.get() as f64 * 8.0 / transfer.mean_bps()),
        _ => (bytes.round() as u64, seconds),
    };
    let interval = transfer.interval_bps();
    FlowSummary {
        bytes,
        end_s: summary.start_s + seconds,
        seconds: Some(seconds),
        goodput_bps: Some(record::goodput_bps(bytes, seconds)),
        prediction: Some(PredictedFlow {
            source: transfer.source.clone(),
            low_bps: interval.map(|(low, _)| low),
            high_bps: interval.map(|(_, high)| high),
        }),
        timed_out: flow.bytes.is_some() && !is_whole,
        outcome: match (flow.bytes, run.duration) {
            (Some(_), _) if is_whole => "complete".to_owned(),
            (Some(_), None) => format!("cut at the time limit of {}", run.timeout),
            (Some(_), Some(duration)) => format!("cut at the end of the run after {duration}"),
            (None, _) => "went on to the end of the run".to_owned(),
        },
        ..summary
    }
}

fn hops(run: &Run, flow: &Flow) -> Vec<HopSummary> {
    let routes = run.routes();
    let streams = 0..flow.streams.max(1);
    let of_stream = |stream| flow.hops().map(move |hop| (stream, hop));
    let all = streams.flat_map(of_stream).enumerate();
    all.map(|(index, (stream, hop))| {
        let limits = run.path_limits(&routes, hop.from, hop.to);
        HopSummary {
            index: index as u32,
            stream,
            from: hop.from.to_owned(),
            to: hop.to.to_owned(),
            congestion_control: Some(hop.cc.to_owned()),
            bottleneck_bps: limits.and_then(|limits| limits.bottleneck).map(units::Rate::bps),
            base_rtt_us: limits.map(|limits| limits.base_rtt.as_nanos() as f64 / 1e3),
            segment_bytes: limits.map(|limits| limits.segment.get()),
            ..HopSummary::default()
        }
    })
    .collect()
}
