// SPDX-License-Identifier: GPL-2.0-or-later
//! BBR's constants.

use longhaul_congestion::Params;

use super::super::model::{param, whole};

/// The constants of the draft, from the parameter set.
#[derive(Debug, Clone, PartialEq)]
pub struct Gains {
    pub high: f64,
    pub drain: f64,
    pub probe: f64,
    pub drain_phase: f64,
    pub cwnd: f64,
    pub full_bw: f64,
    pub full_rounds: u32,
    pub btl_bw_rounds: u64,
    pub rtprop_filter: f64,
    pub probe_rtt: f64,
    pub min_pipe_cwnd: f64,
    /// Linux only: the share of the bandwidth that is paced.
    pub paced: f64,
    /// Linux only: room for bursts in whole segments.
    pub whole_pieces: bool,
    /// Linux only: what is in flight is counted for when the next segment leaves.
    pub departures: bool,
}

impl Gains {
    pub fn new(params: &Params) -> Self {
        let gain = |name| param(params, name, 1024.0);
        Self {
            high: gain("high_gain"),
            drain: gain("drain_gain"),
            probe: gain("probe_gain"),
            drain_phase: gain("yield_gain"),
            cwnd: gain("cwnd_gain"),
            full_bw: gain("full_gain"),
            full_rounds: whole(params, "full_rounds"),
            btl_bw_rounds: u64::from(whole(params, "bandwidth_rounds")),
            rtprop_filter: param(params, "min_rtt_window", 0.001),
            probe_rtt: param(params, "probe_rtt", 0.001),
            min_pipe_cwnd: f64::from(whole(params, "min_cwnd")),
            paced: 1.0 - param(params, "margin", 100.0),
            whole_pieces: whole(params, "whole_pieces") != 0,
            departures: whole(params, "departures") != 0,
        }
    }
}
