// SPDX-License-Identifier: GPL-2.0-or-later
//! The cap that an estimator finds by itself: on a path of one queue, against a model in floating point, with
//! rates, round trips and buffers drawn at random.

use longhaul_netmodel::pacing::{Estimator, PathCap, TcpSnapshot};
use rand_core::Rng;
use rand_pcg::Pcg64;
use std::collections::VecDeque;
use units::Timestamp;

const PACKET: f64 = 1538.0;

fn seed() -> u128 {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = seed.unwrap_or_else(|| u128::from(now().subsec_nanos()));
    eprintln!("SEED={seed}");
    seed
}

/// What `cc/pace.h` says of the cap, written once more, of seconds and packets.
#[derive(Debug, Default)]
struct Model {
    rate: f64,
    full: f64,
    before: f64,
    drain: f64,
    departs: f64,
    last: f64,
    others: f64,
    peak: f64,
    /// Since when, and what was delivered then.
    part: (f64, f64),
    watched: Option<Watched>,
    seen: u32,
    settle: u32,
    /// A decision was so close that rounding may have made the other one.
    close: bool,
}

#[derive(Debug)]
struct Watched {
    sent: f64,
    departed: f64,
    delivered: f64,
    goal: f64,
    limited: bool,
    busy: bool,
}

/// What TCP knows: packets, and packets a second.
#[derive(Debug, Clone, Copy)]
struct Told {
    now: f64,
    target: f64,
    rtt: f64,
    delivered: f64,
    in_flight: f64,
    cwnd: f64,
    recovering: bool,
}

/// Whole ones.
fn microseconds(seconds: f64) -> f64 {
    (seconds * 1e6 + 1e-4).floor() / 1e6
}

impl Model {
    fn learn(&mut self, watched: &Watched, told: &Told) {
        let took = microseconds(told.now - watched.sent);
        let mut rate = (told.delivered - watched.delivered) / took;
        let base = watched.departed + told.rtt;
        if told.now >= base {
            self.others = self.others.min(told.now - base);
        } else if watched.busy {
            self.departs -= base - told.now;
            self.others = 0.0;
        }
        let more = (told.delivered - watched.goal) / rate;
        let queue = (self.last - base - self.others - more).max(0.0);
        let enough = (8.0 / rate).max(told.rtt / 1024.0);
        let full = queue >= enough;
        self.close |= (queue / enough - 1.0).abs() < 1e-3;
        if self.rate == 0.0 || self.settle > 0 && self.before == 0.0 {
            rate = rate.max(self.peak);
        }
        if self.settle > 0 {
            self.settle -= 1;
            if self.settle > 0 {
                if rate > self.full {
                    (self.full, self.rate) = (rate, rate * 127.0 / 128.0);
                }
                return;
            }
        }
        let follows = rate >= self.rate * 63.0 / 64.0;
        self.close |= (rate / self.rate * 64.0 / 63.0 - 1.0).abs() < 1e-5;
        if !full {
            (self.seen, self.before) = (0, 0.0);
            if self.rate > 0.0 && told.target >= self.rate && follows {
                let least = ((self.rate - self.full) / 8.0).max(1.0 / took);
                self.rate += least.min((self.rate / 64.0).max(4.0 / took));
            }
        } else if self.before > 0.0 && follows {
            self.rate = self.rate.max(self.before);
            self.before = 0.0;
            self.others += queue;
        } else {
            self.seen += 1;
            if self.seen >= 2 || told.recovering {
                (self.before, self.full, self.rate) = (self.rate, rate, rate * 127.0 / 128.0);
                let steps = (queue / took).min(0.5) * 1024.0;
                self.close |= steps < 512.0 && (steps - steps.round()).abs() < 0.1;
                self.drain = rate * steps.floor() / 1024.0;
                (self.settle, self.seen) = (3, 0);
            }
        }
    }

    fn sends(&mut self, told: &Told) -> f64 {
        let limited = self.departs > told.now
            || told.in_flight + (told.cwnd / 4.0).floor() + 2.0 >= told.cwnd
            || told.recovering;
        if told.now - self.part.0 >= told.rtt / 4.0 {
            let rate = (told.delivered - self.part.1) / microseconds(told.now - self.part.0);
            self.peak = self.peak.max(rate);
            self.part = (told.now, told.delivered);
        }
        if let Some(watched) = self.watched.take_if(|watched| told.delivered >= watched.goal) {
            self.drain = 0.0;
            if limited && watched.limited {
                self.learn(&watched, told);
            } else {
                self.seen = 0;
            }
        }
        let cut = if self.rate > 0.0 { told.target.min(self.rate) } else { told.target };
        let rate = cut - self.drain;
        if self.departs < told.now {
            self.departs = told.now;
            if let Some(watched) = &mut self.watched {
                watched.busy = false;
            }
        }
        if self.watched.is_none() {
            self.peak = 0.0;
            self.watched = Some(Watched {
                sent: told.now,
                departed: self.departs,
                delivered: told.delivered,
                goal: told.delivered + told.in_flight,
                limited,
                busy: true,
            });
        }
        self.departs += 1.0 / rate;
        self.last = told.now;
        rate
    }
}

/// A sender at the cap's rate, one queue with a limit in packets, and acknowledgements.
struct Path {
    /// Packets a second.
    rate: f64,
    rtt: f64,
    buffer: f64,
    /// When the queue's last packet has left it.
    empty: f64,
    /// When each packet is acknowledged, or found lost.
    coming: VecDeque<(f64, bool)>,
    delivered: u32,
    drops: u32,
}

