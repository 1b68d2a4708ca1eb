// SPDX-License-Identifier: GPL-2.0-or-later
//! One flow of one run.

use crate::{
    LimitShares, PredictedFlow, RunResults, RunVerdict, manifest::Point, repeats::RepeatKey,
    slowest_hop,
};
use serde::Serialize;

/// One flow of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowResult {
    /// The run's name, which is also its folder's.
    pub id: String,
    /// How it was run.
    pub method: String,
    /// The variant, in a scenario with variants.
    pub variant: Option<String>,
    /// The point of the sweep.
    pub point: Point,
    /// Counts the repeats, from 1.
    pub repeat: u32,
    /// The flow.
    pub flow: String,
    /// The program that downloaded; null where none did.
    pub client: Option<String>,
    /// Bytes that arrived.
    pub bytes: u64,
    /// From the client's start to its end; null without a prediction.
    pub seconds: Option<f64>,
    /// `bytes * 8 / seconds`; null without a prediction.
    pub goodput_bps: Option<f64>,
    /// The closed form that it is from; null for other methods than `model`.
    pub prediction: Option<PredictedFlow>,
    /// Whether the copy is the original; null where the transfer did not end by itself.
    pub sha256_ok: Option<bool>,
    /// Whether the time limit cut it off.
    pub timed_out: bool,
    /// How it ended, in words.
    pub outcome: String,
    /// Congestion controls as read back, hop by hop.
    pub congestion_control: Vec<Option<String>>,
    /// Limits of its slowest connection, as shares of the time; null if nothing was sent.
    pub limited: Option<LimitShares>,
    /// Whether it ended by itself, but not as it should, in a run that is valid or not.
    #[serde(skip)]
    pub failed: bool,
    /// How it ended, and whether medians include it.
    #[serde(rename = "standing")]
    pub verdict: RunVerdict,
    /// Whether the run is valid.
    pub valid: bool,
    /// Why not.
    pub invalid_reasons: Vec<String>,
}

impl FlowResult {
    /// The flows of a record.
    fn of(record: &RunResults) -> Vec<Self> {
        let manifest = &record.manifest;
        let flows = record.summary.flows.iter();
        flows
            .map(|flow| Self {
                id: manifest.id.clone(),
                method: manifest.method.clone(),
                variant: manifest.variant.as_ref().map(|variant| variant.name.clone()),
                point: manifest.point.clone(),
                repeat: manifest.repeat,
                flow: flow.name.clone(),
                client: flow.client.clone(),
                bytes: flow.bytes,
                seconds: flow.seconds,
                goodput_bps: flow.goodput_bps,
                prediction: flow.prediction.clone(),
                sha256_ok: flow.sha256_ok,
                timed_out: flow.timed_out,
                outcome: flow.outcome.clone(),
                congestion_control: flow
                    .hops
                    .iter()
                    .map(|hop| hop.congestion_control.clone())
                    .collect(),
                limited: slowest_hop(&flow.hops).map(|(_, shares)| shares),
                failed: RunVerdict::of(true, [flow]) == RunVerdict::Failed,
                verdict: RunVerdict::of(manifest.valid, [flow]),
                valid: manifest.valid,
                invalid_reasons: manifest.invalid_reasons.clone(),
            })
            .collect()
    }

    /// The key that it shares with the same flow of the run's repeats.
    pub(super) fn repeat_key(&self) -> RepeatKey {
        RepeatKey {
            method: self.method.clone(),
            variant: self.variant.clone(),
            point: self.point.clone(),
        }
    }

    /// The flows of all records.
    pub fn of_all(records: &[RunResults]) -> Vec<Self> {
        records.iter().flat_map(Self::of).collect()
    }
}
