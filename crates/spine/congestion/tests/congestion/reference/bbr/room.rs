// SPDX-License-Identifier: GPL-2.0-or-later
//! How much may be in flight, and how much is: section 4.2.3 of the draft, and what Linux counts
//! otherwise (`bbr_quantization_budget`, `bbr_tso_segs_goal`, `bbr_packets_in_net_at_edt`).

use longhaul_congestion::Ack;

use super::{super::model::Choices, Bbr, State, aggregation::segments};

/// By how much BBRInflight may be too low, in segments: the product of bandwidth and RTT is cut to a byte
/// before the gain (below 3) and after it, and so are three bursts. Whole windows meet it so.
pub fn cut(mss: f64) -> f64 {
    7.0 / mss
}

/// The same where it is an upper bound, and rounded up to whole segments.
fn rounding(mss: f64) -> f64 {
    1.0 + cut(mss)
}

/// By how much the pacing rate may be too low, in bytes a second: it is cut after each of its factors.
const PACING_CUT: f64 = 8.0;

impl Bbr {
    /// Whether `a < b`: with whole pieces both are whole, and what rounding left open was decided before.
    pub fn less(&self, a: f64, b: f64, slack: f64, choices: &mut Choices) -> bool {
        if self.gains.whole_pieces { a < b } else { choices.less(a, b, slack) }
    }

    /// Section 4.2.3.4: the window that is grown to.
    pub fn target_cwnd(&self, mss: f64, choices: &mut Choices) -> f64 {
        let allowance = if self.filled_pipe {
            self.aggregation.allowance(self.btl_bw(), mss, choices)
        } else {
            0.0
        };
        self.inflight(self.cwnd_gain, allowance, mss, choices)
    }

    /// Section 4.2.3: BBRInflight, with Linux's allowance for aggregated acknowledgements. Without an
    /// RTT it is the initial window, as in the draft; Linux has room for bursts above that too.
    fn inflight(&self, gain: f64, allowance: f64, mss: f64, choices: &mut Choices) -> f64 {
        if self.rtprop.is_infinite() {
            return self.initial_cwnd;
        }
        let bdp = gain * self.btl_bw() * self.rtprop / 1e6 / mss;
        if !self.gains.whole_pieces {
            return bdp + allowance + 3.0 * self.send_quantum(mss);
        }
        // Cut to a byte before the gain and after it, as above.
        let bdp = choices.whole(bdp, 4.0 / mss, f64::ceil);
        let wanted = bdp + allowance + 3.0 * self.tso_segs_goal(mss, choices);
        let probes = self.state == State::ProbeBw && self.cycle_index == 0;
        2.0 * (wanted / 2.0).ceil() + if probes { 2.0 } else { 0.0 }
    }

    /// Section 4.2.2.
    fn send_quantum(&self, mss: f64) -> f64 {
        let pacing = self.window.pacing;
        if pacing < 1.2e6 / 8.0 {
            1.0
        } else if pacing < 24e6 / 8.0 {
            2.0
        } else {
            (pacing * 0.001 / mss).min(65_536.0 / mss)
        }
    }

    /// The segments that leave at once: a millisecond's at the pacing rate, the largest packet of
    /// a network card less the largest header at most.
    fn tso_segs_goal(&self, mss: f64, choices: &mut Choices) -> f64 {
        let pacing = self.window.pacing;
        let least = if choices.less(pacing, 1.2e6 / 8.0, PACING_CUT) { 1.0 } else { 2.0 };
        let goal = (pacing / 1024.0).min(65_535.0 - 320.0) / mss;
        let goal = choices.whole(goal, PACING_CUT / 1024.0 / mss, f64::floor);
        goal.clamp(least, 127.0)
    }

    /// What is in flight when the next segment leaves, that one's burst included where more is
    /// sent than the path carries.
    fn in_flight_at_departure(&self, ack: &Ack, in_flight: u32, choices: &mut Choices) -> f64 {
        let in_flight = f64::from(in_flight);
        if !self.gains.departures {
            return in_flight;
        }
        let mss = f64::from(ack.mss);
        let burst = if self.pacing_gain > 1.0 { self.tso_segs_goal(mss, choices) } else { 0.0 };
        let delivered = segments(self.btl_bw(), f64::from(ack.paced_us), mss, choices);
        (in_flight + burst - delivered).max(0.0)
    }

    /// Whether as much is in flight as BBRInflight has with this gain.
    pub fn holds(&self, ack: &Ack, in_flight: u32, gain: f64, choices: &mut Choices) -> bool {
        let mss = f64::from(ack.mss);
        let in_flight = self.in_flight_at_departure(ack, in_flight, choices);
        let wanted = self.inflight(gain, 0.0, mss, choices);
        !self.less(in_flight, wanted, rounding(mss), choices)
    }

    /// What the path holds, as segments: the threshold by which Linux tells that Startup is over.
    pub fn product(&self, ack: &Ack, choices: &mut Choices) -> f64 {
        self.inflight(1.0, 0.0, f64::from(ack.mss), choices)
    }

    /// Whether no more is in flight than what the path holds.
    pub fn is_down_to(&self, ack: &Ack, in_flight: u32, choices: &mut Choices) -> bool {
        let in_flight = self.in_flight_at_departure(ack, in_flight, choices);
        let wanted = self.product(ack, choices);
        !self.less(wanted, in_flight, rounding(ack.mss.into()), choices)
    }
}
