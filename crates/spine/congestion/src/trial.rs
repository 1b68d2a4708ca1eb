// SPDX-License-Identifier: GPL-2.0-or-later
//! Random tests of an algorithm: it gets arbitrary, even impossible, acknowledgements, and after each call
//! the rules of `contract.h` are checked.
//!
//! For algorithms of `cc/` the tests call it, for a user's file `longhaul cc check`. For a file, faults that `guard.c`
//! finds end the trial too.

use crate::{Ack, Algorithm, Control, Decision, Event, Params, catch_fault, ffi, file::rule_text};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Connections in a trial of one parameter set, and events in each.
pub const CONNECTIONS: u64 = 500;
const EVENTS: u32 = 200;

/// The first seed of a trial by default.
pub const SEED: u64 = 11;

/// A fault that a trial has found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}\n  in the trial of parameter set {set}: seed {seed}, event {event}")]
pub struct Broken {
    /// The fault and, for an algorithm of a file, its line.
    pub what: String,
    /// The parameter set.
    pub set: String,
    /// Seed that reproduces the connection.
    pub seed: u64,
    /// Which event of the connection, from 0.
    pub event: u32,
}

/// Tries each parameter set on [`CONNECTIONS`] connections, with consecutive seeds that start at `seed`.
///
/// # Errors
/// The first rule that is broken.
pub fn run(algorithm: &Algorithm, seed: u64) -> Result<(), Broken> {
    for set in &algorithm.sets {
        for seed in (0..CONNECTIONS).map(|n| seed.wrapping_add(n)) {
            let mut event = 0;
            let ended = catch_fault(|| connection(&set.params, seed, &mut event));
            let broken = match ended {
                Ok(Ok(())) => continue,
                Ok(Err(what)) => what,
                Err(fault) => fault.to_string(),
            };
            return Err(Broken { what: broken, set: set.name.to_owned(), seed, event });
        }
    }
    Ok(())
}

/// One connection; `event` tells how far it came.
fn connection(params: &Params, seed: u64, event: &mut u32) -> Result<(), String> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut now_us = random.next_u64() >> (20 + random.next_u32() % 44);
    let mut decision = Decision::default();
    caller_sets(&mut random, &mut decision);
    let before = decision;
    let ack = impossible(&mut random, &mut now_us);
    let mut control = Control::new(params, &ack, &mut decision);
    judge(params, Hook::Init, &ack, &before, &decision)?;
    while *event < EVENTS {
        let ack = impossible(&mut random, &mut now_us);
        let before = decision;
        let hook = match random.next_u32() % 8 {
            0 => {
                control.loss(&ack, &mut decision);
                Hook::Loss
            }
            1 => {
                let events = [Event::Timeout, Event::Recovered, Event::Undo, Event::Restart];
                control.event(&ack, &mut decision, events[random.next_u32() as usize % 4]);
                Hook::Event
            }
            2 => {
                control.rtt(&ack, &mut decision);
                Hook::Rtt
            }
            _ => {
                if ack.rtt_us != 0 {
                    control.rtt(&ack, &mut decision);
                    judge(params, Hook::Rtt, &ack, &before, &decision)?;
                }
                control.ack(&ack, &mut decision);
                Hook::Ack
            }
        };
        judge(params, hook, &ack, &before, &decision)?;
        caller_sets(&mut random, &mut decision);
        *event += 1;
    }
    Ok(())
}

/// In the order of `enum ffi_hook`.
#[derive(Debug, Clone, Copy)]
enum Hook {
    Init,
    Rtt,
    Ack,
    Loss,
    Event,
}

fn judge(
    params: &Params,
    hook: Hook,
    ack: &Ack,
    before: &Decision,
    after: &Decision,
) -> Result<(), String> {
    let Algorithm { name, attach, .. } = params.algorithm();
    let Some(rule) = ffi::broken_rule(*attach, hook as u32, before, after) else { return Ok(()) };
    let hook = format!("{hook:?}").to_lowercase();
    let what = rule_text(rule, name, before, after);
    Err(format!("cc_{name}_{hook} {what}\n  {params:?} {before:?} {ack:?}"))
}

/// A number of 32 bits that is an extreme, near one, or any.
fn extreme(random: &mut Pcg64Mcg) -> u32 {
    let any = random.next_u32();
    match random.next_u32() % 8 {
        0 => 0,
        1 => 1,
        2 => 0x7fff_ffff,
        3 => u32::MAX,
        4 => u32::MAX - any % 4,
        5 => any % 100,
        _ => any >> (random.next_u32() % 32),
    }
}

/// An acknowledgement event such as none can be, after one at `now_us`.
fn impossible(random: &mut Pcg64Mcg, now_us: &mut u64) -> Ack {
    *now_us += match random.next_u32() % 4 {
        0 => 0,
        1 => 3_600_000_000 * u64::from(random.next_u32() % 100),
        _ => u64::from(random.next_u32() >> (random.next_u32() % 32)),
    };
    let delivery_rate = match random.next_u32() % 4 {
        0 => 0,
        1 => 12_500_000_000, // 100 Gb/s
        _ => random.next_u64() >> (28 + random.next_u32() % 36),
    };
    Ack {
        now_us: *now_us,
        delivery_rate,
        acked: extreme(random) >> 1,
        lost: extreme(random) >> 1,
        rtt_us: extreme(random),
        min_rtt_us: extreme(random),
        in_flight: extreme(random) >> 1,
        prior_in_flight: extreme(random) >> 1,
        delivered: extreme(random),
        prior_delivered: extreme(random),
        mss: [1, 536, 1448, 8948, 65_495][random.next_u32() as usize % 5],
        paced_us: extreme(random),
        delivered_ce: extreme(random),
        flags: random.next_u32() % 16,
    }
}

/// Windows as a caller may leave them: never below 1 segment, ssthresh never below 2.
fn caller_sets(random: &mut Pcg64Mcg, decision: &mut Decision) {
    let most = Decision::INFINITE_SSTHRESH;
    match random.next_u32() % 16 {
        0 => decision.cwnd = extreme(random),
        1 => decision.ssthresh = extreme(random),
        2 => decision.cwnd = decision.ssthresh,
        3 => decision.pacing_rate = random.next_u64() >> (random.next_u32() % 64),
        4 => decision.cwnd = 1,
        _ => {}
    }
    decision.cwnd = decision.cwnd.clamp(1, most);
    decision.ssthresh = decision.ssthresh.clamp(2, most);
}
