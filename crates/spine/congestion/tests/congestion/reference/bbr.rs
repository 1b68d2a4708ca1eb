// SPDX-License-Identifier: GPL-2.0-or-later
//! BBR version 1: draft-cardwell-iccrg-bbr-congestion-control-00, section by section. Windows are in
//! segments, rates in bytes a second, times in microseconds. Linux's additions to that draft, each enabled
//! by a parameter of its own: [`aggregation`] and [`room`].

mod aggregation;
mod filter;
mod gains;
mod room;

use longhaul_congestion::{Ack, Algorithm, Event, Params};

use super::{
    compare::{compare, compare_sets},
    model::{Choices, Model, Window, after},
};
use aggregation::Aggregation;
use filter::Filter;
use gains::Gains;

const CYCLE_LEN: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

#[derive(Debug, Clone, PartialEq)]
struct Bbr {
    window: Window,
    gains: Gains,
    initial_cwnd: f64,
    state: State,
    pacing_gain: f64,
    cwnd_gain: f64,
    btl_bw: Filter,
    aggregation: Aggregation,
    round_count: u64,
    round_start: bool,
    next_round_delivered: u32,
    rtprop: f64,
    rtprop_stamp: f64,
    rtprop_expired: bool,
    filled_pipe: bool,
    full_bw: f64,
    full_bw_count: u32,
    cycle_index: usize,
    cycle_stamp: f64,
    probe_rtt_done_stamp: Option<f64>,
    probe_rtt_round_done: bool,
    /// ProbeRTT limits segments sent between the first and the second count of deliveries.
    held: Option<(u32, u32)>,
    prior_cwnd: f64,
    packet_conservation: bool,
    in_recovery: bool,
    idle_restart: bool,
}

impl Model for Bbr {
    fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    fn is_whole(&self) -> bool {
        self.gains.whole_pieces
    }

    fn ack(&mut self, ack: &Ack, choices: &mut Choices) {
        let now = micros(ack);
        if self.rtprop.is_infinite() && ack.rtt_us != 0 {
            self.init_pacing_rate(ack);
        }
        self.update_btl_bw(ack);
        let (bw, cwnd) = (self.btl_bw(), self.window.cwnd);
        self.aggregation.update(ack, self.round_start, bw, cwnd, choices);
        self.check_cycle_phase(ack, now, choices);
        self.check_full_pipe(ack);
        self.check_drain(ack, now, choices);
        self.update_rtprop(ack, now);
        self.check_probe_rtt(ack, now, choices);
        self.set_pacing_rate(self.pacing_gain);
        self.set_cwnd(ack, choices);
    }

    /// Section 4.2.3.4: the window is saved on entering recovery, so before what the acknowledgement
    /// that tells of the loss does; that one may begin ProbeRTT, which saves it once more. Recovery
    /// itself is told by the flag of an acknowledgement; congestion as such is nothing to BBR.
    fn loss(&mut self, _ack: &Ack, _choices: &mut Choices) {
        self.prior_cwnd = self.save_cwnd();
    }

    fn event(&mut self, ack: &Ack, event: Event, choices: &mut Choices) {
        match event {
            // Section 4.3.4.3: BBRHandleRestartFromIdle.
            Event::Restart if ack.flags & Ack::APP_LIMITED != 0 => {
                self.idle_restart = true;
                self.aggregation.start_epoch(micros(ack));
                let done = self.probe_rtt_done_stamp.is_some_and(|done| micros(ack) > done);
                if self.state == State::ProbeBw {
                    self.set_pacing_rate(1.0);
                } else if self.state == State::ProbeRtt && done {
                    // Later than this draft, in Linux: an idle time was as good as ProbeRTT.
                    self.end_probe_rtt(micros(ack), choices);
                }
            }
            // Section 4.2.3.4, and Linux's addition: the full-pipe detection restarts.
            Event::Timeout => {
                self.prior_cwnd = self.save_cwnd();
                self.in_recovery = true;
                self.full_bw = 0.0;
            }
            _ => {}
        }
    }
}

fn micros(ack: &Ack) -> f64 {
    ack.now_us as f64
}

impl Bbr {
    fn new(params: &Params, ack: &Ack, window: Window) -> Self {
        let gains = Gains::new(params);
        let high = gains.high;
        let mut bbr = Self {
            window,
            gains,
            initial_cwnd: window.cwnd,
            state: State::Startup,
            pacing_gain: high,
            cwnd_gain: high,
            btl_bw: Filter::default(),
            aggregation: Aggregation::new(params, micros(ack)),
            round_count: 0,
            round_start: false,
            next_round_delivered: ack.delivered,
            rtprop: if ack.rtt_us == 0 { f64::INFINITY } else { f64::from(ack.rtt_us) },
            rtprop_stamp: micros(ack),
            rtprop_expired: false,
            filled_pipe: false,
            full_bw: 0.0,
            full_bw_count: 0,
            cycle_index: 0,
            cycle_stamp: 0.0,
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            held: None,
            prior_cwnd: 0.0,
            packet_conservation: false,
            in_recovery: false,
            idle_restart: false,
        };
        bbr.init_pacing_rate(ack);
        bbr
    }

