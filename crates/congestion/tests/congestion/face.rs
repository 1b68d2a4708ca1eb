// SPDX-License-Identifier: GPL-2.0-or-later
//! The Rust face of `cc/`: finding algorithms and parameters, and what no algorithm may do whatever
//! it is told.

use std::collections::HashSet;

use longhaul_congestion::{Ack, Algorithm, Attach, Control, Decision, Event, Params};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

#[test]
fn an_unknown_algorithm_lists_the_known_ones() {
    let error = Algorithm::find("lh_renno").unwrap_err().to_string();
    assert!(error.contains("no congestion control \"renno\""), "{error}");
    for algorithm in Algorithm::all() {
        assert!(error.contains(algorithm.name), "{error}");
    }
    assert!(error.ends_with("(did you mean \"reno\"?)"), "{error}");
}

#[test]
fn an_algorithm_is_found_with_and_without_the_prefix_of_the_kernel() {
    for algorithm in Algorithm::all() {
        assert_eq!(Algorithm::find(algorithm.name).unwrap().name, algorithm.name);
        assert_eq!(Algorithm::find(&algorithm.kernel_name()).unwrap().name, algorithm.name);
        assert_eq!(algorithm.kernel_name(), format!("lh_{}", algorithm.name));
        assert!(algorithm.kernel_name().len() < 16, "TCP_CA_NAME_MAX");
    }
}

#[test]
fn every_algorithm_describes_itself() {
    let names: HashSet<&str> = Algorithm::all().iter().map(|algorithm| algorithm.name).collect();
    assert_eq!(names.len(), Algorithm::all().len(), "a name twice");
    for algorithm in Algorithm::all() {
        assert!(algorithm.state_bytes <= 104, "{}: ICSK_CA_PRIV_SIZE", algorithm.name);
        for text in [algorithm.title, algorithm.rule, algorithm.source] {
            assert!(!text.is_empty(), "{}", algorithm.name);
        }
        let params: HashSet<&str> = algorithm.params.iter().map(|param| param.name).collect();
        assert_eq!(params.len(), algorithm.params.len(), "{}: a parameter twice", algorithm.name);
        for param in &algorithm.params {
            assert!(!param.unit.is_empty() && !param.what.is_empty(), "{}", param.name);
        }
    }
}

#[test]
fn sets_are_found_by_name_and_the_first_is_the_default() {
    for algorithm in Algorithm::all() {
        assert_eq!(&algorithm.sets[0].params, algorithm.default_set(), "{}", algorithm.name);
        for set in &algorithm.sets {
            assert_eq!(&algorithm.set(set.name).unwrap().params, &set.params);
            assert_eq!(set.params.algorithm().name, algorithm.name);
            assert_eq!(set.params.values().len(), algorithm.params.len());
            assert!(!set.source.is_empty(), "{} {}", algorithm.name, set.name);
        }
        let error = algorithm.set("none such").unwrap_err().to_string();
        assert!(error.contains(algorithm.sets[0].name), "{error}");
    }
}

#[test]
fn one_parameter_can_be_changed() {
    for algorithm in Algorithm::all() {
        for (at, param) in algorithm.params.iter().enumerate() {
            let changed = algorithm.default_set().clone().with(param.name, 7).unwrap();
            for (i, value) in changed.values().iter().enumerate() {
                let before = algorithm.default_set().values()[i];
                assert_eq!(*value, if i == at { 7 } else { before }, "{}", param.name);
            }
        }
        let error = algorithm.default_set().clone().with("none such", 1).unwrap_err().to_string();
        assert!(error.starts_with("there is no parameter \"none such\""), "{error}");
    }
    let reno = Algorithm::find("reno").unwrap().default_set().clone();
    let error = reno.clone().with("betta", 1).unwrap_err().to_string();
    assert!(error.ends_with("(did you mean \"beta\"?)"), "{error}");
    assert_ne!(reno.clone().with("beta", 900).unwrap(), reno);
    assert_eq!(format!("{reno:?}"), "{\"increase\": 1024, \"beta\": 512}");
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

fn bear(params: &Params, seed: u64) {
    let name = params.algorithm().name;
    let window = params.algorithm().attach == Attach::Window;
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut now_us = random.next_u64() >> (20 + random.next_u32() % 44);
    let mut decision = Decision::default();
    caller_sets(&mut random, &mut decision);
    let mut control = Control::new(params, &impossible(&mut random, &mut now_us), &mut decision);
    for event in 0..200 {
        let ack = impossible(&mut random, &mut now_us);
        let before = decision;
        let told = format!("{name} {params:?} seed {seed} event {event}: {before:?} {ack:?}");
        match random.next_u32() % 8 {
            0 => {
                control.loss(&ack, &mut decision);
                assert!(decision.ssthresh >= 2, "{told} loss: {decision:?}");
                assert!(!window || decision.cwnd == before.cwnd, "{told} loss: {decision:?}");
            }
            1 => {
                let events = [Event::Timeout, Event::Recovered, Event::Undo, Event::Restart];
                control.event(&ack, &mut decision, events[random.next_u32() as usize % 4]);
            }
            2 => control.rtt(&ack, &mut decision),
            _ => {
                if ack.rtt_us != 0 {
                    control.rtt(&ack, &mut decision);
                }
                control.ack(&ack, &mut decision);
                assert!(!window || decision.cwnd >= before.cwnd, "{told}: {decision:?}");
            }
        }
        assert!(decision.cwnd >= 1, "{told}: {decision:?}");
        caller_sets(&mut random, &mut decision);
    }
}

/// No algorithm divides by zero (that would end the process), gives a window of nothing, or lets a
/// window algorithm's window fall while acknowledgements come, whatever it is told.
#[test]
fn no_event_breaks_an_algorithm() {
    let seed = std::env::var("LONGHAUL_SEED").map_or(11, |seed| seed.parse().unwrap());
    println!("LONGHAUL_SEED={seed}");
    for algorithm in Algorithm::all() {
        for set in &algorithm.sets {
            println!("{} {}", algorithm.name, set.name);
            for run in 0..500 {
                bear(&set.params, seed + run);
            }
        }
    }
}

/// A state read elsewhere goes on as the one it was read from.
#[test]
fn a_control_resumes_from_its_state() {
    for algorithm in Algorithm::all() {
        let mut random = Pcg64Mcg::seed_from_u64(11);
        let mut now_us = 1_000_000;
        let mut decision = Decision::default();
        let ack = impossible(&mut random, &mut now_us);
        let mut control = Control::new(algorithm.default_set(), &ack, &mut decision);
        for _ in 0..50 {
            control.ack(&impossible(&mut random, &mut now_us), &mut decision);
            decision.cwnd = decision.cwnd.clamp(1, Decision::INFINITE_SSTHRESH);
        }
        let mut resumed = Control::resume(control.params(), *control.state());
        let mut again = decision;
        let ack = impossible(&mut random, &mut now_us);
        control.ack(&ack, &mut decision);
        resumed.ack(&ack, &mut again);
        assert_eq!(decision, again, "{}", algorithm.name);
        assert_eq!(control.state(), resumed.state(), "{}", algorithm.name);
    }
}