impl Path {
    fn offer(&mut self, at: f64) {
        let dropped = (self.empty - at) * self.rate > self.buffer;
        if !dropped {
            self.empty = self.empty.max(at) + 1.0 / self.rate;
        }
        self.drops += u32::from(dropped);
        self.coming.push_back((self.empty + self.rtt, dropped));
    }
}

/// The results of some seconds.
#[derive(Debug, Default)]
struct Course {
    /// Of the path's rate, in the second half.
    share: f64,
    /// After the first second in which something was found.
    late_drops: u32,
    cap: f64,
    /// Packets whose rate was compared with the model's.
    compared: u32,
}

/// A window that doubles each round trip until the first loss, and grows by a hundredth afterwards; one
/// packet in `lossy` is lost at random.
fn run(path: &mut Path, seconds: f64, lossy: u32, random: &mut Pcg64) -> Course {
    let params = Estimator { find_cap: true, ..Estimator::LINK }.params();
    let (mut cap, mut model, mut course) =
        (PathCap::default(), Model::default(), Course::default());
    let (mut now, mut departs, mut window, mut slow) = (1.0, 1.0, 10.0f64, true);
    let (mut found_at, mut drops_then, mut half) = (f64::INFINITY, 0, None);
    let mut recovering_until = 0.0;
    let end = 1.0 + seconds;
    while now < end {
        // Paced ahead by at most as much as the window holds, then by acknowledgements.
        let room = (path.coming.len() as f64) < window;
        if !room {
            let next = path.coming[0].0;
            now = ((next.max(now) * 1e9).ceil() + 1.0) / 1e9;
        }
        while path.coming.front().is_some_and(|first| first.0 <= now) {
            let (_, dropped) = path.coming.pop_front().unwrap();
            if !dropped {
                path.delivered += 1;
                window += if slow { 1.0 } else { 0.01 };
            } else if now > recovering_until {
                (window, slow) = (window * 0.875, false);
                recovering_until = now + path.rtt;
            }
        }
        window = window.clamp(2.0, path.rate * path.rtt * 3.0 + 20.0);
        if path.coming.len() as f64 >= window {
            continue;
        }
        let told = Told {
            now,
            target: (window.floor() * PACKET / path.rtt).floor() / PACKET,
            rtt: path.rtt,
            delivered: path.delivered.into(),
            in_flight: path.coming.len() as f64 + 1.0,
            cwnd: window.floor(),
            recovering: now < recovering_until,
        };
        let known = TcpSnapshot {
            cwnd: told.cwnd as u32,
            packet: PACKET as u32,
            min_rtt_us: (path.rtt * 1e6) as u32,
            recovering: u32::from(told.recovering),
            in_flight: told.in_flight as u32,
            delivered: path.delivered,
            ..TcpSnapshot::default()
        };
        let found =
            params.capped(&known, &mut cap, Timestamp::from_nanos((now * 1e9).round() as u64));
        let expected = model.sends(&told) * PACKET;
        if !model.close {
            assert!(
                (found as f64 / expected - 1.0).abs() < 3e-3,
                "at {now}: {found} {expected}, {cap:?} {model:?} {told:?}"
            );
            course.compared += 1;
        }
        // Roundings don't add up.
        (model.rate, model.full) = (cap.rate as f64 / PACKET, cap.full as f64 / PACKET);
        departs = f64::max(departs, now) + PACKET / found as f64;
        if lossy > 0 && random.next_u32().is_multiple_of(lossy) {
            path.coming.push_back((departs + path.rtt, true));
        } else {
            path.offer(departs);
        }
        if cap.rate > 0 && found_at.is_infinite() {
            found_at = now + 5.0 * path.rtt + 1.0;
        }
        if now < found_at {
            drops_then = path.drops;
        }
        if now > 1.0 + seconds / 2.0 && half.is_none() {
            half = Some((now, path.delivered));
        }
    }
    let (since, before) = half.expect("it has sent all the time");
    course.share = f64::from(path.delivered - before) / (now - since) / path.rate;
    course.late_drops = path.drops - drops_then;
    course.cap = cap.rate as f64 / PACKET / path.rate;
    course
}

fn path(rate: f64, rtt: f64, buffer: f64) -> Path {
    Path { rate, rtt, buffer, empty: 0.0, coming: VecDeque::new(), delivered: 0, drops: 0 }
}

#[test]
fn cap_finds_the_path_rate_and_then_nothing_is_dropped() {
    let mut random = Pcg64::new(seed(), 5);
    let mut compared = 0;
    for _ in 0..10 {
        let between = |random: &mut Pcg64, least: f64, most: f64| {
            least * (most / least).powf(f64::from(random.next_u32()) / f64::from(u32::MAX))
        };
        let rate = between(&mut random, 2e3, 2e4);
        let rtt = (between(&mut random, 5e3, 2e5)).round() / 1e6;
        let buffer = between(&mut random, 42.0, 500.0).max(3.0 * rate * rtt / 1024.0);
        let mut path = path(rate, rtt, buffer);
        let course = run(&mut path, 20.0, 0, &mut random);
        let label = format!("{rate} packets/s, {rtt} s, {buffer} packets: {course:?}");
        assert_eq!(course.late_drops, 0, "{label}");
        assert!(course.share > 0.97, "{label}");
        compared += course.compared;
    }
    assert!(compared > 20_000, "{compared}");
}

#[test]
fn chance_does_not_bring_the_cap_down() {
    let mut random = Pcg64::new(seed(), 6);
    let mut path = path(4e4, 0.05, 42.0);
    let course = run(&mut path, 20.0, 100_000, &mut random);
    assert!((0.98..1.03).contains(&course.cap), "{course:?}");
}
