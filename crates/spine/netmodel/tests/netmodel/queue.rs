// SPDX-License-Identifier: GPL-2.0-or-later
//! Queue disciplines, each against what was written from its source a second time, and all of them together:
//! nothing is lost track of, flows keep their order, the wire is never idle while something waits.

mod codel;
mod every;
mod fq_codel;
mod pie;
mod red;

use longhaul_netmodel::{Discipline, Fate, Impairments, Link, LinkConfig, LossModel, QueueLimit};
use rand_core::Rng;
use rand_pcg::Pcg64;
use units::{Bytes, Duration, Rate, Timestamp};

/// Bytes on the link of the packets that most tests send.
const PACKET: u64 = 1250;

/// 10 Mb/s without overhead: a packet takes a millisecond.
fn config(discipline: Discipline, queue: QueueLimit, seed: u64) -> LinkConfig {
    LinkConfig {
        rate: Some(Rate::bits_per_second(10_000_000).into()),
        delay: Duration::ZERO,
        queue,
        discipline,
        loss: LossModel::None,
        impairments: Impairments::default(),
        mtu: Bytes::new(1500),
        overhead: Bytes::ZERO,
        monitor: Duration::from_millis(1),
        spacing: false,
        seed,
    }
}

fn micros(micros: u64) -> Timestamp {
    Timestamp::from_nanos(micros * 1000)
}

fn packet(bytes: u64, ect: bool, flow: u64) -> longhaul_netmodel::Packet {
    longhaul_netmodel::Packet { length: Bytes::new(bytes), ect, flow }
}

/// The seed of this time, printed for a failure to be seen again: `LONGHAUL_SEED=N`.
fn seed() -> u64 {
    let given = std::env::var("LONGHAUL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |since| u64::from(since.subsec_nanos()))
    });
    println!("LONGHAUL_SEED={seed}");
    seed
}

/// The random numbers that a discipline draws, by its documented stream.
struct Draws(Pcg64);

impl Draws {
    fn new(seed: u64) -> Self {
        Self(Pcg64::new(u128::from(seed), 0x51a7_19ce_8c4e_33d5))
    }

    fn next(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Random numbers of a test.
struct Dice(Pcg64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(Pcg64::new(u128::from(seed), 7))
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0.next_u64() % most
    }
}

/// What a link said of one offered packet and after it, for the references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Passed,
    Marked,
    Early,
    Full,
}

impl Said {
    fn of(fate: Fate) -> Self {
        match fate {
            Fate::Arrives { marked: false, .. } => Self::Passed,
            Fate::Arrives { marked: true, .. } => Self::Marked,
            Fate::EarlyDrop => Self::Early,
            Fate::QueueFull => Self::Full,
            other => panic!("{other:?}"),
        }
    }
}

/// A FIFO queue as the link reports it: when each packet that was taken begins and ends on the wire.
#[derive(Default)]
struct Seen {
    waiting: std::collections::VecDeque<(Timestamp, u64)>,
    free_at: Timestamp,
}

impl Seen {
    /// Packets and bytes that wait at a time.
    fn at(&mut self, now: Timestamp) -> (u64, u64) {
        while self.waiting.front().is_some_and(|(starts, _)| *starts <= now) {
            self.waiting.pop_front();
        }
        (self.waiting.len() as u64, self.waiting.iter().map(|(_, bytes)| bytes).sum())
    }

    fn add(&mut self, fate: Fate, bytes: u64) {
        if let Fate::Arrives { starts, at, .. } = fate {
            self.waiting.push_back((starts, bytes));
            self.free_at = at;
        }
    }
}

/// Offers that come in bursts and pauses, at some load: the next one's time and size.
fn next_offer(dice: &mut Dice, now: Timestamp, load: f64) -> (Timestamp, u64) {
    let bytes = 100 + dice.below(1400);
    let mean = (750.0 * 800.0 / load) as u64;
    let pause = match dice.below(1000) {
        0 => dice.below(400_000_000),
        1..=600 => dice.below(mean / 2),
        _ => dice.below(2 * mean),
    };
    (now + Duration::from_nanos(pause), bytes)
}

#[test]
fn discipline_random_draws_do_not_change_losses() {
    let red = longhaul_netmodel::queue::red::Params {
        thresholds: longhaul_netmodel::queue::red::Thresholds::Packets { min: 1, max: 1000 },
        probability: 1.0,
        weight: 1.0,
        avpkt: Bytes::new(1000),
        gentle: true,
        ecn: true,
    };
    let loss = LossModel::Uniform("10%".parse().unwrap());
    let lost = |discipline| {
        let mut link =
            Link::new(LinkConfig { loss, ..config(discipline, QueueLimit::Unlimited, 5) });
        let offers = (0..5000).map(|n| link.offer(micros(n * 990), packet(PACKET, true, 0)));
        offers.map(|fate| fate == Fate::Lost).collect::<Vec<_>>()
    };
    let with = lost(Discipline::Red(red));
    assert_eq!(with, lost(Discipline::TailDrop { mark: None }));
    assert!(with.contains(&true));
}