    /// Section 4.2.1: BBRInitPacingRate. Where the handshake gave no RTT, once more with the first, as
    /// Linux does; the draft says nothing of that.
    fn init_pacing_rate(&mut self, ack: &Ack) {
        let srtt = if ack.rtt_us == 0 { 0.001 } else { f64::from(ack.rtt_us) / 1e6 };
        let rate = self.window.cwnd * f64::from(ack.mss) / srtt;
        self.window.pacing = self.gains.high * self.gains.paced * rate;
    }

    fn btl_bw(&self) -> f64 {
        self.btl_bw.max()
    }

    /// Section 4.1.1: rounds, and the bandwidth over ten of them.
    fn update_btl_bw(&mut self, ack: &Ack) {
        self.round_start = false;
        if !after(self.next_round_delivered, ack.prior_delivered) {
            self.next_round_delivered = ack.delivered;
            self.round_count += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        if self.state != State::ProbeRtt {
            self.held = self.held.filter(|&(_, until)| !after(ack.prior_delivered, until));
        }
        let rate = ack.delivery_rate as f64;
        let limited = self.limited(ack);
        if ack.delivery_rate > 0 && (rate >= self.btl_bw() || !limited) {
            self.btl_bw.update(self.round_count, rate, self.gains.btl_bw_rounds);
        }
    }

    /// Whether the sample tells of the sender rather than of the path. ProbeRTT marks what it sends as
    /// application-limited (section 4.3.5: "ignore low rate samples during ProbeRTT").
    fn limited(&self, ack: &Ack) -> bool {
        let held = self.held.is_some_and(|(from, _)| !after(from, ack.prior_delivered));
        held || ack.flags & Ack::APP_LIMITED != 0
    }

    /// Section 4.3.3: ProbeBW's gain cycling.
    fn check_cycle_phase(&mut self, ack: &Ack, now: f64, choices: &mut Choices) {
        if self.state != State::ProbeBw {
            return;
        }
        let full_length = now - self.cycle_stamp > self.rtprop;
        let prior = ack.prior_in_flight;
        let next = if self.pacing_gain > 1.0 {
            full_length && (ack.lost > 0 || self.holds(ack, prior, self.pacing_gain, choices))
        } else if self.pacing_gain < 1.0 {
            full_length || self.is_down_to(ack, prior, choices)
        } else {
            full_length
        };
        if next {
            self.advance_cycle_phase(now);
        }
    }

    fn advance_cycle_phase(&mut self, now: f64) {
        self.cycle_stamp = now;
        self.cycle_index = (self.cycle_index + 1) % CYCLE_LEN;
        self.pacing_gain = match self.cycle_index {
            0 => self.gains.probe,
            1 => self.gains.drain_phase,
            _ => 1.0,
        };
    }

    /// Section 4.3.2.2: BBRCheckFullPipe.
    fn check_full_pipe(&mut self, ack: &Ack) {
        if self.filled_pipe || !self.round_start || self.limited(ack) {
            return;
        }
        if self.btl_bw() >= self.full_bw * self.gains.full_bw {
            self.full_bw = self.btl_bw();
            self.full_bw_count = 0;
            return;
        }
        self.full_bw_count += 1;
        self.filled_pipe = self.full_bw_count >= self.gains.full_rounds;
    }

    fn check_drain(&mut self, ack: &Ack, now: f64, choices: &mut Choices) {
        if self.state == State::Startup && self.filled_pipe {
            self.state = State::Drain;
            self.window.ssthresh = self.product(ack, choices);
            self.pacing_gain = self.gains.drain;
            self.cwnd_gain = self.gains.high;
        }
        if self.state == State::Drain && self.is_down_to(ack, ack.in_flight, choices) {
            self.enter_probe_bw(now, choices);
        }
    }

    /// Section 4.3.3.3: the phase to begin with is random, except for 3/4.
    fn enter_probe_bw(&mut self, now: f64, choices: &mut Choices) {
        self.state = State::ProbeBw;
        self.cwnd_gain = self.gains.cwnd;
        self.cycle_index = CYCLE_LEN - 1 - choices.any(7);
        self.advance_cycle_phase(now);
    }

    fn enter_startup(&mut self) {
        self.state = State::Startup;
        self.pacing_gain = self.gains.high;
        self.cwnd_gain = self.gains.high;
    }

    /// Section 4.1.2.
    fn update_rtprop(&mut self, ack: &Ack, now: f64) {
        self.rtprop_expired = now > self.rtprop_stamp + self.gains.rtprop_filter;
        let rtt = f64::from(ack.rtt_us);
        if ack.rtt_us != 0 && (rtt <= self.rtprop || self.rtprop_expired) {
            self.rtprop = rtt;
            self.rtprop_stamp = now;
        }
    }

    /// Section 4.3.4.
    fn check_probe_rtt(&mut self, ack: &Ack, now: f64, choices: &mut Choices) {
        if self.state != State::ProbeRtt && self.rtprop_expired && !self.idle_restart {
            self.state = State::ProbeRtt;
            self.prior_cwnd = self.save_cwnd();
            self.pacing_gain = 1.0;
            self.cwnd_gain = 1.0;
            self.probe_rtt_done_stamp = None;
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(ack, now, choices);
        }
        self.idle_restart = false;
    }

    fn handle_probe_rtt(&mut self, ack: &Ack, now: f64, choices: &mut Choices) {
        let from = self.held.map_or(ack.delivered, |(from, _)| from);
        self.held = Some((from, ack.delivered.wrapping_add(ack.in_flight)));
        let Some(done) = self.probe_rtt_done_stamp else {
            if f64::from(ack.in_flight) <= self.gains.min_pipe_cwnd {
                self.probe_rtt_done_stamp = Some(now + self.gains.probe_rtt);
                self.probe_rtt_round_done = false;
                self.next_round_delivered = ack.delivered;
            }
            return;
        };
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done && now > done {
            self.end_probe_rtt(now, choices);
        }
    }

    fn end_probe_rtt(&mut self, now: f64, choices: &mut Choices) {
        self.rtprop_stamp = now;
        self.window.cwnd = self.window.cwnd.max(self.prior_cwnd);
        if self.filled_pipe {
            self.enter_probe_bw(now, choices);
        } else {
            self.enter_startup();
        }
    }

    /// Section 4.2.1.
    fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.btl_bw() * self.gains.paced;
        if rate > 0.0 && (self.filled_pipe || rate > self.window.pacing) {
            self.window.pacing = rate;
        }
    }

