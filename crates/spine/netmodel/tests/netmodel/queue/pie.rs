// SPDX-License-Identifier: GPL-2.0-or-later
//! PIE compared with the pseudo-code of RFC 8033, appendix A, tick by tick and packet by packet.

use crate::queue::{Dice, Draws, PACKET, Said, Seen, config, micros, next_offer, packet, seed};
use longhaul_netmodel::{Discipline, Fate, Link, QueueLimit, queue::pie::Params};
use units::{Duration, Timestamp};

fn params() -> Params {
    Params {
        target: Duration::from_millis(15),
        tupdate: Duration::from_millis(15),
        alpha: 0.125,
        beta: 1.25,
        burst: Duration::from_millis(150),
        ecn: false,
        ecn_limit: 0.1,
    }
}

/// Delays in seconds, as in the RFC.
struct Reference {
    params: Params,
    draws: Draws,
    drop_prob: f64,
    qdelay_old: f64,
    burst_allowance: f64,
}

impl Reference {
    fn calculate_drop_prob(&mut self, current_qdelay: f64) {
        let target = self.params.target.as_secs_f64();
        let mut p = self.params.alpha * (current_qdelay - target)
            + self.params.beta * (current_qdelay - self.qdelay_old);
        if self.drop_prob < 0.000_001 {
            p /= 2048.0;
        } else if self.drop_prob < 0.000_01 {
            p /= 512.0;
        } else if self.drop_prob < 0.000_1 {
            p /= 128.0;
        } else if self.drop_prob < 0.001 {
            p /= 32.0;
        } else if self.drop_prob < 0.01 {
            p /= 8.0;
        } else if self.drop_prob < 0.1 {
            p /= 2.0;
        }
        self.drop_prob += p;
        if current_qdelay == 0.0 && self.qdelay_old == 0.0 {
            self.drop_prob *= 0.98;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
        self.qdelay_old = current_qdelay;
        let t_update = self.params.tupdate.as_secs_f64();
        self.burst_allowance = (self.burst_allowance - t_update).max(0.0);
        // Ten times 15 ms off 150 ms leaves a rest by rounding.
        if self.burst_allowance < 1e-12 {
            self.burst_allowance = 0.0;
        }
    }

    fn drop_early(&mut self, bytes: u64) -> bool {
        let half = self.params.target.as_secs_f64() / 2.0;
        if self.qdelay_old < half && self.drop_prob < 0.2 || bytes <= 2 * 1500 {
            return false;
        }
        self.draws.next() < self.drop_prob
    }

    fn enqueue(&mut self, current_qdelay: f64, bytes: u64, ect: bool) -> Said {
        let half = self.params.target.as_secs_f64() / 2.0;
        if self.drop_prob == 0.0 && current_qdelay < half && self.qdelay_old < half {
            self.burst_allowance = self.params.burst.as_secs_f64();
        }
        if self.burst_allowance == 0.0 && self.drop_early(bytes) {
            let marks = self.params.ecn && ect && self.drop_prob < self.params.ecn_limit;
            return if marks { Said::Marked } else { Said::Early };
        }
        Said::Passed
    }
}

fn beside_the_reference(params: Params, load: f64, seed: u64) -> [u64; 4] {
    let mut link = Link::new(config(Discipline::Pie(params), QueueLimit::Packets(500), seed));
    let mut reference = Reference {
        params,
        draws: Draws::new(seed),
        drop_prob: 0.0,
        qdelay_old: 0.0,
        burst_allowance: params.burst.as_secs_f64(),
    };
    let (mut dice, mut seen) = (Dice::new(seed), Seen::default());
    let (mut now, mut counts) = (Timestamp::ZERO, [0; 4]);
    let mut tick = Timestamp::ZERO + params.tupdate;
    for n in 0..200_000 {
        // The load changes, so that the probability rises and falls.
        let load = load * if n / 20_000 % 2 == 0 { 1.0 } else { 0.6 };
        let (at, bytes) = next_offer(&mut dice, now, load);
        now = at;
        while tick <= now {
            reference.calculate_drop_prob(seen.free_at.since(tick).as_secs_f64());
            tick = tick + params.tupdate;
        }
        let ect = dice.below(2) == 0;
        let (packets, queued) = seen.at(now);
        let delay = seen.free_at.since(now).as_secs_f64();
        let mut expected = reference.enqueue(delay, queued, ect);
        if expected != Said::Early && packets >= 500 {
            expected = Said::Full;
        }
        let fate = link.offer(now, packet(bytes, ect, 0));
        let p = reference.drop_prob;
        assert_eq!(Said::of(fate), expected, "packet {n}, probability {p}, delay {delay}");
        counts[expected as usize] += 1;
        seen.add(fate, bytes);
    }
    counts
}

#[test]
fn every_decision_is_that_of_the_pseudo_code() {
    let seed = seed();
    for (n, params) in [
        params(),
        Params { ecn: true, ..params() },
        Params { ecn: true, ecn_limit: 1.0, burst: Duration::ZERO, ..params() },
        Params { target: Duration::from_millis(2), tupdate: Duration::from_millis(7), ..params() },
    ]
    .into_iter()
    .enumerate()
    {
        let mut all_marked = 0;
        for load in [0.8, 1.1, 1.6] {
            let [passed, marked, early, full] = beside_the_reference(params, load, seed + n as u64);
            println!(
                "{n}, load {load}: {passed} passed, {marked} marked, {early} early, {full} full"
            );
            assert!(load < 1.6 || early + marked > 1000, "there was something to decide");
            all_marked += marked;
        }
        assert!(!params.ecn || all_marked > 50, "and to mark");
    }
}

/// Twice as much as the link carries, of packets that don't slow down: half of them has to go, whatever the
/// controller does on the way there, and the delay comes down to its target.
#[test]
fn pie_converges_to_the_load_and_target_delay() {
    let mut link = Link::new(config(Discipline::Pie(params()), QueueLimit::Unlimited, seed()));
    let (mut late, mut early, mut delay_ms) = (0, 0, 0.0);
    for n in 0..200_000_u64 {
        let now = micros(n * 500);
        let fate = link.offer(now, packet(PACKET, false, 0));
        if n < 300 {
            assert!(matches!(fate, Fate::Arrives { .. }), "150 ms of burst are free");
        }
        if n >= 100_000 {
            late += 1;
            early += u64::from(fate == Fate::EarlyDrop);
            delay_ms += link.free_at().since(now).as_secs_f64() * 1e3;
        }
    }
    let (dropped, mean) = (early as f64 / f64::from(late), delay_ms / f64::from(late));
    assert!((dropped - 0.5).abs() < 0.01, "{dropped}");
    assert!((10.0..20.0).contains(&mean), "{mean} ms");
}

#[test]
fn two_packets_may_wait_at_any_probability() {
    let target = Duration::from_nanos(1);
    let params = Params { target, burst: Duration::ZERO, alpha: 100.0, ..params() };
    let mut link = Link::new(config(Discipline::Pie(params), QueueLimit::Unlimited, seed()));
    // One on the wire and two that wait, of 1250 bytes where two full ones have 3000; a third is dropped.
    for n in 0..20_000_u64 {
        link.offer(micros(n * 100), packet(PACKET, false, 0));
        if n > 10_000 {
            assert!((1..=3).contains(&link.queue(micros(n * 100)).packets));
        }
    }
    assert!(link.counters().early_drops > 10_000);
}
