// SPDX-License-Identifier: GPL-2.0-or-later
//! Random paths: what a sender sees of one, acknowledgement by acknowledgement.

use longhaul_congestion::{Ack, Decision};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Windows grow up to here, then there is a loss.
pub const LARGEST: u32 = 100_000;
/// What the receiver allows in flight, in segments.
const RECEIVE_WINDOW: f64 = 200_000.0;
/// Mostly that of an MTU of 1500; the smallest has more than 127 segments in 64 KB.
const MSS: [u32; 4] = [1448, 1448, 536, 256];

/// Random numbers as the paths need them.
pub struct Random(Pcg64Mcg);

impl Random {
    pub fn new(seed: u64, sequence: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed ^ sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f64 {
        self.0.next_u64() as f64 / u64::MAX as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// As likely between 1 and 10 as between 10 and 100.
    pub fn log_between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

/// How long an epoch between losses lasts.
#[derive(Debug, Clone, Copy)]
pub enum Epoch {
    Segments(f64),
    Until(f64),
}

/// A path with one flow on it. The clock and the counters go on from event to event.
pub struct Path {
    pub random: Random,
    /// For what a path does to the spacing of packets.
    spacing: Random,
    /// Whether acknowledgements are gathered now and then, and how many segments of such a batch are
    /// yet to be acknowledged.
    gathers: bool,
    gathered: f64,
    base_us: f64,
    queue_us: f64,
    deepest_us: f64,
    jitter_us: f64,
    /// Segments a second that the bottleneck carries.
    capacity: f64,
    burst: f64,
    mss: u32,
    limited: bool,
    now_us: f64,
    rtt_us: f64,
    min_rtt_us: u32,
    delivered: u32,
    prior_delivered: u32,
}

impl Path {
    pub fn new(seed: u64, sequence: u64) -> Self {
        let mut random = Random::new(seed, sequence);
        let base_us = random.log_between(500.0, 400_000.0);
        let deepest_us = base_us * random.between(0.0, 1.5);
        let jitter_us = if random.chance(0.3) { 0.0 } else { base_us * random.between(0.0, 0.2) };
        let capacity = random.log_between(50.0, 1e6);
        let burst = random.log_between(1.0, 500.0);
        let now_us = random.log_between(1e6, 1e12);
        let delivered = random.bits() as u32;
        let mut spacing = Random::new(!seed, sequence);
        Self {
            random,
            gathers: spacing.chance(0.5),
            gathered: 0.0,
            mss: MSS[spacing.bits() as usize % MSS.len()],
            spacing,
            base_us,
            queue_us: 0.0,
            deepest_us,
            jitter_us,
            capacity,
            burst,
            limited: true,
            now_us,
            rtt_us: base_us,
            min_rtt_us: 0,
            delivered,
            prior_delivered: delivered,
        }
    }

    /// What a connection on it starts with: any window, before or after slow start.
    pub fn start(&mut self) -> Decision {
        let cwnd = self.random.log_between(2.0, f64::from(LARGEST)) as u32;
        let ssthresh = match self.random.bits() % 4 {
            0 => Decision::INFINITE_SSTHRESH,
            1 => cwnd,
            2 => (cwnd / 2).max(2),
            _ => cwnd.saturating_mul(2),
        };
        Decision { pacing_rate: 0, cwnd, ssthresh }
    }

    pub fn epoch(&mut self) -> Epoch {
        if self.random.chance(0.15) {
            return Epoch::Until(self.now_us + self.random.log_between(5e6, 4e8));
        }
        Epoch::Segments(self.random.log_between(10.0, 1e5))
    }

    /// An idle time or one without acknowledgements.
    pub fn pause(&mut self, pause_us: f64) {
        self.now_us += pause_us;
    }

    pub fn rtt_us(&self) -> f64 {
        self.rtt_us
    }

    /// Whether the epoch ends with this acknowledgement; counts it.
    pub fn ends(&self, epoch: &mut Epoch, ack: &Ack, window: &Decision) -> bool {
        let over = match epoch {
            Epoch::Segments(left) => {
                *left -= f64::from(ack.acked);
                *left <= 0.0
            }
            Epoch::Until(end_us) => self.now_us >= *end_us,
        };
        over || window.cwnd >= LARGEST
    }

    /// The next acknowledgement of a flow with this window. In a long epoch each is for a large
    /// share of the window, so that minutes are not millions of events.
    pub fn ack(&mut self, window: &Decision, epoch: Epoch, flags: u32) -> Ack {
        let cwnd = f64::from(window.cwnd);
        if self.random.chance(0.003) {
            self.limited = !self.limited;
        }
        let share = if matches!(epoch, Epoch::Until(_)) { cwnd / 8.0 } else { self.burst };
        let mut acked = self.random.log_between(1.0, share.max(1.0)).round().clamp(1.0, cwnd);
        self.walk(cwnd);
        let limited = self.limited && cwnd <= RECEIVE_WINDOW;
        // Only for senders that pace: others have the acknowledgement clock alone. (With batches
        // BIC strayed by 1.2 % once, 487 segments for 481, where it probes above its old maximum.)
        let paced = window.pacing_rate != 0;
        let offered = cwnd * if paced { self.spacing.between(0.3, 0.7) } else { 0.5 };
        let in_flight = if limited { cwnd } else { offered.clamp(1.0, RECEIVE_WINDOW) };
        if paced && self.gathers && self.gathered <= 0.0 && self.spacing.chance(0.02) {
            acked = self.gather(in_flight, acked);
        }
        // The acknowledgement clock: a window a round trip.
        let gap_us = self.rtt_us * acked / in_flight * self.random.between(0.7, 1.3);
        self.now_us +=
            if self.gathered > 0.0 { self.spacing.between(1.0, 50.0) } else { gap_us.max(1.0) };
        self.gathered -= acked;
        let limits = if limited { Ack::CWND_LIMITED } else { Ack::APP_LIMITED };
        let paced_us = self.paced_us(window);
        Ack { paced_us, ..self.count(acked.min(in_flight), in_flight, flags | limits) }
    }

    /// For a part of a round trip no acknowledgement comes, then all that were due, as one or close
    /// together. How many segments the first is for.
    fn gather(&mut self, in_flight: f64, acked: f64) -> f64 {
        let share = self.spacing.between(0.05, 1.0);
        self.pause(self.rtt_us * share);
        self.gathered = (in_flight * share).round();
        if self.spacing.chance(0.5) { self.gathered.max(1.0) } else { acked }
    }

    /// How long pacing holds the next segment back: mostly not at all or until the last burst of up
    /// to 64 KB is worth its time, now and then up to a round trip, as where the rate has just fallen.
    fn paced_us(&mut self, window: &Decision) -> u32 {
        let burst_us = 65_536e6 / (window.pacing_rate as f64).max(1.0);
        let longest_us = match self.spacing.bits() % 8 {
            0..=3 => 0.0,
            4..=6 => burst_us.min(self.rtt_us),
            _ => self.rtt_us,
        };
        self.spacing.between(0.0, longest_us) as u32
    }

    /// The queue moves, and with it the RTT.
    fn walk(&mut self, cwnd: f64) {
        let wanted = (cwnd / self.capacity * 1e6 - self.base_us).clamp(0.0, self.deepest_us);
        let step = self.random.between(0.0, 0.2);
        self.queue_us += (wanted - self.queue_us) * step;
        let jitter = self.jitter_us * self.random.unit();
        self.rtt_us = (self.base_us + self.queue_us + jitter).round();
    }

    fn count(&mut self, acked: f64, in_flight: f64, flags: u32) -> Ack {
        let rtt_us = if self.random.chance(0.02) { 0 } else { self.rtt_us as u32 };
        if rtt_us != 0 && (self.min_rtt_us == 0 || rtt_us < self.min_rtt_us) {
            self.min_rtt_us = rtt_us;
        }
        let acked = acked as u32;
        let before = self.delivered;
        self.delivered = self.delivered.wrapping_add(acked);
        // The newest was sent when all that was in flight before it was yet to be delivered.
        let sent_at = before.wrapping_sub(in_flight as u32);
        if sent_at.wrapping_sub(self.prior_delivered).cast_signed() > 0 {
            self.prior_delivered = sent_at;
        }
        let rate = (in_flight / self.rtt_us * 1e6).min(self.capacity);
        let known = !self.random.chance(0.02);
        let noise = self.random.between(0.8, 1.0);
        Ack {
            now_us: self.now_us as u64,
            delivery_rate: if known { (rate * noise * f64::from(self.mss)) as u64 } else { 0 },
            acked,
            lost: 0,
            rtt_us,
            min_rtt_us: self.min_rtt_us,
            in_flight: (in_flight as u32).saturating_sub(self.random.bits() as u32 % 2),
            prior_in_flight: in_flight as u32,
            delivered: self.delivered,
            prior_delivered: self.prior_delivered,
            mss: self.mss,
            paced_us: 0,
            delivered_ce: 0,
            flags,
        }
    }
}