    /// Section 4.2.3.4.
    fn save_cwnd(&self) -> f64 {
        if !self.in_recovery && self.state != State::ProbeRtt {
            self.window.cwnd
        } else {
            self.prior_cwnd.max(self.window.cwnd)
        }
    }

    /// Sections 4.2.3.1 to 4.2.3.6.
    fn set_cwnd(&mut self, ack: &Ack, choices: &mut Choices) {
        let (mss, acked) = (f64::from(ack.mss), f64::from(ack.acked));
        let target = self.target_cwnd(mss, choices);
        self.modulate_for_recovery(ack, acked);
        if !self.packet_conservation {
            if self.filled_pipe {
                self.window.cwnd = (self.window.cwnd + acked).min(target);
            } else if self.less(self.window.cwnd, target, room::cut(mss), choices)
                || f64::from(ack.delivered) < self.initial_cwnd
            {
                self.window.cwnd += acked;
            }
            self.window.cwnd = self.window.cwnd.max(self.gains.min_pipe_cwnd);
        }
        if self.state == State::ProbeRtt {
            self.window.cwnd = self.window.cwnd.min(self.gains.min_pipe_cwnd);
        }
    }

    fn modulate_for_recovery(&mut self, ack: &Ack, acked: f64) {
        let recovering = ack.flags & Ack::RECOVERY != 0;
        if recovering && !self.in_recovery {
            self.window.cwnd = f64::from(ack.in_flight) + acked.max(1.0);
            self.packet_conservation = true;
            self.next_round_delivered = ack.delivered;
        } else if !recovering && self.in_recovery {
            self.packet_conservation = false;
            self.window.cwnd = self.window.cwnd.max(self.prior_cwnd);
        }
        self.in_recovery = recovering;
        if ack.lost > 0 {
            self.window.cwnd = (self.window.cwnd - f64::from(ack.lost)).max(1.0);
        }
        if self.packet_conservation {
            self.window.cwnd = self.window.cwnd.max(f64::from(ack.in_flight) + acked);
        }
    }
}

#[test]
fn bbr() {
    compare_sets("bbr", Bbr::new);
}

/// Each of Linux's parts without the others.
#[test]
fn parts_of_linux() {
    let paper = Algorithm::find("bbr").unwrap().default_set();
    for (part, value) in [("aggregation", 512), ("whole_pieces", 1), ("departures", 1)] {
        compare(&paper.clone().with(part, value).unwrap(), Bbr::new);
    }
}
