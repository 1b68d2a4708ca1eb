// SPDX-License-Identifier: GPL-2.0-or-later
//! What acknowledgements bring beyond the bandwidth at once: Linux since 5.1
//! (`bbr_update_ack_aggregation`), later in draft-cardwell-iccrg-bbr-congestion-control-01
//! (BBRUpdateACKAggregation).
//!
//! A receiver or a link that gathers acknowledgements leaves the sender without any for a while. Its
//! window has to last for that long, so it gets as many segments more as came at once of late: the
//! most of 5 to 10 rounds, in two slots of 5 rounds that take turns.

use longhaul_congestion::{Ack, Params};

use super::super::model::{Choices, param};

const SLOT_ROUNDS: u32 = 5;
/// An epoch that has seen as many segments ends.
const EPOCH_SEGMENTS: f64 = 1_048_576.0;
/// The window grows by what the bandwidth carries in this time at most.
const LONGEST_US: f64 = 100_000.0;

#[derive(Debug, Clone, PartialEq)]
pub struct Aggregation {
    share: f64,
    epoch_start: f64,
    epoch_acked: f64,
    slots: [f64; 2],
    current: usize,
    slot_rounds: u32,
}

impl Aggregation {
    pub fn new(params: &Params, now: f64) -> Self {
        Self {
            share: param(params, "aggregation", 1024.0),
            epoch_start: now,
            epoch_acked: 0.0,
            slots: [0.0; 2],
            current: 0,
            slot_rounds: 0,
        }
    }

    pub fn start_epoch(&mut self, now: f64) {
        self.epoch_start = now;
        self.epoch_acked = 0.0;
    }

    /// `bw` in bytes a second; the window is the one before this acknowledgement.
    pub fn update(
        &mut self,
        ack: &Ack,
        round_start: bool,
        bw: f64,
        cwnd: f64,
        choices: &mut Choices,
    ) {
        if self.share == 0.0 || ack.acked == 0 || ack.delivery_rate == 0 {
            return;
        }
        if round_start {
            self.count_round();
        }
        let (now, mss, acked) = (ack.now_us as f64, f64::from(ack.mss), f64::from(ack.acked));
        let mut expected = segments(bw, now - self.epoch_start, mss, choices);
        if self.epoch_acked <= expected || self.epoch_acked + acked >= EPOCH_SEGMENTS {
            self.start_epoch(now);
            expected = 0.0;
        }
        self.epoch_acked = (self.epoch_acked + acked).min(EPOCH_SEGMENTS - 1.0);
        let extra = (self.epoch_acked - expected).min(cwnd);
        self.slots[self.current] = self.slots[self.current].max(extra);
    }

    fn count_round(&mut self) {
        self.slot_rounds += 1;
        if self.slot_rounds >= SLOT_ROUNDS {
            self.slot_rounds = 0;
            self.current = 1 - self.current;
            self.slots[self.current] = 0.0;
        }
    }

    /// `bbr_ack_aggregation_cwnd`, once the pipe has been full.
    pub fn allowance(&self, bw: f64, mss: f64, choices: &mut Choices) -> f64 {
        if self.share == 0.0 {
            return 0.0;
        }
        let wanted = (self.share * self.slots[0].max(self.slots[1])).floor();
        wanted.min(segments(bw, LONGEST_US, mss, choices))
    }
}

/// What a bandwidth carries in a time, in segments rounded down. Cut to a byte before.
pub fn segments(bw: f64, time_us: f64, mss: f64, choices: &mut Choices) -> f64 {
    choices.whole(bw * time_us / 1e6 / mss, 0.0, f64::floor)
}
